"""A model on a connection: send the request's bytes, decode the answer's.

What is sent is `request.data`, and nothing between us and the socket writes it anew; so
what a receipt reproduces is what the vendor got. Authentication, proxies and
connections are the connection's. It does not retry: the turn does, which also tells the user.

A reply that does not end is ended here, for every vendor: by silence, by nothing but pings,
by its whole time or by its size (`config.settings.ReplySettings`). Before the first event
that is an error, `TimedOut` or `TooLarge`; later the reply is incomplete, with that code.

What went wrong at a vendor's is one of our own errors:

    401, 403                       Unauthorized     which key, never what it is
    a prompt that is too long      Overflow         each vendor has its own words for it
    429                            RateLimited      with the wait, if it was told
    503, 529 with a wait           RateLimited
    429 for an empty account       ModelFailed      waiting does not help
    408, 409, 425, 5xx             ModelUnavailable retryable
    everything else                ModelFailed      the same request would fail again

What vendors say is bounded, on one line, and has no keys in it: some of them send back the
key that they refuse.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from sightline._lazy import lazy_pattern
from sightline.agent.models.access import Access, public_url
from sightline.agent.models.base import PrefixHolder
from sightline.agent.models.keys import scrub
from sightline.context.dialects import Decoder, decoder_for
from sightline.context.dialects.decoder import VendorError, read_error
from sightline.context.dialects.events import Event, Stopped
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Request
from sightline.errors import (
    InvalidInput,
    ModelFailed,
    ModelUnavailable,
    Overflow,
    RateLimited,
    SightlineError,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unreachable,
)

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
            raise self._failure(connection, error, request) from None
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
        holder = connection if isinstance(connection, PrefixHolder) else None
        if holder is None:
            raise InvalidInput(f"{self.label} has no named cached content")
        try:
            return await work(holder)
        except connection.errors as error:
            raise self._failure(connection, error) from None

    def _failure(
        self, connection: VendorConnection, error: Exception, request: Request | None = None
    ) -> SightlineError:
        """Make our error of a client's, to be raised without its cause.

        A client's error holds the request, and that holds the key.
        """
        answer = connection.refusal(error)
        if answer is None:
            return broken(self._access, error)
        return refused(self._access, *answer, request=request)

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
    if end.code == TooLarge.code:
        raise TooLarge(f"{access.label}: {end.detail}")
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


# What went wrong, in our own tree of errors.

MAX_MESSAGE: Final = 300
# Each with whose words they are, as of November 2026.
OVERFLOW: Final = lazy_pattern(
    "|".join((
        "context_length_exceeded",                          # OpenAI, Groq, DeepSeek: the code
        "maximum context length",                           # OpenAI, vLLM, Mistral, OpenRouter
        "exceeds the context window",                       # OpenAI Responses
        "prompt is too long",                               # Anthropic, Fireworks
        "exceed context limit",                             # Anthropic, with max_tokens
        "request_too_large",                                # Anthropic, 413
        "input token count .{0,40}exceeds the maximum",     # Gemini
        "Input is too long for requested model",            # Bedrock
        "exceeds?( the)?( maximum)? context length",        # Ollama
        "exceed_context_size_error",                        # llama.cpp: the type
        "exceeds the available context size",               # llama.cpp
        "longer than the maximum model length",             # vLLM
        "maximum prompt length",                            # xAI
        r"Range of input length should be",                 # DashScope
        "reduce the length of (either one|the messages)",   # Groq, Cerebras
    )),
    re.IGNORECASE,
)  # fmt: skip
# How Anthropic (`messages.3`), OpenAI (`messages[3]`, `input[3]`), Gemini and Bedrock point at one.
_NUMBERED: Final = lazy_pattern(r"\b(messages|input|contents)[.\[](\d{1,6})\b")
SHOWN: Final = 120
TOO_LONG: Final = frozenset({400, 413, 422, 500})
BUSY: Final = lazy_pattern(
    "overloaded|unavailable|internal|server.{0,10}error|timed?.?out|throttl|terminated|try again",
    re.IGNORECASE,
)
NO_CREDIT: Final = lazy_pattern(
    "insufficient_quota|billing|credit balance|quota.{0,20}plan|ServiceQuotaExceeded",
    re.IGNORECASE,
)
PASSING: Final = frozenset({408, 409, 425})


def refused(
    access: Access,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    kind: str = "",
    request: Request | None = None,
) -> SightlineError:
    """Make the error of a response that is no reply. `kind` is a code that came beside the body.

    A message of the request that the vendor names by its number is shown by what it says.
    """
    whole = f"{kind} {body[:10_000].decode('utf-8', 'replace')}"
    report = read_error(body)
    detail = _line(access, report.message) or kind
    message = f"{access.label}: {detail or 'no reason given'} ({status})"
    if status in (401, 403):
        return Unauthorized(f"{access.label} refuses the request ({status}). {access.remedy}")
    if status in TOO_LONG and OVERFLOW.search(whole):
        return Overflow(message, status=status)
    wait = _wait(headers, report)
    if status == 429:
        if wait is None and NO_CREDIT.search(whole):
            return ModelFailed(message, status=status)
        return RateLimited(message, status=status, retry_after_s=wait)
    if wait is not None and status in (503, 529):
        return RateLimited(message, status=status, retry_after_s=wait)
    if request is not None and (named := _named_message(report.message, request)):
        message += f"; {_line(access, named)}"
    is_passing = status >= 500 or status in PASSING
    return (ModelUnavailable if is_passing else ModelFailed)(message, status=status)


def _named_message(detail: str, request: Request) -> str:
    """The message of a request that a vendor's words point at, and where it came from."""
    if not (found := _NUMBERED.search(detail)):
        return ""
    label = f"{found[1]}[{found[2]}]"
    for span in request.wire.spans:
        if span.label == label:
            text = request.wire.data[span.start : span.end].decode("utf-8", "replace")
            return f"it begins {text[:SHOWN]}" + (f" (slot {span.slot})" if span.slot else "")
    return ""


