"""Replies that no vendor should send, through real SDKs and a real ledger: the turn goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.host.helpers import ALONE, check_ledger, ended, messages, of_kind, statuses, turn
from sightline.agent.host import Host
from sightline.agent.models.choose import open_model
from sightline.cli.ask import exit_code_of
from sightline.config import LimitSettings, ReplySettings, Settings
from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import UNREADABLE
from sightline.events import CallFinished, CallStarted, Noticed, UsageReported
from sightline.slop.hub.hub import Hub
from support.vendors.answers import Answer, Ignores, Sends, says
from support.vendors.apis import sse
from support.vendors.server import Vendor

MODELS = {"chat": "openai-chat:gpt-6.1-sol", "gemini": "gemini:gemini-3.8-flash"}


@asynccontextmanager
async def asking(
    directory: Path, way: str, *answers: Answer, settings: Settings | None = None
) -> AsyncIterator[tuple[Host, Vendor]]:
    """A host whose model is a vendor's, on loopback."""
    made = settings or Settings(apps=ALONE)
    with Vendor(*answers) as vendor:
        model = open_model(MODELS[way], made, vendor.environment())
        try:
            async with (
                Hub() as hub,
                Host.open(made, model=model, ledger=directory / "work.db", hub=hub) as host,
            ):
                yield host, vendor
        finally:
            await model.close()


