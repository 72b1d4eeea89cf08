"""Another agent's session as the page gets it: recorded by a gateway, or imported."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from benchmarks.faults import LAYOUTS, Layout, session

from gateway.test_observer import passing
from gateway.test_transcripts import Claude
from inspector.test_server import browsing
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput, NotFound
from sightline.gateway import tail
from sightline.gateway.bodies import read_body
from sightline.gateway.imports import import_transcripts
from sightline.gateway.observer import Observer
from sightline.inspector.exchanges import AgentWishes, otherwise
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
        first, second = reader.index(2, "")["rows"]
        assert (first["reason"], first["cached_tokens"], first["text"]) == ("", 15_000, "well then")
        assert second["reason"].startswith("the tools came in another order")
        cache = reader.verdicts(2, 2, 1)["cache"]
        assert "sort the tools" in cache.lines[-1]
        assert cache.expected - cache.reported == cache.loss.tokens
        shown = reader.request(2, 2, 1)
        assert '"claude-opus-5-5"' in shown["request"]["body"]
        assert '"$BASE_URL"/v1/messages' in shown["request"]["curl"]
        assert (shown["before"], shown["drift"]["kind"]) == ("1.1", "regression")
        assert "another order" in reader.compare(2, "1.1", "2.1")["cause"]
        assert reader.request(2, 1, 1)["drift"] is None
        said = reader.group(2, second["group"])["messages"]
        assert said[-1]["parts"] == [{"kind": "text", "text": "well then"}]
        calls = [part for one in said for part in one["parts"] if part["kind"] == "call"]
        results = [part for one in said for part in one["parts"] if part["kind"] == "result"]
        assert [part["id"] for part in calls] == [part["id"] for part in results] != []
        assert reader.verdicts(2, 2, 1)["changed"].title == "+ 2 messages"
        assert reader.index(1, "")["turns"] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_figures_of_a_request_add_up_to_what_its_vendor_counted(
    tmp_path: Path, layout: Layout
) -> None:
    bodies = session(random.Random(3), layout, 3)
    bodies.append({**bodies[-1], "tools": bodies[-1]["tools"][1:]})
    with Ledger(tmp_path / "l.db") as ledger:
        observer = Observer(ledger, agent="agent")
        for body in bodies:
            observer.observe(passing(layout, body, read=12_000))
        reader = RecordReader(ledger)
        for turn in range(1, len(bodies) + 1):
            shown = reader.request(1, turn, 1)
            receipt = shown["receipt"]
            assert receipt["total"] == 20_000 == sum(slot["kept"] for slot in receipt["slots"])
            assert receipt["budget"] == receipt["total"] + receipt["free"]
            for slot in receipt["slots"]:
                own = [one["tokens"] for one in shown["messages"] if one["slot"] == slot["name"]]
                assert sum(own) == sum(line["kept"] for line in slot["messages"]) == slot["kept"]
        overview = reader.overview(1)
        assert overview["prompt_tokens"] == sum(one["prompt_tokens"] for one in overview["columns"])
        [gone] = reader.unseen(1, len(bodies), 1)["unseen"]
        assert (gone.kind, gone.rule) == ("tools", "a tool was removed")
        for text, found in (("tool:Read", True), ("cache<50%", False), ("time>1m", False),
                            ('"well then"', True), ("-status:answered", False)):  # fmt: skip
            assert bool(reader.index(1, text)["turns"]) == found, text
        assert "number" in reader.index(1, "cost:x")["problem"]


def test_what_a_transcript_does_not_tell_is_unknown(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        last = reader.index(3, "")["rows"][-1]
        assert last["duration_ms"] is None
        assert last["reason"].startswith("the cache's lifetime ran out")
        shown = reader.request(3, 2, 1)
        assert "does not hold what was sent" in shown["note"]
        assert shown["trace"] == []
        for view in (reader.unseen(3, 2, 1), reader.state(3, 2, 1), reader.group(3, last["group"])):
            assert view["note"] == shown["note"]
        for session_id, turn, number in ((2, 3, 1), (2, 1, 2), (2, 0, 1)):
            with pytest.raises(NotFound):
                reader.request(session_id, turn, number)
        with pytest.raises(NotFound):
            reader.group(2, last["group"])


async def test_the_page_gets_them_from_the_server(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        async with browsing(reader) as client:
            listed = (await client.get("/api/sessions/2/turns")).json()
            assert listed["rows"] == reader.index(2, "")["rows"]
            shown = await client.get("/api/sessions/2/turns/1/1")
            assert shown.content == msgspec.json.encode(reader.request(2, 1, 1))


def what_if(reader: RecordReader, number: int, **wishes: str) -> dict[str, Any]:
    body = json.dumps(wishes).encode()
    return reader.what_if(2, number, 1, body) if number else reader.what_if_all(2, body)


def rows(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (before, after) for name, before, after in answer["rows"]}


def test_sorted_tools_would_have_kept_the_cache_that_another_order_lost(tmp_path: Path) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        reader = RecordReader(ledger)
        first, second = 1, 2
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
            reader.what_if_all(3, b'{"tail": "off"}')


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
