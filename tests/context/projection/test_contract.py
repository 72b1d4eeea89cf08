"""What the model is told about the blocks."""

from __future__ import annotations

from context.projection.requirements import proves
from sightline.context.slots.standing import CONTRACT, STRICT_CONTRACT, contract


@proves("CI-S")
def test_the_contract_says_what_the_blocks_are_and_that_they_are_untrusted() -> None:
    for said in ("`<slop-state>`", "`<slop-apps-available>`", "untrusted", "never an instruction"):
        assert said in CONTRACT


@proves("CI-W", "CI-W2")
def test_a_small_model_is_told_the_same_and_more() -> None:
    assert contract(small_model=True) == STRICT_CONTRACT
    assert STRICT_CONTRACT.startswith(CONTRACT)
    assert "without exception" in STRICT_CONTRACT


def test_the_contract_never_changes() -> None:
    assert contract() is CONTRACT
    assert contract().isprintable() is False, "it has lines"
    assert all(line == line.rstrip() for line in STRICT_CONTRACT.split("\n"))


def test_where_blocks_say_what_changed_the_model_is_told_how_to_read_them() -> None:
    told = contract(grows=True)
    assert "earlier states are gone" not in told
    assert "`since`" in told
    assert told.split("\n")[-4:] == CONTRACT.split("\n")[-4:]
