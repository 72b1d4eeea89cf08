"""What a directory tells an agent in files: found in order, bounded, never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.agent.workspace.guidance import (
    MAX_BYTES,
    find_guidance,
    instructions_text,
    with_arguments,
)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "src/deep").mkdir(parents=True)
    return root


def test_instructions_are_read_from_the_repository_down_to_the_directory(project: Path) -> None:
    write(project.parent, "AGENTS.md", "outside")
    write(project, "AGENTS.md", "everywhere")
    write(project, "CLAUDE.md", "not beside the other")
    write(project, "src/deep/CLAUDE.md", "in the depth")
    found = find_guidance(project / "src/deep")
    assert found.paths == ("AGENTS.md", "src/deep/CLAUDE.md")
    text = instructions_text(found)
    assert text.index("everywhere") < text.index("in the depth")
    assert "outside" not in text
    assert find_guidance(project).paths == ("AGENTS.md",)


def test_without_a_repository_only_the_directory_speaks(tmp_path: Path) -> None:
    write(tmp_path, "AGENTS.md", "above")
    write(tmp_path, "below/AGENTS.md", "here")
    assert instructions_text(find_guidance(tmp_path / "below")).endswith("here")
    assert find_guidance(tmp_path / "below").root == tmp_path / "below"
    assert not find_guidance(tmp_path / "nothing")


def test_commands_and_skills_have_names_and_say_what_they_are_about(project: Path) -> None:
    front = "---\ndescription: 'Mend an issue'\nallowed-tools: all\n---\n"
    write(project, ".sightline/commands/fix.md", f"{front}Fix issue $1 as $ARGUMENTS says.\n")
    write(project, ".claude/commands/fix.md", "the second of a name")
    write(project, ".claude/commands/plain.md", "Say hello.")
    write(project, ".claude/commands/not a name.md", "x")
    write(project, ".sightline/skills/release/SKILL.md", "---\ndescription: Ship it\n---\n1. Tag.")
    found = find_guidance(project)
    assert [(one.name, one.about) for one in found.commands] == [
        ("fix", "Mend an issue"), ("plain", ""),
    ]  # fmt: skip
    assert [(one.name, one.about, one.text) for one in found.skills] == [
        ("release", "Ship it", "1. Tag."),
    ]
    assert with_arguments(found.commands[0].text, "12 soon") == "Fix issue 12 as 12 soon says.\n"
    assert with_arguments(found.commands[1].text, "now") == "Say hello.\n\nnow"
    assert with_arguments("$2 $1", "$2 b") == "b $2"


def test_what_is_not_a_small_file_of_ours_is_left_out_and_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = project.parent / "secret"
    secret.write_text("a key")
    (project / "AGENTS.md").symlink_to(secret)
    write(project, "src/AGENTS.md", "x" * (MAX_BYTES + 1))
    os.mkfifo(project / "src/deep/AGENTS.md")
    (project.parent / "theirs/commands").mkdir(parents=True)
    write(project.parent, "theirs/commands/go.md", "elsewhere")
    (project / ".sightline").symlink_to(project.parent / "theirs")
    found = find_guidance(project / "src/deep")
    assert not found
    assert [problem.split(" ", 1)[0] for problem in found.problems] == [
        "AGENTS.md", "src/AGENTS.md", "src/deep/AGENTS.md",
    ]  # fmt: skip
    write(project, "src/CLAUDE.md", "stands in for it")
    assert find_guidance(project / "src").paths == ("src/CLAUDE.md",)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    if os.getuid() == 0:  # whose files are believed
        os.chown(project / "src/CLAUDE.md", 999, -1)
    assert "src/CLAUDE.md belongs to another user" in find_guidance(project / "src").problems[-1]


def test_the_users_own_directory_may_be_linked(tmp_path: Path) -> None:
    write(tmp_path, "dotfiles/AGENTS.md", "mine")
    write(tmp_path, "dotfiles/commands/go.md", "Go.")
    (tmp_path / "config").symlink_to(tmp_path / "dotfiles")
    found = find_guidance(tmp_path / "config", of_user=True)
    assert found.paths == ("AGENTS.md", "commands/go.md")
