"""Live apps against `slop-ai`: one change to many subscribers, their memory, an idle refresh.

    python -m benchmarks --only live

All in one process; every message is encoded on both sides, none is sent. The peer
holds a deep copy of the tree per subscriber, so its figures for many subscribers are
taken from few: its cost is linear in them (the rows for 5 and 10 show it).

Readers that stall are the exception: those are real sockets, and what is counted is what the
process holds for one more of them. The bar is a promise in bytes, which stands in the peer's
place; what the peer holds is a row of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from mcp import Client as McpClient
from slop_ai import SlopServer
from slop_ai.transports import unix as peer_unix

from benchmarks.harness import Row, allocated, measure
from sightline.adapters.mcp import AppsServer
from sightline.adapters.mcp.server_updates import TICK_S
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.connection import Connection
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.messages import Subscribe, serialize
from sightline.slop.protocol.provider import Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket

# The readers are the tests' own, so that what is measured is what is tried.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support.live import LiveApp
from support.stalled import (
    LARGE_BYTES,
    LIMITS,
    PER_LARGE_READER,
    all_stalled,
    deaf_reader,
    large_tree,
)

__all__ = ["run"]

_PEER_SUBSCRIBERS = (5, 10)
_PEER_NODES = 10_000
_IN_K = "one change to K subscribers"
_IN_N = "growth: one change of N nodes"
_SUBSCRIBE = serialize(Subscribe("s1"))


class State:
    """A hundred folders of messages, in one of which something changes."""

    def __init__(self, nodes: int) -> None:
        self.folders = max(10, min(100, nodes // 100))
        self.messages = nodes // self.folders - 1
        self.turn = 0

    def folder(self, number: int) -> dict[str, Any]:
        """One folder, as both sides take it."""
        items = [
            {
                "id": f"m{n}",
                "props": {
                    "title": f"Message {n}",
                    "from": "ana@fjord.example",
                    "unread": n % 3 == 0,
                    "turn": self.turn if number == n == 3 else 0,
                },
            }
            for n in range(self.messages)
        ]
        return {"type": "collection", "props": {"label": f"Folder {number}"}, "items": items}


class OurSide:
    """Our app, and the protocol's machine with some subscribers."""

    def __init__(self, state: State, subscribers: int) -> None:
        self.state = state
        self.app = App("mail", "Mail")
        for number in range(state.folders):
            self.app.node(f"f{number}")(partial(state.folder, number))
        self.provider = Provider(self.app.info, self.app.tree())
        self.connections = [self.connect() for _ in range(subscribers)]

    def connect(self) -> Connection:
        """Add a subscriber of the root that has taken its snapshot."""
        connection = self.provider.connect()
        connection.receive(_SUBSCRIBE)
        while connection.frames_to_send():
            pass
        return connection

    def change(self, turn: int) -> int:
        """Change one node, and encode what everybody is told."""
        self.app.update("f3/m3", props={"turn": turn})
        self.provider.publish(self.app.tree())
        self.provider.flush()
        return sum(len(connection.frames_to_send()) for connection in self.connections)


class _PeerConnection:
    def __init__(self) -> None:
        self.messages = 0

    def send(self, message: dict[str, Any]) -> None:
        json.dumps(message).encode()
        self.messages += 1

    def close(self) -> None:
        """Nothing to close."""


class PeerSide:
    """The peer's server with some subscribers."""

    def __init__(self, state: State, subscribers: int) -> None:
        self.state = state
        self.server = SlopServer("mail", "Mail")
        # Registering one by one would rebuild the peer's tree each time.
        self.server._dynamic.update(
            (f"f{number}", partial(state.folder, number)) for number in range(state.folders)
        )
        self.server.refresh()
        self.connections = [self.connect() for _ in range(subscribers)]

    def connect(self) -> _PeerConnection:
        """Add a subscriber of the root."""
        connection = _PeerConnection()
        self.server.handle_connection(connection)
        ask = {"type": "subscribe", "id": "s1", "path": "/", "depth": -1}
        asyncio.run(self.server.handle_message(connection, ask))
        return connection

    def change(self, turn: int) -> None:
        """Change one node, and encode what everybody is told."""
        self.state.turn = turn
        self.server.refresh()


