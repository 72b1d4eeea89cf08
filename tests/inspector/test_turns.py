"""What the inspector says of a session in which much went wrong: see `browser.eventful`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
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
from sightline.agent.host.journal import RequestLine
from sightline.context.dialects.drift import CAUSES, Drift, DriftKind
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.slots.prompt import RULES, MessageLine, Receipt, SlotLine
from sightline.inspector.reader import RecordReader
from sightline.inspector.unseen import cut_messages, older_turns
from sightline.inspector.verdicts import CacheVerdict, KeptReceipt, SentFacts, cache_verdict


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
        (TAKEN_BACK, 1, ""),
        (OTHER_WAY, 1, ""),
        (SWITCHED, 1, "model"),
        (DROPPED, 1, ""),
        (LATE, 1, "expired"),
        (FOLDED, 1, ""),
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
    assert verdict.expected - verdict.reported == verdict.loss.tokens
    assert verdict.loss.words.startswith(verdict.title.partition(": ")[2])
    assert verdict.loss.advice in verdict.lines


@pytest.mark.parametrize(
    ("kind", "is_taken_back", "common", "prompt", "cached", "cause", "tokens"),
    [
        ("fold", False, 5_000, 60_000, 5_000, "folded", 54_400),
        ("fold", False, 5_000, 60_000, 59_200, "", 0),
        ("regression", True, 10_000, 60_000, 10_000, "", 0),
        ("regression", True, 10_000, 11_000, 0, "lost", 10_000),
        ("regression", False, 0, 2_000, 500, "edited", 1_480),
    ],
)
def test_nothing_is_lost_but_what_stands_before_the_boundary_and_was_read_again(
    kind: DriftKind,
    is_taken_back: bool,
    common: int,
    prompt: int,
    cached: int,
    cause: str,
    tokens: int,
) -> None:
    """The request before had 100,000 tokens, a hundredth of them its tail."""

    def fact(number: int, total: int, read: int, drift: Drift | None) -> SentFacts:
        line = RequestLine(number, 1, number, number, 1, None, "", "m", "", 1, "end", {})
        slots = [{"stability": "volatile", "kept": total // 100}]
        receipt = {"total": total, "slots": slots, "request": {"drift": drift}}
        return SentFacts(
            line,
            StoredUsage("m", total, 5, read),
            msgspec.convert(receipt, KeptReceipt, from_attributes=True),
            is_taken_back and number == 1,
        )

    drift = Drift(kind, common, common, 0.5, common, "message 3", "history", 3, 99_000 - common)
    now, before = fact(2, prompt, cached, drift), fact(1, 100_000, 0, None)
    verdict = cache_verdict(now, [before], profile_for("openai-chat", "gpt-6.1-sol"))
    found = verdict.loss
    assert ("" if found is None else found.cause, found.tokens if found else 0) == (cause, tokens)
    assert verdict.expected is not None
    if found is not None:
        assert verdict.expected == cached + found.tokens
    named = f"{CAUSES['undone' if is_taken_back else 'folded'][0]}; nothing was lost by it"
    assert (named in verdict.lines) == (found is None)


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
    assert reader.search("zebra crossing")["found"] == []


def test_what_the_model_did_not_see_is_listed_with_its_rule(reader: RecordReader) -> None:
    unseen = {(item.kind, item.what): item for item in reader.unseen(1, FOLDED, 1)["unseen"]}
    older = unseen["turns", f"turns 1–{OTHER_WAY}"]  # noqa: RUF001
    assert older.turn == OTHER_WAY
    assert "outside the window" in older.rule
    assert len(unseen) == 2, "the turn that was dropped later was seen"
    assert "70,000 nodes, over the limit" in unseen["app", "Large (large)"].rule
    [cut] = [item for item in reader.unseen(1, REFUSED, 1)["unseen"] if item.kind == "result"]
    assert "describe_db" in cut.what
    assert "truncation" in cut.rule
    assert cut.amount.startswith("30")
    assert [item.kind for item in reader.unseen(1, FIRST, 1)["unseen"]] == ["app"]


def test_turns_that_were_not_replayed_are_told_apart_from_those_that_were_dropped() -> None:
    groups = [(0, 1, "live", 2, 10), (1, 2, "live", 2, 20), (2, 3, "dropped", 4, 5)]
    groups += [(3, 4, "removed", 2, 0), (4, 5, "live", 2, 7), (5, 6, "live", 1, 1)]
    older, dropped = older_turns(groups, 5, {4})
    assert (older.what, older.amount) == ("turns 1–2", "4 messages, 30 tokens")  # noqa: RUF001
    assert (dropped.what, dropped.rule, dropped.turn) == ("turn 3", "dropped by you", 3)


def test_a_message_that_was_cut_says_by_which_rule() -> None:
    lines = (
        MessageLine("user", 100, 0, 100, "budget", "counted"),
        MessageLine("user", 50, 20, 30, "max_ratio", "counted"),
        MessageLine("user", 9, 9, 0, "kept", "counted"),
    )
    slot = SlotLine("history", 0, "append", 159, 29, 130, 60, 0, lines)
    receipt = Receipt(100, "c", "counted", 0, 0, 29, 71, 1, "", (slot,))
    first, second = cut_messages(receipt)
    assert (first.what, first.amount) == ("message 1 of 3 in history (user)", "100 of 100 tokens")
    assert (second.amount, second.rule) == ("30 of 50 tokens", RULES["max_ratio"])
