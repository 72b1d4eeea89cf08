"""The consumer's side of the protocol, for one provider. Pure.

*Theory of operation.* A `Consumer` outlives its connections. Subscriptions and
their mirrors stay when a connection is lost; requests that were waiting fail at
once. On the next connection, after its `hello`, everything that is subscribed is
subscribed again under its old id, with the point it had reached where the provider
can resume. Bytes go in through `receive`, which returns what happened; bytes come
out of `frames_to_send`.

*A mirror is right or it says so.* It starts from a snapshot and takes a patch only
if its `seq` is the next one and its ops apply. Anything else (a gap, a repetition,
a patch that does not fit) makes it subscribe again with the same parameters; until
the fresh snapshot is there, patches are dropped, and so are later ones whose
version is not beyond that snapshot's. Without a `seq`, as before SLOP 0.2, a gap is
not seen. Each such patch is `Garbled`, too: a provider that numbers all of them wrongly
is asked as often as its driver has patience for.

*What cannot be read may have been a change*, unless it says that it is none: of the
subscription it names, of every one if it names none. A mirror that was current asks
again, at once. One that waits for its snapshot already does not: against a provider
whose every answer is unreadable that would never end. Whoever drives the consumer
repeats the question in its own time (`subscribe_again`), and counts what is `Garbled`.

*A mirror is bounded.* What no snapshot could bring, many small patches cannot either:
one by which a mirror would outgrow the limits of a snapshot is refused like any other
that does not fit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

import sightline.slop.protocol.messages as wire
from sightline.errors import InvalidInput, InvalidJson, TooLarge
from sightline.slop.protocol.codec import decode_steps, snapshot_steps
from sightline.slop.protocol.jsontext import read
from sightline.slop.protocol.limits import NODE_BYTES, WIRE, Limits
from sightline.slop.protocol.patch import apply_steps
from sightline.slop.protocol.pieces import (
    PIECE_BYTES,
    Part,
    Steps,
    Text,
    finish,
    items,
    size,
    value,
)
from sightline.slop.protocol.tree import Node

MESSAGE_BYTES: Final = 17 * 1024 * 1024
_BATCHED_MESSAGES: Final = 10_000
_MEASURED_NODES: Final = 1_000
# The messages that say nothing of a tree; any other that cannot be read may have been a change.
_STATELESS: Final = frozenset({"hello", "result", "event", "error"})


class Connected(msgspec.Struct, frozen=True):
    """The provider has said hello; subscriptions are on their way."""

    provider: wire.ProviderInfo


class MirrorChanged(msgspec.Struct, frozen=True):
    """A subscription shows something new. `patched` is False for a snapshot."""

    subscription: str
    tree: Node
    version: int
    patched: bool


class Resumed(msgspec.Struct, frozen=True):
    """A subscription is current again, and nothing was missed."""

    subscription: str


class QueryAnswered(msgspec.Struct, frozen=True):
    """The snapshot that a query asked for."""

    request: str
    tree: Node
    version: int


@dataclass(frozen=True, slots=True)
class InvokeAnswered:
    """What became of an invoke; `data` is what its result carries, read."""

    request: str
    result: wire.Result
    data: Any = field(default=None, compare=False)


class EventArrived(msgspec.Struct, frozen=True):
    """The provider sent an event: something happened that is not part of its state."""

    name: str
    data: Any


class Refused(msgspec.Struct, frozen=True):
    """The provider answered with an error: to a query, a subscription, or to nothing known."""

    request: str | None
    code: str
    message: str


class RequestFailed(msgspec.Struct, frozen=True):
    """A query or invoke will not be answered: the connection is gone."""

    request: str
    reason: str


class Garbled(msgspec.Struct, frozen=True):
    """The provider sent what is no message, no tree or no patch of ours; it was skipped."""

    reason: str


ConsumerEvent: TypeAlias = (
    Connected
    | MirrorChanged
    | Resumed
    | QueryAnswered
    | InvokeAnswered
    | EventArrived
    | Refused
    | RequestFailed
    | Garbled
)


# A mirror's tree, version and seq.
_Progress: TypeAlias = tuple[Node, int, int]


class Mirror(msgspec.Struct):
    """The copy of a provider's tree that one subscription keeps, and how far it has come."""

    ask: wire.Subscribe
    tree: Node | None = None
    version: int = 0
    seq: int = 0
    base_version: int = -1
    # The life of the provider in which all of this was said.
    epoch: str | UnsetType = UNSET
    # What the next message must be: a snapshot, or the patch that follows a resume point.
    awaits_snapshot: bool = True
    awaits_resume: bool = False
    # How large the tree is at most; it is measured only when that would be too much.
    most_nodes: int = 0
    most_bytes: int = 0

    @property
    def is_current(self) -> bool:
        """Whether the mirror waits for nothing: neither a snapshot nor the patch after a resume."""
        return not self.awaits_snapshot and not self.awaits_resume

    @property
    def progress(self) -> _Progress | None:
        """How far the mirror has come, and with which tree; None while it waits for something."""
        if self.tree is None or not self.is_current:
            return None
        return self.tree, self.version, self.seq

    def grow(self, patch_bytes: int) -> None:
        """Raise the bounds on the tree's size by what a patch of so many bytes can have added."""
        self.most_bytes += patch_bytes
        self.most_nodes += patch_bytes // NODE_BYTES


