"""The scripted model behaves as the real ones do, and tells what it was asked."""

from __future__ import annotations

import pytest

from sightline.context.dialects import Request
from sightline.context.dialects.events import TextArrived, ToolCalled, Usage
from sightline.context.messages.parts import ToolCall
from sightline.errors import ModelFailed, RateLimited
from sightline.testing import Cut, Reply, ScriptedModel, Stall
from support.vendors.asking import asked, end_of, events_of, request_for, usage_of

CALL = ToolCall("c1", "look", {"at": "/inbox"})


async def test_a_text_is_streamed_word_by_word_and_is_whole_at_the_end() -> None:
    model = ScriptedModel(["Two unread  messages.\n"])
    events = await asked(model, "hi")
    texts = [event.text for event in events if isinstance(event, TextArrived)]
    assert texts == ["Two ", "unread  ", "messages.\n"]
    end = end_of(events)
    assert (end.reason, end.message.text) == ("end", "Two unread  messages.\n")


async def test_calls_end_a_reply_and_belong_to_its_message() -> None:
    events = await asked(ScriptedModel([["Let me look.", CALL]]), "hi")
    assert [event.call for event in events if isinstance(event, ToolCalled)] == [CALL]
    end = end_of(events)
    assert end.reason == "tool_calls"
    assert end.message.tool_calls == (CALL,)


async def test_an_error_is_raised_before_any_event() -> None:
    model = ScriptedModel([RateLimited("slow down", retry_after_s=2.0), "ok"])
    with pytest.raises(RateLimited) as caught:
        await asked(model, "hi")
    assert caught.value.retry_after_s == 2.0
    assert end_of(await asked(model, "hi")).reason == "end"


async def test_a_cut_reply_is_incomplete_and_keeps_what_was_said() -> None:
    events = await asked(ScriptedModel([Cut("I was about ")]), "hi")
    end = end_of(events)
    assert (end.reason, end.message.text) == ("incomplete", "I was about ")


async def test_a_stalled_stream_is_open_until_it_is_closed() -> None:
    model = ScriptedModel([Stall("wait")])
    stream = model.stream(request_for(model.profile, "hi"))
    assert await anext(stream) == TextArrived("wait")
    assert model.abandoned == 0
    await stream.aclose()
    assert model.abandoned == 1


async def test_an_entry_may_be_a_function_of_the_request() -> None:
    async def later(request: Request) -> str:
        return f"later, {request.profile.model}"

    model = ScriptedModel([lambda request: f"{len(request.data)} bytes", later])
    request = request_for(model.profile, "hi")
    first = await events_of(model, request)
    assert end_of(first).message.text == f"{len(request.data)} bytes"
    assert end_of(await asked(model, "hi")).message.text == "later, scripted"
    assert model.requests[0] is request


async def test_the_usage_is_that_of_a_perfect_prefix_cache() -> None:
    model = ScriptedModel(["one", "two", Reply(text="x", usage=Usage(7, 1))])
    request = request_for(model.profile, "hi")
    first, again, given = [usage_of(await events_of(model, request)) for _ in range(3)]
    assert first.cache_read_tokens == 0
    assert again.cache_read_tokens == again.input_tokens == len(request.data) // 4
    assert given == Usage(7, 1)


async def test_a_script_that_has_run_out_says_so() -> None:
    model = ScriptedModel(["one"])
    await asked(model, "hi")
    with pytest.raises(ModelFailed, match="no answer to request 2"):
        await asked(model, "hi")
    model.add("three")
    assert end_of(await asked(model, "hi")).message.text == "three"


async def test_it_can_be_closed_twice() -> None:
    model = ScriptedModel()
    await model.close()
    await model.close()
    assert model.closed
    assert model.label == "openai-chat:scripted"
