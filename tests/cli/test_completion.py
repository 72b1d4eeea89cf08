"""Shell completion: the scripts are written, and what they call answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.shell import PROGRAM, Run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_every_shell(sightline: Run, shell: str) -> None:
    done = sightline("completion", shell)
    assert done.returncode == 0
    assert f"_SIGHTLINE_COMPLETE={shell}_complete" in done.stdout.decode()


def complete(line: str, tmp_path: Path) -> list[str]:
    """Ask as the script for bash does."""
    words = line.split(" ")
    env = {
        **os.environ,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_SIGHTLINE_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [PROGRAM], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    return [answer.partition(",")[2] for answer in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("sightline le", ["ledger"]),
        ("sightline tree fo", ["format"]),
        ("sightline completion z", ["zsh"]),
        ("sightline chat --mo", ["--model", "--mode"]),
        ("sightline chat --mode p", ["plan"]),
    ],
)
def test_commands_options_and_choices_are_completed(
    line: str, answers: list[str], tmp_path: Path
) -> None:
    assert complete(line, tmp_path) == answers


def test_bash_can_run_its_script(tmp_path: Path) -> None:
    path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
    script = 'eval "$(sightline completion bash)"; complete -p sightline'
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, cwd=tmp_path,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "_sightline_completion" in done.stdout, done.stderr
