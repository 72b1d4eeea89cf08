"""What a request has that the one before it did not: prompts and worlds, as differences.

    applied(base, delta_of(base, new)) == new

A conversation is sent again with every request, and most of it is what was sent before.
So a message that stood in the previous prompt is written as the place where it stood, and
a tree as the operations that change the previous one into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.context.messages.parts import Message
from sightline.slop.protocol.codec import decode as decode_tree
from sightline.slop.protocol.codec import encode as encode_tree
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.patch import apply, decode_ops, encode_ops
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, Status, World

Messages: TypeAlias = Sequence[Message]

# After so many messages that stood nowhere before, the rest is new, too.
_MISSES: Final = 4


class Copied(msgspec.Struct, frozen=True, tag="copied"):
    """Messages of the base, from `start` on."""

    start: int
    count: int


class New(msgspec.Struct, frozen=True, tag="new"):
    """Messages that the base did not have."""

    messages: tuple[Message, ...]


class AppDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """One app of a world. `ops` change its tree in the base; without any it is the same tree."""

    id: str
    name: str
    status: Status
    version: int = 0
    last_seen: str | None = None
    reason: str = ""
    tree: Raw | UnsetType = UNSET
    ops: Raw | UnsetType = UNSET
    same: bool = False


class WorldDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A world, by what is different in it from the base's."""

    apps: tuple[AppDelta, ...] = ()
    available: tuple[AvailableApp, ...] = ()


_runs: Final = msgspec.json.Decoder(list[Copied | New])
_world: Final = msgspec.json.Decoder(WorldDelta)


def message_delta(base: Messages, new: Messages) -> bytes:
    """Write messages as runs of the base and what is new between them."""
    runs: list[Copied | New] = []
    fresh: list[Message] = []
    at = misses = expected = 0
    while at < len(new):
        start = _found(base, new[at], expected) if misses < _MISSES else -1
        if start < 0:
            fresh.append(new[at])
            misses += 1
            at += 1
            continue
        pairs = zip(base[start:], new[at:], strict=False)
        count = sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))
        if fresh:
            runs.append(New(tuple(fresh)))
            fresh = []
        runs.append(Copied(start, count))
        at += count
        expected = start + count
        misses = 0
    if fresh:
        runs.append(New(tuple(fresh)))
    return msgspec.json.encode(runs)


def apply_messages(base: Messages, delta: bytes) -> tuple[Message, ...]:
    """Rebuild messages from those of the base and a `message_delta`."""
    messages: list[Message] = []
    for run in _runs.decode(delta):
        if isinstance(run, Copied):
            messages += base[run.start : run.start + run.count]
        else:
            messages += run.messages
    return tuple(messages)


def _same(one: Message, other: Message) -> bool:
    return one is other or one == other


def _found(base: Messages, message: Message, expected: int) -> int:
    """Where a message stood; looked for first where the last run ended."""
    return next((i for i in range(expected, len(base)) if _same(base[i], message)), -1)


def world_delta(base: World, new: World) -> bytes:
    """Write a world by what is different in it."""
    apps = tuple(_app_delta(base.app(app.id), app) for app in new.apps)
    return msgspec.json.encode(WorldDelta(apps, new.available))


def _app_delta(base: AppState | None, app: AppState) -> AppDelta:
    delta = AppDelta(app.id, app.name, app.status, app.version, app.last_seen, app.reason)
    if app.tree is None:
        return delta
    old = None if base is None else base.tree
    if old is None or old.id != app.tree.id:
        return msgspec.structs.replace(delta, tree=Raw(encode_tree(app.tree)))
    if ops := diff(old, app.tree):
        return msgspec.structs.replace(delta, ops=Raw(encode_ops(ops)))
    return msgspec.structs.replace(delta, same=True)


def apply_world(base: World, delta: bytes) -> World:
    """Rebuild a world from that of the base and a `world_delta`."""
    read = _world.decode(delta)
    apps = tuple(_app_of(base.app(app.id), app) for app in read.apps)
    return World(apps, read.available)


def _app_of(base: AppState | None, delta: AppDelta) -> AppState:
    tree = _tree_of(None if base is None else base.tree, delta)
    return AppState(
        delta.id, delta.name, delta.status, tree, delta.version, delta.last_seen, delta.reason
    )


def _tree_of(base: Node | None, delta: AppDelta) -> Node | None:
    if not isinstance(delta.tree, UnsetType):
        return decode_tree(bytes(delta.tree))
    if base is not None and not isinstance(delta.ops, UnsetType):
        return apply(base, decode_ops(bytes(delta.ops)))
    return base if delta.same else None
