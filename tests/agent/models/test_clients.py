"""Every client against a server that speaks its wire format."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing

import pytest

from agent.models.conftest import opened
from sightline.context.dialects.events import TextArrived, ToolCalled
from sightline.context.messages.parts import ToolCall
from sightline.errors import (
    ModelFailed,
    ModelUnavailable,
    Overflow,
    RateLimited,
    SightlineError,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from support.vendors.answers import Call, Fails, Refuses, Says, Sends, says
from support.vendors.apis import APIS
from support.vendors.asking import TOOLS, asked, end_of, events_of, request_for, usage_of
from support.vendors.server import KEY, Vendor


async def test_the_bytes_that_arrive_are_those_of_the_request(way: str, vendor: Vendor) -> None:
    vendor.add(says("Hello there."))
    model = opened(vendor, way)
    request = request_for(model.profile, "héllo ✓", tail="<slop-state>…</slop-state>", tools=TOOLS)
    await events_of(model, request)
    await model.close()
    [seen] = vendor.requests
    assert seen.body == request.data
    assert seen.headers["content-type"].startswith("application/json")
    assert {**seen.headers, **request.headers} == seen.headers
    # AWS writes the colon of a version into the path as a code, as it must.
    assert seen.path.replace("%3A", ":") == request.path


async def test_a_reply_is_streamed_as_it_comes(way: str, vendor: Vendor) -> None:
    vendor.add(says("You have two unread messages."))
    model = opened(vendor, way)
    events = await asked(model, "hi")
    await model.close()
    texts = [event.text for event in events if isinstance(event, TextArrived)]
    assert texts == ["You ", "have ", "two ", "unread ", "messages."]
    end = end_of(events)
    assert (end.reason, end.message.text) == ("end", "You have two unread messages.")


async def test_the_usage_is_told_with_what_was_cached(way: str, vendor: Vendor) -> None:
    vendor.add(says("ok"))
    model = opened(vendor, way)
    usage = usage_of(await asked(model, "hi"))
    await model.close()
    # Ollama does not tell what it reused.
    cached = 0 if way == "ollama" else 80
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (100, 7, cached)


async def test_tool_calls_arrive_whole(way: str, vendor: Vendor) -> None:
    vendor.add(says("Let me look.", Call("look", {"at": "/inbox"}), Call("look", {}, "call_2")))
    model = opened(vendor, way)
    events = await asked(model, "hi", tools=TOOLS)
    await model.close()
    calls = [event.call for event in events if isinstance(event, ToolCalled)]
    assert [(call.name, call.arguments) for call in calls] == [
        ("look", {"at": "/inbox"}),
        ("look", {}),
    ]
    assert end_of(events).reason == "tool_calls"
    assert [part for part in end_of(events).message.parts if isinstance(part, ToolCall)] == calls
    if way != "ollama":
        assert [call.id for call in calls] == ["call_1", "call_2"]


async def test_one_connection_serves_many_requests(way: str, vendor: Vendor) -> None:
    vendor.add(says("one"), says("two"))
    model = opened(vendor, way)
    first, second = await asked(model, "hi"), await asked(model, "hi")
    await model.close()
    assert [end_of(events).message.text for events in (first, second)] == ["one", "two"]


async def failure(model_of: str, vendor: Vendor) -> SightlineError:
    model = opened(vendor, model_of)
    with pytest.raises(SightlineError) as caught:
        await asked(model, "hi")
    await model.close()
    assert len(vendor.requests) == 1, "the client retried by itself"
    return caught.value


async def test_a_key_that_is_refused_is_named_and_never_shown(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("key", saying=KEY))
    error = await failure(way, vendor)
    assert isinstance(error, Unauthorized)
    assert "refuses" in str(error)
    assert KEY not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None


async def test_no_error_repeats_the_key(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("server", saying=f"your key was {KEY}"))
    error = await failure(way, vendor)
    assert isinstance(error, ModelFailed)
    if way != "bedrock":  # which never gets it: requests are signed
        assert "your key was [key]" in str(error)
        assert KEY[:12] not in "".join(traceback.format_exception(error))


async def test_the_key_travels_in_its_header_alone(way: str, vendor: Vendor) -> None:
    vendor.add(says("ok"))
    model = opened(vendor, way)
    await asked(model, "hi")
    await model.close()
    [seen] = vendor.requests
    assert KEY not in seen.path
    assert KEY.encode() not in seen.body
    holders = [name for name, value in seen.headers.items() if KEY in value]
    assert len(holders) == (0 if way == "bedrock" else 1)  # AWS gets a signature
    assert KEY not in repr(model) + repr(vars(model))


async def test_a_rate_limit_says_how_long_to_wait(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("rate", retry_after="7"))
    error = await failure(way, vendor)
    assert isinstance(error, RateLimited)
    assert (error.retry_after_s, error.status, error.retryable) == (7.0, 429, True)


async def test_a_server_error_may_be_tried_again(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("server"))
    error = await failure(way, vendor)
    assert type(error) is ModelUnavailable
    assert (error.status, error.retryable) == (500, True)


async def test_an_overload_may_be_tried_again_after_the_wait(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("overloaded", retry_after="3"))
    error = await failure(way, vendor)
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 3.0


async def test_a_prompt_that_is_too_long_is_an_overflow(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("overflow"))
    error = await failure(way, vendor)
    assert isinstance(error, Overflow)
    assert not error.retryable


async def test_a_model_that_is_not_there_is_told_in_the_vendors_words(
    way: str, vendor: Vendor
) -> None:
    vendor.add(Refuses("missing"))
    error = await failure(way, vendor)
    assert type(error) is ModelFailed
    assert (error.status, error.retryable) == (404, False)


@pytest.mark.parametrize("way", ["chat", "responses"], indirect=True)
async def test_an_empty_account_is_not_a_matter_of_waiting(way: str, vendor: Vendor) -> None:
    vendor.add(Refuses("quota"))
    error = await failure(way, vendor)
    assert type(error) is ModelFailed
    assert not error.retryable


async def test_a_cut_connection_leaves_an_incomplete_reply(way: str, vendor: Vendor) -> None:
    # Behind the second piece of text, wherever the format puts it.
    answer = says("one two three", Call("look", {"at": "/"}))
    frames = list(APIS[way].frames(answer))
    at = next(number for number, frame in enumerate(frames) if b"two " in frame) + 1
    vendor.add(says("one two three", Call("look", {"at": "/"}), cut=at))
    model = opened(vendor, way)
    events = await asked(model, "hi", tools=TOOLS)
    await model.close()
    end = end_of(events)
    assert (end.reason, end.message.text) == ("incomplete", "one two ")
    assert not end.message.tool_calls


async def test_a_connection_cut_before_the_reply_is_unreachable(way: str, vendor: Vendor) -> None:
    vendor.add(says("one", cut=0))
    assert type(await failure(way, vendor)) is Unreachable


async def test_a_failure_as_the_first_event_is_raised(way: str, vendor: Vendor) -> None:
    vendor.add(Fails())
    error = await failure(way, vendor)
    assert isinstance(error, ModelFailed)
    assert error.retryable


async def test_a_failure_later_ends_the_stream(way: str, vendor: Vendor) -> None:
    vendor.add(Fails(("one ", "two")))
    model = opened(vendor, way)
    end = end_of(await asked(model, "hi"))
    await model.close()
    assert (end.reason, end.message.text) == ("error", "one two")


async def test_closing_the_stream_ends_the_request(way: str, vendor: Vendor) -> None:
    frames = list(APIS[way].frames(says("one two three")))
    at = next(number for number, frame in enumerate(frames) if b"one " in frame) + 1
    vendor.add(says("one two three", stall=at))
    model = opened(vendor, way)
    async with aclosing(model.stream(request_for(model.profile, "hi"))) as events:
        assert await anext(events) == TextArrived("one ")
        assert not vendor.hung_up.is_set()
    assert await asyncio.to_thread(vendor.hung_up.wait, 30)
    await model.close()


async def test_cancelling_the_task_ends_the_request(way: str, vendor: Vendor) -> None:
    vendor.add(says("one two", stall=0))
    model = opened(vendor, way)
    task = asyncio.create_task(asked(model, "hi"))
    assert await asyncio.to_thread(vendor.arrived.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(vendor.hung_up.wait, 30)
    await model.close()


async def test_a_page_that_is_no_stream_is_no_reply(way: str, vendor: Vendor) -> None:
    vendor.add(Sends(b"<html>sign in to the network</html>"))
    assert isinstance(await failure(way, vendor), Unreachable)


@pytest.mark.usefixtures("vendor")
async def test_nobody_there_is_unreachable(way: str) -> None:
    with Vendor() as gone:
        pass
    model = opened(gone, way)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        await asked(model, "hi")
    await model.close()


async def test_a_model_may_be_closed_twice_and_before_it_was_used(way: str, vendor: Vendor) -> None:
    model = opened(vendor, way)
    await model.close()
    await model.close()


async def test_reply_ends_when_arguments_are_longer_than_any_app_takes(
    way: str, vendor: Vendor
) -> None:
    """Before the first word this is an error. After it the reply is incomplete."""
    model = opened(vendor, way)
    long = Call("look", {"at": "/" * 2**20})
    vendor.add(Says(calls=(long,)))
    with pytest.raises(TooLarge, match="the arguments of a call have more than 1,048,576"):
        await asked(model, "hi", tools=TOOLS)
    vendor.add(says("one", long))
    end = end_of(await asked(model, "hi", tools=TOOLS))
    assert (end.reason, end.code, end.message.text) == ("incomplete", "too_large", "one")
    assert not end.message.tool_calls
    vendor.add(Says(calls=(Call("look", {"at": "/" * (2**20 - 100)}),)))
    [call] = end_of(await asked(model, "hi", tools=TOOLS)).message.tool_calls
    assert len(call.arguments["at"]) == 2**20 - 100
    await model.close()
