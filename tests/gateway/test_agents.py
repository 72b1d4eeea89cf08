"""Agents through the real gateway and a vendor with a prefix cache: each clock has its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.agent_sets import play, score, without_ids
from benchmarks.agent_sets_own import lines_of

CLOCKS = (
    "a clock in the first line", "a clock in the middle line", "a clock in the last line",
    "a clock in a tool", "a clock in the first message", "a clock, constant prompt_cache_key",
    "a clock, constant user", "a batch with a clock", "held by the vendor, a clock",
)  # fmt: skip
BESIDE = ("a title and a sub-agent", "a group", "canned first messages", "a retry", "a batch")


@pytest.mark.parametrize("notes", [CLOCKS, BESIDE])
def test_agents_of_four_apis_are_told_apart_and_each_loss_has_its_place(
    tmp_path: Path, notes: tuple[str, ...]
) -> None:
    lines = [line for line in lines_of(3) if line["note"] in notes]
    if notes is BESIDE:
        lines = list(map(without_ids, lines))
    lines = [{**line, "n": number} for number, line in enumerate(lines)]
    found = score(lines, play(lines, tmp_path / "l.db"))
    assert {line["note"] for line in lines} == set(notes)
    assert found["wrong"] == {}
    assert found["alarms"] == {}
    assert found["conversations wrong"] == found["sessions wrong"] == []
