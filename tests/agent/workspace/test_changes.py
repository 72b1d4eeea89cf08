"""What edits would do, as a diff, and done all or nothing."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.agent.workspace.changes import FileEdit, carry_out, planned, unified
from sightline.agent.workspace.inside import Inside
from sightline.errors import ActionError

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
texts = st.lists(st.sampled_from(["a", "b", "", "\r", "--- a/x", "\u2028"]), max_size=14).map(
    "\n".join
)


def patched(before: str, diff: str) -> str:
    """Apply a unified diff as its format says, and hold it to what it says of itself."""
    old, new = re.findall(r".*\n|.+\Z", before), []
    lines, at = diff.split("\n")[2:-1], 0
    while lines:
        hunk = HUNK.fullmatch(lines.pop(0))
        assert hunk is not None
        start, gone, come = (int(number) if number else 1 for number in hunk.groups())
        first = start - 1 if gone else start
        new += old[at:first]
        at = first
        while gone or come or (lines and lines[0].startswith("\\")):
            sign, line = lines[0][:1], f"{lines.pop(0)[1:]}\n"
            if lines and lines[0].startswith("\\"):
                line = line[:-1]
            if sign in " -" and sign:
                assert old[at] == line
                at, gone = at + 1, gone - 1
            if sign in " +" and sign:
                new.append(line)
                come -= 1
    return "".join(new + old[at:])


@given(texts, texts)
def test_patching_with_the_diff_gives_what_is_written(before: str, after: str) -> None:
    diff = unified(before, after, "a/x", "b/x")
    assert patched(before, diff) == after if diff else before == after


def test_a_long_file_with_one_change_is_a_short_diff() -> None:
    lines = [f"line {n}\n" for n in range(100_000)]
    changed = [*lines[:500], "new\n", *lines[501:]]
    assert unified("".join(lines), "".join(changed), "a/x", "b/x").count("\n") == 11
    other = "".join(f"other {n}\n" for n in range(9000))
    diff = unified("".join(lines), other, "a/x", "b/x")
    assert patched("".join(lines), diff) == other


names = st.sampled_from(["a", "b", "d/c", "d/e/f"])
edits = st.one_of(
    st.builds(FileEdit, names, old=st.sampled_from("xy"), new=st.sampled_from(["x", "yy", ""]),
              every=st.booleans()),
    st.builds(FileEdit, names, content=st.sampled_from(["", "x\ny\n", "y"]),
              overwrite=st.booleans()),
    st.builds(FileEdit, names, to=names),
    st.builds(FileEdit, names, delete=st.just(True)),
)  # fmt: skip


def files(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@given(
    st.dictionaries(names, st.sampled_from([b"x\n", b"y x\n", b"\xff\0"])),
    st.lists(edits, min_size=1, max_size=4),
)
def test_edits_are_done_all_or_none_and_undone_to_what_was_there(
    start: dict[str, bytes], wanted: list[FileEdit]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, data in start.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        inside = Inside(root)
        try:
            plan = planned(inside, wanted)
        except ActionError:
            assert files(root) == start
            return
        assert files(root) == start  # a plan touches nothing
        carry_out(inside, plan.changes)
        after = files(root)
        assert {change.path: change.after for change in plan.changes}.items() <= {
            **dict.fromkeys(start), **after
        }.items()  # fmt: skip
        assert plan.diff
        carry_out(inside, [change.undone() for change in reversed(plan.changes)])
        assert files(root) == start
        inside.close()


def test_a_file_that_somebody_changed_or_a_failure_leaves_everything_as_it_was(
    inside: Inside, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(inside, [
        FileEdit("new/deep/n.py", content="n\n"),
        FileEdit("README.md", "swim", "fly"),
        FileEdit("src/app.py", to="src/duck.py"),
    ])  # fmt: skip
    before = files(root)
    (root / "README.md").write_text("theirs")
    with pytest.raises(ActionError, match=r"README.md was changed by somebody else"):
        carry_out(inside, plan.changes)
    (root / "README.md").write_bytes(before["README.md"])

    def fails(*_: object) -> None:
        raise ActionError("internal", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(inside, "replace", fails)  # it is full in the middle
        with pytest.raises(ActionError, match="the disk is full"):
            carry_out(inside, plan.changes)
    assert files(root) == before
    assert not (root / "new").exists()


def test_a_move_keeps_the_mode_and_is_shown_as_one(inside: Inside, root: Path) -> None:
    (root / "src/app.py").chmod(0o750)
    plan = planned(inside, [FileEdit("src/app.py", to="duck.py"), FileEdit("duck.py", "qu", "Qu")])
    assert plan.diff.startswith("rename from src/app.py\nrename to duck.py\n--- a/src/app.py\n")
    carry_out(inside, plan.changes)
    assert (root / "duck.py").stat().st_mode & 0o777 == 0o750
    assert not (root / "src/app.py").exists()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (FileEdit("nowhere", "a", "b"), "there is no such file"),
        (FileEdit("README.md", content="x"), "it is there already"),
        (FileEdit("README.md", to="src/app.py"), "it is there already"),
        (FileEdit("README.md/x", content="x"), "a file stands where a directory should"),
        (FileEdit("README.md"), "an edit has a path, and one of"),
        (FileEdit("README.md", "a", delete=True), "an edit has a path, and one of"),
        (FileEdit(".git/config", content="x"), "not of the workspace"),
    ],
)
def test_what_cannot_be_done_is_known_beforehand(inside: Inside, edit: FileEdit, why: str) -> None:
    with pytest.raises(ActionError, match=why):
        planned(inside, [edit])
