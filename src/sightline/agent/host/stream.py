"""A model's events as a generator that can be closed, whatever the model gave."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sightline.agent.models.base import Model
from sightline.context.dialects.events import Event
from sightline.context.dialects.request import Request


async def stream_of(model: Model, request: Request) -> AsyncGenerator[Event, None]:
    """Stream a reply; closing this closes the model's own stream."""
    events = model.stream(request)
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
