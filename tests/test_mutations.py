"""The table of faults that the tests must notice fits the code as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.mutations import MUTATIONS, SOURCES, Mutation
from support.rooms import FLOORS, room_of

TESTS = Path(__file__).parent
# What cannot be wrong by itself, and what is there to be tested with or looked at.
_WITHOUT = {
    "_distribution", "_keywords", "_lazy", "errors", "events", "testing", "demo", "__main__",
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_is_one_change_of_one_module_that_still_compiles(mutation: Mutation) -> None:
    source = (SOURCES / mutation.module).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutation.applied_to(source))) != ast.dump(ast.parse(source))
    assert all((TESTS / path).is_file() for path in mutation.tests.split())


def test_there_are_at_least_forty_faults_and_one_in_every_room() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 40
    rooms = {room_of(Path(mutation.module).with_suffix("").parts) for mutation in MUTATIONS}
    assert rooms == {room for floor in FLOORS for room in floor} - _WITHOUT


def test_a_fragment_that_is_not_there_once_is_refused() -> None:
    fault = Mutation("none", "here.py", "a", "b", "")
    for source in ("", "a, a"):
        with pytest.raises(ValueError, match="its fragment is"):
            fault.applied_to(source)
