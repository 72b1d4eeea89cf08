"""What turns did to files is kept, and can be taken back and done again."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.test_changes import edits, files, names
from sightline.agent.workspace import checkpoints
from sightline.agent.workspace.changes import FileEdit, carry_out, content_of, planned
from sightline.agent.workspace.checkpoints import Checkpoints
from sightline.agent.workspace.inside import Inside
from sightline.errors import ActionError


@given(
    st.dictionaries(names, st.sampled_from([b"x\n", b"y x\n"])),
    st.lists(edits, min_size=1, max_size=5),
)
def test_what_turns_did_is_taken_back_and_done_again(
    start: dict[str, bytes], wanted: list[FileEdit]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, kept = Path(folder) / "root", Checkpoints(Path(folder) / "kept", "s")
        for name, data in start.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        root.mkdir(exist_ok=True)
        inside = Inside(root)
        for group, edit in enumerate(wanted):
            try:
                plan = planned(inside, [edit])
                carry_out(inside, plan.changes)
            except ActionError:
                continue
            kept.keep(group, root, plan.changes)
        end, groups, read = files(root), range(len(wanted)), partial(content_of, inside)
        back = kept.restoration(groups, root, read)
        assert (back.foreign, back.lost, back.elsewhere) == ((), (), ())
        carry_out(inside, back.changes)
        assert files(root) == start
        carry_out(inside, kept.restoration(groups, root, read, forward=True).changes)
        assert files(root) == end
        inside.close()


def test_what_is_kept_is_the_users_own_and_bounded(
    inside: Inside, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "MAX_SESSION", 3_000)
    monkeypatch.setattr(checkpoints, "MAX_ALL", 6_000)
    folder, read = tmp_path / "kept", partial(content_of, inside)
    kept = Checkpoints(folder, "one")
    for session in ("one", "two", "three"):
        kept = Checkpoints(folder, session)
        for group in range(6):
            text = f"{session} {group}\n" * 90
            plan = planned(inside, [FileEdit("f", content=text, overwrite=True)])
            carry_out(inside, plan.changes)
            kept.keep(group, root, plan.changes)
    assert "one" not in {path.name for path in folder.iterdir()}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= 6_000
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])
    [change] = kept.restoration([5], root, read).changes
    assert change.after == b"three 4\n" * 90
    assert kept.restoration([0], root, read).changes == ()
    assert kept.restoration([5], root.parent, read).elsewhere == ("f",)
