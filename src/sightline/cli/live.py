"""`sightline apps|query|invoke|watch|relay`: live apps, from the shell."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final, TypeVar

import click
import msgspec
from msgspec import Raw

from sightline.cli.clean import clean_line
from sightline.cli.io import read_object, read_window
from sightline.cli.options import examples, users_option
from sightline.cli.out import say, tell, write_json, write_json_lines, write_screen, write_text
from sightline.slop.discovery.descriptor import Descriptor
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client, Lost, Silent
from sightline.slop.hub.mcp import QuestionRelay
from sightline.slop.hub.watch import Watch
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.consumer import Connected, ConsumerEvent, EventArrived, MirrorChanged
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.messages import Filter
from sightline.slop.protocol.patch import encode_ops
from sightline.slop.protocol.text import format_blocks, format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.sockets import Users

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
FIRST_S: Final = 30.0

address_argument: Final = click.argument("address", metavar="ADDR")
token_option: Final = click.option(
    "--token",
    envvar="SIGHTLINE_TOKEN",
    help="The token of a WebSocket or a broker; one that the app announced to you is found.",
)
timeout_option: Final = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for an answer.",
)


def view_options(command: _F) -> _F:
    """Add the options that say how much of a tree is wanted."""
    for option in (
        click.option("--types", metavar="A,B", help="Keep only these types."),
        click.option("--min-salience", type=click.FloatRange(0, 1), help="Drop the less salient."),
        click.option("--max-nodes", type=click.IntRange(min=1), help="Collapse beyond this."),
        click.option("--depth", type=click.IntRange(min=-1), default=-1, help="-1 is all levels."),
    ):
        command = option(command)
    return command


def _wanted(
    *, depth: int, max_nodes: int | None, min_salience: float | None, types: str | None
) -> dict[str, Any]:
    """Give what `view_options` say as a client takes it."""
    kinds = None if types is None else tuple(types.split(","))
    wanted = None if kinds is None and min_salience is None else Filter(kinds, min_salience)
    return {"depth": depth, "max_nodes": max_nodes, "filter": wanted}


def connected(
    address: str, token: str | None, work: Callable[[Client], Awaitable[_T]]
) -> _T:  # fmt: skip
    """Connect once, work, and let go. Raises what the work raises, or why there is nobody."""

    async def run() -> _T:
        async with Client(dial_address(address, token=token), reconnect=False) as client:
            with closing(QuestionRelay(client, lambda: None)):  # there is nobody to be asked here
                await client.ready()
                return await work(client)

    return asyncio.run(run())


@examples("sightline apps", "sightline apps --json")
@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object per app and line.")
@click.option("--all", "show_ignored", is_flag=True, help="Also say what was found and ignored.")
def apps(*, as_json: bool, show_ignored: bool) -> None:
    """List the apps that have announced themselves on this machine.

    Looks at ~/.slop/providers and /tmp/slop/providers, or at the directories that
    SLOP_PROVIDERS names. A descriptor that another user could have put there, and one
    whose process is gone, does not count; neither does a directory behind another user's link.
    """
    found = Discovery().look()
    if as_json:
        write_json_lines(map(_fields, found.descriptors))
    else:
        width = max((len(item.id) for item in found.descriptors), default=0)
        for item in found.descriptors:
            say(clean_line(f"{item.id:{width}}  {item.name}  {item.address}"))
        if not found.descriptors:
            tell("no app has announced itself")
    if show_ignored:
        for ignored in found.ignored:
            tell(f"ignored {ignored.path}: {ignored.reason}")


def _fields(descriptor: Descriptor) -> dict[str, Any]:
    fields = msgspec.to_builtins(descriptor)
    fields["transport"].pop("token", None)  # it ends up in logs; who asks by id needs none
    return {**fields, "address": descriptor.address}


@examples(
    "sightline query desk",
    "sightline query desk /inbox --depth 1",
    "sightline query unix:desk.sock /inbox --window 0,2 | sightline tree format",
    "sightline query desk --text",
)
@click.command()
@address_argument
@click.argument("path", default="/")
@view_options
@click.option("--window", metavar="OFFSET,COUNT", help="A slice of the node's children.")
@click.option("--text", "as_text", is_flag=True, help="As a model reads it, not as JSON.")
@token_option
@timeout_option
def query(
    *,
    address: str,
    path: str,
    window: str | None,
    as_text: bool,
    token: str | None,
    timeout_s: float,
    **view: Any,
) -> None:
    """Ask an app for the state at PATH, once.

    ADDR is ws://…, https://… (a site with /.well-known/slop), unix:/path, nats://HOST/APP (an
    app on a broker), stdio:COMMAND, mcp:COMMAND or mcp+https://… (an MCP server), or the id of
    an app that `sightline apps` lists. Writes the tree as JSON.
    """
    tree = connected(
        address,
        token,
        lambda client: client.query(
            path,
            window=None if window is None else read_window(window),
            timeout_s=timeout_s,
            **_wanted(**view),
        ),
    )
    if as_text:
        write_text(format_blocks(tree))
    else:
        write_json(encode(tree))


@examples(
    "sightline invoke desk /inbox/msg-102 archive",
    'sightline invoke unix:desk.sock / search --params \'{"query": "launch"}\'',
)
@click.command()
@address_argument
@click.argument("path")
@click.argument("action")
@click.option("--params", metavar="JSON", help="The action's parameters, an object.")
@token_option
@timeout_option
def invoke(
    *,
    address: str,
    path: str,
    action: str,
    params: str | None,
    token: str | None,
    timeout_s: float,
) -> None:
    """Ask an app to do ACTION on the node at PATH.

    Writes {"status": "ok" or "accepted", "data": …}. Exits with 5 where the app answers
    that it did not, and with 4 where no answer came: then it may have.
    """
    values = None if params is None else read_object(params, "--params")
    outcome = connected(
        address, token, lambda client: client.invoke(path, action, values, timeout_s=timeout_s)
    )
    write_json({"status": outcome.status, "data": outcome.data})


@examples(
    "sightline watch desk --count 1",
    "sightline watch unix:desk.sock /inbox --depth 1 --json --count 2",
)
@click.command()
@address_argument
@click.argument("path", default="/")
@view_options
@click.option("--json", "as_json", is_flag=True, help="One JSON event per line.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many trees or events.")
@token_option
def watch(
    *, address: str, path: str, as_json: bool, count: int | None, token: str | None, **view: Any
) -> None:
    """Show the state at PATH of an app, and show it again whenever it changes.

    On a terminal the tree stays in place and the lines that changed are marked. With
    --json each line is an event: connected, snapshot (with the tree), patch (with the
    operations), event, silent (no sign of life), heard (again), disconnected. A provider that
    goes away is waited for; the first connection must succeed.
    """
    client = Client(dial_address(address, token=token))
    asyncio.run(_watch(client, path, _wanted(**view), _Printer(as_json=as_json, left=count)))


async def _watch(client: Client, path: str, wanted: dict[str, Any], printer: _Printer) -> None:
    watch = client.subscribe(path, **wanted)
    async with client:
        stop = client.listen(lambda event: printer.take(event, watch))
        try:
            await client.ready()
            await watch.first(FIRST_S)
            await printer.done.wait()
        finally:
            stop()
    if printer.problem is not None:
        raise printer.problem


@dataclass(slots=True)
class _Printer:
    """Writes what happens in an app. Blocks while nobody reads: then the provider sends less."""

    as_json: bool
    left: int | None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    problem: BaseException | None = None
    was_connected: bool = False
    _shown: Node | None = None
    _lines: list[str] = field(default_factory=list)

    def take(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> None:
        """Write one event, if it is one that is shown."""
        if isinstance(event, Connected):
            self.was_connected = True
        if self.done.is_set() or not self.was_connected:
            return
        try:
            if not (self._as_json if self.as_json else self._as_text)(event, watch):
                return
        except BaseException as problem:  # noqa: BLE001 - told to who waits, in its own task
            self.problem = problem
            self.done.set()
            return
        if self.left is not None:
            self.left -= 1
            if not self.left:
                self.done.set()

    def _as_json(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> bool:
        """Write an event as JSON; tell whether it is one that is shown."""
        match event:
            case Connected(provider):
                fields: dict[str, Any] = {"event": "connected", "provider": provider}
            case Lost(reason):
                fields = {"event": "disconnected", "reason": str(reason)}
            case Silent(is_silent):
                fields = {"event": "silent" if is_silent else "heard"}
            case EventArrived(name, data):
                fields = {"event": "event", "name": name, "data": data}
            case MirrorChanged() if event.subscription == watch.id:
                before, self._shown = self._shown, event.tree
                fields = {"event": "snapshot", "version": event.version}
                if event.patched and before is not None:
                    fields["event"] = "patch"
                    fields["ops"] = Raw(encode_ops(diff(before, event.tree)))
                else:
                    fields["tree"] = Raw(encode(event.tree))
            case _:
                return False
        write_json_lines([fields])
        return True

    def _as_text(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> bool:
        """Write a tree as text; tell whether there was one."""
        if isinstance(event, Lost):
            tell(f"disconnected: {event.reason}")
            return False
        if isinstance(event, Silent):
            tell("no sign of life: what is shown may be old" if event.is_silent else "alive again")
            return False
        if not isinstance(event, MirrorChanged) or event.subscription != watch.id:
            return False
        before, self._lines = self._lines, format_tree(event.tree).splitlines()
        if sys.stdout.isatty():
            write_screen(_marked(before, self._lines))
        else:
            write_text(["\n".join(self._lines) + "\n"])
        return True


def _marked(before: list[str], after: list[str]) -> Iterator[tuple[bool, str]]:
    """The new lines, and whether each was not there before."""
    if not before:
        yield from ((False, line) for line in after)
        return
    for tag, _, _, start, end in SequenceMatcher(None, before, after, False).get_opcodes():
        yield from ((tag != "equal", line) for line in after[start:end])


@click.command(
    epilog="""\b
