"""A broker between an app and its consumers: the connection, and messages in pieces.

NATS carries what is published to whoever has subscribed, at most once, and keeps nothing. What
we publish is SLOP's own messages, each in pieces below the broker's limit, numbered and with the
checksum of the whole, so that a message that lost one is not taken for a shorter or another one.

    slop.apps                apps are asked here who they are
    slop.here                apps say here that they are there, every few seconds
    slop.APP.hello           who speaks to an app first asks here: its hello, and a key
    slop.APP.ask.DIGEST      subscribe, query and invoke; the answer goes to the asker's inbox
    slop.APP.view.DIGEST     what changes in one view

The digests take the key, which is new with every life of an app: who was not answered knows none of
these subjects, and two apps that share an id share nothing else.

A broker that does not answer a ping is given up, whatever its socket says: one that is stopped, or
behind a network that drops, would else look like an app that has nothing to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import ParseResult
from zlib import crc32

import msgspec
from nats.aio.client import DEFAULT_BUFFER_SIZE, Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, Error

import sightline.slop.protocol.messages as wire
from sightline.errors import InvalidInput, SightlineError, TimedOut, Unauthorized, Unreachable
from sightline.slop.transports.link import PROVIDER_BYTES, why
from sightline.slop.transports.nats_url import NatsUrl

# How often an app says on each of its subjects that it is there.
BEAT_S: Final = 1.0
_PING_S: Final = 1.0
_PONG_S: Final = 2.0
_PONG_STEPS: Final = 4
_NEVER_S: Final = 3600
_CONNECT_S: Final = 2.0
_RECONNECT_S: Final = 0.1
_PIECE_BYTES: Final = 128 * 1024
_PIECE: Final = struct.Struct(">III")
_MOST_PIECES: Final = 100_000
_UNSENT_BYTES: Final = 256 * 1024
_NO_RESPONDERS: Final = b"NATS/1.0 503"
_log: Final = logging.getLogger(__name__)


# Called with the subject, where to answer, and the payload; None where nobody listens.
OnMessage: TypeAlias = Callable[[str, str, bytes | None], None]


class Welcome(msgspec.Struct, frozen=True):
    """What an app answers to who comes first: its hello, and the key of its subjects."""

    provider: wire.ProviderInfo
    key: str


class Subjects(msgspec.Struct, frozen=True):
    """The subjects of an app; all but the first are known to who has the key of its life."""

    app_id: str
    key: str = ""

    @property
    def hello(self) -> str:
        """Where it is asked first."""
        # A dot in an id would divide it.
        return f"slop.{self.app_id.replace('.', '~')}.hello"

    @property
    def ask(self) -> str:
        """Where it is asked for something."""
        return self._named("ask", b"ask")

    @property
    def life(self) -> str:
        """Where its events are, and its signs of life."""
        return self._named("view", b"life")

    def view(self, wanted: wire.Subscribe) -> str:
        """Where a view is published: the same for all who ask for the same."""
        same = msgspec.structs.replace(wanted, id="v", resume=None)
        return self._named("view", msgspec.json.encode(same))

    def _named(self, kind: str, name: bytes) -> str:
        digest = hashlib.blake2b(name, key=self.key.encode()[:64], digest_size=16).hexdigest()
        return f"{self.hello.removesuffix('hello')}{kind}.{digest}"


def subscribing(message: bytes) -> wire.Subscribe | wire.Unsubscribe | None:
    """Read a message if it is about a subscription; what cannot be read is for the app to say."""
    if b"subscribe" in message:
        with contextlib.suppress(wire.BadMessage):
            wanted = wire.parse_consumer_message(message, PROVIDER_BYTES)
            return wanted if isinstance(wanted, wire.Subscribe | wire.Unsubscribe) else None
    return None


class Assembler:
    """Puts messages together again, of one sender on one subject."""

    __slots__ = ("_checksum", "_expected", "_max_bytes", "_parts", "_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = self._expected = self._checksum = 0

    def take(self, payload: bytes) -> bytes | None:
        """Take a piece; return the message that it completes. Raises ValueError if one is missing.

        Of a message over the limit the first bytes are kept, one more than the limit.
        """
        if len(payload) < _PIECE.size:
            raise ValueError("not a piece of a message")
        number, count, checksum = _PIECE.unpack_from(payload)
        is_same = not number or checksum == self._checksum
        is_next = is_same and number == self._expected and number < count <= _MOST_PIECES
        if not is_next:
            self._clear()
            if number or not 0 < count <= _MOST_PIECES:
                raise ValueError("a piece of a message is missing")
        if count == 1:
            return payload[_PIECE.size : _PIECE.size + self._max_bytes + 1]
        self._expected, self._checksum = number + 1, checksum
        left = self._max_bytes + 1 - self._size
        if left > 0:
            self._parts.append(payload[_PIECE.size : _PIECE.size + left])
            self._size += len(self._parts[-1])
        if self._expected < count:
            return None
        message = b"".join(self._parts)
        self._clear()
        return message

    def _clear(self) -> None:
        self._parts = []
        self._size = self._expected = 0


def _pieces(message: bytes, most: int) -> Iterator[bytes]:
    """Cut a message; the checksum tells pieces of two messages apart when some were lost."""
    count, checksum = max(1, -(-len(message) // most)), crc32(message)
    for number in range(count):
        yield _PIECE.pack(number, count, checksum) + message[number * most : (number + 1) * most]


class _Socket(TcpTransport):
    """The library's socket, which is not closed when it is closing or lost, nor forgotten open.

    The library closes one that it has lost, and once more when it is told to end. asyncio's TLS
    forgets the connection at the second close (`_SSLProtocolTransport.close`; being lost counts as
    the first), and raises AttributeError for whatever is written then, in 3.11.2 also for `abort`.
    """

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        """Open the socket; interrupted or too late, none stays open."""
        # The library does so by `asyncio.wait_for`, which in 3.11 may forget what was opened while
        # it was interrupted (python/cpython issue 86296).
        async with asyncio.timeout(connect_timeout):
            opened = await asyncio.open_connection(uri.hostname, uri.port, limit=buffer_size)
        self._io_reader, self._io_writer = self._bare_io_reader, self._bare_io_writer = opened

    def close(self) -> None:
        """Close the socket, unless it is."""
        if self._io_writer is not None and not self._io_writer.is_closing():
            self._io_writer.close()


class _Connection(Client):
    """The library's connection, with a few things of ours.

    Messages of all subscriptions are handed on in the order in which they came: the library has a
    queue for each, and a result would overtake the change that it reports. A URL that asks for
    encryption gets no answer without it: the library believes a server that says it has none. And
    a connection can be given up without waiting for a peer that takes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[int, OnMessage] = {}

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        handler = self.handlers.get(sid)
        if handler is None:
            return
        nobody = headers is not None and headers.startswith(_NO_RESPONDERS)
        try:
            handler(subject.decode(), reply.decode(), None if nobody else bytes(data))
        except Exception:  # noqa: BLE001 - the library's loop would end, and nobody would know
            _log.exception("a message from the broker was not taken")

    def _connect_command(self) -> bytes:
        server = self._current_server
        encrypted = self._writer is not None and self._writer.get_extra_info("ssl_object")
        if server is not None and server.uri.scheme == "tls" and not encrypted:
            raise Error("the broker offers no encryption")
        if encrypted and self._writer is not None:
            # As `StreamWriter.start_tls` does: asyncio warns where an end that cannot be half is.
            self._writer.transport.get_protocol()._over_ssl = True  # type: ignore[attr-defined]
        return super()._connect_command()

    async def _connect_to_server(self, s: Srv) -> None:
        self.abort()  # what is left of an attempt that failed
        # As the library does, which has no place to name the class of its socket.
        s.last_attempt = time.monotonic()
        if self._transport is None:
            self._transport = _Socket()  # type: ignore[no-untyped-call]
        timeout_s = self.options["connect_timeout"]
        await self._transport.connect(s.uri, DEFAULT_BUFFER_SIZE, timeout_s)

    @property
    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self._transport, "_io_writer", None)

    async def _process_pong(self) -> None:
        # The library ends its reading where somebody no longer waits for a pong that came late.
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
        else:
            await super()._process_pong()

    async def _process_err(self, err_msg: str) -> None:
        # The library closes for good, also where a busy server only says that it waited too long.
        if "permissions violation" in err_msg:
            _log.warning("the broker says: %s", err_msg.strip("'"))
        else:
            await self._process_op_err(Error(err_msg))

    def abort(self) -> None:
        """Drop the socket, whatever is still to be written."""
        if self._writer is not None:
            self._writer.transport.abort()

    @property
    def reads(self) -> bool:
        """Whether somebody reads what the broker sends."""
        return self._reading_task is not None and not self._reading_task.done()


