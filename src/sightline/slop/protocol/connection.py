"""One consumer's connection, seen from the provider. Pure.

Bytes go in through `receive`, which answers what it can and returns what only the
app can do (`InvokeRequested`, `QueryRequested`); bytes come out of `messages_to_send`.
The shell around it is: read → receive → run what is asked → messages_to_send → write.

*Order.* `hello` is first. Within a subscription: its snapshot, then patches in
order. A result is queued after the patches of what the handler did, because
`send_result` flushes the provider first.

*Memory.* What is queued is bounded (`outbox`). A patch that does not fit makes its
subscription stale: its queued patches are dropped, and when the reader has taken
the rest it gets one fresh snapshot (`seq` 0) instead of all it missed. Snapshots
are not queued at all, they are made when there is room for them, and their trees are
bytes that all readers of one version share. What a consumer
asked for is always answered; `wants_input` tells the shell to stop reading from
one that asks faster than it reads.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET

import sightline.slop.protocol.messages as wire
from sightline.errors import InvalidPath, TooLarge
from sightline.slop.protocol.jsontext import sendable, text_of
from sightline.slop.protocol.outbox import Body, MessageParts, Outbox
from sightline.slop.protocol.path import parse_path
from sightline.slop.protocol.pieces import Steps, finish
from sightline.slop.protocol.tree import Affordance, Node
from sightline.slop.protocol.view import View

if TYPE_CHECKING:
    from sightline.slop.protocol.provider import Audience, Provider, ViewGroup


_JSON: Final = msgspec.json.Encoder()
_SEND_BYTES: Final = 32 * 1024


class InvokeRequested(msgspec.Struct, frozen=True):
    """The consumer asks for an action that the node exposes; the app must `send_result`.

    `node` is None where the tree has none at the path and the app may still make one.
    """

    id: str
    path: str
    action: str
    params: dict[str, Any]
    node: Node | None
    affordance: Affordance | None
    trace: str = ""


class QueryRequested(msgspec.Struct, frozen=True):
    """The consumer asks for a view; the app must `answer_query`, or `refuse` it."""

    query: wire.Query


Request: TypeAlias = InvokeRequested | QueryRequested


class Subscription:
    """One subscription of a consumer: its id, and the version and seq it was last sent.

    `takes_fields`: its mirror applies every field op. `stale`: it waits for a snapshot.
    """

    __slots__ = ("_head", "connection", "group", "id", "seq", "stale", "takes_fields", "version")

    def __init__(
        self, subscription_id: str, connection: Connection, group: ViewGroup, takes_fields: bool
    ) -> None:
        self.id = subscription_id
        self.connection = connection
        self.group = group
        self.takes_fields = takes_fields
        self.seq = 0
        self.version = 0
        self.stale = True
        subscribed = {"type": "patch", "subscription": subscription_id}
        self._head = _JSON.encode(subscribed)[:-1] + b',"version":'

    def patch_head(self, version: int) -> bytes:
        """Count one more patch; return its message up to its ops."""
        self.seq += 1
        counted = (self._head, version, self.seq, self.version)
        self.version = version
        return b'%b%d,"seq":%d,"base":%d,"ops":' % counted

    def change(self, version: int, ops: Body | None) -> None:
        """Queue the ops of a change; None, or a reader too slow for them, makes it stale."""
        if self.stale:
            return
        if ops is None or not self.connection.queue_patch(self, version, ops):
            self.connection.go_stale(self)

    def lose_root(self) -> None:
        """Send `not_found` instead of queued patches; a snapshot follows if the node comes back."""
        self.connection.go_stale(self)
        self.connection.refuse(self.id, "not_found", "the node subscribed to is gone", self)


class Connection:
    """One consumer's connection to a provider."""

    __slots__ = (
        "_audience", "_closed", "_has_stale", "_hello", "_invocations", "_outbox", "_provider",
        "_subscriptions", "faults",
    )  # fmt: skip

    def __init__(self, provider: Provider, audience: Audience) -> None:
        self._provider = provider
        self._audience = audience
        self._subscriptions: dict[str, Subscription] = {}
        self._invocations: set[str] = set()
        self._outbox = Outbox(provider.limits)
        self._closed = False
        # Whether a subscription waits for a snapshot, or for something to be shown in one.
        self._has_stale = False
        self.faults = 0
        self._hello: bytes | None = wire.serialize(wire.Hello(provider.info))
        provider.ready.add(self)

    @property
    def audience(self) -> Hashable:
        """The key of the audience whose tree this connection sees."""
        return self._audience.key

    @property
    def wants_input(self) -> bool:
        """Whether the shell may read more: not while answers or actions pile up."""
        has_hands = len(self._invocations) < self._provider.limits.invocations
        return has_hands and not self._outbox.is_full

    @property
    def has_output(self) -> bool:
        """Whether there is something to send."""
        has_snapshot = self._has_stale and bool(self._sendable_snapshots())
        return has_snapshot or bool(self._outbox) or self._hello is not None

    def receive(self, data: bytes | str) -> list[Request]:
        """Take in one message; return what only the app can answer."""
        return finish(self.receive_steps(data))

    def receive_steps(self, data: bytes | str) -> Steps[list[Request]]:
        """Like `receive`, in steps; see `pieces`. The next message waits for the end."""
        if self._closed:
            return []
        limits = self._provider.limits
        try:
            message = yield from wire.consumer_message_steps(
                data, limits.message_bytes, limits.message_levels
            )
        except wire.BadMessage as error:
            self.faults += 1
            # SLOP, messages: what is malformed is refused, and the connection lives on.
            self.refuse(error.request, "bad_request", error.reason)
            return []
        match message:
            case wire.Subscribe():
                self._subscribe(message)
            case wire.Unsubscribe():
                self._end(message.id)
            case wire.Query():
                return self._query(message)
            case wire.Invoke():
                return self._invoke(message)
        return []

    def answer_query(self, query: wire.Query, tree: Node | None = None) -> None:
        """Answer a query from the audience's tree, or from one that was made for it."""
        self._provider.flush()
        source = self._audience.tree if tree is None else tree
        try:
            showing = self._provider.showing(source.at(query.path), self._view(query.view()))
            body = showing.encoded()
        except InvalidPath as error:
            self.refuse(query.id, "not_found", str(error))
        except TooLarge as error:
            self.refuse(query.id, "bad_request", str(error))
        else:
            self._queue(self._snapshot_head(query.id, None, showing.served), Body(body))

    def send_result(
        self, request: str, data: object = UNSET, *, error: wire.ErrorInfo | None = None,
        accepted: bool = False, trace: str = "",
    ) -> None:  # fmt: skip
        """Answer an invoke, after the patches of what it changed. Once; later calls do nothing."""
        if self._closed or request not in self._invocations:
            return
        self._invocations.discard(request)
        # SLOP, messages: the changes of an invoke are sent before its result.
        self._provider.flush()
        status: Literal["ok", "accepted"] = "accepted" if accepted else "ok"
        shown = trace or UNSET
        text = UNSET if data is UNSET else text_of(data)
        message = wire.serialize(wire.Result(request, status, text, trace=shown))
        limit = self._provider.limits.snapshot_bytes
        if error is None and len(message) > limit:
            error = wire.ErrorInfo("internal", f"the result has more than {limit} bytes")
        if error is not None:
            message = wire.serialize(
                wire.Result(request, "error", error=_legible(error), trace=shown)
            )
        self._queue(message)

    def send_event(self, event: Body) -> None:
        """Tell the consumer that something happened which is not state; see `event_body`.

        A reader that is too far behind does not learn of it.
        """
        if not self._closed and self._outbox.has_room(event):
            self._queue(b"", event)

    def refuse(
        self, request: str | None, code: str, reason: str, owner: Subscription | None = None
    ) -> None:
        """Answer anything but an invoke with an error; it goes with its owner's patches."""
        if not self._closed:
            error = _legible(wire.ErrorInfo(code, reason))
            self._queue(wire.serialize(wire.ErrorMessage(error, request)), None, owner)

    def close(self) -> None:
        """End the connection; whatever is still asked of it does nothing."""
        for subscription_id in list(self._subscriptions):
            self._end(subscription_id)
        self._closed = True
        self._hello = None
        self._outbox.clear()

    def frames_to_send(self, max_bytes: int = _SEND_BYTES) -> list[bytes]:
        """Take what is to be sent next, each message in one piece of its own."""
        return [b"".join(parts) for parts in self.messages_to_send(max_bytes)]

    def messages_to_send(self, max_bytes: int = _SEND_BYTES) -> list[MessageParts]:
        """Take what is to be sent next, whole messages of about `max_bytes` together.

        Call it when the transport has taken what came before. Snapshots go before what
        is queued, so that no result overtakes the change that it reports.
        """
        messages: list[MessageParts] = [] if self._hello is None else [(self._hello,)]
        self._hello = None
        size = 0
        if self._has_stale:
            for subscription in self._sendable_snapshots():
                if size >= max_bytes:
                    return messages
                messages.append(self._snapshot(subscription))
                size += sum(map(len, messages[-1]))
            self._has_stale = any(item.stale for item in self._subscriptions.values())
        outbox = self._outbox
        while size < max_bytes and outbox:
            parts = outbox.take()
            messages.append(parts)
            size += sum(map(len, parts))
        return messages

    def short_message(self, max_bytes: int) -> bytes | None:
        """Take what is to be sent next, if that is one short message and no snapshot."""
        if self._hello is not None:
            hello, self._hello = self._hello, None
            return hello
        if self._has_stale and self._sendable_snapshots():
            return None
        return self._outbox.take_short(max_bytes)

    def queue_patch(self, subscription: Subscription, version: int, ops: Body) -> bool:
        """Queue a patch; False if the reader is too slow for one more."""
        # A reader that is not behind gets a patch of any size: a snapshot would be larger.
        if not self._outbox.has_room(ops):
            return False
        self._queue(subscription.patch_head(version), ops, subscription)
        return True

    def go_stale(self, subscription: Subscription) -> None:
        """Drop a subscription's queued patches: a snapshot will stand for them."""
        subscription.stale = self._has_stale = True
        self._outbox.drop(subscription)
        self._provider.ready.add(self)

    def _subscribe(self, message: wire.Subscribe) -> None:
        provider = self._provider
        # SLOP, messages: a subscription's id is unique while it lives.
        if message.id in self._subscriptions:
            self.refuse(
                message.id, "bad_request", f"there is a subscription {message.id!r} already"
            )
            return
        if len(self._subscriptions) >= provider.limits.subscriptions:
            reason = f"a connection has at most {provider.limits.subscriptions} subscriptions"
            self.refuse(message.id, "bad_request", reason)
            return
        if not self._can(message, "patches"):
            return
        provider.flush()
        try:
            group = self._audience.group(parse_path(message.path), self._view(message.view()))
        except InvalidPath as error:
            self.refuse(message.id, "not_found", str(error))
            return
        takes_fields = message.fields and provider.supports("x-fields")
        subscription = Subscription(message.id, self, group, takes_fields)
        group.subscriptions.add(subscription)
        self._subscriptions[message.id] = subscription
        self._has_stale = True
        provider.ready.add(self)
        if message.resume is not None:
            self._resume(subscription, message.resume)

    def _resume(self, subscription: Subscription, point: wire.ResumePoint) -> None:
        """Continue where the subscription was, if that is still known; else it stays stale."""
        provider = self._provider
        if not provider.supports("x-resume") or point.epoch != provider.info.epoch:
            return
        past, showing = subscription.group.shown_at(point), subscription.group.showing
        if past is None or showing is None:
            return
        ops = showing.ops_from(past, fields=subscription.takes_fields)
        if ops is not None:
            subscription.stale = False
            subscription.seq, subscription.version = point.seq, point.version
            self._queue(subscription.patch_head(provider.version), Body(ops), subscription)

    def _query(self, message: wire.Query) -> list[Request]:
        if message.window is not None and not self._supports(message.id, "windowing"):
            return []
        return [QueryRequested(message)] if self._can(message, "state") else []

    def _can(self, message: wire.Subscribe | wire.Query, capability: str) -> bool:
        wanted = message.filter
        if wanted is not None and wanted.min_salience is not None:
            return self._supports(message.id, "attention")
        return self._supports(message.id, capability)

    def _supports(self, request: str, capability: str) -> bool:
        if self._provider.supports(capability):
            return True
        self.refuse(request, "not_supported", f"this provider does not offer {capability!r}")
        return False

    def _invoke(self, message: wire.Invoke) -> list[Request]:
        if not self._supports(message.id, "affordances"):
            return []
        if message.id in self._invocations:
            reason = f"an invoke with the id {message.id!r} is still running"
            self.refuse(message.id, "bad_request", reason)
            return []
        self._invocations.add(message.id)
        node, affordance, lacks = None, None, ""
        try:
            node = self._audience.tree.at(message.path)
        except InvalidPath as error:
            lacks = "" if self._provider.makes_nodes else str(error)
        else:
            offered = (item for item in node.affordances if item.action == message.action)
            affordance = next(offered, None)
            if affordance is None:
                lacks = f"{message.path} does not offer {message.action!r} now"
        if lacks:
            self.send_result(message.id, error=wire.ErrorInfo("not_found", lacks))
            return []
        params = message.params or {}
        trace = message.trace if isinstance(message.trace, str) else ""
        return [
            InvokeRequested(
                message.id, message.path, message.action, params, node, affordance, trace
            )
        ]

    def _end(self, subscription_id: str) -> None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is not None:
            self.go_stale(subscription)
            self._audience.leave(subscription)

    def _view(self, view: View) -> View:
        """What is shown: the provider's own hints added, what it does not offer left out."""
        return replace(
            view,
            retain_ancestors=view.retain_ancestors and self._provider.supports("x-retain"),
            available_actions=self._provider.supports("x-actions-hint"),
        )

    def _sendable_snapshots(self) -> list[Subscription]:
        return [
            item
            for item in self._subscriptions.values()
            if item.stale and item.group.showing is not None
        ]

    def _snapshot(self, subscription: Subscription) -> MessageParts:
        showing = subscription.group.showing
        assert showing is not None  # noqa: S101 - callers have looked
        try:
            body = showing.encoded()
        except TooLarge as error:
            self._end(subscription.id)
            return (
                wire.serialize(
                    wire.ErrorMessage(wire.ErrorInfo("bad_request", str(error)), subscription.id)
                ),
            )
        subscription.stale = False
        subscription.seq, subscription.version = 0, self._provider.version
        head = self._snapshot_head(subscription.id, 0, subscription.group.served)
        return head, body, b"}"

    def _snapshot_head(self, request: str, seq: int | None, served: View | None) -> bytes:
        """A snapshot message up to its tree, which follows, and one closing brace."""
        version = self._provider.version
        fields: dict[str, object] = {"type": "snapshot", "id": request, "version": version}
        if seq is not None:
            fields["seq"] = seq
        if served is not None and self._provider.supports("x-served"):
            fields["served"] = {"depth": served.depth, "max_nodes": served.max_nodes}
        return _JSON.encode(fields)[:-1] + b',"tree":'

    def _queue(
        self, head: bytes, body: Body | None = None, subscription: Subscription | None = None
    ) -> None:
        self._outbox.add(head, body, subscription)
        self._provider.ready.add(self)


def event_body(name: str, data: object = UNSET) -> Body:
    """Write an event message once, to be sent to any number of consumers."""
    return Body(wire.serialize(wire.Event(name, UNSET if data is UNSET else text_of(data)))[:-1])


def _legible(error: wire.ErrorInfo) -> wire.ErrorInfo:
    """Replace lone surrogates, which a file's name may bring into an app's error text."""
    return wire.ErrorInfo(sendable(error.code), sendable(error.message))
