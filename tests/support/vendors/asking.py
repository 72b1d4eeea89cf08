"""Ask a model as a turn does: a prompt, encoded, streamed to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.agent.models.base import Model
from sightline.context.dialects import Options, Profile, Request, encode
from sightline.context.dialects.events import Event, Stopped, Usage, UsageArrived
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt, digest_of

TOOLS = (
    {
        "name": "look",
        "description": "Look at a node.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}},
            "required": ["at"],
        },
    },
)


def prompt_for(*texts: str, tail: str = "", tools: Sequence[dict[str, Any]] = ()) -> Prompt:
    """A conversation: a system text, then the user's and the assistant's turns."""
    roles = ("user", "assistant")
    said = [Message.of(roles[number % 2], text) for number, text in enumerate(texts)]  # type: ignore[arg-type]
    prefix = [Message.of("system", "Be brief."), *said]
    digest = digest_of(tools, prefix)
    receipt = Receipt(0, "", "estimated", 0, 0, 0, 0, len(prefix), digest, ())
    end = [Message.of("user", tail)] if tail else []
    return Prompt((*prefix, *end), len(prefix), receipt, tuple(tools))


def request_for(
    profile: Profile,
    *texts: str,
    tail: str = "",
    tools: Sequence[dict[str, Any]] = (),
    options: Options | None = None,
) -> Request:
    """The request that says so to this profile."""
    return encode(prompt_for(*texts, tail=tail, tools=tools), profile, options)


async def events_of(model: Model, request: Request) -> list[Event]:
    """Everything that comes of a request."""
    return [event async for event in model.stream(request)]


async def asked(model: Model, *texts: str, **more: Any) -> list[Event]:
    """Ask, and return everything that came."""
    return await events_of(model, request_for(model.profile, *texts, **more))


def end_of(events: Sequence[Event]) -> Stopped:
    """The end that every stream has."""
    [end] = [event for event in events if isinstance(event, Stopped)]
    assert events[-1] is end
    return end


def usage_of(events: Sequence[Event]) -> Usage:
    """What it used."""
    [reported] = [event for event in events if isinstance(event, UsageArrived)]
    return reported.usage