class Broker:
    """A connection to a broker that is made again whenever it is lost, until it is closed."""

    def __init__(self, url: NatsUrl) -> None:
        self.url = url
        self.is_up = asyncio.Event()
        self.was_up = False
        # Called when the connection is lost, and when it is there again.
        self.on_down: Callable[[], None] = lambda: None
        self.on_up: Callable[[], None] = lambda: None
        self._connection = _Connection()
        self._failed: asyncio.Future[Exception] | None = None
        self._pinging: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def connect(self) -> None:
        """Connect for the first time; interrupted, not at all.

        Raises Unreachable, TimedOut or Unauthorized.
        """
        url = self.url
        self._failed = asyncio.get_running_loop().create_future()
        connecting = asyncio.ensure_future(
            self._connection.connect(
                url.server,
                error_cb=self._note_error,
                disconnected_cb=self._go_down,
                reconnected_cb=self._restored,
                connect_timeout=_CONNECT_S,  # type: ignore[arg-type]
                reconnect_time_wait=_RECONNECT_S,  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                ping_interval=_NEVER_S,
                flush_timeout=_PONG_S,
                user=url.user,
                password=url.password,
                token=url.token,
                user_credentials=url.credentials,
            )
        )
        # Told to never give up, the library does not return from a first attempt that fails.
        either: set[asyncio.Future[Any]] = {connecting, self._failed}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            failure = self._failed.result() if self._failed.done() else None
            if failure is not None:
                connecting.cancel()
            [raised] = await asyncio.gather(connecting, return_exceptions=True)
        except asyncio.CancelledError:
            connecting.cancel()
            await asyncio.wait([connecting])
            self._connection.abort()
            raise
        self._failed = None
        error = failure or raised
        if isinstance(error, Exception):
            self._connection.abort()
            raise self._refusal(error) from error
        self.was_up = True
        self.is_up.set()
        self._pinging = asyncio.create_task(self._ping())

    async def close(self) -> None:
        """Let go of the broker, for good."""
        self.is_up.clear()
        self.on_down = self.on_up = lambda: None
        if self._pinging is not None:
            self._pinging.cancel()
        with contextlib.suppress(OSError, Error, TimeoutError):
            async with asyncio.timeout(_PONG_S):
                await self._connection.close()
        self.abort()

    def abort(self) -> None:
        """Drop the connection at once, whatever is still to be said."""
        self._connection.abort()

    async def hear(self, subject: str, handler: OnMessage) -> int:
        """Call a function for what is published on a subject, in order; returns its number."""
        subscription = await self._connection.subscribe(subject)
        number: int = subscription._id
        self._connection.handlers[number] = handler
        return number

    async def settle(self) -> None:
        """Wait until the broker has heard what this connection hears; not for one that is lost."""
        with contextlib.suppress(OSError, Error, TimeoutError):
            await self._connection.flush(_PONG_S)  # type: ignore[arg-type]

    async def ignore(self, number: int) -> None:
        """Hear a subject no longer."""
        self._connection.handlers.pop(number, None)
        subscription = self._connection._subs.get(number)
        if subscription is not None and not self._connection.is_closed:
            with contextlib.suppress(Error, OSError):
                await subscription.unsubscribe()

    async def say(self, subject: str, message: bytes, reply: str = "") -> bool:
        """Publish a message whole, and not while another is; False if there is no broker now.

        What an unsteady broker does not take is lost, and whoever should have had it sees a gap.
        """
        async with self._turn:
            connection = self._connection
            most = min(_PIECE_BYTES, connection.max_payload - _PIECE.size)
            for piece in _pieces(message, most):
                if not connection.is_connected:
                    return False
                try:
                    await connection.publish(subject, piece, reply=reply)
                    if connection.pending_data_size > _UNSENT_BYTES:
                        await connection.flush(_PONG_S)  # type: ignore[arg-type]
                except (Error, OSError):
                    return False
        return True

    def new_inbox(self) -> str:
        """A subject that nobody else knows."""
        return self._connection.new_inbox()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_S)
            if not self.is_up.is_set():
                continue
            pong = asyncio.create_task(self._connection.flush(_NEVER_S))
            pong.add_done_callback(lambda task: task.cancelled() or task.exception())
            # In steps: who was too busy to listen has not waited.
            for _ in range(_PONG_STEPS):
                await asyncio.sleep(_PONG_S / _PONG_STEPS)
                if pong.done():
                    break
            pong.cancel()
            [late] = await asyncio.gather(pong, return_exceptions=True)
            if late is not None or not self._connection.reads:
                await self._go_down()
                self._connection.abort()
                await self._connection.force_reconnect()

    async def _note_error(self, error: Exception) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(error)
        _log.debug("%s: %s", self.url.shown, error)

    async def _restored(self) -> None:
        self.is_up.set()
        self.on_up()

    async def _go_down(self) -> None:
        if self.is_up.is_set():
            self.is_up.clear()
            self.on_down()

    def _refusal(self, error: Exception) -> SightlineError:
        shown = self.url.shown
        if isinstance(error, TimeoutError):
            return TimedOut(f"{shown}: no answer within {_CONNECT_S:g} s")
        if isinstance(error, OSError) and error.filename is not None:  # no credentials can be read
            return InvalidInput(f"{shown}: {error.filename}: {error.strerror}")
        if isinstance(error, OSError):
            return Unreachable(f"{shown}: {why(error)}")
        reason = re.sub(r"^nats: *", "", str(error)).strip("'\" ")
        if isinstance(error, AuthorizationError) or "authorization" in reason.lower():
            return Unauthorized(f"{shown}: the broker does not let us in")
        return Unreachable(f"{shown}: {reason or type(error).__name__}")
