"""The user's own programs: found as they say, run without a shell, given what is theirs alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.cli.chat.outside import edit_text, editor_command, page_text, pager_command
from sightline.errors import InvalidInput


def program(directory: Path, script: str) -> str:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_users_choice_wins_with_its_arguments() -> None:
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor_command({"EDITOR": "'my editor' -x"}) == ["my editor", "-x"]
    assert pager_command({"PAGER": "most", "EDITOR": "vi"}) == ["most"]
    assert pager_command({"EDITOR": "vi"}) == ["vi"]


def test_without_any_there_is_none(tmp_path: Path) -> None:
    assert pager_command({"PATH": str(tmp_path)}) is None
    with pytest.raises(InvalidInput, match="set EDITOR"):
        editor_command({"PATH": str(tmp_path)})


def test_a_choice_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidInput, match="EDITOR: No closing quotation"):
        editor_command({"EDITOR": "vi 'x"})


def test_what_the_editor_left_is_returned(tmp_path: Path) -> None:
    env = {**os.environ, "EDITOR": program(tmp_path, 'printf " and more\\n" >> "$1"'), "VISUAL": ""}
    assert edit_text("some", env) == "some and more"


@pytest.mark.parametrize("script", ["exit 1", ': > "$1"'], ids=["failed", "emptied"])
def test_an_editor_that_leaves_nothing_gives_nothing(tmp_path: Path, script: str) -> None:
    env = {**os.environ, "EDITOR": program(tmp_path, script), "VISUAL": ""}
    assert edit_text("some", env) is None


def test_the_file_is_for_this_user_alone_and_gone_afterwards(tmp_path: Path) -> None:
    script = f'ls -ld "$(dirname "$1")" > {tmp_path}/mode; echo "$1" > {tmp_path}/name'
    assert page_text("text", [program(tmp_path, script)], os.environ)
    assert (tmp_path / "mode").read_text().startswith("drwx------")
    assert not Path((tmp_path / "name").read_text().strip()).exists()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere: No such file"):
        page_text("text", [str(tmp_path / "nowhere")], os.environ)
