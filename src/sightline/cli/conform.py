"""`sightline conform`: hold a provider or a consumer to the protocol, from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlsplit

import click

from sightline.cli.clean import clean_line
from sightline.cli.io import read_object
from sightline.cli.live import address_argument, token_option
from sightline.cli.options import examples
from sightline.cli.out import say, tell, write_json_lines
from sightline.errors import ActionFailed, InvalidInput
from sightline.slop.conform.trial import TrialTarget
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.trying import TrialBounds, Tried, try_consumer, try_provider
from sightline.slop.transports.link import Handler, Link
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket

_WORDS: Final = {True: "held", False: "NOT HELD", None: "not shown"}


@examples(
    "sightline conform desk --look-only", "sightline conform unix:desk.sock --look-only --json"
)
@click.command()
@address_argument
@click.option("--serve", is_flag=True, help="Serve at ADDR, and try the consumer that connects.")
@click.option(
    "--act", nargs=2, metavar="PATH ACTION", help="An action that may run, twice: it should change."
)
@click.option("--params", metavar="JSON", help="The parameters of that action, an object.")
@click.option("--look-only", is_flag=True, help="Invoke nothing, not even what must be refused.")
@click.option("--messages", "all_messages", is_flag=True, help="Show the messages of all trials.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per clause and line.")
@click.option(
    "--timeout",
    "step_s",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds to wait for each answer.",
)
@token_option
def conform(
    *,
    address: str,
    serve: bool,
    act: tuple[str, str] | None,
    params: str | None,
    look_only: bool,
    all_messages: bool,
    as_json: bool,
    step_s: float,
    token: str | None,
) -> int:
    """Try a SLOP provider at ADDR, clause by clause, and say what it keeps.

    Nothing of the app is done: what is invoked are nodes and actions that no app has, and one
    action that is not dangerous, with params that its schema forbids. --look-only leaves that
    out, too; --act names an action that may really run. A clause is held, NOT HELD (with the
    messages that show it), or not shown, where the app gives no occasion.

    With --serve a scripted app waits at ADDR, unix:/path or ws://127.0.0.1:PORT/slop, for one
    consumer, which should subscribe and stay. Exits with 5 where a clause is not held, and
    with 4 where nobody is there.
    """
    if serve and (act or params is not None or look_only):
        raise click.UsageError("--act, --params and --look-only are for a provider")
    bounds = TrialBounds(step_s=step_s)
    if serve:
        work = _report(_serve(address, token, bounds), as_json, all_messages)
    else:
        values: dict[str, Any] = {} if params is None else read_object(params, "--params")
        target = TrialTarget(act=act or None, params=values, look_only=look_only)
        tried = try_provider(dial_address(address, token=token), target, bounds)
        work = _report(tried, as_json, all_messages)
    held = asyncio.run(work)
    if not as_json:
        say(", ".join(f"{held.count(kind)} {word.lower()}" for kind, word in _WORDS.items()))
    return ActionFailed.exit_code if False in held else 0


async def _serve(address: str, token: str | None, bounds: TrialBounds) -> AsyncIterator[Tried]:
    """Serve one consumer, and try it."""
    came: asyncio.Queue[Link] = asyncio.Queue()
    over = asyncio.Event()

    async def handle(link: Link) -> None:
        came.put_nowait(link)
        await over.wait()

    async with _served(address, handle, token) as at:
        tell(f"waiting for a consumer at {at}")
        try:
            async for tried in try_consumer(await came.get(), bounds):
                yield tried
        finally:
            over.set()


def _served(
    address: str, handle: Handler, token: str | None
) -> AbstractAsyncContextManager[str]:  # fmt: skip
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest:
        return serve_unix(handle, rest)
    try:
        parts = urlsplit(address)
        port = parts.port  # raises where it is none
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "ws" or not parts.hostname or port is None:
        raise InvalidInput(f"not a place to serve at (unix:/path or ws://host:port): {address!r}")
    path = parts.path if parts.path.strip("/") else "/slop"
    return serve_websocket(handle, parts.hostname, port, path, token=token)


async def _report(
    results: AsyncIterator[Tried], as_json: bool, all_messages: bool
) -> list[bool | None]:
    """Write what was found as it is found; return the verdicts."""
    held: list[bool | None] = []
    async for tried in results:
        held.append(tried.verdict.held)
        if as_json:
            write_json_lines([_fields(tried)])
        else:
            _write(tried, with_messages=all_messages or tried.verdict.held is False)
    return held


def _fields(tried: Tried) -> dict[str, Any]:
    verdict = tried.verdict
    return {
        "clause": verdict.clause,
        "sentence": tried.sentence,
        "held": verdict.held,
        "why": verdict.why,
        "messages": [
            {"from": "us" if message.is_ours else "peer", "text": message.text}
            for message in tried.messages
        ],
    }


def _write(tried: Tried, *, with_messages: bool) -> None:
    verdict = tried.verdict
    why = f" ({verdict.why})" if verdict.why else ""
    say(clean_line(f"{_WORDS[verdict.held]:9} {verdict.clause:28} {tried.sentence}{why}"))
    for message in tried.messages if with_messages else ():
        say(clean_line(f"          {'→' if message.is_ours else '←'} {message.text}"))
