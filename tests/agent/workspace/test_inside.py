"""Paths cannot leave the root: every way out that is known, tried."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.conftest import as_nobody
from sightline.agent.workspace.inside import Inside, parts_of, shown
from sightline.errors import ActionError


def read(inside: Inside, path: str) -> bytes:
    with inside.file(parts_of(path)) as (file, _):
        return file.read()


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def refusal(inside: Inside, path: str) -> ActionError:
    with pytest.raises(ActionError) as caught:
        read(inside, path)
    return caught.value


def test_what_is_inside_is_read(inside: Inside) -> None:
    assert read(inside, "src/app.py").startswith(b"def duck")
    assert read(inside, "./src//app.py") == read(inside, "src/app.py")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../secret.txt", "unauthorized"),
        ("src/../../secret.txt", "unauthorized"),
        ("src/..", "unauthorized"),
        ("/etc/passwd", "invalid_params"),
        ("//etc/passwd", "invalid_params"),
        ("", "invalid_params"),
        (".", "invalid_params"),
        ("a\0b", "unauthorized"),
        (".git/config", "unauthorized"),
        (".GIT/hooks/pre-commit", "unauthorized"),
        (".g\u200cit/config", "unauthorized"),
        (".\U0001ccdc\U0001ccde\U0001cce9/config", "unauthorized"),  # letters of Unicode 16
        (".g\U00013439it/config", "unauthorized"),  # a format character of Unicode 15
        ("src/.git", "unauthorized"),
        ("/".join(["a"] * 70), "invalid_params"),
        ("none.txt", "not_found"),
        ("src", "invalid_params"),
        ("README.md/x", "unauthorized"),
    ],
)
def test_no_path_leads_out(inside: Inside, path: str, code: str) -> None:
    assert refusal(inside, path).code == code


@pytest.mark.parametrize(
    "parts", [("..", "secret.txt"), ("src", "..", "README.md"), ("a/b",), ("",)]
)
def test_names_that_were_forged_elsewhere_are_refused_too(
    inside: Inside, parts: tuple[str, ...]
) -> None:
    """A listing may come of a forged index of git's, past `parts_of`."""
    with pytest.raises(ActionError, match="cannot leave"), inside.file(parts):
        pass
    with pytest.raises(ActionError, match="cannot leave"):
        inside.create(parts, b"x")
    assert inside.status(parts) is None


def test_a_link_is_never_followed(inside: Inside, root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to(root.parent)
    (root / "own").symlink_to(root / "README.md")
    (root / "loop").symlink_to("loop")
    for path in ("file", "up/secret.txt", "own", "loop", "up/project/README.md"):
        assert refusal(inside, path).code == "unauthorized"


def test_nothing_is_written_through_a_link(inside: Inside, root: Path) -> None:
    outside = root.parent / "secret.txt"
    (root / "file").symlink_to(outside)
    (root / "up").symlink_to(root.parent)
    (root / "dangling").symlink_to(root.parent / "new.txt")
    for path, code in {
        "file": "conflict", "dangling": "conflict", "up/new.txt": "unauthorized",
        "up/new/new.txt": "unauthorized",
    }.items():  # fmt: skip
        with pytest.raises(ActionError) as caught:
            inside.create(parts_of(path), b"x")
        assert caught.value.code == code
    with pytest.raises(ActionError, match="changed by somebody"):
        inside.replace(("file",), b"x", outside.stat())
    assert outside.read_text() == "outside"
    assert not (root.parent / "new.txt").exists()
    assert names(root) == ["README.md", "dangling", "file", "src", "up"]


def test_a_directory_that_becomes_a_link_while_we_look_does_not_lead_out(
    inside: Inside, root: Path
) -> None:
    """Somebody swaps a directory for a link to the outside as fast as they can."""
    (root / "door").mkdir()
    (root / "door" / "secret.txt").write_text("inside")
    (root / "trap").symlink_to(root.parent)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (root / "door").rename(root / "away")
            (root / "trap").rename(root / "door")
            (root / "door").rename(root / "trap")
            (root / "away").rename(root / "door")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            with contextlib.suppress(ActionError):
                assert read(inside, "door/secret.txt") == b"inside"
    finally:
        done.set()
        thread.join()


def test_what_could_make_us_wait_is_no_file(inside: Inside, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "not a regular file" in refusal(inside, "pipe").message


def test_what_is_not_ours_to_read_is_said_so(inside: Inside, root: Path) -> None:
    (root / "locked").write_text("x")
    (root / "locked").chmod(0)
    with as_nobody():
        assert refusal(inside, "locked").message == "locked: permission denied"


def test_a_new_file_gets_its_directories_and_nothing_is_overwritten(
    inside: Inside, root: Path
) -> None:
    inside.create(parts_of("a/b/c.txt"), b"new")
    assert (root / "a/b/c.txt").read_text() == "new"
    with pytest.raises(ActionError, match="it is there already"):
        inside.create(parts_of("a/b/c.txt"), b"other")
    assert (root / "a/b/c.txt").read_text() == "new"


def test_a_file_is_replaced_whole_with_its_mode_or_not_at_all(inside: Inside, root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    seen = script.stat()
    inside.replace(("run.sh",), b"new", seen)
    assert script.read_text() == "new"
    assert script.stat().st_mode & 0o777 == 0o750
    with pytest.raises(ActionError, match="changed by somebody"):
        inside.replace(("run.sh",), b"newer", seen)
    assert script.read_text() == "new"
    assert names(root) == ["README.md", "run.sh", "src"]


def test_a_hard_link_to_the_outside_is_not_written_through(inside: Inside, root: Path) -> None:
    os.link(root.parent / "secret.txt", root / "linked")
    inside.replace(("linked",), b"changed", (root / "linked").stat())
    assert (root.parent / "secret.txt").read_text() == "outside"


@given(st.text(max_size=40))
def test_any_path_is_shown_as_one_printable_line(path: str) -> None:
    assert shown(path).isprintable()


@given(st.lists(st.sampled_from(["a", "..", ".", "", ".git", ".GIT", "b\0", "x/../y"]), max_size=6))
def test_a_path_that_is_accepted_has_only_names_in_it(names: list[str]) -> None:
    try:
        parts = parts_of("/".join(names))
    except ActionError:
        return
    assert parts
    assert not {"..", ".", ""} & set(parts)
    assert all("/" not in part and part.lower() != ".git" for part in parts)
