"""`sightline apps|query|invoke`: live apps, from the shell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from sightline.cli.clean import clean_line
from sightline.cli.examples import examples
from sightline.cli.io import read_object, read_window
from sightline.cli.out import say, tell, write_json, write_json_lines, write_text
from sightline.slop.discovery.descriptor import Descriptor
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.questions import QuestionRelay
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.messages import Filter
from sightline.slop.protocol.text import format_blocks

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

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


def wanted_filter(types: str | None, min_salience: float | None) -> Filter | None:
    """Put the filter options together; None where there are none."""
    if types is None and min_salience is None:
        return None
    return Filter(None if types is None else tuple(types.split(",")), min_salience)


def connected(
    address: str, token: str | None, work: Callable[[Client], Awaitable[_T]]
) -> _T:  # fmt: skip
    """Connect once, work, and let go. Raises what the work raises, or why there is nobody."""

    async def run() -> _T:
        async with Client(dial_address(address, token=token), reconnect=False) as client:
            questions = QuestionRelay(client, lambda: None)  # there is nobody to be asked here
            await client.ready()
            try:
                return await work(client)
            finally:
                questions.close()

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
        write_json_lines(msgspec.json.encode(_fields(item)) for item in found.descriptors)
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
    "sightline query demo",
    "sightline query demo /inbox --depth 1",
    "sightline query unix:demo.sock /inbox --window 0,2 | sightline tree format",
    "sightline query demo --text",
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
    depth: int,
    max_nodes: int | None,
    min_salience: float | None,
    types: str | None,
    window: str | None,
    as_text: bool,
    token: str | None,
    timeout_s: float,
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
            depth=depth,
            max_nodes=max_nodes,
            filter=wanted_filter(types, min_salience),
            window=None if window is None else read_window(window),
            timeout_s=timeout_s,
        ),
    )
    if as_text:
        write_text(format_blocks(tree))
    else:
        write_json(encode(tree))


@examples(
    "sightline invoke demo /inbox/msg-102 archive",
    'sightline invoke unix:demo.sock / search --params \'{"query": "launch"}\'',
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
    write_json(msgspec.json.encode({"status": outcome.status, "data": outcome.data}))