def run(*, quick: bool = False) -> list[Row]:
    """Run all races of this module; `quick` shows that they run, on small trees."""
    nodes = 500 if quick else 10_000
    subscribers = (5, 20) if quick else (10, 100, 1_000, 10_000)
    sizes = (100, 500) if quick else (100, 1_000, 10_000, 40_000)
    return [
        *_fan_out(nodes, subscribers),
        *_growth_in_nodes(sizes, subscribers[0]),
        *_memory(nodes, min(subscribers[-1], 1_000)),
        *_idle_refresh(nodes),
        *_over_the_limit(1_000 if quick else 100_000),
        *_stalled(3 if quick else 100),
        asyncio.run(_watched_by_mcp(50 if quick else 2_000)),
    ]


def _fan_out(nodes: int, subscribers: tuple[int, ...]) -> Iterator[Row]:
    turns = count(1)
    peer_cost: dict[int, float] = {}
    for few in _PEER_SUBSCRIBERS:
        peer = PeerSide(State(nodes), few)
        peer_cost[few] = measure(lambda peer=peer: peer.change(next(turns)), 1)  # type: ignore[misc]  # bound now
    few = _PEER_SUBSCRIBERS[-1]
    for many in subscribers:
        ours = OurSide(State(nodes), many)
        assert ours.change(next(turns)) == many
        cost = measure(lambda ours=ours: ours.change(next(turns)), 5)  # type: ignore[misc]  # bound now
        note = f"{nodes:,} nodes"
        if many > few:
            note += f"; peer extrapolated from {few}"
        bar = 500 if many == 1_000 else None
        theirs = peer_cost[few] * many / few
        yield Row(f"k-{many}", _IN_K, many, cost, theirs, bar, note=note)
    yield Row(
        "peer-k",
        "the peer's growth in K",
        few,
        peer_cost[few],
        note=f"{peer_cost[5]:.3g} s for 5 subscribers",
    )


def _growth_in_nodes(sizes: tuple[int, ...], subscribers: int) -> Iterator[Row]:
    turns = count(1)
    for nodes in sizes:
        ours = OurSide(State(nodes), subscribers)
        cost = measure(lambda ours=ours: ours.change(next(turns)), 5)  # type: ignore[misc]  # bound now
        # Beyond this the peer takes minutes, and its line is known by then.
        peer_cost = None
        if nodes <= _PEER_NODES:
            peer = PeerSide(State(nodes), subscribers)
            peer_cost = measure(lambda peer=peer: peer.change(next(turns)), 1)  # type: ignore[misc]  # bound now
        note = f"{subscribers} subscribers"
        yield Row(f"n-{nodes}", _IN_N, nodes, cost, peer_cost, note=note)


def _memory(nodes: int, subscribers: int) -> Iterator[Row]:
    ours = OurSide(State(nodes), 1)
    added = allocated(lambda: [ours.connect() for _ in range(subscribers)]) / subscribers
    peer = PeerSide(State(nodes), 1)
    peer_added = allocated(peer.connect)
    yield Row(
        "memory", "memory per further subscription", subscribers, added, float(peer_added),
        unit="bytes", note=f"{added:,.0f} bytes",
    )  # fmt: skip


def _idle_refresh(nodes: int) -> Iterator[Row]:
    ours = OurSide(State(nodes), 0)
    peer = PeerSide(State(nodes), 0)
    cost = measure(ours.app.refresh, 5)
    theirs = measure(peer.server.refresh, 3)
    yield Row("refresh", "refresh() with nothing changed", nodes, cost, theirs, 5)