def deep_call(way: str, levels: int) -> Sends:
    """A reply with one call whose arguments nest so deep, and one that is all right."""
    deep = '{"path":' + "[" * levels + "]" * levels + "}"
    if way == "gemini":
        calls = [{"functionCall": {"id": "a", "name": "slop_query", "args": "DEEP"}},
                 {"functionCall": {"id": "b", "name": "describe_db", "args": {}}}]  # fmt: skip
        told = {"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}
        data = sse(told).replace(b'"DEEP"', deep.encode())
    else:
        pieces = [
            {"index": 0, "id": "a", "function": {"name": "slop_query", "arguments": deep}},
            {"index": 1, "id": "b", "function": {"name": "describe_db", "arguments": "{}"}},
        ]
        choice = {"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}
        data = sse({"id": "c1", "choices": [choice]}) + b"data: [DONE]\n\n"
    return Sends(data, content_type="text/event-stream")


def repeated_call(way: str) -> Sends:
    """A reply with two calls that have one id."""
    if way == "gemini":
        calls = [{"functionCall": {"id": "a", "name": "describe_db", "args": {}}}] * 2
        told = {"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}
        return Sends(sse(told), content_type="text/event-stream")
    pieces = [
        {"index": index, "id": "a", "function": {"name": "describe_db", "arguments": "{}"}}
        for index in (0, 1)
    ]
    choice = {"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}
    data = sse({"id": "c1", "choices": [choice]}) + b"data: [DONE]\n\n"
    return Sends(data, content_type="text/event-stream")


@pytest.mark.parametrize("way", MODELS)
async def test_host_runs_a_call_id_once_when_a_vendor_repeats_it(tmp_path: Path, way: str) -> None:
    async with asking(tmp_path, way, repeated_call(way), says("Then not.")) as (host, vendor):
        events = await turn(host)
        assert (ended(events).outcome, ended(events).text) == ("answered", "Then not.")
        first, second = of_kind(events, CallFinished)
        assert (first.ok, second.ok) == (True, False)
        assert "an id runs once" in second.content
        assert len({call.call_id for call in of_kind(events, CallStarted)}) == 2
        # The vendor on loopback checks each request: two results, each for its own call.
        assert vendor.requests[1].body.count(b"an id runs once") == 1
    check_ledger(tmp_path)


@pytest.mark.parametrize("way", MODELS)
@pytest.mark.parametrize("levels", [200, 600, 5_000, 100_000])
async def test_a_call_that_nests_too_deep_is_that_call_s_error_and_the_turn_goes_on(
    tmp_path: Path, way: str, levels: int
) -> None:
    async with asking(tmp_path, way, deep_call(way, levels), says("Then not.")) as (host, vendor):
        events = await turn(host)
        assert (ended(events).outcome, ended(events).text) == ("answered", "Then not.")
        bad, good = of_kind(events, CallFinished)
        assert (bad.ok, good.ok) == (False, True)
        assert "not a JSON object" in bad.content
        assert list(of_kind(events, CallStarted)[0].arguments) == [UNREADABLE]
        assert len(vendor.requests) == 2
        assert "unreadable_arguments" in json.dumps(json.loads(vendor.requests[1].body))
    check_ledger(tmp_path)
    assert [message.role for message in messages(tmp_path)] == [
        "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip


@pytest.mark.parametrize("number", ["-5", "1e308", "1e999", "9" * 30, '"12"', "true", '{"n":1}'])
async def test_an_absurd_count_costs_the_count_and_not_the_reply(
    tmp_path: Path, number: str
) -> None:
    choice = {"index": 0, "delta": {"content": "Here."}, "finish_reason": "stop"}
    told = sse({"choices": [choice], "usage": {"prompt_tokens": "N", "completion_tokens": 3}})
    reply = Sends(
        told.replace(b'"N"', number.encode()) + b"data: [DONE]\n\n",
        content_type="text/event-stream",
    )
    async with asking(tmp_path, "chat", reply) as (host, _):
        events = await turn(host)
        assert (ended(events).outcome, ended(events).text) == ("answered", "Here.")
        [notice] = of_kind(events, Noticed)
        assert (notice.code, "prompt_tokens" in notice.message) == ("usage", True)
        [used] = of_kind(events, UsageReported)
        assert (used.input_tokens, used.output_tokens, used.cost_usd) == (0, 3, None)
    check_ledger(tmp_path)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        totals = ledger.accounts.totals()
        assert (totals.prompt_tokens, totals.completion_tokens, totals.unpriced) == (0, 3, 1)


async def test_a_price_beyond_measure_is_no_cost(tmp_path: Path) -> None:
    dear = Settings(apps=ALONE, profiles={"*": {"prices": {"input": 1e9, "output": 1e9}}})
    many = says("Here.", usage=Usage(2**40, 3))
    async with asking(tmp_path, "chat", many, settings=dear) as (host, _):
        assert ended(await turn(host)).outcome == "answered"
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        assert ledger.accounts.totals().unpriced == 1


@pytest.mark.parametrize(
    ("limit", "code"), [({"idle_s": 0.5}, "timed_out"), ({"max_bytes": 5_000}, "too_large")]
)
async def test_a_reply_that_does_not_end_is_kept_as_far_as_it_came(
    tmp_path: Path, limit: dict[str, float], code: str
) -> None:
    endless = says("one two", stall=2, repeat=b": ping\n\n")
    limits = ReplySettings(**limit)  # type: ignore[arg-type]
    made = Settings(apps=ALONE, reply=limits)
    async with asking(tmp_path, "chat", endless, settings=made) as (host, _):
        end = ended(await turn(host))
        assert (end.outcome, end.code, end.text) == ("failed", code, "one ")
    check_ledger(tmp_path)
    assert [message.text for message in messages(tmp_path)] == ["hi", "one "]
    assert statuses(tmp_path) == ["complete", "incomplete"]


async def test_a_vendor_that_never_answers_ends_the_turn_as_timed_out(tmp_path: Path) -> None:
    made = Settings(
        apps=ALONE, reply=ReplySettings(silence_s=0.05), limits=LimitSettings(retries=0)
    )
    async with asking(tmp_path, "chat", Ignores(), settings=made) as (host, _):
        end = ended(await turn(host))
        assert (end.outcome, end.code, exit_code_of(end)) == ("failed", "timed_out", 4)
    check_ledger(tmp_path)
