"""What every transport is to the rest of the program: a `Link`.

A link carries whole messages, in order, both ways. `send` returns when the
transport has taken the messages, which is how a slow reader is felt: nobody
sends the next ones before. `receive` returns None when the other side is gone;
it never raises for what the peer did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Link", "LinkClosed", "Peer"]


class LinkClosed(ConnectionError):
    """The link can carry nothing more."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a transport knows of the other side, for the app to decide who that is."""

    transport: str
    address: str = ""
    uid: int | None = None
    pid: int | None = None
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Link(Protocol):
    """One connection, as messages."""

    peer: Peer

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""

    async def close(self) -> None:
        """End the link; a waiting `receive` on either side returns None."""