class SharedReading(msgspec.Struct):
    """What was read last, for consumers that are handed the very same bytes.

    Trees are values: many mirrors of one view are one tree, which is read and changed once.
    """

    data: bytes | None = None
    subscription: str = ""
    before: _Progress | None = None
    after: _Progress | None = None
    size: int = 0


class Consumer(msgspec.Struct):
    """The subscriptions, queries and invokes to one provider, across its connections."""

    limits: Limits = WIRE
    message_bytes: int = MESSAGE_BYTES
    provider: wire.ProviderInfo | None = None
    first_id: int = 1
    mirrors: dict[str, Mirror] = msgspec.field(default_factory=dict)
    shared: SharedReading | None = None
    _queries: set[str] = msgspec.field(default_factory=set)
    _invokes: set[str] = msgspec.field(default_factory=set)
    _outbox: deque[bytes] = msgspec.field(default_factory=deque)
    _ids: count[int] = msgspec.field(default_factory=count)
    _greeted: bool = False

    def __post_init__(self) -> None:
        self._ids = count(self.first_id)

    def subscribe(
        self,
        path: str = "/",
        *,
        depth: int = -1,
        max_nodes: int | None = None,
        filter: wire.Filter | None = None,  # noqa: A002 - the protocol's own name for it
        subscription_id: str | None = None,
    ) -> str:
        """Ask for a mirror; returns its id. It is asked for again on every new connection."""
        own_id = subscription_id or f"s{next(self._ids)}"
        if own_id in self.mirrors:
            raise InvalidInput(f"there is a subscription {own_id!r} already")
        mirror = Mirror(wire.Subscribe(own_id, path, depth, max_nodes, filter))
        if self._greeted:
            self._ask(mirror)
        self.mirrors[own_id] = mirror
        return own_id

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription and drop its mirror."""
        if self.mirrors.pop(subscription_id, None) is not None and self._greeted:
            self._send(wire.Unsubscribe(subscription_id))

    def subscribe_again(self, subscription_id: str) -> None:
        """Ask for a fresh snapshot in place of one that does not come."""
        mirror = self.mirrors.get(subscription_id)
        if mirror is not None and self._greeted:
            self._ask_again(mirror)

    def query(
        self,
        path: str = "/",
        *,
        depth: int = -1,
        max_nodes: int | None = None,
        filter: wire.Filter | None = None,  # noqa: A002 - the protocol's own name for it
        window: tuple[int, int] | None = None,
    ) -> str:
        """Ask for one snapshot; returns the id under which it will be answered."""
        request = f"q{next(self._ids)}"
        self._send(wire.Query(request, path, depth, max_nodes, filter, window))
        self._queries.add(request)
        return request

    def invoke(
        self, path: str, action: str, params: dict[str, Any] | None = None, *, trace: str = ""
    ) -> str:
        """Ask for an action; returns the id under which it will be answered.

        `trace` is the context of the caller's span, for a provider that takes part in traces.
        """
        request = f"i{next(self._ids)}"
        sent = trace if trace and self._offers("x-trace") else UNSET
        self._send(wire.Invoke(request, path, action, params, sent))
        self._invokes.add(request)
        return request

    def connection_lost(self, reason: str = "the connection is gone") -> list[ConsumerEvent]:
        """Note the loss; every waiting request fails now. Mirrors stay for the next time."""
        waiting = sorted(self._queries | self._invokes)
        self._queries.clear()
        self._invokes.clear()
        self._outbox.clear()
        self._greeted = False
        return [RequestFailed(request, reason) for request in waiting]

    def frames_to_send(self) -> list[bytes]:
        """Take what is to be sent; nothing before the provider's hello."""
        if not self._greeted:
            return []
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def receive(self, data: bytes | str) -> list[ConsumerEvent]:
        """Take in one message from the provider; returns what happened."""
        return finish(self.receive_steps(data))

    def receive_steps(self, data: bytes | str) -> Steps[list[ConsumerEvent]]:
        """Like `receive`, piece by piece; see `pieces`. The next message waits for the end."""
        shared = self.shared
        if shared is None or not isinstance(data, bytes):
            return (yield from self._receive_steps(data))
        if shared.data is data and (known := self._take_known(shared)) is not None:
            return known
        before = {name: mirror.progress for name, mirror in self.mirrors.items()}
        events = yield from self._receive_steps(data)
        match events:
            case [MirrorChanged(name, patched=patched)] if mirror := self.mirrors.get(name):
                if patched and before.get(name) is None:
                    return events  # upon what was not current: it tells others nothing
                shared.data, shared.subscription = data, name
                shared.before = before.get(name) if patched else None
                shared.after = mirror.progress
                shared.size = len(data) if patched else mirror.most_bytes
        return events

    def _take_known(self, shared: SharedReading) -> list[ConsumerEvent] | None:
        """Take what another consumer has read, if it says the same here; None if it may not."""
        name, before, after = shared.subscription, shared.before, shared.after
        mirror = self.mirrors.get(name)
        if mirror is None or after is None:
            return None
        tree, version, seq = after
        if before is None:
            return self._show(name, tree, version, seq, shared.size)
        most_nodes = mirror.most_nodes + shared.size // NODE_BYTES
        is_large = mirror.most_bytes + shared.size > self.message_bytes or (
            self.limits.nodes is not None and most_nodes > self.limits.nodes
        )
        now = mirror.progress
        if is_large or now is None or now[0] is not before[0] or now[1:] != before[1:]:
            return None
        mirror.grow(shared.size)
        mirror.tree, mirror.version, mirror.seq = after
        return [MirrorChanged(name, tree, version, patched=True)]

    def _receive_steps(self, data: bytes | str) -> Steps[list[ConsumerEvent]]:
        short = wire.short_provider_message(data, self.message_bytes, self.limits.message_levels)
        if short is not None and not isinstance(short, wire.Batch):
            return (yield from self._handle(short, {}))
        if isinstance(data, bytes) and len(data) <= self.message_bytes:
            seen = yield from snapshot_steps(data, self.limits)
            if seen is not None:
                return self._show(seen.id, seen.tree, seen.version, seen.seq, len(data))
        events: list[ConsumerEvent] = []
        waiting: deque[bytes | str | Text] = deque([data])
        unwrapped = 0
        while waiting:
            item = waiting.popleft()
            try:
                message, large = yield from wire.provider_message_steps(
                    item, self.message_bytes, self.limits
                )
            except wire.BadMessage as error:
                events += self._take_unreadable(error)
                continue
            # SLOP, messages: a batch is unwrapped in order.
            if isinstance(message, wire.Batch):
                inner = list(items(large["messages"])) if "messages" in large else message.messages
                unwrapped += len(inner)
                if unwrapped > _BATCHED_MESSAGES:
                    reason = f"more than {_BATCHED_MESSAGES} messages in a batch"
                    events += self._take_unreadable(wire.BadMessage(reason))
                    break
                waiting.extendleft(reversed(inner))
            else:
                events.extend((yield from self._handle(message, large)))
            if waiting:
                yield
        return events

    def _handle(
        self, message: wire.ProviderMessage, large: dict[str, Part]
    ) -> Steps[list[ConsumerEvent]]:
        match message:
            case wire.Hello():
                return self._greet(message.provider)
            case wire.Snapshot():
                return (yield from self._take_snapshot(message, large.get("tree", message.tree)))
            case wire.Patch():
                return (yield from self._take_patch(message, large.get("ops", message.ops)))
            case wire.Result():
                if message.id in self._invokes:
                    answer = yield from _answered(message, large)
                    self._invokes.discard(message.id)
                    return [answer]
            case wire.Event():
                try:
                    data = yield from _value(large.get("data", message.data))
                except InvalidJson as error:
                    return [Garbled(f"event {message.name[:80]!r}: {error}")]
                return [EventArrived(message.name, data)]
            case wire.ErrorMessage():
                return self._take_error(message)
        return []

    def _take_unreadable(self, error: wire.BadMessage) -> list[ConsumerEvent]:
        """Skip a message, and doubt the mirrors that it may have been meant for."""
        # SLOP, messages: a consumer ignores types that it does not know.
        if error.unknown_type is not None:
            return []
        if error.kind == "snapshot" and error.request in self._queries:
            self._queries.discard(error.request)
            return [Refused(error.request, "internal", error.reason)]
        if error.kind not in _STATELESS:
            named = error.request if error.kind in {"patch", "snapshot"} else None
            for subscription in self.mirrors if named is None else (named,):
                self._doubt(subscription)
        return [Garbled(error.reason)]

    def _greet(self, provider: wire.ProviderInfo) -> list[ConsumerEvent]:
        if self._greeted:
            return []
        self._greeted = True
        self.provider = provider
        waiting, self._outbox = self._outbox, deque()
        for mirror in self.mirrors.values():
            point = self._resume_point(mirror)
            mirror.awaits_resume = point is not None
            mirror.awaits_snapshot = point is None
            self._ask(mirror, point)
        self._outbox.extend(waiting)
        return [Connected(provider)]

    def _resume_point(self, mirror: Mirror) -> wire.ResumePoint | None:
        if mirror.awaits_snapshot or isinstance(mirror.epoch, UnsetType):
            return None
        # Another life cannot resume; and its first patch may be numbered as if it did.
        if self.provider is None or mirror.epoch != self.provider.epoch:
            return None
        if not self._offers("x-resume"):
            return None
        return wire.ResumePoint(mirror.epoch, mirror.version, mirror.seq)

    def _take_snapshot(self, message: wire.Snapshot, text: Text) -> Steps[list[ConsumerEvent]]:
        mirror = self.mirrors.get(message.id)
        is_query = message.id in self._queries
        if mirror is None and not is_query:
            return []
        try:
            tree = yield from decode_steps(text, self.limits)
        except InvalidInput as error:
            reason = f"an illegal tree: {error}"
            if is_query:
                self._queries.discard(message.id)
                return [Refused(message.id, "internal", reason)]
            self._doubt(message.id)
            return [Garbled(f"snapshot of {message.id!r}: {reason}")]
        return self._show(message.id, tree, message.version, message.seq, size(text))

    def _show(
        self, request: str, tree: Node, version: int, seq: int | UnsetType, size_bytes: int
    ) -> list[ConsumerEvent]:
        """Answer a query with a snapshot, or renew a mirror that was not given up meanwhile."""
        if request in self._queries:
            self._queries.discard(request)
            return [QueryAnswered(request, tree, version)]
        mirror = self.mirrors.get(request)
        if mirror is None:
            return []
        mirror.tree = tree
        mirror.most_bytes = size_bytes
        mirror.most_nodes = size_bytes // NODE_BYTES
        mirror.version = mirror.base_version = version
        mirror.seq = 0 if isinstance(seq, UnsetType) else seq
        mirror.epoch = UNSET if self.provider is None else self.provider.epoch
        mirror.awaits_snapshot = mirror.awaits_resume = False
        return [MirrorChanged(request, tree, version, patched=False)]

    def _take_patch(self, message: wire.Patch, ops: Text) -> Steps[list[ConsumerEvent]]:
        if (mirror := self._to_be_patched(message)) is None:
            return []
        try:
            tree = yield from apply_steps(_followed(mirror, message), ops, self.limits)
            mirror.grow(size(ops))
            yield from self._measure(mirror, tree)
        except InvalidInput as error:
            return self._refuse_patch(mirror, error)
        return self._patched(mirror, message, tree)

    def _to_be_patched(self, message: wire.Patch) -> Mirror | None:
        """Find the mirror that a patch is for; None if it is for none that waits for patches."""
        mirror = self.mirrors.get(message.subscription)
        if mirror is None or mirror.tree is None or mirror.awaits_snapshot:
            return None
        # SLOP, messages: what is not beyond the fresh snapshot is dropped. Once a patch has
        # followed it nothing so old can be on its way, and what comes contradicts that patch.
        is_old = message.version <= mirror.base_version and not mirror.awaits_resume
        return None if is_old and mirror.version == mirror.base_version else mirror

    def _refuse_patch(self, mirror: Mirror, error: InvalidInput) -> list[ConsumerEvent]:
        self._doubt(mirror.ask.id)
        return [Garbled(f"patch of {mirror.ask.id!r}: {error}")]

    def _patched(self, mirror: Mirror, message: wire.Patch, tree: Node) -> list[ConsumerEvent]:
        # Asked for again while the patch was read.
        if not mirror.is_current and not mirror.awaits_resume:
            return []
        resumed, mirror.awaits_resume = mirror.awaits_resume, False
        mirror.version = message.version
        if not isinstance(message.seq, UnsetType):
            mirror.seq = message.seq
        if tree is mirror.tree:
            return [Resumed(message.subscription)] if resumed else []
        mirror.tree = tree
        return [MirrorChanged(message.subscription, tree, message.version, patched=True)]

    def _measure(self, mirror: Mirror, tree: Node) -> Steps[None]:
        """Measure what patches made of a mirror. Raises TooLarge where it is beyond the limits."""
        if mirror.most_bytes > self.message_bytes:
            mirror.most_bytes = yield from _bytes_of(tree)
            if mirror.most_bytes > self.message_bytes:
                raise TooLarge(f"the mirror would have more than {self.message_bytes} bytes")
        most_nodes = self.limits.nodes
        if most_nodes is not None and mirror.most_nodes > most_nodes:
            mirror.most_nodes = sum(1 for _ in islice(tree.walk(), most_nodes + 1))
            if mirror.most_nodes > most_nodes:
                raise TooLarge(f"the mirror would have more than {most_nodes} nodes")

    def _doubt(self, subscription_id: str) -> None:
        """Ask again for what may have changed unseen, unless a snapshot is on its way."""
        mirror = self.mirrors.get(subscription_id)
        if mirror is not None and self._greeted and not mirror.awaits_snapshot:
            self._ask_again(mirror)

    def _ask_again(self, mirror: Mirror) -> None:
        mirror.awaits_snapshot = True
        mirror.awaits_resume = False
        self._send(wire.Unsubscribe(mirror.ask.id))
        self._ask(mirror)

    def _ask(self, mirror: Mirror, resume: wire.ResumePoint | None = None) -> None:
        takes_fields = self._offers("x-fields")
        self._send(msgspec.structs.replace(mirror.ask, resume=resume, fields=takes_fields))

    def _take_error(self, message: wire.ErrorMessage) -> list[ConsumerEvent]:
        request = message.id
        if request is not None:
            self._queries.discard(request)
            if request in self._invokes:
                self._invokes.discard(request)
                failed = wire.Result(request, "error", error=message.error)
                return [InvokeAnswered(request, failed)]
        return [Refused(request, message.error.code, message.error.message)]

    def _offers(self, capability: str) -> bool:
        return self.provider is not None and capability in self.provider.capabilities

    def _send(self, message: wire.Subscribe | wire.Unsubscribe | wire.Query | wire.Invoke) -> None:
        try:
            self._outbox.append(wire.serialize(message))
        except UnicodeEncodeError:  # a model may write one as an escape
            raise InvalidInput("a string must not contain a lone surrogate") from None


