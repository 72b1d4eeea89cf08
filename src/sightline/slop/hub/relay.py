"""The browser bridge's frames, and who is told what: tabs, who announced them, who opened them.

An extension announces pages that show state, and passes messages between a page and whoever
opened it. The deployed bridge sends every frame to everybody; here an extension speaks for the
tabs that it announced itself, and a message of a tab reaches those who opened that tab.

    extension → bridge   provider-available, provider-unavailable, slop-relay
    consumer → bridge    relay-open, relay-close, slop-relay

Ours beyond that: each opening is a `channel` of its own, which our extension carries into the page
and a deployed one leaves out (then a message is for all who opened the tab); `reason: "asleep"`
with a tab that is not there for now; `origin` with a page, as the browser knows it.

Nothing here waits: frames go out through functions that take them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Raw

from sightline.errors import InvalidInput
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

TABS: Final = 64
OPENINGS: Final = 64
MESSAGE_BYTES: Final = 17 * 1024 * 1024
_NESTING: Final = NESTING + 1

Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
Line: TypeAlias = Annotated[str, Meta(max_length=1024)]
Absence: TypeAlias = Literal["closed", "asleep", "lost"]
Send: TypeAlias = Callable[[bytes], None]

# What only a consumer says: a bridge that sends everything to everybody sends us our own words.
_ASKING: Final = frozenset(
    {"connect", "disconnect", "subscribe", "unsubscribe", "query", "invoke", "pause", "resume"}
)


class TabProvider(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an extension says of a page: its own id and name, and how it is reached."""

    id: Line | None = None
    name: Line | None = None
    transport: Line = ""
    url: Line | None = None
    provider_id: Line | None = None
    origin: Line | None = None


class _Frame(msgspec.Struct, frozen=True, rename="camel", tag_field="type", omit_defaults=True):
    provider_key: Key


class _Available(_Frame, frozen=True, tag="provider-available"):
    tab_id: int | None = None
    provider: TabProvider = TabProvider()


class _Unavailable(_Frame, frozen=True, tag="provider-unavailable"):
    tab_id: int | None = None
    reason: Line | None = None


class _Open(_Frame, frozen=True, tag="relay-open"):
    channel: Line | None = None
    consumer: Line | None = None


class _Close(_Frame, frozen=True, tag="relay-close"):
    channel: Line | None = None


class _Relayed(_Frame, frozen=True, tag="slop-relay"):
    message: Raw
    channel: Line | None = None


class _Typed(msgspec.Struct, frozen=True):
    type: str


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_frames: Final = msgspec.json.Decoder(_Available | _Unavailable | _Open | _Close | _Relayed)
_types: Final = msgspec.json.Decoder(_Typed)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(eq=False, slots=True)
class TabSource:
    """A connection that announces tabs: an extension, or another bridge (`channels` False).

    `carries` is whether it was seen to know what a channel is.
    """

    origin: str
    send: Send
    channels: bool = True
    carries: bool = False
    tabs: dict[str, Tab] = field(default_factory=dict)
    asleep: dict[str, Tab] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class BridgeConsumer:
    """A connection that opens tabs."""

    name: str
    send: Send
    openings: dict[str, Opening] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Tab:
    """A page that an extension announced. `key` is ours, `source_key` the extension's."""

    key: str
    source: TabSource
    source_key: str
    tab_id: int
    provider: TabProvider
    openings: dict[str, Opening] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays the same of a page that comes again."""
        page = self.provider
        return (self.source.origin, self.key, page.origin or "", page.provider_id or page.id or "")


@dataclass(eq=False, slots=True)
class Opening:
    """One consumer's way to one tab. `take` gets each message, `end` is called when it is over."""

    tab: Tab
    channel: str
    take: Send
    end: Callable[[Absence], None]

    def send(self, message: bytes) -> None:
        """Pass a message on to the page."""
        if self.channel in self.tab.openings:
            self._say(_Relayed(self.tab.source_key, Raw(message), self._channel))

    def close(self) -> None:
        """Open the tab no longer."""
        tab = self.tab
        if tab.openings.pop(self.channel, None) is None:
            return
        # Who knows no channels would close it for everybody.
        if tab.source.carries or not tab.openings:
            self._say(_Close(tab.source_key, self._channel))

    def _say(self, frame: _Frame) -> None:
        self.tab.source.send(_encode(frame))

    @property
    def _channel(self) -> str | None:
        return self.channel if self.tab.source.channels else None


