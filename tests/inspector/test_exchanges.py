"""Another agent's session as the page gets it: recorded by a gateway, or imported."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Literal

import pytest
from benchmarks.faults import session

from gateway.test_observer import passing
from gateway.test_transcripts import Claude
from inspector.test_server import browsing
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput, NotFound
from sightline.gateway import tail
from sightline.gateway.bodies import read_body
from sightline.gateway.imports import import_transcripts
from sightline.gateway.observer import Observer
from sightline.gateway.otherwise import AgentWishes, otherwise
from sightline.inspector.reader import RecordReader


def agents_ledger(folder: Path) -> Path:
    """A ledger with a session of our own, a recorded one with a loss, and an imported one."""
    path = folder / "agents.db"
    talk = Claude("imported")
    talk.turn(0, 20_000)
    talk.turn(0, 20_500, after=400)
    first, second = session(random.Random(2), "anthropic", 2)[:2]
    second["tools"].reverse()
    with Ledger(path) as ledger:
        ledger.sessions.create("ours")
        observer = Observer(ledger, agent="claude")
        for body, read in ((first, 15_000), (second, 0)):
            observer.observe(passing("anthropic", body, read=read))
        import_transcripts(ledger, [talk.write(folder)])
    return path


def test_sessions_say_whose_they_are_and_requests_what_became_of_them(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        listed = {one["id"]: one["agent"] for one in reader.sessions()["sessions"]}
        assert listed == {1: "", 2: "claude", 3: "claude, imported"}
        first, second = reader.exchanges(2)["requests"]
        assert (first["loss"], first["cached_tokens"]) == (None, 15_000)
        assert second["loss"]["words"].startswith("the tools came in another order")
        assert second["loss"]["advice"]
        shown = reader.exchange(2, second["id"])
        assert '"claude-opus-5-5"' in shown["request"]
        assert shown["reply"] == [{"kind": "text", "text": "well then"}]
        assert shown["drift"]["with"] == first["id"]
        assert shown["drift"]["old"] != shown["drift"]["new"]
        assert reader.exchange(2, first["id"])["drift"] is None
        assert reader.exchanges(1) == {"requests": []}


def test_what_a_transcript_does_not_tell_is_unknown(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        last = reader.exchanges(3)["requests"][-1]
        assert (last["bytes"], last["duration_ms"]) == (None, None)
        assert last["loss"]["words"].startswith("the cache's lifetime ran out")
        shown = reader.exchange(3, last["id"])
        assert (shown["request"], shown["reply"], shown["drift"]) == (None, [], None)
        with pytest.raises(NotFound):
            reader.exchange(2, last["id"])


async def test_the_page_gets_them_from_the_server(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        async with browsing(reader) as client:
            listed = (await client.get("/api/sessions/2/exchanges")).json()
            assert listed == reader.exchanges(2)
            number = listed["requests"][0]["id"]
            shown = await client.get(f"/api/sessions/2/exchanges/{number}")
            assert shown.json() == reader.exchange(2, number)


def what_if(reader: RecordReader, number: int, **wishes: str) -> dict[str, Any]:
    return reader.exchange_what_if(2, number, json.dumps(wishes).encode())


def rows(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (before, after) for name, before, after in answer["rows"]}


def test_sorted_tools_would_have_kept_the_cache_that_another_order_lost(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        first, second = (one["id"] for one in reader.exchanges(2)["requests"])
        answer = what_if(reader, second, tools="sorted")
        figures = rows(answer)
        assert figures["prompt tokens"] == (20_000, 20_000)
        before, after = figures["begin like an earlier request"]
        assert before < 1_000 < 10_000 < after
        for name in (0, 1):
            parts = [figures[key][name] for key in ("begin like an earlier request", "evaluated")]
            assert sum(parts) == figures["prompt tokens"][name]
        assert answer["usd"][1] < answer["usd"][0]
        assert "sorted by name" in answer["how"][0]
        every = what_if(reader, 0, tools="sorted")
        assert (every["requests"], rows(every)["evaluated"][1]) == (2, 40_000 - after)
        assert "nothing of it would be different" in what_if(reader, first, tail="off")["notes"]
        with pytest.raises(InvalidInput):
            what_if(reader, first, tools="shuffled")
        with pytest.raises(NotFound):
            reader.exchange_what_if(3, 0, b'{"tail": "off"}')


def test_live_state_is_taken_out_or_kept_once_behind_the_last_message() -> None:
    told = tail._WHOLE, f'{tail._LATER}\n<slop-state since="x">'
    texts = ["hello", f"{told[0]}\n<slop-state>", "go on", told[1], "and now"]
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    read = read_body("anthropic", json.dumps(body).encode())
    assert read is not None

    def texts_of(wish: Literal["", "off", "whole"]) -> list[str]:
        return [unit.text for unit in otherwise(read, AgentWishes(tail=wish))]

    assert texts_of("") == texts
    assert texts_of("off") == ["hello", "go on", "and now"]
    assert texts_of("whole") == ["hello", "go on", "and now", texts[1]]
