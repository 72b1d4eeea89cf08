"""Pasted images: a path that is all of the paste, and the clipboard of the desktop."""

from __future__ import annotations

from pathlib import Path

import pytest

from context.messages.test_attach import PNG
from sightline.cli.chat.outside import clipboard_image, pasted_image
from sightline.errors import InvalidInput


@pytest.mark.parametrize("form", ["{}", " {}\n", "'{}'", '"{}"', "file://{}"])
def test_the_path_of_an_image_is_the_image(tmp_path: Path, form: str) -> None:
    shot = tmp_path / "shot.png"
    shot.write_bytes(PNG)
    assert pasted_image(form.format(shot)) == (str(shot), PNG)


def test_blanks_may_be_escaped(tmp_path: Path) -> None:
    shot = tmp_path / "my shot.png"
    shot.write_bytes(PNG)
    assert pasted_image(str(shot).replace(" ", "\\ ")) == (str(shot), PNG)


def test_anything_else_is_text(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("no image")
    (tmp_path / "shot.png").write_bytes(PNG)
    for text in (
        "", "hello", "shot.png", f"look at {tmp_path}/shot.png", str(tmp_path), "/dev/zero",
        f"{tmp_path}/notes.png", f"{tmp_path}/none.png", f"{tmp_path}/shot.png\nand more", "\0/",
    ):  # fmt: skip
        assert pasted_image(text) is None, text


@pytest.mark.parametrize(
    ("display", "program"), [("WAYLAND_DISPLAY", "wl-paste"), ("DISPLAY", "xclip")]
)
def test_the_clipboard_is_read_by_what_the_desktop_has(
    tmp_path: Path, display: str, program: str
) -> None:
    env = {display: ":0", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    (tmp_path / "held").write_bytes(PNG)
    reader = tmp_path / program
    with pytest.raises(InvalidInput, match=f"needs {program}"):
        clipboard_image({**env, "PATH": str(tmp_path)})
    reader.write_text(f"#!/bin/sh\ncat {tmp_path}/held\n")
    reader.chmod(0o755)
    assert clipboard_image(env) == PNG
    (tmp_path / "held").write_text("a text")
    with pytest.raises(InvalidInput, match="no image on the clipboard"):
        clipboard_image(env)
