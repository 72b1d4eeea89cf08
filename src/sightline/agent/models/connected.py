"""A model on a connection: send the request's bytes, decode the answer's.

What is sent is `request.data`, and nothing between us and the socket writes it anew; so
what a receipt reproduces is what the vendor got. Authentication, proxies and
connections are the connection's. It does not retry: the turn does, which also tells the user.

A reply that does not end is ended here, for every vendor: by silence, by nothing but pings,
by its whole time or by its size (`config.settings.ReplySettings`). Before the first event
that is an error, `TimedOut` or `TooLarge`; later the reply is incomplete, with that code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol, TypeVar

from sightline.agent.models.access import Access, public_url
from sightline.agent.models.base import PrefixHolder
from sightline.agent.models.failure import broken, is_timeout, refused, stream_error
from sightline.context.dialects import Decoder, decoder_for
from sightline.context.dialects.events import Event, Stopped
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Request
from sightline.errors import InvalidInput, SightlineError, TimedOut, TooLarge, Unreachable

_T = TypeVar("_T")


class VendorRefusal(NamedTuple):
    """A vendor's answer that is no reply; `kind` is a code that came beside its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    kind: str = ""


class Response(Protocol):
    """A vendor's answer whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Read the body, piece by piece."""

    async def aclose(self) -> None:
        """Hang up, whether the body was read or not."""


class VendorConnection(Protocol):
    """A connection to one vendor: our bytes out, its answer back, unread."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that its client raises."""

    async def send(self, request: Request) -> Response:
        """Post the body and return the answer, once its status says that it is one."""

    def refusal(self, error: Exception) -> VendorRefusal | None:
        """Read the answer that an error was made of; None if there was no answer."""

    async def close(self) -> None:
        """Close its connections."""


def refusal_of(error: Exception) -> VendorRefusal | None:
    """Read the error of a client that keeps the response in it."""
    response = getattr(error, "response", None)
    if response is None:
        return None
    return VendorRefusal(response.status_code, response.headers, response.content)


class ConnectedModel:
    """A `Model` on a vendor's connection, which is made when it is first needed."""

    def __init__(self, access: Access, connect: Callable[[Access], VendorConnection]) -> None:
        self._access = access
        self._connect = connect
        self._connection: VendorConnection | None = None
        self._connecting = asyncio.Lock()

    @property
    def profile(self) -> Profile:
        return self._access.profile

    @property
    def label(self) -> str:
        return self._access.label

    @property
    def address(self) -> str:
        """Where its requests go, with nothing that is secret; empty where only the SDK knows."""
        return public_url(self._access.base_url)

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        connection = await self._connected()
        try:
            # Silence until then is the client's to notice; it does not mind a crawl.
            async with asyncio.timeout(self._access.limits.total_s):
                response = await connection.send(request)
        except TimeoutError as error:
            raise broken(self._access, error) from None
        except connection.errors as error:
            # Without its cause: a client's error holds the request, and that holds the key.
            answer = connection.refusal(error)
            if answer is None:
                raise broken(self._access, error) from None
            raise refused(self._access, *answer, request=request) from None
        chunks = _chunks(response, connection.errors)
        async with aclosing(chunks), aclosing(decoded(self._access, request, chunks)) as events:
            async for event in events:
                yield event

    async def hold(self, body: bytes) -> str:
        """Create a named resource at a vendor that has such; return its name."""
        return await self._by_name(lambda holder: holder.hold(body))

    async def extend(self, name: str, ttl_s: int) -> None:
        """Keep a named resource so long from now."""
        await self._by_name(lambda holder: holder.extend(name, ttl_s))

    async def release(self, name: str) -> None:
        """Delete a named resource."""
        await self._by_name(lambda holder: holder.release(name))

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _by_name(self, work: Callable[[PrefixHolder], Awaitable[_T]]) -> _T:
        connection = await self._connected()
        if not isinstance(connection, PrefixHolder):
            raise InvalidInput(f"{self.label} has no named cached content")
        errors, refusal = connection.errors, connection.refusal
        try:
            return await work(connection)
        except errors as error:
            # Without its cause, as above.
            answer = refusal(error)
            if answer is None:
                raise broken(self._access, error) from None
            raise refused(self._access, *answer) from None

    async def _connected(self) -> VendorConnection:
        async with self._connecting:
            if self._connection is None:
                # Importing a client takes a moment, and AWS's a second: the loop would stand still.
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
    patience = _Patience(access, decoder)
    try:
        while (chunk := await patience.next_of(chunks)) is not None:
            events = decoder.feed(chunk)
            if events and not begun:
                _check_first(access, events)
                begun = True
            for event in events:
                yield event
            if events and isinstance(events[-1], Stopped):
                return
    except _Over as over:
        if not begun:
            raise over.error from None
        events = decoder.abandon(over.error.code, str(over.error))
    else:
        events = decoder.close()
    if not begun:
        _check_first(access, events)
    for event in events:
        yield event


class _Over(Exception):
    """A reply is over one of its limits."""

    def __init__(self, error: SightlineError) -> None:
        super().__init__(str(error))
        self.error = error


class _Patience:
    """How long, and for how much, one reply is waited for."""

    def __init__(self, access: Access, decoder: Decoder) -> None:
        self._access = access
        self._decoder = decoder
        self._now = asyncio.get_running_loop().time
        self._began = self._moved = self._now()
        self._progress = 0
        self._bytes = 0

    async def next_of(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        """Wait for more of a body; None at its end. Raises `_Over` at the first limit."""
        limits = self._access.limits
        if self._decoder.progress != self._progress:
            self._progress, self._moved = self._decoder.progress, self._now()
        until, limit = min(
            (self._now() + limits.silence_s, f"sent nothing for {limits.silence_s:g} s"),
            (self._moved + limits.idle_s, f"sent no word for {limits.idle_s:g} s"),
            (self._began + limits.total_s, f"was not done after {limits.total_s:g} s"),
        )
        try:
            async with asyncio.timeout_at(until):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise _Over(TimedOut(f"{self._who} {limit}; its reply was ended")) from None
        self._bytes += len(chunk or b"")
        if self._bytes > limits.max_bytes:
            over = f"sent more than {limits.max_bytes:,} bytes (reply.max_bytes)"
            raise _Over(TooLarge(f"{self._who} {over}; its reply was ended"))
        return chunk

    @property
    def _who(self) -> str:
        return f"{self._access.label}: {self._access.location}"


def _check_first(access: Access, events: Sequence[Event]) -> None:
    """Raise what should have been an error: a stream that begins with its end."""
    end = events[-1]
    if not isinstance(end, Stopped) or end.message.parts:
        return
    if end.reason == "error":
        raise stream_error(access, end.detail)
    if end.reason == "incomplete":
        raise Unreachable(f"{access.label}: {access.location} sent no reply: {end.detail}")


async def _chunks(
    response: Response, errors: tuple[type[Exception], ...]
) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.aiter_bytes():
            yield chunk
    except errors as error:
        if is_timeout(error):
            raise TimeoutError from None
    finally:
        await response.aclose()
