"""What the inspector says of a session is what happened in it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.host.helpers import hosted, invoke, turn
from sightline.agent.host.journal import Journal
from sightline.agent.models.scripted import ScriptedModel
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.ledger.work import Owner
from sightline.context.messages.parts import Draft, Message, ToolCall
from sightline.context.tokens.tokens import ESTIMATES
from sightline.errors import DoesNotFit, InvalidInput, NotFound
from sightline.events import ApprovalAsked
from sightline.inspector import wires
from sightline.inspector.reader import RecordReader
from support.exports import recorded
from support.live import LiveApp

ASKING = 16


@pytest.fixture
async def sent(tmp_path: Path) -> list[bytes]:
    """The bytes of every request of a session: three turns, the second with a call."""
    model = ScriptedModel(
        ["One.", ["Counting.", invoke("c1", "/", "count")], "Two.", "Three."],
        profile=profile_for("anthropic"),
    )
    async with hosted(tmp_path, model, app=LiveApp()) as (host, _):
        for text in ("first", "second", "third"):
            await turn(host, text, answer=lambda _: True)
    return [request.data for request in model.requests]


@pytest.fixture
def reader(tmp_path: Path, sent: list[bytes]) -> Iterator[RecordReader]:
    assert sent
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        yield RecordReader(ledger)


def test_who_asks_first_at_the_same_time_is_answered_from_one_journal(
    reader: RecordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Journal] = []
    met = threading.Barrier(2)

    class Counted(Journal):
        def _open(self) -> None:
            opened.append(self)
            with suppress(threading.BrokenBarrierError):  # nobody else opens it: as it should be
                met.wait(timeout=0.5)
            super()._open()

    monkeypatch.setattr("sightline.inspector.reader.Journal", Counted)
    together = threading.Barrier(ASKING)

    def ask(_: int) -> int:
        together.wait()
        return len(reader.turns(1)["turns"])

    with ThreadPoolExecutor(ASKING) as threads:
        assert list(threads.map(ask, range(ASKING))) == [3] * ASKING
    assert len(opened) == 1


def as_sent(answer: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))


def test_every_request_is_shown_with_the_bytes_that_were_sent(
    reader: RecordReader, sent: list[bytes]
) -> None:
    places = [(1, 1), (2, 1), (2, 2), (3, 1)]
    for (turn_number, number), data in zip(places, sent, strict=True):
        shown = reader.request(1, turn_number, number)["request"]
        assert shown["body"].encode() == data
        assert shown["reproduced"] is True
        assert json.loads(shown["pretty"]) == json.loads(data)


def test_looking_at_ever_new_requests_keeps_only_the_last_counts(
    reader: RecordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wires, "COUNTED_TEXTS", 20)
    ESTIMATES.shrink(0)
    ESTIMATES.learn(f"of another request {number}" for number in range(2_000))
    for place in ((1, 1), (2, 1), (2, 2), (3, 1)):
        reader.request(1, *place)
    assert 0 < len(ESTIMATES) < 100


def test_the_command_is_the_request_and_holds_no_key(reader: RecordReader) -> None:
    command = reader.request(1, 3, 1)["request"]["curl"]
    assert 'curl "$BASE_URL"/v1/messages' in command, "a scripted model is nowhere"
    assert "$API_KEY" in command
    assert "--data-raw" in command


def test_turns_carry_their_requests_and_figures(reader: RecordReader) -> None:
    turns = reader.turns(1)["turns"]
    assert [item["text"] for item in turns] == ["first", "second", "third"]
    assert [item["requests"] for item in turns] == [1, 2, 1]
    assert {item["status"] for item in turns} == {"answered"}
    assert all(item["cached_tokens"] <= item["prompt_tokens"] for item in turns)
    assert turns[2]["cached_tokens"] > 0


def test_messages_name_their_slots_and_the_boundary_divides_them(reader: RecordReader) -> None:
    picture = reader.request(1, 3, 1)
    slots = [message["slot"] for message in picture["messages"]]
    boundary = picture["receipt"]["boundary"]
    assert "input" in slots[:boundary]
    assert set(slots[boundary:]) == {"state"} | (set(slots[boundary:]) - {"history", "input"})
    assert "" not in slots
    for line in picture["receipt"]["slots"]:
        own = [m["tokens"] for m in picture["messages"] if m["slot"] == line["name"]]
        assert sum(own) == line["kept"], line["name"]


def test_the_state_is_what_the_request_showed_and_what_changed_since(reader: RecordReader) -> None:
    after = reader.state(1, 2, 2)["apps"][0]
    assert any("/properties/n" in change["path"] for change in after["changes"])
    lines = reader.nodes(1, 2, 1, 0, 0)["lines"]
    assert lines[0]["text"].startswith("[root] app")
    assert {line["kind"] for line in lines} <= {"shown", "summary", "cut"}
    assert after["shown"] + after["summarised"] + after["cut"] == after["nodes"] == len(lines)


def test_a_line_of_a_tree_knows_its_path_its_depth_and_what_is_below_it(
    reader: RecordReader,
) -> None:
    lines = {line["path"]: line for line in reader.nodes(1, 1, 1, 0, 0)["lines"]}
    assert lines["/"]["below"] == len(lines) - 1
    assert (lines["/inbox"]["depth"], lines["/inbox"]["below"]) == (1, 6)
    assert lines["/inbox/msg-1/body"]["depth"] == 3
    paths = list(lines)
    folds = reader.folds(1, 1, 1, 0, paths.index("/inbox"))["folds"]
    assert folds == [[paths.index(f"/inbox/msg-{n}"), 1] for n in (1, 2, 3)]
    found = reader.find_nodes(1, 1, 1, 0, "MESSAGE 2")
    assert found == {"found": [paths.index("/inbox/msg-2")], "total": 1}
    assert reader.nodes(1, 1, 1, 0, 99) == {"lines": []}
    with pytest.raises(NotFound, match="no number 7"):
        reader.nodes(1, 1, 1, 7, 0)


def test_comparing_names_the_first_byte_and_who_ended_it(reader: RecordReader) -> None:
    drift = reader.compare(1, "1.1", "3.1")
    assert drift["kind"] == "appended"
    assert drift["common_bytes"] > 0
    assert "slot" in drift["cause"]
    with pytest.raises(InvalidInput, match=r"turn\.request"):
        reader.compare(1, "one", "3.1")
    with pytest.raises(NotFound, match="turn 9"):
        reader.compare(1, "9.1", "3.1")


def test_nothing_wished_for_is_the_recorded_prompt(reader: RecordReader) -> None:
    recorded, again = reader.request(1, 3, 1), reader.what_if(1, 3, 1, b"{}")
    stable = recorded["receipt"]["boundary"]
    texts = [[m["parts"] for m in one["messages"][:stable]] for one in (recorded, again)]
    assert texts[0] == texts[1]


def test_a_smaller_window_and_budget_show_less(reader: RecordReader) -> None:
    whole = reader.request(1, 3, 1)
    less = reader.what_if(1, 3, 1, b'{"window": 1, "slack": 0}')
    assert len(less["messages"]) < len(whole["messages"])
    assert "[window]\nsize = 1\nslack = 0" in less["config"]
    other = reader.what_if(1, 3, 1, b'{"model": "openai-chat", "strategy": "minimal"}')
    assert other["model"] == f"openai-chat:{profile_for('openai-chat').model}"
    with pytest.raises(DoesNotFit):
        reader.what_if(1, 3, 1, b'{"budget": 1}')


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (b'{"strategy": "/tmp/x.py"}', "x.py"),
        (b'{"slots": {"state": {"role": 1}}}', "role"),
        (b'{"nonsense": 1}', "nonsense"),
        (b'{"model": "nowhere:x"}', "nowhere"),
        (b'{"slots": {"state": {"max_ratio": 7}}}', "max_ratio"),
        (b"[", "what if"),
    ],
)
def test_a_wish_that_makes_no_sense_is_named(
    reader: RecordReader, asked: bytes, named: str
) -> None:
    with pytest.raises(InvalidInput, match=named):
        reader.what_if(1, 3, 1, asked)


def test_an_export_holds_everything_the_page_asks_for(reader: RecordReader) -> None:
    page = "".join(reader.export(1))
    turn = "/api/sessions/1/turns/2/2"
    for address in (turn, f"{turn}/state", f"{turn}/state/0/nodes/0", f"{turn}/state/0/folds/0"):
        assert f'"{address}"' in page


def test_an_exported_answer_is_the_one_the_page_gets_from_the_server(reader: RecordReader) -> None:
    answers = recorded("".join(reader.export(1)))
    for place in ((1, 1), (2, 1), (2, 2), (3, 1)):
        root = f"/api/sessions/1/turns/{place[0]}/{place[1]}"
        assert answers[root] == as_sent(reader.request(1, *place))
        assert answers[f"{root}/state"] == as_sent(reader.state(1, *place))
        assert answers[f"{root}/state/0/nodes/0"] == as_sent(reader.nodes(1, *place, 0, 0))


async def test_an_export_has_the_memos_of_its_requests_and_no_others(tmp_path: Path) -> None:
    find = ToolCall("c1", "retrieve_memos", {"tags": ["harbour"]})
    async with hosted(tmp_path, [[find], "Found.", "Blue."], mode="auto") as (host, _):
        save = host.ledger.memos.save
        save("The door is painted blue.", ["door"])
        save("The harbour freezes in January.", ["harbour", "winter"])
        old = save("The door squeaks.", ["door"])
        save("The code of the safe is 4711.", ["payroll"])
        await turn(host, "when does it freeze?")
        await turn(host, "which colour has the door?")
        host.ledger.memos.edit(old.id, content="The door opens with 4711.")
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger)
        page = "".join(reader.export(1))
        shown = recorded(page)["/api/sessions/1/ledger"]["memos"]
        assert len(reader.ledger(1)["memos"]) == 4
    assert {memo["content"] for memo in shown} == {
        "The door is painted blue.",
        "The harbour freezes in January.",
    }
    assert "The door squeaks." in page, "which a request said"
    assert "4711" not in page
    assert "payroll" not in page


def test_a_session_without_a_journal_is_listed_and_says_what_is_missing(
    tmp_path: Path, sent: list[bytes]
) -> None:
    assert sent
    (tmp_path / "work.wire.db").unlink()
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger)
        assert [item["requests"] for item in reader.turns(1)["turns"]] == [0, 0, 0]
        with pytest.raises(NotFound, match="nothing was recorded"):
            reader.request(1, 1, 1)


def test_news_are_of_what_is_kept_and_words_that_arrive_are_told_as_they_are(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path / "work.db") as ledger:
        reader = RecordReader(ledger)
        session, other = (ledger.sessions.create(name).id for name in ("one", "two"))
        [entry] = ledger.append(session, [Draft(Message.of("user", "hello"), 1)])
        seen = reader.news(session)
        ledger.work.begin_reply(session, entry.group_id, entry.seq, "openai-chat")
        ledger.work.note_words(session, "some words ", "")
        ledger.work.note_call(session, entry.group_id, "c1", "asked")
        arriving = reader.news(session)
        calls = {"c1": "asked"}
        assert arriving["open"] == {"text": "some words ", "reasoning": "", "calls": calls}
        assert arriving | {"open": None} == seen | {"open": None}

        def changed() -> list[bool]:
            nonlocal seen
            before, seen = seen, reader.news(session)
            return [seen[name] != before[name] for name in ("sessions", "turns")]

        ledger.append(other, [Draft(Message.of("user", "hello"), 1)])
        assert changed() == [True, False]
        ledger.append(session, [Draft(Message.of("assistant", "hi"), 1)])
        assert changed() == [True, True]
        ledger.memos.save("The door is blue.", ["door"])
        assert changed() == [False, True]
        ledger.accounts.record(session, StoredUsage("m", 1, 1), group_id=entry.group_id)
        assert changed() == [True, True]
        ledger.groups.drop(session, entry.group_id)
        assert changed() == [True, True]
        Owner(ledger.work).claim(session)
        assert changed() == [False, True]


async def test_a_call_says_who_decided_on_it_or_which_rule(tmp_path: Path) -> None:
    calls = [invoke(f"c{n}", "/", "echo", text=f"{n}") for n in range(4)]
    async with hosted(tmp_path, [[call] for call in calls] + ["Done."], app=LiveApp()) as (host, _):
        async for event in host.ask("Do it four times."):
            if not isinstance(event, ApprovalAsked):
                continue
            if event.call_id == "c1":
                host.answer("c1", approved=False, reason="not <b>now</b>")
            elif event.call_id == "c2" and event.params == {"text": "2"}:
                host.answer("c2", approved=False, params={"text": "two"})
            else:
                widest = len(event.rules) if event.call_id == "c2" else 0
                host.answer(event.call_id, approved=True, remember=widest)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        answers = RecordReader(ledger).group(1, 1)["answers"]
    assert answers["c0"] == ["allowed by you"]
    assert answers["c1"] == ["refused by you: not <b>now</b>"]
    assert answers["c2"] == ["changed by you, and asked about again", "allowed by you"]
    assert [words.split(":")[:2] for words in answers["c3"]] == [["allowed", " answered before"]]