def _over_the_limit(nodes: int) -> Iterator[Row]:
    """One change in a tree with twice the nodes that a snapshot may have."""
    limits = ProviderLimits(snapshot_nodes=nodes // 2)
    groups, items = nodes // 100, 100
    shelves = tuple(
        Node.of(f"s{at}", "view", children=[
            Node.of(f"g{n}", "group", children=[Node.of(f"i{i}", "item") for i in range(items)])
            for n in range(groups // 10)
        ])
        for at in range(10)
    )  # fmt: skip
    tree = Node.of("r", "root", children=shelves)
    provider = Provider(App("shelves", "Shelves").info, tree, limits)
    connection = provider.connect()
    connection.receive(_SUBSCRIBE)
    while connection.frames_to_send():
        pass
    turns = count()

    def change() -> int:
        nonlocal tree
        turn = next(turns)
        path = f"/s{turn % 10}/g{turn % (groups // 10)}"
        tree = tree.change(path, lambda node: node.with_property("turn", turn))
        provider.publish(tree)
        provider.flush()
        return len(connection.frames_to_send())

    assert change() == 1
    note = f"{nodes // 2:,} of them are shown"
    yield Row("over-limit", "one change above the wire limit", nodes, measure(change, 5), note=note)


async def _watched_by_mcp(changes: int) -> Row:
    """Change what an MCP client watches; the bar is the promise of 1,000 changes a second."""
    app, turn = App("watched", "Watched", coalesce_s=0), 0
    app.node("node")(lambda: {"type": "view", "props": {"turn": turn}})
    updates = 0
    async with Hub() as hub:
        hub.add("watched", local_dial(app))
        await hub.ready()
        async with AppsServer(hub) as server, McpClient(server.protocol) as client:  # noqa: SIM117
            async with client.listen(resource_subscriptions=["slop://watched/node"]) as news:
                began = time.process_time()
                for turn in range(1, changes + 1):
                    app.refresh()
                    async for world in hub.changes():
                        tree = world.apps[0].tree
                        if tree is not None and tree.at("/node").properties["turn"] == turn:
                            break
                cost = (time.process_time() - began) / changes
                with anyio.move_on_after(2 * TICK_S):
                    async for _ in news:
                        updates += 1
    return Row(
        "mcp-watched", "one change that an MCP client watches", changes, cost, 1 / 1_000, 1,
        note="the promise is 1,000 changes a second", more={"updates": updates},
    )  # fmt: skip


def _stalled(readers: int) -> Iterator[Row]:
    """Let readers subscribe to a tree that no system takes at once, and read nothing of it."""
    size = LARGE_BYTES
    for kind in ("unix", "ws"):
        each = asyncio.run(_held_by_us(kind, readers))
        work = f"memory per stalled reader, {kind}"
        note = f"{each:,.0f} bytes; a snapshot of {size / 1e6:.3g} MB"
        yield Row(
            f"stalled-{kind}", work, readers, each, PER_LARGE_READER, 1, unit="bytes", note=note
        )
    few = min(readers, 5)
    theirs = asyncio.run(_held_by_peer(few))
    yield Row(
        "stalled-peer", "the same of the peer, unix", few, theirs, unit="bytes",
        note=f"{theirs:,.0f} bytes",
    )  # fmt: skip


async def _held_by_us(kind: str, readers: int) -> float:
    app = LiveApp(large_tree(), limits=LIMITS)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s"
        serving = serve_unix(app.handle, path) if kind == "unix" else serve_websocket(app.handle)
        async with serving as address, _deaf(address, 1):
            await all_stalled(app.serving, 1)  # what all share is there now
            tracemalloc.start()
            try:
                async with _deaf(address, readers):
                    await all_stalled(app.serving, readers + 1)
                    return tracemalloc.get_traced_memory()[0] / readers
            finally:
                tracemalloc.stop()


async def _held_by_peer(readers: int) -> float:
    server = SlopServer("notes", "Notes")
    text = "x" * 10_000
    items = [{"id": f"n{n}", "props": {"text": text}} for n in range(LARGE_BYTES // len(text))]
    server.register("notes", {"type": "collection", "items": items})
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s"
        # It complains there of every reader that goes away.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        listening = await peer_unix.listen(server, str(path))
        tracemalloc.start()
        try:
            async with _deaf(f"unix:{path}", readers):
                while len(server._subscriptions) < readers:
                    await asyncio.sleep(0.01)
                held = tracemalloc.get_traced_memory()[0] / readers
        finally:
            tracemalloc.stop()
            listening.close()
        while server._connections:
            await asyncio.sleep(0.01)
        return held


@contextlib.asynccontextmanager
async def _deaf(address: str, count: int) -> AsyncIterator[None]:
    lines = [await asyncio.to_thread(deaf_reader, address) for _ in range(count)]
    try:
        yield
    finally:
        for line in lines:
            line.close()
