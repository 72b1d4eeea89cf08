"""A trace shows when everything was, and a duration counts all of it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import NOW, hosted, invoke, turn
from sightline.agent.host.journal import RequestLine
from sightline.context.ledger import Ledger
from sightline.errors import RateLimited
from sightline.events import ApprovalAsked
from sightline.inspector.reader import RecordReader
from sightline.inspector.timeline import TimelineSpan, timeline_of
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.tree import Affordance
from support.live import TREE, LiveApp


class HandClock:
    """The clock on the wall and the loop's, which stand still until they are moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self._passed = 0.0
        monkeypatch.setattr(loop, "time", lambda: self._began + self._passed)

    def __call__(self) -> datetime:
        return NOW + timedelta(seconds=self._passed)

    def move(self, seconds: float) -> None:
        self._passed += seconds

    async def sleep(self, seconds: float) -> None:
        self.move(seconds)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    return HandClock(monkeypatch)


def read(directory: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The last turn as the page lists it, and the spans of its trace by name."""
    with Ledger(directory / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger)
        last = reader.turns(1)["turns"][-1]
        trace = reader.request(1, last["turn"], 1)["trace"]
    return last, {span["name"]: span for span in trace}


def took(span: dict[str, Any]) -> int:
    return int(span["end_ms"] - span["start_ms"])


async def test_a_late_answer_to_an_approval_is_a_span_and_counts(
    tmp_path: Path, clock: HandClock
) -> None:
    def late(_: ApprovalAsked) -> bool:
        clock.move(2.9)
        return True

    script = [["May I?", invoke("c1", "/", "count")], "Done."]
    async with hosted(tmp_path, script, app=LiveApp(), mode="ask", clock=clock) as (host, _):
        await turn(host, answer=late)
    last, spans = read(tmp_path)
    approval = spans["approval (1)"]
    assert approval["kind"] == "wait"
    assert took(approval) == 2900
    assert spans["stream (1)"]["end_ms"] <= approval["start_ms"]
    assert spans["slop_invoke (1)"]["start_ms"] >= approval["end_ms"]
    assert spans["first token (2)"]["start_ms"] >= spans["slop_invoke (1)"]["end_ms"]
    assert last["duration_ms"] >= 2900


async def test_a_turn_that_is_cancelled_while_it_waits_has_waited(
    tmp_path: Path, clock: HandClock
) -> None:
    script = [["May I?", invoke("c1", "/", "count")]]
    async with hosted(tmp_path, script, app=LiveApp(), mode="ask", clock=clock) as (host, _):
        async for event in host.ask("count"):
            if isinstance(event, ApprovalAsked):
                clock.move(7)
                host.cancel()
    last, spans = read(tmp_path)
    assert (last["status"], last["duration_ms"]) == ("cancelled", 7000)
    assert took(spans["approval (1)"]) == 7000


class Together(LiveApp):
    """Reads are answered once there are two of them, after a second and a half."""

    def __init__(self, clock: HandClock) -> None:
        actions = (*TREE.affordances, Affordance("read_content"))
        super().__init__(TREE.with_field("affordances", actions))
        self._clock = clock
        self._asked = 0
        self._both = asyncio.Event()

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        self._asked += 1
        if self._asked == 2:
            self._clock.move(1.5)
            self._both.set()
        await self._both.wait()
        connection.send_result(request.id, {"content": "text", "size": 4})


async def test_calls_that_ran_side_by_side_are_drawn_so(tmp_path: Path, clock: HandClock) -> None:
    script = [[invoke("c1", "/", "read_content"), invoke("c2", "/", "read_content")], "Done."]
    app = Together(clock)
    async with hosted(tmp_path, script, app=app, mode="auto", clock=clock) as (host, _):
        await turn(host)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        trace = RecordReader(ledger).request(1, 1, 1)["trace"]
    calls = [span for span in trace if span["kind"] == "tool"]
    assert [took(call) for call in calls] == [1500, 1500]
    assert calls[0]["start_ms"] == calls[1]["start_ms"]


async def test_waiting_to_retry_has_its_name(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [RateLimited("slow down", retry_after_s=4.0), "Done."]
    async with hosted(tmp_path, script, clock=clock) as (host, _):
        monkeypatch.setattr(host._stage, "sleep", clock.sleep)
        await turn(host)
    last, spans = read(tmp_path)
    assert took(spans["waiting to retry (1)"]) == 4000
    assert spans["first token (2)"]["start_ms"] >= spans["waiting to retry (1)"]["end_ms"]
    assert last["duration_ms"] >= 4000


async def test_a_call_that_was_cancelled_took_its_time(tmp_path: Path, clock: HandClock) -> None:
    async with hosted(
        tmp_path, [[invoke("c1", "/", "hang")]], app=(app := Hanging()), mode="auto", clock=clock
    ) as (host, _):
        asking = asyncio.create_task(turn(host))
        await app.reached.wait()
        clock.move(3)
        host.cancel()
        await asking
    last, spans = read(tmp_path)
    assert took(spans["slop_invoke (1)"]) == 3000
    assert last["duration_ms"] == 3000


class Hanging(LiveApp):
    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        self.reached.set()
        await super().invoke(connection, request)


# Recorded values.


def line(number: int, sent_s: float, outcome: str = "end", **timings: Any) -> RequestLine:
    moment = (NOW + timedelta(seconds=sent_s)).isoformat().replace("+00:00", "Z")
    return RequestLine(number, 1, 1, 1, number, None, moment, "m", "", 0, outcome, timings)


def shown(*lines: RequestLine) -> list[tuple[str, int, int]]:
    return [(f"{s.name} {s.request}", s.start_ms, s.end_ms) for s in timeline_of(lines).spans]


STEPS = [["select", 2], ["assemble", 3]]


def test_requests_are_placed_by_when_they_were_sent() -> None:
    first = line(1, 0, "tool_calls", steps=STEPS, first_ms=5, last_ms=8)
    second = line(2, 2.9, steps=STEPS, first_ms=10, last_ms=20)
    assert shown(first, second) == [
        ("select 1", 0, 2),
        ("assemble 1", 2, 5),
        ("first token 1", 5, 10),
        ("stream 1", 10, 13),
        ("waiting 1", 13, 2900),
        ("select 2", 2900, 2902),
        ("assemble 2", 2902, 2905),
        ("first token 2", 2905, 2915),
        ("stream 2", 2915, 2925),
    ]
    assert timeline_of([first, second]).duration_ms == 2920


def test_calls_of_an_old_journal_follow_each_other_and_push_nothing() -> None:
    first = line(1, 0, "tool_calls", first_ms=5, last_ms=10, calls=[["look", 40], ["look", 40]])
    assert shown(first, line(2, 0.06, first_ms=1, last_ms=2)) == [
        ("first token 1", 0, 5),
        ("stream 1", 5, 10),
        ("look 1", 10, 50),
        ("look 1", 50, 90),
        ("first token 2", 60, 61),
        ("stream 2", 61, 62),
    ]


@pytest.mark.parametrize("sent_s", [-3600.0, 0.0])
def test_a_clock_that_was_put_back_does_not_turn_the_order_round(sent_s: float) -> None:
    first = line(1, 0, "tool_calls", first_ms=5, last_ms=8, calls=[["look", 30, 12]])
    second = line(2, sent_s, steps=[["select", 4]], first_ms=1, last_ms=2)
    assert shown(first, second)[-3:] == [
        ("select 2", 42, 46),
        ("first token 2", 46, 47),
        ("stream 2", 47, 48),
    ]


@pytest.mark.parametrize("moment", ["now", "", "2026-04-28T10:30:00"])
def test_a_moment_that_is_none_is_placed_behind_what_is_known(moment: str) -> None:
    odd = RequestLine(2, 1, 1, 1, 2, None, moment, "m", "", 0, "end", {"first_ms": 1, "last_ms": 2})
    assert shown(line(1, 0, "tool_calls", first_ms=5, last_ms=8), odd)[-1] == ("stream 2", 9, 10)


def test_what_is_known_last_may_be_a_sending_or_an_end() -> None:
    first = line(1, 0, "rate_limited")
    assert timeline_of([]).duration_ms == 0
    assert timeline_of([first]).duration_ms == 0
    assert timeline_of([first, line(2, 5, "")]).duration_ms == 5000
    over = line(1, 0, "cancelled", ended={"outcome": "cancelled", "after_ms": 800})
    assert timeline_of([over]).duration_ms == 800
    assert timeline_of([over]).spans == (TimelineSpan("waiting", "wait", 0, 800, 1),)
    killed = line(1, 0, "interrupted", ended={"outcome": "interrupted"})
    assert timeline_of([killed]).duration_ms == 0


def test_what_runs_beside_something_longer_leaves_no_gap() -> None:
    calls = [["long", 900, 10], ["short", 20, 10], ["late", 10, 300]]
    names = [name for name, _, _ in shown(line(1, 0, first_ms=5, last_ms=10, calls=calls))]
    assert names == ["first token 1", "stream 1", "short 1", "long 1", "late 1"]
