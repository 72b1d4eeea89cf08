"""A provider to test against, in this process or in one of its own (`python -m support.live`).

Everything that a test needs to happen can be asked for by an action, so that the same
test runs against a provider that it cannot reach into.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from sightline.slop.app.app import App
from sightline.slop.app.serving import Serving
from sightline.slop.discovery.descriptor import Descriptor, Unix, Ws
from sightline.slop.discovery.directory import announced
from sightline.slop.hub.client import Dial
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.connection import Connection, InvokeRequested, event_body
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.messages import ErrorInfo, ProviderInfo
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.provider import CAPABILITIES, Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link
from sightline.slop.transports.memory import memory_pair
from sightline.slop.transports.nats_app import serve_nats
from sightline.slop.transports.nats_link import connect_nats
from sightline.slop.transports.stdio import serve_stdio, spawn_stdio
from sightline.slop.transports.unix import connect_unix, serve_unix
from sightline.slop.transports.websocket import connect_websocket, serve_websocket
from support import nats

TRANSPORTS = ("memory", "unix", "stdio", "ws", *(() if nats.lacks() else ("nats",)))
TESTS = Path(__file__).parent.parent

ACTIONS = ["count", "set", "add", "remove", "fail", "hang", "notify", "crash", "fill", "echo"]
TREE = from_value(
    {
        "id": "app",
        "type": "root",
        "properties": {"n": 0},
        "affordances": [{"action": action} for action in ACTIONS],
        "children": [
            {"id": "me", "type": "context", "properties": {"user": "ada"}},
            {
                "id": "inbox",
                "type": "collection",
                "properties": {"label": "Inbox"},
                "meta": {"summary": "3 messages", "salience": 0.9},
                "affordances": [{"action": "archive_all"}],
                "children": [
                    {
                        "id": f"msg-{n}",
                        "type": "item",
                        "properties": {"subject": f"Message {n}"},
                        "meta": {"salience": salience},
                        "affordances": [{"action": "archive"}],
                        "children": [{"id": "body", "type": "document"}],
                    }
                    for n, salience in ((1, 1.0), (2, 0.5), (3, 0.1))
                ],
            },
            {
                "id": "notes",
                "type": "group",
                "meta": {"pinned": True, "total_children": 7, "summary": "7 notes"},
            },
        ],
    }
)


class LiveApp:
    """A provider with one tree, and actions that change it."""

    def __init__(
        self,
        tree: Node = TREE,
        *,
        app_id: str = "live",
        epoch: str = "1",
        capabilities: Sequence[str] = CAPABILITIES,
        limits: ProviderLimits | None = None,
    ) -> None:
        info = ProviderInfo(app_id, "Live", capabilities=tuple(capabilities), epoch=epoch)
        self.tree = tree
        self.provider = Provider(info, tree, limits)
        self.serving = Serving(self.provider, self.invoke, coalesce_s=0)

    async def handle(self, link: Link) -> None:
        """Serve one link."""
        await self.serving.serve(link)

    def publish(self, tree: Node) -> None:
        """Show another tree."""
        self.tree = tree
        self.provider.publish(tree)
        self.serving.changed()

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        """Do what was asked."""
        params = request.params
        path = str(params.get("path", "/"))
        data: Any = params
        match request.action:
            case "count":
                data = {"n": self.tree.properties["n"] + 1}
                self.publish(self.tree.with_property("n", data["n"]))
            case "set":
                key, value = params["key"], params["value"]
                self.publish(self.tree.change(path, lambda node: node.with_property(key, value)))
            case "add":
                child = from_value(params["node"])
                index = params.get("index")
                self.publish(self.tree.change(path, lambda node: node.with_child(child, index)))
            case "remove" | "archive":
                *parent, own = parse_path(path if request.action == "remove" else request.path)
                where = format_path(parent)
                self.publish(self.tree.change(where, lambda node: node.without_child(own)))
            case "fill":
                filled = Node.of("app", "root", children=list(_notes(params["bytes"])))
                self.publish(filled.with_field("affordances", self.tree.affordances))
            case "notify":
                event = event_body("ping", params)
                for each in self.serving.connections:
                    each.send_event(event)
            case "fail":
                connection.send_result(request.id, error=ErrorInfo("conflict", "not now"))
                return
            case "hang":
                await asyncio.Event().wait()
            case "crash":
                os._exit(1)
        connection.send_result(request.id, data)


def _notes(size: int) -> list[Node]:
    text = "x" * 10_000
    return [
        Node.of(f"note-{n}", "item", properties={"text": text}) for n in range(size // len(text))
    ]


def command_of(module: str, *arguments: str) -> list[str]:
    """How to start a provider of the tests as a process."""
    # `env` gives the process its import path, which a spawned provider could not be given.
    path = f"PYTHONPATH={TESTS}"
    return ["env", path, sys.executable, "-m", module, *arguments]


command = partial(command_of, "support.live")


class Handles(Protocol):
    """What serves links: the provider here, or an `App`."""

    async def handle(self, link: Link, /) -> None:
        """Serve one link."""


@contextlib.asynccontextmanager
async def served(
    transport: str,
    directory: Path,
    app: Handles | None = None,
    started: Sequence[str] = (),
) -> AsyncIterator[Dial]:
    """Serve the app over a transport while the block runs; gives how to connect.

    Over stdio every connection starts a process of its own, by the command `started`.
    """
    app = app or LiveApp()
    async with contextlib.AsyncExitStack() as stack:
        match transport:
            case "unix":
                path = directory / "live.sock"
                await stack.enter_async_context(serve_unix(app.handle, path))
                yield lambda: connect_unix(path)
            case "ws":
                url = await stack.enter_async_context(serve_websocket(app.handle))
                yield lambda: connect_websocket(url)
            case "nats":
                broker = stack.enter_context(nats.server())
                info = app.info if isinstance(app, App) else LiveApp().provider.info
                url = await stack.enter_async_context(serve_nats(app.handle, info, broker.url))
                yield lambda: connect_nats(url)
            case "stdio":
                yield lambda: spawn_stdio(list(started) or command("--stdio"))
            case _:
                tasks: list[asyncio.Task[None]] = []

                async def dial() -> Link:
                    ours, theirs = memory_pair()
                    tasks.append(asyncio.create_task(app.handle(theirs)))
                    return ours

                yield dial
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


class Started(NamedTuple):
    """A provider in a process of its own, and where it is."""

    process: asyncio.subprocess.Process
    address: str


@contextlib.asynccontextmanager
async def process(*arguments: str, module: str = "support.live") -> AsyncIterator[Started]:
    """Run a provider as a process, which says where it is ready; it ends with the block."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *command_of(module, *arguments), stdin=pipe, stdout=pipe
    )
    try:
        assert started.stdout is not None
        async with asyncio.timeout(30):
            ready, _, address = (await started.stdout.readline()).decode().partition(" ")
        assert ready == "ready"
        yield Started(started, address.strip())
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


