"""Reading parts of files, and changing them by exact replacement."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.agent.workspace.changes import FileEdit, carry_out, planned
from sightline.agent.workspace.inside import Inside
from sightline.agent.workspace.text import MAX_CHARS, content, read_lines
from sightline.context.projection.escape import escape_text
from sightline.errors import ActionError


def edit(inside: Inside, parts: tuple[str, ...], old: str, new: str) -> str:
    plan = planned(inside, [FileEdit("/".join(parts), old, new)])
    carry_out(inside, plan.changes)
    return plan.diff


def test_lines_are_read_by_number(inside: Inside, root: Path) -> None:
    (root / "n").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    excerpt = read_lines(inside, ("n",), 10, 3)
    assert excerpt.text == "line 10\nline 11\nline 12\n"
    assert (excerpt.start, excerpt.end, excerpt.total) == (10, 12, 100)
    last = read_lines(inside, ("n",), 99, 50)
    assert (last.text, last.end) == ("line 99\nline 100\n", 100)


def test_a_part_beyond_the_end_says_how_long_the_file_is(inside: Inside) -> None:
    with pytest.raises(ActionError, match="it has 2 lines"):
        read_lines(inside, ("README.md",), 3, 1)
    with pytest.raises(ActionError, match="count from 1"):
        read_lines(inside, ("README.md",), 0, 1)


def test_an_empty_file_is_read_as_nothing(inside: Inside, root: Path) -> None:
    (root / "empty").write_text("")
    assert read_lines(inside, ("empty",), 1, 10).text == ""


def test_a_binary_file_is_not_read_as_text(inside: Inside, root: Path) -> None:
    (root / "b").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ActionError, match="b: a binary file of 6 bytes"):
        read_lines(inside, ("b",), 1, 10)
    assert content(inside, ("b",)) == b"\x7fELF\0\0"


def test_a_file_of_a_gigabyte_costs_no_more_than_what_is_asked(inside: Inside, root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1024**3)
    with pytest.raises(ActionError, match="a binary file of 1,073,741,824 bytes"):
        read_lines(inside, ("sparse",), 1, 10)
    with pytest.raises(ActionError, match="1,073,741,824 bytes; read some lines"):
        content(inside, ("sparse",))
    with (root / "long").open("wb") as file:
        file.write(b"first\nsecond\n" + b"x" * 10_000)
        file.seek(1024**3)
        file.write(b"end\n")
    excerpt = read_lines(inside, ("long",), 1, 1)
    assert (excerpt.text, excerpt.total) == ("first\n", None)


def test_a_line_without_an_end_is_cut(inside: Inside, root: Path) -> None:
    (root / "one").write_text("x" * 5_000_000)
    excerpt = read_lines(inside, ("one",), 1, 10)
    assert MAX_CHARS <= len(excerpt.text) < 2 * MAX_CHARS
    assert excerpt.end == 1


def test_what_is_not_utf_8_is_shown_but_not_changed(inside: Inside, root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9\n")
    excerpt = read_lines(inside, ("latin",), 1, 1)
    assert (excerpt.text, excerpt.exact) == ("caf\ufffd\n", False)
    with pytest.raises(ActionError, match="latin: not UTF-8 text"):
        edit(inside, ("latin",), "caf", "CAF")
    assert content(inside, ("latin",)) == b"caf\xe9\n"


def test_a_passage_is_replaced_and_the_difference_told(inside: Inside, root: Path) -> None:
    diff = edit(inside, ("src", "app.py"), "'quack'", '"QUACK"')
    assert (root / "src/app.py").read_text() == 'def duck():\n    return "QUACK"\n'
    assert "-    return 'quack'\n+    return \"QUACK\"\n" in diff


def test_a_passage_must_be_there_exactly_once(inside: Inside, root: Path) -> None:
    before = (root / "src/app.py").read_text()
    with pytest.raises(ActionError, match="the passage is not in the file") as caught:
        edit(inside, ("src", "app.py"), "def duck():\n  return", "x")
    assert "its first line is line 1" in caught.value.message
    with pytest.raises(ActionError, match="is there more than once"):
        edit(inside, ("src", "app.py"), "u", "x")
    for old, new in (("", "x"), ("duck", "duck")):
        with pytest.raises(ActionError, match="one passage, and another"):
            edit(inside, ("src", "app.py"), old, new)
    assert (root / "src/app.py").read_text() == before


def test_line_ends_stay_as_they_are(inside: Inside, root: Path) -> None:
    (root / "dos").write_bytes(b"one\r\ntwo\r\n")
    edit(inside, ("dos",), "two", "three")
    assert (root / "dos").read_bytes() == b"one\r\nthree\r\n"


def test_what_a_model_was_shown_in_escapes_fits_what_stands_there(
    inside: Inside, root: Path
) -> None:
    text = "end = '<|im_end|>'\nzero = 'a\u200bb'\nother = '\\u0041'\n"
    (root / "t.py").write_text(text)
    seen = escape_text("'<|im_end|>'")
    assert "<|" not in seen
    edit(inside, ("t.py",), f"end = {seen}", f"stop = {seen} + '\\u0041'")
    assert (root / "t.py").read_text().startswith("stop = '<|im_end|>' + '\\u0041'\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(alphabet="ab\n\r\u200b<|", max_size=30),
    st.text(alphabet="ab\n\r<", min_size=1, max_size=4),
    st.text(alphabet="xy\n", max_size=4),
)
def test_an_edit_changes_the_passage_and_nothing_else(
    inside: Inside, root: Path, text: str, old: str, new: str
) -> None:
    (root / "law").write_bytes(text.encode())
    try:
        edit(inside, ("law",), old, new)
    except ActionError:
        assert (root / "law").read_bytes() == text.encode()
        places = sum(text.startswith(old, at) for at in range(len(text)))
        assert places != 1 or old == new
    else:
        at = text.index(old)
        changed = text[:at] + new + text[at + len(old) :]
        assert (root / "law").read_bytes() == changed.encode()