class TabWatcher(Protocol):
    """Who wants to know of tabs."""

    def appeared(self, tab: Tab) -> None:
        """Note a tab that is there, or that says something else of itself."""

    def vanished(self, tab: Tab, absence: Absence) -> None:
        """Note that a tab is not there any more, or not for now."""


class Relay:
    """The tabs of every extension, and who has opened them."""

    def __init__(self, watcher: TabWatcher) -> None:
        self.tabs: dict[str, Tab] = {}
        self._watcher = watcher
        self._consumers: list[BridgeConsumer] = []
        self._channels = count(1)
        self._taken: set[str] = set()  # keys of tabs, also of those asleep

    def join(self, consumer: BridgeConsumer) -> None:
        """Take a consumer in; it is told of every tab."""
        self._consumers.append(consumer)
        for tab in self.tabs.values():
            consumer.send(_announcement(tab))

    def leave(self, consumer: BridgeConsumer) -> None:
        """Close what a consumer had opened."""
        self._consumers.remove(consumer)
        for opening in consumer.openings.values():
            opening.close()

    def lose(self, source: TabSource) -> None:
        """Note that an extension is not connected any more."""
        for tab in list(source.tabs.values()):
            self._drop(tab, "lost")
        for key in list(source.asleep):
            self._forget(source, key, "lost")

    def open(self, key: str, name: str, take: Send, end: Callable[[Absence], None]) -> Opening:
        """Open a tab. Raises InvalidInput where there is none, or too many have opened it."""
        tab = self.tabs.get(key)
        if tab is None:
            raise InvalidInput(f"there is no tab {key!r}")
        if len(tab.openings) >= OPENINGS:
            raise InvalidInput("too many have opened this tab")
        opening = Opening(tab, f"c{next(self._channels)}", take, end)
        tab.openings[opening.channel] = opening
        shown = name if tab.source.channels else None
        tab.source.send(_encode(_Open(tab.source_key, opening._channel, shown)))
        return opening

    def hear_source(self, source: TabSource, data: bytes) -> None:
        """Take a frame of an extension. Raises InvalidInput for one that it may not send."""
        match _read(data):
            case _Available() as frame:
                self._announce(source, frame)
            case _Unavailable(key, _, reason):
                if (tab := source.tabs.get(key)) is not None:
                    self._drop(tab, "asleep" if reason == "asleep" else "closed")
                elif reason != "asleep" and key in source.asleep:
                    self._forget(source, key, "closed")
            case _Relayed(key, message, channel):
                self._pass_on(source, key, bytes(message), channel)
            case frame:
                if source.channels:  # another bridge sends everybody's
                    raise InvalidInput(f"an extension does not send {type(frame).__name__}")

    def hear_consumer(self, consumer: BridgeConsumer, data: bytes) -> None:
        """Take a frame of a consumer. Raises InvalidInput for one that it may not send."""
        match _read(data):
            case _Open(key):
                if key not in consumer.openings:
                    self._open_for(consumer, key)
            case _Close(key):
                if (opening := consumer.openings.pop(key, None)) is not None:
                    opening.close()
            case _Relayed(key, message):
                if key not in consumer.openings:
                    raise InvalidInput("that tab is not open here")
                consumer.openings[key].send(bytes(message))
            case _:
                raise InvalidInput("a consumer announces nothing")

    def _open_for(self, consumer: BridgeConsumer, key: str) -> None:
        def take(message: bytes) -> None:
            consumer.send(_encode(_Relayed(key, Raw(message))))

        def end(_: Absence) -> None:
            consumer.openings.pop(key, None)

        consumer.openings[key] = self.open(key, consumer.name, take, end)

    def _announce(self, source: TabSource, frame: _Available) -> None:
        source.carries |= source.channels and frame.provider.origin is not None
        known = source.tabs.get(frame.provider_key)
        slept = source.asleep.pop(frame.provider_key, None)
        if known is None and len(source.tabs) + len(source.asleep) >= TABS:
            raise InvalidInput(f"an extension shows at most {TABS} tabs")
        before = known or slept
        key = self._free(frame.provider_key) if before is None else before.key
        transport = "ws" if frame.provider.transport == "ws" else "postmessage"
        provider = msgspec.structs.replace(frame.provider, transport=transport)
        tab = Tab(key, source, frame.provider_key, frame.tab_id or 0, provider)
        if known is not None:
            if known.identity != tab.identity or known.provider.url != tab.provider.url:
                self._drop(known, "closed")
            else:
                known.provider = provider
                tab = known
        elif slept is not None and slept.identity != tab.identity:
            self._watcher.vanished(slept, "closed")
        self._taken.add(key)
        self.tabs[key] = source.tabs[frame.provider_key] = tab
        self._tell_all(_announcement(tab))
        self._watcher.appeared(tab)

    def _free(self, key: str) -> str:
        """Two browsers number their tabs alike; neither gets the other's, nor that of a sleeper."""
        names = chain([key], (f"{key}-{number}" for number in count(2)))
        return next(name for name in names if name not in self._taken)

    def _forget(self, source: TabSource, source_key: str, absence: Absence) -> None:
        """Note that a tab that was asleep will not wake."""
        tab = source.asleep.pop(source_key)
        self._taken.remove(tab.key)
        self._watcher.vanished(tab, absence)

    def _drop(self, tab: Tab, absence: Absence) -> None:
        del self.tabs[tab.key], tab.source.tabs[tab.source_key]
        if absence == "asleep":
            tab.source.asleep[tab.source_key] = tab
        else:
            self._taken.remove(tab.key)
        openings = list(tab.openings.values())
        tab.openings.clear()
        for opening in openings:
            opening.end(absence)
        reason = "asleep" if absence == "asleep" else None
        self._tell_all(_encode(_Unavailable(tab.key, tab.tab_id, reason)))
        self._watcher.vanished(tab, absence)

    def _pass_on(self, source: TabSource, key: str, message: bytes, channel: str | None) -> None:
        tab = source.tabs.get(key)
        if tab is None:
            raise InvalidInput("that tab was not announced here")
        if len(message) > MESSAGE_BYTES:
            raise InvalidInput(f"a message has at most {MESSAGE_BYTES} bytes")
        if not source.channels and message_type(message) in _ASKING:
            return
        if channel is not None and source.channels:
            source.carries = True
            wanted = [tab.openings[channel]] if channel in tab.openings else []
        else:
            wanted = list(tab.openings.values())
        for opening in wanted:
            opening.take(message)

    def _tell_all(self, frame: bytes) -> None:
        for consumer in self._consumers:
            consumer.send(frame)


def _read(data: bytes) -> _Frame:
    """Read a frame. Raises InvalidInput."""
    if nests_deeper(data, _NESTING):
        raise InvalidInput(f"nested deeper than {_NESTING} levels")
    try:
        frame: _Frame = _frames.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a frame of the bridge: {error}") from None
    return frame


def message_type(message: bytes) -> str:
    """Read what a message says that it is; empty where it cannot be read."""
    try:
        return _types.decode(message).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _announcement(tab: Tab) -> bytes:
    return _encode(_Available(tab.key, tab.tab_id, tab.provider))
