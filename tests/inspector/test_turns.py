"""What the inspector says of a session in which much went wrong: see `browser.eventful`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.eventful import (
    ADDRESS,
    BROKEN,
    CALLS,
    DROPPED,
    FIRST,
    FOLDED,
    LATE,
    LOST,
    OTHER_WAY,
    QUESTIONS,
    REFUSED,
    RETRIED,
    SWITCHED,
    TAKEN_BACK,
    happen,
)
from sightline.context.ledger import Ledger
from sightline.inspector.reader import RecordReader
from sightline.inspector.verdicts import CacheVerdict


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordReader]:
    directory = tmp_path_factory.mktemp("eventful")
    asyncio.run(happen(directory))
    with Ledger(Path(directory) / "work.db", mode="read") as ledger:
        yield RecordReader(ledger)


@pytest.mark.parametrize(
    ("turn", "request_number", "cause"),
    [
        (CALLS, 1, ""),
        (CALLS, 2, ""),
        (LOST, 1, "lost"),
        (RETRIED, 2, ""),
        (OTHER_WAY, 1, "undone"),
        (SWITCHED, 1, "model"),
        (DROPPED, 1, ""),
        (LATE, 1, "expired"),
        (FOLDED, 1, "folded"),
    ],
)
def test_why_a_cache_was_missed_is_said_in_words(
    reader: RecordReader, turn: int, request_number: int, cause: str
) -> None:
    verdict: CacheVerdict = reader.verdicts(1, turn, request_number)["cache"]
    assert verdict.expected is not None
    assert verdict.reported is not None
    assert "byte" not in " ".join([verdict.title, *verdict.lines])
    if not cause:
        assert verdict.loss is None
        assert verdict.reported >= verdict.expected
        return
    assert verdict.loss is not None
    assert verdict.loss.cause == cause
    assert verdict.loss.words.startswith(verdict.title.partition(": ")[2])
    assert verdict.loss.advice in verdict.lines


def test_the_first_request_and_one_without_a_report_are_said_to_be_so(
    reader: RecordReader,
) -> None:
    assert reader.verdicts(1, FIRST, 1)["cache"].title == "First request"
    for turn in (RETRIED, BROKEN):
        verdict = reader.verdicts(1, turn, 1)["cache"]
        assert (verdict.title, verdict.loss) == ("Not known", None)


def test_a_command_goes_where_the_request_went_failed_or_not(reader: RecordReader) -> None:
    for turn in (FIRST, BROKEN, SWITCHED):
        command = reader.request(1, turn, 1)["request"]["curl"]
        assert f"curl {ADDRESS}/chat/completions" in command
        assert "$API_KEY" in command, "the settings' key is for another address"


def test_turns_are_found_by_what_became_of_them_what_they_cost_and_what_was_said(
    reader: RecordReader,
) -> None:
    for text, found in {
        "status:failed": [REFUSED, BROKEN],
        "status:removed": [TAKEN_BACK],
        "cache<50%": [FIRST, LOST, SWITCHED, LATE],
        "tool:COUNT": [CALLS],
        "tool:slop_invoke requests=2": [CALLS],
        "tool:cou": [],
        "requests>1 -tool:count": [RETRIED],
        "model:luna": [SWITCHED, DROPPED, LATE, FOLDED],
        "careful": [OTHER_WAY],
        "time<1m -status:answered cost>0": [TAKEN_BACK],
        f"turn>={FOLDED}": [FOLDED],
    }.items():
        index = reader.index(1, text)
        assert (index["turns"], index["problem"]) == (found, ""), text
        assert [row["turn"] for row in index["rows"]] == found
    assert "number" in reader.index(1, "cost:x")["problem"]


def test_rows_sums_and_chart_add_up(reader: RecordReader) -> None:
    rows, overview = reader.turns(1)["turns"], reader.overview(1)
    assert [row["turn"] for row in rows] == list(QUESTIONS)
    assert reader.rows(1, [CALLS, LATE])["rows"] == [rows[CALLS - 1], rows[LATE - 1]]
    for name in ("prompt_tokens", "cached_tokens", "requests"):
        assert sum(row[name] for row in rows) == overview[name], name
        assert sum(column[name] for column in overview["columns"]) == overview[name], name
    known = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    assert sum(known) == pytest.approx(overview["cost_usd"])
    assert len(rows) - len(known) == overview["unpriced"]


def test_a_turn_is_found_by_what_was_said_in_it(reader: RecordReader) -> None:
    [hit] = reader.search("nine incident")["found"]
    assert (hit["session"], hit["turn"], hit["kind"]) == (1, BROKEN, "assistant")
    assert reader.search("nothing of this")["found"] == []