def _followed(mirror: Mirror, message: wire.Patch) -> Node:
    """Give the tree that a patch follows upon. Raises InvalidInput where something is missing."""
    is_next = isinstance(message.seq, UnsetType) or message.seq == mirror.seq + 1
    follows = isinstance(message.base, UnsetType) or message.base == mirror.version
    # SLOP, messages: who sees a gap in seq subscribes again.
    if mirror.tree is None or not is_next or not follows or message.version < mirror.version:
        have = f"version {mirror.version}, seq {mirror.seq}"
        raise InvalidInput(f"version {message.version}, seq {message.seq} does not follow {have}")
    return mirror.tree


def _value(text: Text | UnsetType) -> Steps[Any]:
    if isinstance(text, UnsetType):
        return None
    if not isinstance(text, Part) and len(text) <= PIECE_BYTES:
        return read(text)
    return (yield from value(text))


def _answered(message: wire.Result, large: dict[str, Part]) -> Steps[InvokeAnswered]:
    try:
        data = yield from _value(large.get("data", message.data))
    except InvalidJson as error:
        failed = wire.Result(message.id, "error", error=wire.ErrorInfo("internal", str(error)))
        return InvokeAnswered(message.id, failed)
    return InvokeAnswered(message.id, message, data)


def _bytes_of(tree: Node) -> Steps[int]:
    """How many bytes a tree takes as JSON, about: its texts, its ids, and what stands between."""
    total = 0
    for number, node in enumerate(tree.walk()):
        total += node.own_bytes
        if not number % _MEASURED_NODES:
            yield
    return total
