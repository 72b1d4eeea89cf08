"""What every transport is to the rest of the program: a `Link`.

A link carries whole messages, in order, both ways. `send` returns when the
transport has taken the messages, which is how a slow reader is felt: nobody
sends the next ones before. A long message is given in pieces, each of which is asked
for when the transport has taken the one before it, so that what a reader does not take
is held once for all of them, by whoever made it; a link over which a message was sent in part
carries no other. `receive` returns None when the other side is gone;
for what the peer did it raises nothing but LetGo, where it flooded the transport itself.

A message over the link's limit arrives as its first bytes, one more than the
limit: whoever reads it refuses it for its length, and the link lives on.
"""

from __future__ import annotations

import contextlib
import math
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec

import sightline.telemetry as telemetry

# The longest message that each side takes: requests are small, snapshots are not.
PROVIDER_BYTES: Final = 1024 * 1024
CONSUMER_BYTES: Final = 17 * 1024 * 1024
# What a transport is given at once of a longer message.
PIECE_BYTES: Final = 64 * 1024
# What a transport may hold that the system does not take. It is little: what a stalled reader
# does not take stays in the machine, where it is bounded and can be replaced by a snapshot.
WRITE_BYTES: Final = 16 * 1024

_log: Final = telemetry.logger(__name__)


class LinkClosed(ConnectionError):
    """The link can carry nothing more."""


def why(error: OSError) -> str:
    """Return an OSError's reason in words, without its number."""
    if isinstance(error, ssl.SSLCertVerificationError):  # its number is not one of the system's
        return f"its certificate is not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no encrypted connection: {error.reason}"
    # A name that cannot be resolved has a negative number, which is not the system's either.
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


class Peer(msgspec.Struct, frozen=True):
    """What a transport knows of the other side, for the app to decide who that is.

    `start_s` is how long it may take to say its first word; 0 is the usual time. `rest_s` is how
    long at most to rest before another attempt, once it was reached.
    """

    transport: str
    address: str = ""
    uid: int | None = None
    pid: int | None = None
    token: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    start_s: float = 0.0
    rest_s: float = math.inf


# A message to send: its bytes, or its pieces.
Outgoing: TypeAlias = bytes | Iterable[memoryview]


def whole(message: Outgoing) -> bytes:
    """Put the pieces of a message together, for a transport that has none."""
    return message if isinstance(message, bytes) else b"".join(message)


def cut(parts: Sequence[bytes]) -> bytes | Iterator[memoryview]:
    """Join the parts of a message, or cut a longer one into pieces that are not copied."""
    if sum(map(len, parts)) <= PIECE_BYTES:
        return b"".join(parts)
    return (
        memoryview(part)[start : start + PIECE_BYTES]
        for part in parts
        for start in range(0, len(part), PIECE_BYTES)
    )


class Link(Protocol):
    """An open connection to a peer that carries whole messages both ways."""

    peer: Peer

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""

    async def close(self, reason: str = "") -> None:
        """End the link; a waiting `receive` on either side returns None.

        The other side is told the reason where the transport has a place for it.
        """


@runtime_checkable
class QuickLink(Protocol):
    """A link that can be given a short message without waiting."""

    def put(self, message: bytes) -> bool:
        """Send a message now if nothing waits before it; else do not, and say False.

        Not while a `send` is under way. What the system does not take of it at once goes
        first when it does, and a `send` after it waits for that.
        """


Handler: TypeAlias = Callable[[Link], Awaitable[None]]


async def serve_link(handler: Handler, link: Link) -> None:
    """Run a server's handler on a link, and close the link whatever happens.

    A handler that fails ends its own link, and nothing else; the log has the reason.
    """
    try:
        await handler(link)
    except Exception:  # noqa: BLE001 - a handler is the app's code: anything can happen
        _log.exception("serving %s failed", link.peer.address or link.peer.transport)
    finally:
        with contextlib.suppress(LinkClosed):
            await link.close()
