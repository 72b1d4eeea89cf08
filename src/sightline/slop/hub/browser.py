"""The browser bridge: pages as apps, by a port of loopback that is opened only when asked for.

    ws://127.0.0.1:9339/slop          an app dials, and is the provider on what it opened
    ws://127.0.0.1:9339/slop-bridge   an extension shows pages, in the deployed frames

Who has the port is the bridge, and serves other consumers of the user as well; who finds it taken
by another bridge of the user is that one's consumer, and takes over when it is gone. `gate` says
who gets in, `relay` who is told what. A page that comes is an app of the hub's by the id `web-…`,
so that no page takes the id of another app; while it is away its last state stays, marked so.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

import sightline.slop.hub.relay as relays
from sightline.errors import InvalidInput, LetGo, SightlineError, Unauthorized, Unreachable
from sightline.slop.discovery.wellknown import own_websocket
from sightline.slop.hub.client import Backoff
from sightline.slop.hub.gate import APP_PATH, BRIDGE_PATH, BridgeGate, is_extension
from sightline.slop.hub.mcp import UserQuestion
from sightline.slop.hub.pairing import PairingFile
from sightline.slop.hub.watch import Signal
from sightline.slop.protocol.ids import suggested_app_id
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports.background import Background
from sightline.slop.transports.door import Refusal, Visitor, is_loopback
from sightline.slop.transports.link import CONSUMER_BYTES, Link, LinkClosed, Outgoing, Peer
from sightline.slop.transports.pace import Pace
from sightline.slop.transports.sockets import Users, connection_owner, listener_owner

if TYPE_CHECKING:  # loaded where a bridge is opened: a start without one need not wait for it
    from sightline.slop.hub.hub import Hub
    from sightline.slop.transports.websocket import WebSocketLink


BRIDGE_PORT: Final = 9339
CONNECTIONS: Final = 64
APPS: Final = 128
# How long an app that is away keeps its seat.
GONE_S: Final = 300.0
_HELLO_S: Final = 5.0
_QUESTIONS: Final = 8
_UNSENT_BYTES: Final = 2 * relays.MESSAGE_BYTES
_HOST: Final = "127.0.0.1"
_UNWANTED: Final = "it was disconnected here"
_AWAY: Final = "its page is closed, or has lost its connection"
ABSENCES: Final[dict[relays.Absence, str]] = {
    "closed": "its tab is closed",
    "asleep": "its tab is asleep",
    "lost": "the browser's extension is not connected",
}
# A page may not listen yet when its tab is opened: deployed consumers call it as often.
_CALLS: Final = 4
_CALL_S: Final = 0.3
_CONNECT: Final = b'{"type":"connect"}'
_UNREAD_BYTES: Final = 2 * relays.MESSAGE_BYTES
# RFC 6761, RFC 6762 and RFC 9476: names that lead nowhere outside.
_INNER: Final = (".localhost", ".local", ".internal", ".home.arpa")
_ANY: Final[dict[str, Any]] = {"type": "object", "properties": {}}

Role: TypeAlias = Literal["server", "client"]
_log: Final = logging.getLogger(__name__)


class _Provider(msgspec.Struct, frozen=True):
    id: str


class _Hello(msgspec.Struct, frozen=True, tag="hello", tag_field="type"):
    provider: _Provider


_hellos: Final = msgspec.json.Decoder(_Hello)


class _PageApp:
    """An app that comes by the bridge, and the way to it while there is one."""

    def __init__(self, app_id: str) -> None:
        self.app_id = app_id
        self.way: Callable[[], Awaitable[Link]] | None = None
        self.reason = _AWAY
        self.is_away = False
        self.leaves: asyncio.TimerHandle | None = None

    async def dial(self) -> Link:
        """Reach the app. Raises Unreachable while it is away, and says why."""
        if self.way is None:
            raise Unreachable(self.reason)
        return await self.way()


class BrowserBridge:
    """The bridge of one hub. `role` is empty until it has found its place."""

    def __init__(
        self,
        path: Path,
        *,
        port: int = BRIDGE_PORT,
        origins: Iterable[str] = (),
        open: bool = False,  # noqa: A002 - the setting's name
        users: Users = "own",
        gone_s: float = GONE_S,
        backoff: Backoff | None = None,
    ) -> None:
        self.role: Role | Literal[""] = ""
        self.port = port
        self.problem = ""
        self.path = path
        self._gone_s = gone_s
        self._file = PairingFile(path)
        self._gate = BridgeGate("", os.getuid(), frozenset(origins), is_open=open)
        self._gate.admits_others = users == "any"
        self._backoff = backoff or Backoff(max_s=5.0)
        self._relay = relays.Relay(self)
        self._apps: dict[tuple[str, ...], _PageApp] = {}
        self._connected = 0
        self._changed = Signal()
        self._asked_about: set[str] = set()
        self._one_question = asyncio.Lock()
        self._asking = Background()
        self._hub: Hub | None = None

    @property
    def token(self) -> str:
        """What an extension is paired with, and consumers show; empty before the bridge runs."""
        return self._gate.token

    @property
    def is_paired(self) -> bool:
        """Whether an extension is known that needs no token any more."""
        return bool(self._gate.agreed) or any(map(is_extension, self._gate.origins))

    async def settled(self) -> Role:
        """Wait until the bridge has its place. Raises Unreachable where it has found none."""
        await self._changed.until(lambda: bool(self.role or self.problem))
        if not self.role:
            raise Unreachable(self.problem)
        return self.role

    async def run(self, hub: Hub) -> None:
        """Be the bridge, or the consumer of another one, until cancelled."""
        self._hub = hub
        try:
            pairing = await asyncio.to_thread(self._file.read)
        except InvalidInput as error:
            self._note("", str(error))
            return
        self._gate.token = pairing.token
        self._gate.agreed.update(pairing.origins)
        try:
            attempt = 0
            while True:
                try:
                    await self._serve()
                except InvalidInput as taken:
                    try:
                        await self._follow()
                        attempt = 0
                    except SightlineError as error:
                        self._note("", f"{taken}; {error}")
                        attempt += 1
                await asyncio.sleep(self._backoff.delay_s(attempt, random.random()))  # noqa: S311 - no secret
        finally:
            await self._asking.stop()

    def _note(self, role: Role | Literal[""], problem: str = "") -> None:
        if problem and problem != self.problem:
            _log.warning("the browser bridge is not open: %s", problem)
        self.role, self.problem = role, problem
        self._changed.fire()

    # The port is ours.

    async def _serve(self) -> None:
        from sightline.slop.transports.websocket import serve_judged

        handlers = {APP_PATH: self._take_app, BRIDGE_PATH: self._take_member}
        async with serve_judged(
            handlers, self._judge, _HOST, self.port, max_bytes=CONSUMER_BYTES
        ) as self.port:
            self._note("server")
            await asyncio.get_running_loop().create_future()

    async def _judge(
        self, path: str, visitor: Visitor, here: tuple[str, int], there: tuple[str, int]
    ) -> Refusal | None:
        owner = connection_owner(there, here)
        verdict = self._gate.judge(path, self.port, visitor, owner, listener_owner)
        origin = next(iter(visitor.values("origin")), "")
        if isinstance(verdict, Refusal):
            if verdict.status == HTTPStatus.FORBIDDEN and self._gate.may_ask(origin, owner):
                self._ask_about(origin)
            return verdict
        if self._connected >= CONNECTIONS:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many are connected")
        if verdict == "extension" and visitor.token is not None:
            await self._agree(origin)
        return None

    def _ask_about(self, origin: str) -> None:
        """Ask the user about an extension, once; it comes back by itself."""
        ask = None if self._hub is None else self._hub.ask
        if origin in self._asked_about or len(self._asked_about) >= _QUESTIONS:
            return
        if ask is None:
            _log.info("nobody can be asked about %s; bridge.origins lets it in", origin)
            return
        self._asked_about.add(origin)
        question = UserQuestion(
            "a browser extension",
            f"It wants to show pages of your browser here, now and from now on. If you have just "
            f"installed it, compare its id: {origin}",
            form=_ANY,
            origin=origin,
        )

        async def answered() -> None:
            async with self._one_question:
                answer = await ask(question)
            if answer.action == "accept":
                await self._agree(origin)

        self._asking.start(answered())

    async def _agree(self, origin: str) -> None:
        if origin not in self._gate.agreed:
            self._gate.agreed.add(origin)
            try:
                await asyncio.to_thread(self._file.agree, origin)
            except InvalidInput as error:
                _log.warning("it is asked about again next time: %s", error)

    async def _take_app(self, link: WebSocketLink) -> None:
        """Give an app that dialled its seat, for as long as it is connected."""
        origin = link.peer.headers.get("origin", "")
        link.peer = Peer("page", origin or "a program that dialled")
        self._connected += 1
        try:
            async with asyncio.timeout(_HELLO_S):
                first = await link.receive() or b""
            app_id = _hellos.decode(first).provider.id
            app = self._returned(("dialled", origin, app_id), app_id)
            heard = _HeardLink(link, first, lambda one: self._end_way(app, one))
            self._show(app, heard.once)
        except (TimeoutError, msgspec.DecodeError, UnicodeDecodeError, LetGo):
            await link.close("an app says hello first")
        except InvalidInput as error:
            await link.close(str(error))
        else:
            try:
                await link.wait_closed()
            finally:
                self._end_way(app, heard)
        finally:
            self._connected -= 1

    def _end_way(self, app: _PageApp, link: _HeardLink) -> None:
        """Note that a link is over, unless the app has come by another one since."""
        if app.way == link.once:
            self._hide(app, _AWAY)

    def _returned(self, identity: tuple[str, ...], own_id: str) -> _PageApp:
        """Find the seat of an app that comes again, or one for an app that is new."""
        seats = ((*identity, str(number)) for number in count())
        seat = next(one for one in seats if one not in self._apps or self._apps[one].is_away)
        return self._apps.get(seat) or self._new(seat, own_id)

    def _new(self, identity: tuple[str, ...], own_id: str) -> _PageApp:
        if self._hub is None or len(self._apps) >= APPS:
            raise InvalidInput("there are too many apps")
        wanted = suggested_app_id(f"web-{own_id}")
        for number in range(1, APPS + 1):
            app = _PageApp(wanted if number == 1 else f"{wanted}-{number}")
            with contextlib.suppress(InvalidInput):
                self._hub.seat_page(app.app_id, app.dial)
                self._apps[identity] = app
                return app
        raise InvalidInput(f"there are too many apps {wanted!r}")

    def _show(self, app: _PageApp, way: Callable[[], Awaitable[Link]]) -> None:
        """Let an app be reached. Raises InvalidInput if the user has disconnected it."""
        app.way = way
        if self._hub is None or not self._hub.retry(app.app_id):
            self._hide(app, _UNWANTED, leaves=False)
            raise InvalidInput(_UNWANTED)
        app.is_away = False
        if app.leaves is not None:
            app.leaves.cancel()
            app.leaves = None

    def _hide(self, app: _PageApp, reason: str, *, leaves: bool = True) -> None:
        """Note that an app is away; unless it comes again it leaves after a while."""
        app.way, app.reason, app.is_away = None, reason, True
        if app.leaves is not None:
            app.leaves.cancel()
        loop = asyncio.get_running_loop()
        app.leaves = loop.call_later(self._gone_s, self._leave, app) if leaves else None

    def _leave(self, app: _PageApp) -> None:
        if app.leaves is not None:
            app.leaves.cancel()
        self._apps = {seat: one for seat, one in self._apps.items() if one is not app}
        if self._hub is not None:
            self._hub.drop(app.app_id)

    # Extensions and consumers.

    async def _take_member(self, link: WebSocketLink) -> None:
        origin = link.peer.headers.get("origin")
        self._connected += 1
        line = _Line(link)
        try:
            if origin is None:
                consumer = relays.BridgeConsumer("a program", line.put)
                self._relay.join(consumer)
                try:
                    await line.run(lambda data: self._relay.hear_consumer(consumer, data))
                finally:
                    self._relay.leave(consumer)
            else:
                await self._hear(relays.TabSource(origin, line.put), line)
        finally:
            self._connected -= 1

    async def _hear(self, source: relays.TabSource, line: _Line) -> None:
        try:
            await line.run(lambda data: self._relay.hear_source(source, data))
        finally:
            self._relay.lose(source)

    # The port is another bridge's.

    async def _follow(self) -> None:
        """Be the consumer of the bridge that has the port, for as long as it has it."""
        from sightline.slop.transports.websocket import connect_websocket

        owner = listener_owner(self.port)
        if owner != self._gate.uid and not (owner is None and self._gate.is_open):
            raise Unauthorized(f"whoever has the port is not known to be you (user {owner})")
        url = f"ws://{_HOST}:{self.port}{BRIDGE_PATH}"
        link = await connect_websocket(url, self._gate.token, max_bytes=4 * CONSUMER_BYTES)
        self._note("client")
        line = _Line(link)
        try:
            await self._hear(relays.TabSource("another bridge", line.put, channels=False), line)
        finally:
            await link.close()
            self._note("")

    # Tabs, as the relay tells of them.

    def appeared(self, tab: relays.Tab) -> None:
        """Give a tab its seat, or its way back to it. Raises InvalidInput where it gets none."""
        app = self._apps.get(tab.identity)
        if app is None:
            provider = tab.provider
            name = provider.provider_id or provider.id or provider.name or tab.key
            app = self._new(tab.identity, name)
        if app.way is None:
            self._show(app, lambda: self._reach(tab))

    def vanished(self, tab: relays.Tab, absence: relays.Absence) -> None:
        """Let a closed tab go; the app of another one stays, and says why it is away."""
        app = self._apps.get(tab.identity)
        if app is None:
            return
        if absence == "closed":
            self._leave(app)
        else:
            self._hide(app, ABSENCES[absence], leaves=absence == "lost")

    async def _reach(self, tab: relays.Tab) -> Link:
        provider = tab.provider
        peer = Peer("page", provider.origin or f"{tab.source.origin} tab {tab.tab_id}")
        if provider.transport != "ws":
            return PageLink(self._relay, tab, peer)
        from sightline.slop.transports.websocket import connect_websocket

        link = await connect_websocket(_checked(provider.url or "", provider.origin))
        link.peer = peer
        return link


def _checked(url: str, page: str | None) -> str:
    """Return a WebSocket that a page names. Raises InvalidInput for one that is not its own.

    Where nobody says which page it is, it is one on this machine, or an encrypted one elsewhere.
    """
    if page is not None:
        return own_websocket(url, page)
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme == "ws" and is_loopback(host):
        return url
    if parts.scheme == "wss" and _is_public(host):
        return url
    raise InvalidInput(f"a page names a WebSocket that is not to be dialled: {url[:200]!r}")


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_INNER)


class PageLink:
    """A link over a relay. When it is over `receive` raises Unreachable, which says why."""

    def __init__(self, relay: relays.Relay, tab: relays.Tab, peer: Peer) -> None:
        self.peer = peer
        self._inbox: deque[bytes] = deque()
        self._unread_bytes = 0
        self._arrived = asyncio.Event()
        self._over = ""
        self._call: asyncio.TimerHandle | None = None
        try:
            name = f"sightline (pid {os.getpid()})"
            self._opening = relay.open(tab.key, name, self._take, self._end)
        except InvalidInput as error:
            raise Unreachable(str(error)) from None
        self._call_page(_CALLS)

    async def receive(self) -> bytes | None:
        """Return the next message. Raises Unreachable at the end."""
        while not self._inbox:
            if self._over:
                raise Unreachable(self._over)
            self._arrived.clear()
            await self._arrived.wait()
        message = self._inbox.popleft()
        self._unread_bytes -= len(message)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages. Raises LinkClosed."""
        if self._over:
            raise LinkClosed(self._over)
        for message in messages:
            self._opening.send(message if isinstance(message, bytes) else b"".join(message))

    async def close(self, reason: str = "") -> None:
        """End the link; the page is not told the reason."""
        self._finish(reason or "the connection is closed")
        self._opening.close()

    def _take(self, message: bytes) -> None:
        if self._call is not None and relays.message_type(message) == "hello":
            self._call.cancel()
            self._call = None
        self._inbox.append(message)
        self._unread_bytes += len(message)
        if self._unread_bytes > _UNREAD_BYTES:
            self._inbox.clear()
            self._finish("it sends faster than it can be read")
            self._opening.close()
        self._arrived.set()

    def _end(self, absence: relays.Absence) -> None:
        self._finish(ABSENCES[absence])

    def _finish(self, reason: str) -> None:
        if self._call is not None:
            self._call.cancel()
        self._over = self._over or reason
        self._arrived.set()

    def _call_page(self, left: int) -> None:
        self._opening.send(_CONNECT)
        loop = asyncio.get_running_loop()
        self._call = loop.call_later(_CALL_S, self._call_page, left - 1) if left > 1 else None


