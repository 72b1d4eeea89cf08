"""An app on a broker: each view is published once, whoever and however many mirror it.

The app has a link for each view that somebody mirrors. On it the view is subscribed to, once: its
changes go out on the view's subject. Who joins, or comes back, asks for the view, and gets
what a subscription of its own on the same link begins with: a snapshot, or the changes since the
version that it has. Every second each view says on its subject which version it has come to, so
that who missed one notices. A view that nobody has asked for in a minute ends.

Queries and invokes come on a link for each asker, with the limits of any other link, and another
link is there for events.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

import sightline.slop.transports.link as linked
from sightline.errors import InvalidInput, SightlineError
from sightline.slop.protocol.messages import ProviderInfo, Subscribe, Unsubscribe, serialize
from sightline.slop.transports.background import Background
from sightline.slop.transports.nats import BEAT_S, Assembler, Broker, Subjects, Welcome, subscribing
from sightline.slop.transports.nats_url import NatsUrl

_VIEWS: Final = 1_024
_ASKERS: Final = 1_024
_IDLE_S: Final = 60.0
# So many messages of one asker, and joins of one view, may wait.
_WAITING: Final = 256
# So many are answered at once on the link of a view, which has a limit of subscriptions.
_JOINING: Final = 32
_HERE_BEATS: Final = 3
_HEAD: Final = re.compile(
    rb'\{"type":"(patch|snapshot)","(?:subscription|id)":"([^"\\]+)","version":(\d+)'
)
_STATELESS: Final = re.compile(rb'\{"type":"(hello|event)"')


class _Error(msgspec.Struct, tag="error", tag_field="type"):
    error: msgspec.Raw
    id: str | None = None


_errors: Final = msgspec.json.Decoder(_Error)


class _BrokerLink:
    """A link whose other end is the broker: what the app says on it is handed to a function."""

    def __init__(self, broker: Broker, subject: str) -> None:
        self.peer = linked.Peer("nats", broker.url.shown)
        self.subject = subject
        self.is_closed = False
        self._broker = broker
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.keep()

    def keep(self) -> None:
        """Note that somebody wants the link."""
        self.used_at = asyncio.get_running_loop().time()

    def take(self, message: bytes) -> None:
        """Hand the app a message; one more than may wait is dropped."""
        self.keep()
        if self._inbox.qsize() < _WAITING:
            self._inbox.put_nowait(message)

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        return None if self.is_closed else await self._inbox.get()

    async def send(self, messages: Sequence[linked.Outgoing]) -> None:
        """Publish messages; return when the broker has them, or cannot be given them."""
        if self.is_closed:
            raise linked.LinkClosed("the link is closed")
        for message in map(linked.whole, messages):
            await self._publish(message)

    def end(self) -> None:
        """End the link."""
        self.is_closed = True
        self._inbox.put_nowait(None)

    async def close(self, _reason: str = "") -> None:
        """End the link; there is nobody to be told why."""
        self.end()

    async def _publish(self, message: bytes) -> None:
        raise NotImplementedError


class _Asker(_BrokerLink):
    """Where one asker's queries and invokes come in."""

    async def _publish(self, message: bytes) -> None:
        if not _STATELESS.match(message):
            # The changes that a result reports are on their way to the views' links: they first.
            await asyncio.sleep(0)
            await self._broker.say(self.subject, message)


class _Events(_BrokerLink):
    """Where an app's events go out, once for all."""

    async def _publish(self, message: bytes) -> None:
        found = _STATELESS.match(message)
        if found and found[1] == b"event":
            await self._broker.say(self.subject, message)


class _View(_BrokerLink):
    """One view: its changes for everybody, and a beginning for each who joins."""

    def __init__(self, broker: Broker, subject: str, wanted: Subscribe) -> None:
        super().__init__(broker, subject)
        self.version = 0
        self._has_begun = False
        self._joining: dict[str, str] = {}
        self._waiting: deque[tuple[Subscribe, str]] = deque(maxlen=_WAITING)
        self._number = 0
        self.take(serialize(msgspec.structs.replace(wanted, id="v", resume=None)))

    def join(self, wanted: Subscribe, reply: str) -> None:
        """Send a beginning of the view to an inbox."""
        self._waiting.append((wanted, reply))
        self._next()

    def _next(self) -> None:
        while self._waiting and len(self._joining) < _JOINING:
            wanted, reply = self._waiting.popleft()
            self._number += 1
            join_id = f"j{self._number}"
            self._joining[join_id] = reply
            self.take(serialize(msgspec.structs.replace(wanted, id=join_id)))

    async def beat(self) -> None:
        """Say which version the view has come to."""
        if self._has_begun:
            await self._broker.say(self.subject, b'{"type":"beat","version":%d}' % self.version)

    async def _publish(self, message: bytes) -> None:
        head = _HEAD.match(message, 0, 1024)
        if head is None:
            if not _STATELESS.match(message):
                await self._refuse(message)
            return
        kind, name, version = head[1], head[2].decode(), int(head[3])
        if name == "v":
            self.version = version
            # Who is here has asked for a beginning, and gets it.
            if self._has_begun or kind == b"patch":
                await self._broker.say(self.subject, message)
            self._has_begun = True
        else:
            await self._answer(name, message)

    async def _answer(self, name: str, message: bytes) -> None:
        reply = self._joining.pop(name, None)
        if reply is not None:
            self.take(serialize(Unsubscribe(name)))
            self._next()
            await self._broker.say(reply, message)

    async def _refuse(self, message: bytes) -> None:
        """Pass on why the view cannot be shown: to who asked, or to everybody."""
        error = _errors.decode(message)
        if error.id == "v":
            await self._broker.say(self.subject, message)
        elif error.id is not None:
            await self._answer(error.id, message)
        else:
            for name in list(self._joining):
                await self._answer(name, message)


