"""A model that says what it was told to say: for tests of everything that asks one.

    model = ScriptedModel([
        ToolCall("c1", "slop_invoke", {"app": "desk", "path": "/inbox", "action": "open"}),
        "Done. You have two unread messages.",
        RateLimited("slow down", retry_after_s=2.0),
        Cut("I was about to"),
        lambda request: f"You sent {len(request.data)} bytes.",
    ])

Each request takes the next entry. An entry is a text, a call or a list of both; a `Reply`
for everything else a reply can have; an error to raise; a `Cut` or a `Stall`; or a function
of the request, plain or asynchronous, that returns one of these. When there is no entry
left the request fails, and says so.

The usage it reports is that of a vendor with a perfect prefix cache: four bytes to a token,
and what a request has in common with the one before it was read from the cache.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

import sightline.context.dialects.events as events
from sightline.context.dialects.drift import common_start
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import Message, Part, Reasoning, Text, ToolCall
from sightline.errors import ModelFailed, SightlineError

WORDS: Final = re.compile(r"\S*\s*")
BYTES_PER_TOKEN: Final = 4


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply. `reason` is told as it is, but for calls, which end a reply by themselves."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    reason: events.StopReason = "end"
    detail: str = ""
    usage: events.Usage | None = None


class Cut(msgspec.Struct, frozen=True):
    """A scripted reply whose connection breaks after this text."""

    text: str = ""


class Stall(msgspec.Struct, frozen=True):
    """A scripted reply that stops after this text, and stays open until somebody closes it."""

    text: str = ""


ScriptedReply: TypeAlias = (
    str | ToolCall | Sequence[str | ToolCall] | Reply | Cut | Stall | SightlineError
)
Entry: TypeAlias = ScriptedReply | Callable[[Request], ScriptedReply | Awaitable[ScriptedReply]]


class ScriptedModel:
    """A `Model` with its answers written down.

    `requests` are those it got, in order; `abandoned` counts the streams that were closed
    before their end; `closed` says whether it was let go.
    """

    def __init__(self, script: Iterable[Entry] = (), *, profile: Profile | None = None) -> None:
        self._script = list(script)
        self._profile = profile or profile_for("openai-chat", "scripted")
        self.requests: list[Request] = []
        self.abandoned = 0
        self.closed = False

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def label(self) -> str:
        return f"{self._profile.endpoint}:{self._profile.model}"

    def add(self, *entries: Entry) -> None:
        """Write more answers behind those that are left."""
        self._script.extend(entries)

    async def stream(self, request: Request) -> AsyncGenerator[events.Event, None]:
        self.requests.append(request)
        if not self._script:
            raise ModelFailed(f"the script has no answer to request {len(self.requests)}")
        entry = self._script.pop(0)
        if callable(entry):
            answer = entry(request)
            entry = await answer if inspect.isawaitable(answer) else answer
        ended = False
        try:
            async for event in self._play(entry):
                ended = isinstance(event, events.Stopped)
                yield event
        finally:
            self.abandoned += not ended

    async def close(self) -> None:
        self.closed = True

    async def _play(self, entry: ScriptedReply) -> AsyncGenerator[events.Event, None]:
        if isinstance(entry, SightlineError):
            raise entry
        if isinstance(entry, Cut | Stall):
            for event in _spoken(entry.text):
                yield event
            if isinstance(entry, Stall):
                await asyncio.Event().wait()
            message = Message("assistant", (Text(entry.text),) if entry.text else ())
            yield events.Stopped("incomplete", message, "the stream ended before the reply did")
            return
        reply = _reply_of(entry)
        for event in self._events(reply):
            yield event

    def _events(self, reply: Reply) -> Iterable[events.Event]:
        if reply.reasoning:
            yield events.ReasoningArrived(reply.reasoning)
        yield from _spoken(reply.text)
        for call in reply.calls:
            yield events.ToolCalled(call)
        yield events.UsageArrived(reply.usage or self._usage(reply))
        parts: list[Part] = [Reasoning(reply.reasoning)] if reply.reasoning else []
        parts += [Text(reply.text)] if reply.text else []
        reason = "tool_calls" if reply.calls and reply.reason == "end" else reply.reason
        message = Message("assistant", (*parts, *reply.calls))
        yield events.Stopped(reason, message, reply.detail, f"scripted-{len(self.requests)}")

    def _usage(self, reply: Reply) -> events.Usage:
        data = self.requests[-1].data
        before = self.requests[-2].data if len(self.requests) > 1 else b""
        output = reply.text + reply.reasoning + "".join(str(call.arguments) for call in reply.calls)
        return events.Usage(
            input_tokens=len(data) // BYTES_PER_TOKEN,
            output_tokens=len(output.encode()) // BYTES_PER_TOKEN,
            cache_read_tokens=common_start(before, data) // BYTES_PER_TOKEN,
        )


def _spoken(text: str) -> Iterable[events.Event]:
    """A word at a time, as a vendor would."""
    return (events.TextArrived(word) for word in WORDS.findall(text) if word)


def _reply_of(entry: str | ToolCall | Sequence[str | ToolCall] | Reply) -> Reply:
    if isinstance(entry, Reply):
        return entry
    items = [entry] if isinstance(entry, str | ToolCall) else list(entry)
    return Reply(
        text="".join(item for item in items if isinstance(item, str)),
        calls=tuple(item for item in items if isinstance(item, ToolCall)),
    )
