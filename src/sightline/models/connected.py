"""A model on a connection: send the request's bytes, decode the answer's.

What is sent is `request.data`, and nothing between us and the socket writes it anew; so
what a receipt reproduces is what the vendor got. Authentication, addresses, proxies and
connections are the SDK's. It does not retry: the turn does, which also tells the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

from sightline.dialects import decoder_for
from sightline.dialects.events import Event, Stopped
from sightline.dialects.profile import Profile
from sightline.dialects.request import Request
from sightline.errors import Unreachable
from sightline.models.access import Access
from sightline.models.failure import broken, refused, told

__all__ = ["ConnectedModel", "Connection", "Refusal", "Response", "decoded", "refusal_of"]


class Refusal(NamedTuple):
    """An answer that is no reply. `kind` is a code that is told beside the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    kind: str = ""


class Response(Protocol):
    """An answer whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Read it, piece by piece."""

    async def aclose(self) -> None:
        """Hang up, read or not."""


class Connection(Protocol):
    """A vendor's SDK, as far as we use it."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What it raises."""

    async def send(self, request: Request) -> Response:
        """Post the body and return the answer, once its status says that it is one."""

    def refusal(self, error: Exception) -> Refusal | None:
        """Read the answer that an error was made of; None if there was no answer."""

    async def close(self) -> None:
        """Let go of connections."""


def refusal_of(error: Exception) -> Refusal | None:
    """Read the error of an SDK that keeps the response as its HTTP client gave it."""
    response = getattr(error, "response", None)
    if response is None:
        return None
    return Refusal(response.status_code, response.headers, response.content)


class ConnectedModel:
    """A `Model` on a connection, which is made when it is first needed."""

    def __init__(self, access: Access, connect: Callable[[Access], Connection]) -> None:
        self._access = access
        self._connect = connect
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    @property
    def profile(self) -> Profile:
        return self._access.profile

    @property
    def label(self) -> str:
        return self._access.label

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        connection = await self._connected()
        try:
            response = await connection.send(request)
        except connection.errors as error:
            # Without its cause: an SDK's error holds the request, and that holds the key.
            answer = connection.refusal(error)
            if answer is None:
                raise broken(self._access, error) from None
            raise refused(self._access, *answer) from None
        chunks = _chunks(response, connection.errors)
        async with aclosing(chunks), aclosing(decoded(self._access, request, chunks)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None:
                # Importing an SDK takes a second, and so long the loop would stand still.
                self._connection = await asyncio.to_thread(self._connect, self._access)
            return self._connection


async def decoded(
    access: Access, request: Request, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[Event, None]:
    """Decode a body to events. What goes wrong before the first one is raised.

    A body that breaks off is one that ends: the decoder knows whether the reply was whole.
    """
    decoder = decoder_for(request)
    begun = False
    async for chunk in chunks:
        events = decoder.feed(chunk)
        if events and not begun:
            _check_first(access, events)
            begun = True
        for event in events:
            yield event
        if events and isinstance(events[-1], Stopped):
            return
    events = decoder.close()
    if not begun:
        _check_first(access, events)
    for event in events:
        yield event


def _check_first(access: Access, events: Sequence[Event]) -> None:
    """Raise what should have been an error: a stream that begins with its end."""
    end = events[-1]
    if not isinstance(end, Stopped) or end.message.parts:
        return
    if end.reason == "error":
        raise told(access, end.detail)
    if end.reason == "incomplete":
        raise Unreachable(f"{access.label}: {access.place} sent no reply: {end.detail}")


async def _chunks(
    response: Response, errors: tuple[type[Exception], ...]
) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.aiter_bytes():
            yield chunk
    except errors:
        return
    finally:
        await response.aclose()
