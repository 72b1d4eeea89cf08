"""Apps on a broker, seen by who mirrors them: one subscription for each view in this process.

All links of an event loop to one broker share a connection, and those to one app a *room*. Links
that want the same view share a *feed*: the view's subject is subscribed to once, what comes
is handed to every link, and who joins while another's beginning is on its way gets the same one.
So a gap costs this process one question, however many mirrors it has.

*A mirror is right or it says so.* A feed looks at the versions: a change that follows upon what
was not seen, or a beat of a version that was not, is a gap, of which every mirror is told by a
patch that cannot be the next one; it asks again, as on any link. The loss of the broker is a gap
for all: their links stay, and are answered when it is back, with one snapshot for each view; but a
link that waits for an answer, or is asked for something meanwhile, ends, for nobody knows what
became of it. A room that hears nothing of its app for a few beats ends its links.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw

import sightline.slop.protocol.messages as wire
from sightline.errors import InvalidInput, SightlineError, TimedOut, Unreachable
from sightline.slop.protocol.consumer import SharedReading
from sightline.slop.transports.background import Background
from sightline.slop.transports.link import CONSUMER_BYTES, LinkClosed, Outgoing, Peer, whole
from sightline.slop.transports.nats import BEAT_S, Assembler, Broker, Subjects, Welcome, subscribing
from sightline.slop.transports.nats_url import NatsUrl

TICK_S: Final = BEAT_S / 2
# Ticks, not seconds: who was too busy to listen has missed nothing.
_QUIET_TICKS: Final = 7
_KEEP_TICKS: Final = 30
_LIFE_TICKS: Final = 20
_UNUSED_TICKS: Final = 4
# An attempt costs next to nothing while the broker is away: all wait for one connection.
_REST_S: Final = 0.3
_WELCOME_S: Final = 2.0
# What may be lost on the way is asked for again.
_AGAIN_TICKS: Final = (2, 6, 14)
_LINGER_TICKS: Final = 60
WELCOME_BYTES: Final = 64 * 1024
# What one link may have unread.
_UNREAD: Final = 4_096
_UNREAD_BYTES: Final = 2 * CONSUMER_BYTES
_PATCH: Final = re.compile(
    rb'\{"type":"patch","subscription":"(?:v|j\d+)","version":(\d{1,15}),"seq":\d{1,15}'
    rb',"base":(\d{1,15}),"ops":'
)
_SNAPSHOT: Final = re.compile(rb'\{"type":"snapshot","id":"(?:v|j\d+)","version":(\d{1,15})')
_BEAT: Final = re.compile(rb'\{"type":"beat"(?:,"version":(\d{1,15}))?\}')
_EVENT: Final = b'{"type":"event"'
_FAR: Final = 2**53

_Member: TypeAlias = "tuple[NatsLink, str]"
# The version and the number of the last message of a subscription.
_Point: TypeAlias = tuple[int, int]
# Writes a message for a subscription by its id and point; gives the next point, too.
_Write: TypeAlias = Callable[[str, _Point], tuple[bytes, _Point]]


class _Refusal(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    error: wire.ErrorInfo


_refusals: Final = msgspec.json.Decoder(_Refusal)
_welcomes: Final = msgspec.json.Decoder(Welcome)


class NatsLink:
    """A link to an app on a broker."""

    def __init__(self, room: _Room, token: str) -> None:
        self.peer = Peer("nats", room.address, rest_s=_REST_S)
        self.token = token
        # Who mirrors the same view is handed the same bytes.
        self.shared = room.shared
        self.subscriptions: dict[str, _Feed] = {}
        self._room = room
        self._assembler = Assembler(CONSUMER_BYTES)
        self._inbox: deque[bytes] = deque([room.hello])
        self._unread_bytes = 0
        self._unanswered = 0
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        while not self._inbox and not self._closed:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._closed:
            return None
        message = self._inbox.popleft()
        self._unread_bytes -= len(message)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        for message in map(whole, messages):
            if self._closed:
                raise LinkClosed("the link is closed")
            match subscribing(message):
                case wire.Subscribe() as wanted:
                    await self._subscribe(wanted)
                case wire.Unsubscribe(name):
                    self._leave(name)
                case _ if self._room.is_suspended:
                    self.end()
                    raise LinkClosed("the broker is away")
                case _:
                    self._unanswered += 1
                    await self._room.ask(self.token, message)

    async def close(self, _reason: str = "") -> None:
        """End the link; there is nobody to be told why."""
        self.end()
        self._room.leave(self)
        if not self._room.is_used:
            await self._room.release()

    def end(self) -> None:
        """Wake who waits for a message: there will be none."""
        self._closed = True
        self._wake()
        for name in list(self.subscriptions):
            self._leave(name)

    def put(self, message: bytes) -> None:
        """Have one more message to be read; a link that is not read at all ends."""
        self._inbox.append(message)
        self._unread_bytes += len(message)
        if len(self._inbox) > 1 and (
            len(self._inbox) > _UNREAD or self._unread_bytes > _UNREAD_BYTES
        ):
            self.end()
        else:
            self._wake()

    def answer(self, payload: bytes) -> None:
        """Take a piece of what this link asked for."""
        try:
            message = self._assembler.take(payload)
        except ValueError:
            message = b""  # it cannot be read, and whoever waits for it is told when its time is up
        if message is not None:
            self._unanswered -= 1
            self.put(message)

    def suspend(self) -> None:
        """End, if an answer was on its way when the broker was lost."""
        if self._unanswered:
            self.end()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _subscribe(self, wanted: wire.Subscribe) -> None:
        if wanted.id in self.subscriptions:
            reason = f"there is a subscription {wanted.id!r} already"
            self.put(
                wire.serialize(wire.ErrorMessage(wire.ErrorInfo("bad_request", reason), wanted.id))
            )
            return
        feed = self._room.feed(wanted)
        self.subscriptions[wanted.id] = feed
        await feed.join((self, wanted.id), wanted)

    def _leave(self, name: str) -> None:
        feed = self.subscriptions.pop(name, None)
        if feed is not None:
            feed.leave((self, name))


class _Join:
    """A beginning of a view that was asked for, and who gets it."""

    def __init__(self, token: str, wanted: wire.Subscribe) -> None:
        self.token = token
        self.question = wire.serialize(wanted)
        self.ticks = 0
        self.assembler = Assembler(CONSUMER_BYTES)
        self.members: dict[_Member, None] = {}


class _Feed:
    """One view of one app: what comes is handed to all links in this process that mirror it."""

    def __init__(self, room: _Room, wanted: wire.Subscribe, subject: str) -> None:
        self.wanted = msgspec.structs.replace(wanted, id="v", resume=None)
        self.subject = subject
        self.number: int | None = None
        self.unused = 0
        self._room = room
        # Who mirrors the view, and how far each has come.
        self._live: dict[_Member, _Point] = {}
        # By the point from which it is to go on, if any.
        self._joins: dict[_Point | None, _Join] = {}
        # All changes up to this version were seen.
        self._version = 0
        self._quiet = 0
        self._assembler = Assembler(CONSUMER_BYTES)

    async def join(self, member: _Member, wanted: wire.Subscribe) -> None:
        """Begin to hand a member what the view shows."""
        point = None if wanted.resume is None else (wanted.resume.version, wanted.resume.seq)
        join = self._joins.get(point)
        if join is not None:
            join.members[member] = None
            return
        join = self._joins[point] = _Join(self._room.token(self), wanted)
        join.members[member] = None
        if self.number is None:
            self.number = await self._room.broker.hear(self.subject, self._heard)
        await self._room.ask(join.token, join.question)

    def leave(self, member: _Member) -> None:
        """Hand a member nothing more."""
        self._live.pop(member, None)
        for point, join in list(self._joins.items()):
            join.members.pop(member, None)
            if not join.members:
                del self._joins[point]

    def answer(self, token: str, payload: bytes) -> None:
        """Take a piece of a beginning that was asked for."""
        found = ((point, join) for point, join in self._joins.items() if join.token == token)
        point, join = next(found, (None, None))
        if join is None:
            return
        try:
            message = join.assembler.take(payload)
        except ValueError:
            return
        if message is None:
            return
        del self._joins[point]
        is_first = not self._live
        version = self._hand(dict.fromkeys(join.members, point or (0, 0)), message)
        if is_first and version is not None:
            self._version, self._quiet = version, 0

    def ask_again(self) -> None:
        """Ask for every beginning that has not come."""
        for join in self._joins.values():
            self._room.saying.start(self._room.ask(join.token, join.question))

    def tick(self) -> None:
        """Notice that the app no longer publishes this view, or that nobody here wants it."""
        self._quiet += 1
        self.unused = 0 if self._live or self._joins else self.unused + 1
        for join in self._joins.values():
            join.ticks += 1
            if join.ticks in _AGAIN_TICKS:
                self._room.saying.start(self._room.ask(join.token, join.question))
        if self._quiet > _QUIET_TICKS:
            self.lose()

    def _heard(self, _: str, __: str, payload: bytes | None) -> None:
        try:
            message = None if payload is None else self._assembler.take(payload)
        except ValueError:
            self.lose()
            return
        if message is None or not self._live:
            return
        self._quiet = 0
        patch = _PATCH.match(message)
        if patch is not None:
            version, base = int(patch[1]), int(patch[2])
            # What the view showed at `base` it shows at every version up to this one.
            if base > self._version:
                self.lose()
            elif version > self._version:
                self._version = version
                behind = {one: had for one, had in self._live.items() if had[0] < version}
                self._hand(behind, message)
        elif (beat := _BEAT.fullmatch(message)) is not None:
            if int(beat[1] or 0) > self._version:
                self.lose()
        else:
            self._version = self._hand(self._live, message) or self._version

    def _hand(self, members: Mapping[_Member, _Point], message: bytes) -> int | None:
        """Hand a message to links, each under its own id and number; returns its version."""
        version, write = _read(message)
        written: dict[tuple[str, _Point], tuple[bytes, _Point]] = {}
        for member, point in list(members.items()):
            link, name = member
            ready = written.get((name, point))
            if ready is None:
                ready = written[name, point] = write(name, point)
            if version is not None:
                self._live[member] = ready[1]
            link.put(ready[0])
        return version

    def lose(self) -> None:
        """Tell every mirror that it has missed something: it asks again."""
        lost, self._live = self._live, {}
        for link, name in lost:
            gap = wire.Patch(name, _FAR, Raw(b"[]"), _FAR)
            link.put(wire.serialize(gap))


def _read(message: bytes) -> tuple[int | None, _Write]:
    """The version that a message brings, and how it reads for who has come to a point.

    What cannot be read is handed on as it is: it may have been a change.
    """
    if patch := _PATCH.match(message):
        version, ops = int(patch[1]), Raw(memoryview(message)[patch.end() : -1])

        def change(name: str, point: _Point) -> tuple[bytes, _Point]:
            had, seq = point
            return wire.serialize(wire.Patch(name, version, ops, seq + 1, had)), (version, seq + 1)

        return version, change
    if found := _SNAPSHOT.match(message):
        version, rest = int(found[1]), message[found.start(1) :]

        def beginning(name: str, _: _Point) -> tuple[bytes, _Point]:
            head = b'{"type":"snapshot","id":%b,"version":' % msgspec.json.encode(name)
            return head + rest, (version, 0)

        return version, beginning
    try:
        error = _refusals.decode(message).error
    except msgspec.DecodeError:
        return None, lambda _, point: (message, point)
    return None, lambda name, point: (wire.serialize(wire.ErrorMessage(error, name)), point)


class _Room:
    """One app on one broker: its hello, its subjects, and the links and feeds that are open."""

    def __init__(
        self, broker: Broker, url: NatsUrl, release: Callable[[], Awaitable[None]]
    ) -> None:
        self.broker = broker
        # Called when a link has left.
        self.release = release
        self.address = url.shown
        self.app_id = url.app
        self.hello = b""
        self.shared = SharedReading()
        self.welcomed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_closed = self.is_suspended = False
        # For so many ticks after the broker came back the app may still be on its way.
        self._returning = 0
        self._subjects = Subjects(url.app)
        self._inbox = broker.new_inbox()
        self._links: dict[str, NatsLink] = {}
        self._feeds: dict[str, _Feed] = {}
        self._tokens: dict[str, _Feed] = {}
        self._numbers = count(1)
        self._heard_at: list[int] = []
        self._quiet = self._ticks = 0
        self._assembler = Assembler(CONSUMER_BYTES)
        self.saying = Background()
        self.entering = asyncio.create_task(self._enter())
        self.entering.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _enter(self) -> None:
        """Ask the app who it is. Raises Unreachable or TimedOut."""
        broker = self.broker
        self._heard_at.append(await broker.hear(f"{self._inbox}.*", self._answered))
        try:
            async with asyncio.timeout(_WELCOME_S):
                while not self.welcomed.done():
                    await broker.say(self._subjects.hello, b"{}", f"{self._inbox}.hello")
                    await asyncio.wait({self.welcomed}, timeout=TICK_S)
                welcome = _welcomes.decode(await self.welcomed)
        except TimeoutError:
            raise TimedOut(f"{self.address}: no answer within {_WELCOME_S:g} s") from None
        except (msgspec.DecodeError, UnicodeError):
            raise Unreachable(f"{self.address}: it does not say who it is") from None
        self._subjects = Subjects(self.app_id, welcome.key)
        self.hello = wire.serialize(wire.Hello(welcome.provider))
        self._heard_at.append(await broker.hear(self._subjects.life, self._lives))

    def link(self) -> NatsLink:
        """Open one more link."""
        link = NatsLink(self, f"l{next(self._numbers)}")
        self._links[link.token] = link
        return link

    def leave(self, link: NatsLink) -> None:
        """Forget a link."""
        self._links.pop(link.token, None)

    @property
    def is_used(self) -> bool:
        return bool(self._links)

    def feed(self, wanted: wire.Subscribe) -> _Feed:
        """The feed of a view."""
        subject = self._subjects.view(wanted)
        if subject not in self._feeds:
            self._feeds[subject] = _Feed(self, wanted, subject)
        return self._feeds[subject]

    def token(self, feed: _Feed) -> str:
        """Name an answer that is for a feed."""
        token = f"f{next(self._numbers)}"
        self._tokens[token] = feed
        if len(self._tokens) > _UNREAD:
            del self._tokens[next(iter(self._tokens))]
        return token

    async def ask(self, token: str, message: bytes) -> None:
        """Ask the app something; the answer comes under the token."""
        await self.broker.say(self._subjects.ask, message, f"{self._inbox}.{token}")

    def tick(self) -> None:
        """Notice an app that is gone; keep the views that are mirrored here."""
        if self.is_suspended:
            return
        self._ticks += 1
        self._quiet += 1
        self._returning = max(0, self._returning - 1)
        if self._quiet > _QUIET_TICKS:
            self.close()
            return
        for subject, feed in list(self._feeds.items()):
            feed.tick()
            if feed.unused > _UNUSED_TICKS:
                del self._feeds[subject]
                if feed.number is not None:
                    self.saying.start(self.broker.ignore(feed.number))
            elif self._ticks % _KEEP_TICKS == 0:
                kept = msgspec.structs.replace(feed.wanted, id="keep")
                self.saying.start(self.ask("keep", wire.serialize(kept)))
        if self._ticks % _LIFE_TICKS == 0:
            # A sign of life, so that not each of many links asks for one.
            for link in list(self._links.values()):
                link.put(self.hello)

    def suspend(self) -> None:
        """Note that the broker is away."""
        self.is_suspended = True
        for link in list(self._links.values()):
            link.suspend()
        for feed in self._feeds.values():
            feed.lose()

    def resume(self) -> None:
        """Note that the broker is back: what is heard and waited for is asked for once more."""
        self.is_suspended = False
        self._quiet, self._returning = 0, _QUIET_TICKS
        self._ask_again()

    def _ask_again(self) -> None:
        for feed in self._feeds.values():
            feed.ask_again()

    def close(self) -> None:
        """End every link."""
        if not self.is_closed:
            self.is_closed = True
            links, self._links = self._links, {}
            for link in links.values():
                link.end()
            feeds = [feed.number for feed in self._feeds.values() if feed.number is not None]
            for number in [*self._heard_at, *feeds]:
                self.saying.start(self.broker.ignore(number))

    def _answered(self, subject: str, _: str, payload: bytes | None) -> None:
        token = subject.rpartition(".")[2]
        if token == "hello":
            if not self.welcomed.done():
                self._welcome(payload)
        elif payload is None:
            if not self._returning:
                self.close()
        elif (link := self._links.get(token)) is not None:
            link.answer(payload)
        elif (feed := self._tokens.get(token)) is not None:
            feed.answer(token, payload)

    def _welcome(self, payload: bytes | None) -> None:
        try:
            message = None if payload is None else Assembler(WELCOME_BYTES).take(payload)
        except ValueError:
            return
        if message is None:
            self.welcomed.set_exception(
                Unreachable(f"{self.address}: there is no app {self.app_id!r}")
            )
        else:
            self.welcomed.set_result(message)

    def _lives(self, _: str, __: str, payload: bytes | None) -> None:
        self._quiet = 0
        if self._returning:
            self._returning = 0
            self._ask_again()
        try:
            message = None if payload is None else self._assembler.take(payload)
        except ValueError:
            return
        if message is not None and message.startswith(_EVENT):
            for link in list(self._links.values()):
                link.put(message)


class _Shared:
    """The connection of one event loop to one broker, for as long as somebody needs it."""

    def __init__(self, url: NatsUrl, forget: Callable[[], object]) -> None:
        self.broker = Broker(url)
        self.broker.on_down = self._down
        self.broker.on_up = self._up
        self._forget = forget
        self._connecting = asyncio.create_task(self.broker.connect())
        self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._rooms: dict[str, _Room] = {}
        self._users = 0
        self._ticking = asyncio.create_task(self._tick())

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Hold the connection, which must be there: raises why it cannot be made.

        One that was there and is lost is waited for.
        """
        self._users += 1
        try:
            await asyncio.shield(self._connecting)
            await self.broker.is_up.wait()
            yield
        finally:
            self._users -= 1
            await self.release()

    async def link(self, url: NatsUrl) -> NatsLink:
        """Enter an app's room, with whoever else does. Raises why there is none."""
        async with self.used():
            room = self._rooms.get(url.app)
            if room is None or room.is_closed:
                room = self._rooms[url.app] = _Room(self.broker, url, self.release)
            try:
                await asyncio.shield(room.entering)
            except (SightlineError, asyncio.CancelledError):
                if room.entering.done():
                    room.close()
                    if room.entering.cancelled():
                        raise Unreachable(f"{room.address}: the broker is gone") from None
                raise
            return room.link()

    async def release(self) -> None:
        """Let go of what nobody uses; of a broker that is away not at once."""
        for app_id, room in list(self._rooms.items()):
            if room.is_closed or (room.entering.done() and not room.is_used):
                room.close()
                del self._rooms[app_id]
        never_was = self._connecting.done() and not self.broker.was_up
        if not self._users and not self._rooms and (self.broker.is_up.is_set() or never_was):
            await self._close()

    async def _close(self) -> None:
        self._forget()
        await self.broker.close()
        if self._ticking is not asyncio.current_task():
            self._ticking.cancel()

    def _down(self) -> None:
        for room in self._rooms.values():
            if room.entering.done():
                room.suspend()
            else:
                room.entering.cancel()
                room.close()

    def _up(self) -> None:
        for room in self._rooms.values():
            room.resume()

    async def _tick(self) -> None:
        """Look after the rooms; let go of a broker that stays away when nobody waits for it."""
        unused = 0
        try:
            while unused < _LINGER_TICKS:
                await asyncio.sleep(TICK_S)
                for room in list(self._rooms.values()):
                    if room.entering.done():
                        room.tick()
                unused = 0 if self._users or self._rooms else unused + 1
        except asyncio.CancelledError:  # by the loop, which ends, or when it is closed already
            self.broker.abort()
            raise
        await self._close()


_shared: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[NatsUrl, _Shared]]] = (
    WeakKeyDictionary()
)


def shared_at(url: NatsUrl) -> _Shared:
    """The connection of this event loop to a broker."""
    known = _shared.setdefault(asyncio.get_running_loop(), {})
    key = url.of_app("")
    if key not in known:
        known[key] = _Shared(key, lambda: known.pop(key, None))
    return known[key]


async def connect_nats(address: str, token: str | None = None) -> NatsLink:
    """Connect to an app on a broker. Raises Unreachable, TimedOut, Unauthorized or InvalidInput."""
    url = NatsUrl.read(address, token)
    if not url.app:
        raise InvalidInput(f"{url.shown}: which app? nats://HOST:PORT/APP")
    return await shared_at(url).link(url)