For an app on a broker, on two cores:
  export SIGHTLINE_PORT_TOKEN=…
  sightline relay nats://broker:4222/todos --port 8765 &
  sightline relay nats://broker:4222/todos --port 8765 &
"""
)
@address_argument
@click.option("--port", type=click.IntRange(0, 65535), required=True, help="0 chooses one.")
@click.option(
    "--port-token", envvar="SIGHTLINE_PORT_TOKEN",
    help="What the port asks for; one is made and written to stderr if there is none.",
)  # fmt: skip
@users_option
def relay(*, address: str, port: int, port_token: str | None, users: Users) -> None:
    """Serve the app at ADDR at a WebSocket port of this machine, until interrupted.

    Started several times with one port and one token, each process serves a share of those who
    come: so several cores tell many WebSockets of a change. Of an app on a broker a relay gets
    each change once, however many it serves.
    """
    asyncio.run(_relay(address, port, port_token, users))


async def _relay(address: str, port: int, port_token: str | None, users: Users) -> None:
    from sightline.slop.app.announce import told_to_end
    from sightline.slop.hub.second_port import serve_relay

    token = port_token or secrets.token_urlsafe(32)
    dial = dial_address(address)
    link = await dial()  # who cannot be reached now is an error of whoever typed the address
    try:
        with told_to_end() as ended:
            async with serve_relay(dial, port, token, users) as served:
                if port_token is None:
                    tell(f"token: {token}")
                write_text([served])
                await ended.wait()
    finally:
        await link.close()
