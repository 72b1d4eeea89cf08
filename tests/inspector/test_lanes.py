"""No question of the page holds another: lanes are full, late or busy each for itself."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from inspector.test_server import browsing
from sightline.errors import TimedOut, Unreachable
from sightline.inspector.reader import RecordReader
from sightline.inspector.server import Lane, Lanes


async def test_late_work_is_an_answer_and_its_lane_goes_on_afterwards() -> None:
    lane, may_end = Lane("t", 1, 0.01), threading.Event()
    with pytest.raises(TimedOut, match=r"0\.01 s"):
        await lane.run(may_end.wait)
    with pytest.raises(TimedOut):  # behind it, and never begun
        await lane.run(pytest.fail, "begun")
    may_end.set()
    patient = Lane("p", 1, 30.0)
    assert await patient.run(lambda: 7) == 7
    lane.close()
    patient.close()


async def test_a_full_lane_refuses_at_once() -> None:
    lane, may_end = Lane("t", 1, 30.0, most_waiting=1), threading.Event()
    waiting = [asyncio.create_task(lane.run(may_end.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unreachable, match="too much"):
        await lane.run(may_end.wait)
    may_end.set()
    assert await asyncio.gather(*waiting) == [True, True]
    lane.close()


class EndsWhenGivenUp(Future[int]):
    """Work that is done in the moment in which it is waited for no longer."""

    def cancel(self) -> bool:
        if not self.done():
            self.set_result(7)
        return False


async def test_work_that_ends_with_its_deadline_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = Lane("t", 1, 0.01)
    monkeypatch.setattr(lane._threads, "submit", lambda _: EndsWhenGivenUp())
    assert await lane.run(lambda: 7) == 7
    lane.close()


async def test_what_the_work_raises_is_raised() -> None:
    def late() -> None:
        raise TimeoutError("its own")

    lane = Lane("t", 1, 30.0)
    with pytest.raises(TimeoutError, match="its own"):
        await lane.run(late)
    lane.close()


class Held(RecordReader):
    """Answers of which all that take work, or lay out trees, never come."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def _held(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.may_end.wait()
        return {}

    query = verify = what_if = search = state = nodes = find_nodes = _held

    def index(self, _: int, __: str) -> dict[str, Any]:
        return {"turns": []}

    def news(self, _: int) -> dict[str, Any]:
        return {"turns": "as they are"}


async def test_a_page_is_served_whatever_else_was_asked_of_it() -> None:
    answers = Held()
    async with browsing(answers) as client:
        origin = {"Origin": str(client.base_url).removesuffix("/room/")}
        one = "/api/sessions/1"
        asked = [
            asyncio.create_task(client.get(what))
            for what in (
                f"{one}/turns/1/1/state",
                f"{one}/turns/1/1/state/0/find?q=x",
                "/api/search?q=x",
            )
            * 4
        ]
        asked += [
            asyncio.create_task(client.post(path, json=body, headers=origin))
            for path, body in (
                ("/api/verify", {}),
                ("/api/query", {"sql": "SELECT 1", "session": 1}),
                (f"{one}/turns/1/1/whatif", {}),
            )
            for _ in range(4)
        ]
        try:
            async with asyncio.timeout(30):
                listed = (await client.get(f"{one}/turns")).json()
                assert listed == {"turns": [], "seal": "as they are"}
        finally:
            answers.may_end.set()
        codes = {answer.status_code for answer in await asyncio.gather(*asked)}
        assert codes <= {200, 503}


async def test_a_late_answer_is_one_line_that_says_so() -> None:
    answers = Held()
    lanes = Lanes(trees=Lane("t", 1, 0.01))
    async with browsing(answers, lanes) as client:
        late = await client.get("/api/sessions/1/turns/1/1/state")
        answers.may_end.set()
    assert (late.status_code, late.json()) == (503, {"error": "no answer within 0.01 s"})