class _HeardLink:
    """A link that somebody dialled: handed out once, its first message read already."""

    def __init__(self, link: Link, first: bytes, over: Callable[[_HeardLink], None]) -> None:
        self.peer = link.peer
        self._link = link
        self._first: bytes | None = first
        self._over = over
        self._is_taken = False

    async def once(self) -> Link:
        """Give the link to the first who asks. Raises Unreachable after that."""
        if self._is_taken:
            raise Unreachable(_AWAY)
        self._is_taken = True
        return self

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        message, self._first = self._first, None
        if message is None:
            message = await self._link.receive()
        if message is None:
            self._over(self)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages. Raises LinkClosed."""
        await self._link.send(messages)

    async def close(self, reason: str = "") -> None:
        """End the link."""
        self._over(self)
        await self._link.close(reason)


class _Line:
    """A connection of the bridge: what waits to be sent, and how much may."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._more = asyncio.Event()
        self._ending: asyncio.Future[None] | None = None

    def put(self, frame: bytes) -> None:
        """Send a frame soon; who does not read is let go."""
        if self._ending is not None:
            return
        self._waiting.append(frame)
        self._bytes += len(frame)
        if self._bytes > _UNSENT_BYTES:
            self._waiting.clear()
            self._ending = asyncio.ensure_future(self._link.close("it does not read"))
        self._more.set()

    async def run(self, hear: Callable[[bytes], None]) -> None:
        """Carry frames both ways until one side has enough."""
        writer = asyncio.create_task(self._write())
        pace = Pace(Patience())
        try:
            while (data := await self._link.receive()) is not None:
                try:
                    with pace.work():
                        hear(data)
                except InvalidInput as error:
                    _log.info("the browser bridge took no notice of a frame: %s", error)
                    pace.fault()
                await pace.turn()
        except LetGo as error:
            await self._link.close(str(error))
        finally:
            writer.cancel()
            await asyncio.gather(writer, *filter(None, [self._ending]), return_exceptions=True)

    async def _write(self) -> None:
        with contextlib.suppress(LinkClosed):
            while True:
                await self._more.wait()
                self._more.clear()
                while self._waiting:
                    frame = self._waiting.popleft()
                    await self._link.send([frame])
                    self._bytes -= len(frame)