def stream_error(access: Access, detail: str) -> SightlineError:
    """Make the error of a failure that arrived as the first event of a stream."""
    message = f"{access.label}: {_line(access, detail)}"
    if OVERFLOW.search(detail):
        return Overflow(message)
    return (ModelUnavailable if BUSY.search(detail) else ModelFailed)(message)


def broken(access: Access, error: BaseException) -> SightlineError:
    """Make the error of a connection that never was, or did not last to the first event."""
    if is_timeout(error):
        return TimedOut(f"{access.label}: {access.location} did not answer in time")
    return Unreachable(f"{access.label}: {access.location} cannot be reached, or hung up")


def is_timeout(error: BaseException) -> bool:
    """Whether a client's error, or what it was made of, says that something took too long."""
    causes = (error, error.__cause__, error.__context__)
    return any("Timeout" in type(cause).__name__ for cause in causes)


def _line(access: Access, text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text[: 10 * MAX_MESSAGE])
    line = scrub(" ".join(printable.split()), access.key)
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}…"


def _wait(headers: Mapping[str, str], report: VendorError) -> float | None:
    """Read how long to wait: in milliseconds, seconds, until a date, or in the body."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    try:
        if "retry-after-ms" in found:
            return _sane(float(found["retry-after-ms"]) / 1000)
        # RFC 9110 §10.2.3: Retry-After is a number of seconds, or a date.
        if "retry-after" in found:
            return _sane(float(found["retry-after"]))
    except ValueError:
        return _until(found.get("retry-after", ""))
    return report.wait_s


def _sane(seconds: float) -> float | None:
    return seconds if 0 <= seconds < float("inf") else None


def _until(date: str) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return None
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


# A blocking producer of bytes, read from the event loop.

Emit: TypeAlias = Callable[[bytes], bool]


async def from_thread(
    executor: Executor, work: Callable[[Emit], None], stop: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield what `work` emits in a thread; raise what it raises.

    `emit` says whether anybody still wants the bytes. Whoever stops reading closes the generator:
    then `emit` says no, and `stop` is called, which should end a wait that `work` may be in.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
    wanted = True

    def emit(data: bytes) -> bool:
        if wanted:
            loop.call_soon_threadsafe(waiting.put_nowait, data)
        return wanted

    done = loop.run_in_executor(executor, work, emit)
    done.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (chunk := await waiting.get()) is not None:
            yield chunk
        await done
    finally:
        wanted = False
        # It ends by itself, and nobody is there to hear how.
        done.add_done_callback(_forget)
        if not done.done():
            stop()


def _forget(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