class _Served:
    """One app on one broker."""

    def __init__(self, handler: linked.Handler, info: ProviderInfo, broker: Broker) -> None:
        self._handler = handler
        self._broker = broker
        self._subjects = Subjects(info.id, secrets.token_hex(16))
        self._hello = msgspec.json.encode(Welcome(info, self._subjects.key))
        self._here = msgspec.json.encode({"id": info.id, "name": info.name})
        self._views: dict[str, _View] = {}
        self._askers: OrderedDict[str, _Asker] = OrderedDict()
        self._partial: OrderedDict[str, Assembler] = OrderedDict()
        self._events = _Events(broker, self._subjects.life)
        self._saying = Background()
        self._served = Background()
        self._beating: asyncio.Task[None] | None = None
        self._beat_now = asyncio.Event()

    async def begin(self) -> None:
        """Hear what is asked, and say that the app is there."""
        self._broker.on_up = self._beat_now.set
        hear = self._broker.hear
        await hear(self._subjects.ask, self._ask)
        await hear(self._subjects.hello, lambda _, reply, __: self._say(reply, self._hello))
        await hear("slop.apps", lambda _, reply, __: self._say(reply, self._here))
        await self._broker.settle()
        self._serve(self._events)
        self._beating = asyncio.create_task(self._beat())

    async def end(self) -> None:
        """Let go of everybody."""
        if self._beating is not None:
            self._beating.cancel()
        await self._served.stop()

    def _serve(self, link: _BrokerLink) -> None:
        self._served.start(linked.serve_link(self._handler, link))

    def _say(self, reply: str, message: bytes) -> None:
        if reply and len(self._saying.tasks) < _WAITING:
            self._saying.start(self._broker.say(reply, message))

    def _ask(self, _: str, reply: str, payload: bytes | None) -> None:
        if payload is None or not reply:
            return
        assembler = self._partial.pop(reply, None) or Assembler(linked.PROVIDER_BYTES)
        try:
            message = assembler.take(payload)
        except ValueError:
            return
        if message is None:
            self._partial[reply] = assembler
            while len(self._partial) > _JOINING:
                self._partial.popitem(last=False)
            return
        if isinstance(wanted := subscribing(message), Subscribe):
            self._mirror(wanted, reply)
        else:
            self._asker(reply).take(message)

    def _mirror(self, wanted: Subscribe, reply: str) -> None:
        subject = self._subjects.view(wanted)
        view = self._views.get(subject)
        if view is None or view.is_closed:
            if len(self._views) >= _VIEWS:
                return
            view = self._views[subject] = _View(self._broker, subject, wanted)
            self._serve(view)
        view.keep()
        if wanted.id != "keep":
            view.join(wanted, reply)

    def _asker(self, reply: str) -> _Asker:
        asker = self._askers.get(reply)
        if asker is None:
            asker = self._askers[reply] = _Asker(self._broker, reply)
            self._serve(asker)
            if len(self._askers) > _ASKERS:
                self._askers.popitem(last=False)[1].end()
        self._askers.move_to_end(reply)
        return asker

    async def _beat(self) -> None:
        count = 0
        while True:
            await self._broker.say(self._events.subject, b'{"type":"beat"}')
            for view in list(self._views.values()):
                await view.beat()
            if count % _HERE_BEATS == 0:
                await self._broker.say("slop.here", self._here)
            count += 1
            self._end_unused()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._beat_now.wait()
            self._beat_now.clear()

    def _end_unused(self) -> None:
        before = asyncio.get_running_loop().time() - _IDLE_S
        links: tuple[dict[str, _View], dict[str, _Asker]] = (self._views, self._askers)
        for group in links:
            for name in [name for name, link in group.items() if link.used_at < before]:
                group.pop(name).end()


@contextlib.asynccontextmanager
async def serve_nats(
    handler: linked.Handler, info: ProviderInfo, address: str
) -> AsyncIterator[str]:
    """Serve an app on a broker while the block runs; gives its address, `nats://host:port/app`.

    Raises InvalidInput where there is no broker to begin with; one that goes away later is
    waited for.
    """
    url = NatsUrl.read(address)
    if url.app not in {"", info.id}:
        raise InvalidInput(f"{url.shown}: the app's id is {info.id!r}")
    broker = Broker(url.of_app(info.id))
    try:
        await broker.connect()
    except SightlineError as error:
        raise InvalidInput(f"cannot serve {error}") from error
    served = _Served(handler, info, broker)
    try:
        await served.begin()
        yield broker.url.shown
    finally:
        await served.end()
        await broker.close()
