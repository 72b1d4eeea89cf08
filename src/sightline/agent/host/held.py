"""Tools and instructions that Gemini holds by name, where that pays.

Gemini's automatic cache costs nothing to keep and promises nothing. A named resource
(`cachedContents`) is read for certain, and costs its creation and its storage. So it is made
when the automatic cache has missed enough of late (`gemini.pays`), used while tools and
instructions are the same bytes, kept a little longer while requests come, and deleted when
they change, when another model is asked, and when the session is left. Where a program is
killed it is gone after `TTL_S`.

Nothing here fails a turn. What the vendor refuses is done without, for the rest of the session.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

from sightline.agent.models.base import Model, PrefixHolder
from sightline.context.dialects.events import Usage
from sightline.context.dialects.gemini import HELD, NAME, Head, head_of, pays
from sightline.context.dialects.request import CachedContent, Request
from sightline.context.slots.prompt import Prompt
from sightline.errors import SightlineError

UseNamed: TypeAlias = Literal["auto", "always", "off"]
TTL_S: Final = 600
LATE_S: Final = TTL_S / 2  # then it is kept longer, or no longer used
WATCHED: Final = 4  # requests by which the automatic cache is judged
PATIENCE_S: Final = 10.0


class HeldPrefix:
    """At most one named resource, of the session that is open."""

    def __init__(self, use: UseNamed, clock: Callable[[], float] = time.monotonic) -> None:
        self._use = use
        self._clock = clock
        self._model: Model | None = None
        self._held: CachedContent | None = None
        self._until = 0.0
        self._head: Head | None = None
        self._reads: deque[tuple[float, int]] = deque(maxlen=WATCHED)
        self._refused = False

    def offered(self, model: Model) -> CachedContent | None:
        """What the next request of a model may build upon."""
        usable = self._model is model and self._clock() < self._until
        return self._held if usable else None

    def learn(self, model: Model, prompt: Prompt, request: Request, usage: Usage) -> None:
        """Know what a request was made of, and how much of it the vendor had."""
        profile = model.profile
        if self._use == "off" or profile.dialect != NAME or request.cached_content:
            return
        spans = (span for span in request.wire.spans if span.label in HELD)
        if sum(span.tokens for span in spans) < profile.cache.min_tokens:
            self._head = None
            return
        head = head_of(prompt, profile, TTL_S)
        if self._head is None or self._head.digest != head.digest or self._model is not model:
            self._reads.clear()
        self._head = head
        self._reads.append((self._clock(), usage.cache_read_tokens))
        if self._held is None:
            self._model = model

    async def prepare(self, model: Model) -> None:
        """Before a request: make, keep or delete the resource, whichever is due."""
        held, head = self._held, self._head
        if held is not None:
            changed = head is None or head.digest != held.digest
            if self._model is not model or changed:
                await self.drop()
            elif self._until - self._clock() < LATE_S:
                await self._extend(held)
        if self._held is None and head is not None and self._model is model and self._is_due(head):
            await self._create(model, head)

    def lost(self) -> None:
        """Do without it from now on: the vendor refuses what builds upon it."""
        self._held, self._refused = None, True

    async def drop(self) -> None:
        """Delete the resource, if there is one, and begin anew."""
        held, holder = self._held, _holder(self._model)
        self._held = None
        if held is not None and holder is not None:
            await _tried(_done(holder.release(held.name)))

    async def leave(self) -> None:
        """Let go of everything at the end of a session."""
        await self.drop()
        self._model, self._head, self._refused = None, None, False
        self._reads.clear()

    def _is_due(self, head: Head) -> bool:
        if self._refused or self._model is None:
            return False
        profile = self._model.profile
        if self._use == "always":
            return head.tokens >= profile.cache.min_tokens
        if len(self._reads) < WATCHED:
            return False
        seconds = self._clock() - self._reads[0][0]
        return pays(profile, head.tokens, [read for _, read in self._reads], seconds, TTL_S)

    async def _create(self, model: Model, head: Head) -> None:
        holder = _holder(model)
        name = None if holder is None else await _tried(holder.hold(head.body))
        if name:
            self._held, self._until = head.named(name), self._clock() + TTL_S
        else:
            self._refused = True

    async def _extend(self, held: CachedContent) -> None:
        holder, before = _holder(self._model), self._clock()
        if holder is not None and await _tried(_done(holder.extend(held.name, TTL_S))):
            self._until = before + TTL_S
        elif self._clock() >= self._until:
            self._held = None


def _holder(model: object) -> PrefixHolder | None:
    return model if isinstance(model, PrefixHolder) else None


async def _tried(work: Awaitable[str]) -> str | None:
    """Do something that may fail; None if it did, or took too long."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await work
    except (SightlineError, TimeoutError):
        return None


async def _done(work: Awaitable[None]) -> str:
    await work
    return "done"
