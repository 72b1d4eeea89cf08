"""Anthropic's models on Bedrock: the stream of a reply, restarts, and prices of the user."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sightline.config import Settings
from sightline.context.dialects import DIALECTS, decode
from sightline.context.dialects.bedrock import InvokeDecoder
from sightline.context.dialects.events import Event, Stopped, Usage
from sightline.context.dialects.profiles import price_layer
from sightline.context.ledger import Ledger
from sightline.gateway.observer import Observer, Passing, passed_of
from sightline.inspector.reader import RecordReader
from support.vendors.answers import Call, Says, says
from support.vendors.apis import anthropic, aws_event

MODEL = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
SYSTEM = {"type": "text", "text": "x" * 9_000, "cache_control": {"type": "ephemeral"}}
READ, AGAIN = Usage(20_000, 10, 15_000), Usage(20_000, 10)
SAID = says("well then", Call("look", {"at": "it"}))


def frames(answer: Says) -> list[tuple[bytes, bytes]]:
    """Return the events of one reply, each as Anthropic sends it and as Bedrock does."""
    events = list(anthropic(answer))
    data = (event.partition(b"data: ")[2].strip() for event in events)
    chunks = ({"bytes": base64.b64encode(one).decode(), "p": "ab"} for one in data)
    return list(zip(events, (aws_event("chunk", one) for one in chunks), strict=True))


def decoded(*chunks: bytes) -> list[Event]:
    return list(decode(InvokeDecoder(), chunks))


def test_an_invoked_stream_has_the_events_of_anthropics_own_when_cut_anywhere() -> None:
    pairs = frames(SAID)
    whole = b"".join(chunk for _, chunk in pairs)
    expected = list(decode(DIALECTS["anthropic"].decoder(), [event for event, _ in pairs]))
    assert decoded(whole) == expected
    for at in range(1, len(whole), 7):
        assert decoded(whole[:at], whole[at:]) == expected


def test_an_exception_in_an_invoked_stream_is_the_error_of_the_reply() -> None:
    begun = [chunk for _, chunk in frames(SAID)][:3]
    told = aws_event("throttlingException", {"message": "Too many tokens"}, "exception")
    *_, last = decoded(*begun, told)
    assert isinstance(last, Stopped)
    assert (last.reason, last.detail) == ("error", "Too many tokens")


@pytest.mark.parametrize(
    "payload", [{}, {"bytes": "%%"}, {"bytes": "e30="}, {"bytes": 1}, {"bytes": "bm8="}]
)
def test_damaged_chunks_end_the_reply_and_raise_nothing(payload: dict[str, Any]) -> None:
    *_, last = decoded(aws_event("chunk", payload))
    assert isinstance(last, Stopped)
    assert last.reason == "incomplete"


def passing(texts: list[str], at: float, usage: Usage, model: str = MODEL) -> Passing:
    """Return a request of Claude Code on Bedrock that was answered."""
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"anthropic_version": "bedrock-2023-05-31", "messages": messages, "system": [SYSTEM]}
    path = f"/model/{model}/invoke-with-response-stream"
    headers = {"x-claude-code-session-id": "one"}
    found = Passing("anthropic", path, headers, json.dumps(body).encode(), 0.0, at)
    found.status, found.first, found.ended = 200, 0.1, 0.5
    found.reply_headers = {"content-type": "application/vnd.amazon.eventstream"}
    for _, chunk in frames(says("well", usage=usage)):
        found.feed(chunk)
    return found


def test_a_conversation_on_bedrock_goes_on_when_the_gateway_was_restarted(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        Observer(ledger).observe(passing(["hello there"], 0.0, READ))
        [session] = ledger.sessions.recent()
        [first] = ledger.exchanges.list(session.id)
        later = datetime.fromisoformat(first.sent_at).timestamp() + 400
        again = Observer(ledger).observe(passing(["hello there", "go on"], later, AGAIN))
        assert {one.model for one in ledger.exchanges.list(session.id)} == {MODEL}
    assert again.loss is not None
    assert again.loss.cause == "expired"
    assert again.cost_usd == pytest.approx((20_000 * 1 + 10 * 5) / 1_000_000)


def test_the_inspector_shows_the_users_prices_when_the_list_has_none(tmp_path: Path) -> None:
    prices = "10/20/1/10"
    with Ledger(tmp_path / "l.db") as ledger:
        observer = Observer(ledger)
        for texts, at, used in ((["hello"], 0.0, READ), (["hello", "go on"], 400.0, AGAIN)):
            assert observer.observe(passing(texts, at, used, "mine")).cost_usd is None
        [session] = ledger.sessions.recent()
        reader = RecordReader(ledger, Settings(prices={"mine": prices}))
        costs = [row["cost_usd"] for row in reader.turns(session.id)["turns"]]
        unknown = [row["cost_usd"] for row in RecordReader(ledger).turns(session.id)["turns"]]
        chosen = reader.index(session.id, "cost>0.2")["turns"]
        last = passed_of(ledger.exchanges.list(session.id)[-1], [price_layer("mine", prices, "")])
    assert costs == [
        pytest.approx((5_000 * 10 + 15_000 * 1 + 10 * 20) / 1_000_000),
        pytest.approx((20_000 * 10 + 10 * 20) / 1_000_000),
    ]
    assert unknown == [None, None]
    assert chosen == [2]
    assert last.loss is not None
    assert last.loss.cost == pytest.approx(last.loss.tokens * (10 - 1) / 1_000_000)
