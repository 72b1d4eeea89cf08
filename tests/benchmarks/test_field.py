"""The benchmark for other stacks: who follows its page gets the figures that we get."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cache import LAYOUTS
from benchmarks.field import judged, requests, scored, table, work

from support.share import WHOLE

PAGE = Path(__file__).parents[2] / "benchmarks" / "FIELD.md"


def test_a_system_that_reads_the_lines_can_write_what_ours_writes() -> None:
    history: dict[str, list[dict[str, Any]]] = {}
    asked = []
    for line in work(1):
        said = history.setdefault(line["work"], [])
        said += line["said"]
        head = [{"role": "system", "content": text} for text in line["instructions"]]
        tail = [{"role": "user", "content": text} for text in (*line["notes"], line["state"])]
        asked.append({"work": line["work"], "messages": [*head, *said, *tail]})
    for theirs, ours in zip(asked, requests(LAYOUTS["default"], 1), strict=True):
        both = [[message["role"] for message in line["messages"]] for line in (theirs, ours)]
        assert both[0] == both[1]
        assert theirs["messages"][-3:] == ours["messages"][-3:]
    before = scored(requests(LAYOUTS["before"], 1))
    assert before["evaluated"] > 1.5 * scored(asked)["evaluated"]


@pytest.mark.skipif(not WHOLE, reason="LAWS=whole")
def test_who_says_nothing_names_nothing_and_raises_no_alarm() -> None:
    found = judged([])
    assert (found["named"], found["alarms"]) == (0, 0)


@pytest.mark.skipif(not WHOLE, reason="it takes a minute: LAWS=whole")
def test_the_page_has_our_rows() -> None:
    [shown] = re.findall(r"<!-- field -->\n(.*)<!-- end -->", PAGE.read_text("utf-8"), re.DOTALL)
    assert shown == "\n".join(table()) + "\n", "python -m benchmarks.field table"
