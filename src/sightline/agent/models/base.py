"""What every model is to the rest of the program.

A model takes a request that a dialect wrote and streams what its decoder makes of the
answer. It does no retrying, no prompt building and no storing: those are the turn's.
Whatever goes wrong before the first event is raised as one of the errors below; what
breaks off later ends the stream with `Stopped("incomplete")`, as the decoders do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable

from sightline.context.dialects.events import Event
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Request


class Model(Protocol):
    """One model at one endpoint, ready to take requests."""

    @property
    def profile(self) -> Profile:
        """What a dialect must know to write for this model: limits, cache rules, prices."""

    @property
    def label(self) -> str:
        """`endpoint:model`, as a user would type it."""

    def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """Send `request.data` as it is, and yield the events of the answer; `Stopped` is last.

        Closing the generator (`aclose`, or `contextlib.aclosing`) ends the request. Raises
        `Unauthorized`, `RateLimited`, `Overflow`, `ModelFailed`, `Unreachable` or `TimedOut`.
        """

    async def close(self) -> None:
        """Let go of connections and memory; calling it twice is no error."""


@runtime_checkable
class PrefixHolder(Protocol):
    """Whoever holds a prefix at the vendor's, by name."""

    async def hold(self, body: bytes) -> str:
        """Create a resource; return its name."""

    async def extend(self, name: str, ttl_s: int) -> None:
        """Keep it so long from now."""

    async def release(self, name: str) -> None:
        """Delete it."""


def address_of(model: Model) -> str:
    """Where a model's requests go, without credentials or query; empty if it does not say.

    A model of the user's own need not have an `address`.
    """
    return str(getattr(model, "address", ""))
