"""Replies that do not end: ended from our side, and nothing of what came is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

import sightline.agent.models.posting as posting
from agent.models.conftest import opened
from sightline.agent.models.bedrock import SignedBody
from sightline.config import ReplySettings, Settings
from sightline.context.dialects.events import Event, Stopped
from sightline.errors import ModelUnavailable, SightlineError, TimedOut, TooLarge
from support.vendors.answers import Breaks, Call, Ignores, Says, says
from support.vendors.apis import APIS, aws_event
from support.vendors.asking import TOOLS, asked, end_of
from support.vendors.server import Vendor

SHORT_S, LONG_S = 0.05, 600.0
# What each API sends, or what it could, only to show that it is there.
PINGS = {
    "chat": b": ping\n\n",
    "responses": b'event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n',
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "gemini": b": ping\n\n",
    "bedrock": aws_event("messageStart", {"role": "assistant"}),
    "ollama": b'{"model":"m","message":{"role":"assistant","content":""},"done":false}\n',
}


def settings(**limits: float) -> Settings:
    return Settings(reply=ReplySettings(**{"silence_s": LONG_S, **limits}))  # type: ignore[arg-type]


def frame_of(way: str, answer: Says, word: bytes) -> int:
    """Where a word stands among the frames of an answer."""
    frames = list(APIS[way].frames(answer))
    return next(number for number, frame in enumerate(frames) if word in frame)


async def ended(way: str, vendor: Vendor, limits: Settings) -> list[Event]:
    model = opened(vendor, way, limits)
    vendor.arrived.clear()
    vendor.hung_up.clear()
    try:
        return await asked(model, "hi", tools=TOOLS)
    finally:
        if vendor.arrived.is_set():  # a busy machine may give up before it has asked
            hung_up = await asyncio.to_thread(vendor.hung_up.wait, 30)
            assert hung_up, "the connection was left open"
        await model.close()


async def failure(way: str, vendor: Vendor, limits: Settings) -> SightlineError:
    with pytest.raises(SightlineError) as caught:
        await ended(way, vendor, limits)
    return caught.value


def cut_off(events: list[Event], code: str) -> Stopped:
    end = end_of(events)
    assert (end.reason, end.code) == ("incomplete", code)
    assert end.message.text.startswith("one ")
    assert not end.message.tool_calls
    return end


async def ended_in_time(way: str, vendor: Vendor, answer: Says, limit: str, detail: str) -> None:
    """A limit of time ends a reply that has begun; a busy machine may need more until it has."""
    for seconds in (0.1, 1.0, 10.0, 100.0):
        vendor.add(answer)
        with suppress(TimedOut):
            end = cut_off(await ended(way, vendor, settings(**{limit: seconds})), "timed_out")
            assert detail.format(f"{seconds:g} s") in end.detail
            return
    pytest.fail("no word came in time")


async def test_no_answer_at_all_is_timed_out(way: str, vendor: Vendor) -> None:
    vendor.add(Ignores())
    error = await failure(way, vendor, settings(silence_s=SHORT_S))
    assert isinstance(error, TimedOut)
    assert (error.code, error.exit_code) == ("timed_out", 4)


async def test_silence_before_the_first_word_is_timed_out(way: str, vendor: Vendor) -> None:
    vendor.add(says("one two", stall=0))
    assert isinstance(await failure(way, vendor, settings(silence_s=SHORT_S)), TimedOut)


@pytest.mark.parametrize("way", ["chat", "bedrock"], indirect=True)
async def test_silence_in_a_reply_ends_it_with_what_was_said(way: str, vendor: Vendor) -> None:
    answer = says("one two", Call("look", {"at": "/"}))
    stalled = says("one two", Call("look"), stall=frame_of(way, answer, b"one ") + 1)
    await ended_in_time(way, vendor, stalled, "silence_s", "sent nothing for {}")


async def test_nothing_but_pings_before_the_first_word_is_timed_out(
    way: str, vendor: Vendor
) -> None:
    vendor.add(says("one", stall=0, repeat=PINGS[way]))
    error = await failure(way, vendor, settings(idle_s=SHORT_S))
    assert isinstance(error, TimedOut)
    assert "sent no word for 0.05 s" in str(error)


async def test_nothing_but_pings_in_a_reply_ends_it(way: str, vendor: Vendor) -> None:
    at = frame_of(way, says("one two"), b"one ") + 1
    pinging = says("one two", stall=at, repeat=PINGS[way])
    await ended_in_time(way, vendor, pinging, "idle_s", "sent no word for {}")


async def test_words_without_an_end_are_ended_at_the_limit_of_bytes(
    way: str, vendor: Vendor
) -> None:
    answer = says("one two")
    at = frame_of(way, answer, b"one ")
    word = list(APIS[way].frames(answer))[at]
    vendor.add(says("one two", stall=at + 1, repeat=word))
    end = cut_off(await ended(way, vendor, settings(max_bytes=20_000)), "too_large")
    assert "more than 20,000 bytes (reply.max_bytes)" in end.detail
    assert set(end.message.text.split()) == {"one"}
    assert len(end.message.text) > 40


@pytest.mark.parametrize("way", ["chat", "ollama"], indirect=True)
async def test_words_without_an_end_are_ended_at_the_limit_of_time(
    way: str, vendor: Vendor
) -> None:
    answer = says("one two")
    at = frame_of(way, answer, b"one ")
    word = list(APIS[way].frames(answer))[at]
    endless = says("one two", stall=at + 1, repeat=word)
    await ended_in_time(way, vendor, endless, "total_s", "not done after {}")


async def test_a_body_without_a_word_is_too_large(way: str, vendor: Vendor) -> None:
    vendor.add(says("one", stall=0, repeat=PINGS[way]))
    error = await failure(way, vendor, settings(max_bytes=20_000))
    assert isinstance(error, TooLarge)
    assert "reply.max_bytes" in str(error)


@pytest.mark.parametrize("way", ["chat", "responses", "anthropic", "bedrock"], indirect=True)
async def test_arguments_that_grow_are_no_idleness(way: str, vendor: Vendor) -> None:
    answer = says("", Call("look", {"at": "/" * 64}))
    at = frame_of(way, answer, b"////") + 1
    grown = list(APIS[way].frames(answer))[at - 1]
    kinds = set()
    for _ in range(5):  # a machine that is held up is idle now and then; arguments never are
        vendor.add(says("", Call("look", {"at": "/" * 64}), stall=at, repeat=grown))
        kinds.add(type(await failure(way, vendor, settings(idle_s=0.5, max_bytes=200_000))))
        if TooLarge in kinds:
            break
    assert TooLarge in kinds


@pytest.mark.parametrize("way", ["bedrock"], indirect=True)
async def test_hanging_up_closes_a_connection_that_its_reader_put_in_a_pool(
    way: str, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's reader does so when it is interrupted, and nobody closes its pool."""
    vendor.add(says("one", stall=0, repeat=PINGS[way]))
    hang_up = SignedBody.close

    def after_the_reader(body: SignedBody) -> None:
        body._body.release_conn()
        hang_up(body)

    monkeypatch.setattr(SignedBody, "close", after_the_reader)
    assert isinstance(await failure(way, vendor, settings(max_bytes=20_000)), TooLarge)


async def test_model_hangs_up_when_the_body_of_an_error_does_not_end(
    way: str, vendor: Vendor
) -> None:
    vendor.add(Breaks(repeat=b"x" * 2**16))
    async with asyncio.timeout(60):
        error = await failure(way, vendor, settings())
    assert isinstance(error, ModelUnavailable)
    assert (error.status, error.exit_code) == (500, 4)


@pytest.mark.parametrize("way", ["chat", "anthropic", "gemini", "ollama"], indirect=True)
async def test_model_hangs_up_when_the_body_of_an_error_does_not_come(
    way: str, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "REFUSAL_S", SHORT_S)
    vendor.add(Breaks())
    async with asyncio.timeout(60):
        error = await failure(way, vendor, settings())
    assert isinstance(error, ModelUnavailable)
    assert error.status == 500