@contextlib.contextmanager
def announced_app(directory: Path, app: LiveApp) -> Iterator[None]:
    """Serve an app at `ID.sock` from a thread of its own, announced in the same directory."""
    own = app.provider.info.id
    path = directory / f"{own}.sock"
    descriptor = Descriptor(own, app.provider.info.name, Unix(str(path)), pid=os.getpid())
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serve_unix(app.handle, path):
            with announced(descriptor, directory):
                ready.set()
                await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


async def _chatty(app: LiveApp, link: Link) -> None:
    print("this must not reach the peer", flush=True)  # noqa: T201 - tests show that it does not
    await app.handle(link)


async def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--unix")
    parser.add_argument("--ws", type=int)
    parser.add_argument("--announce", type=Path)
    parser.add_argument("--id", default="live")
    parser.add_argument("--epoch", default="1")
    options = parser.parse_args()
    app = LiveApp(app_id=options.id, epoch=options.epoch)
    if options.stdio:
        await serve_stdio(partial(_chatty, app))
        return
    descriptor = Descriptor(options.id, "Live", Unix("/"), CAPABILITIES, os.getpid())
    async with contextlib.AsyncExitStack() as stack:
        if options.unix is not None:
            address = await stack.enter_async_context(serve_unix(app.handle, options.unix))
            descriptor = replace(descriptor, transport=Unix(address.removeprefix("unix:")))
        else:
            address = await stack.enter_async_context(serve_websocket(app.handle, port=options.ws))
            descriptor = replace(descriptor, transport=Ws(address))
        if options.announce is not None:
            stack.enter_context(announced(descriptor, options.announce))
        print(f"ready {address}", flush=True)  # noqa: T201 - the parent waits for it
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
