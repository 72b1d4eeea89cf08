"""Write `docs/conformance.md`: what `sightline conform` finds, of ours and of slop-ai.

    python -m proof.conformance > docs/conformance.md

A test compares the page with what this writes, so that the two cannot part.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from slop_ai import SlopConsumer, SlopServer
from slop_ai.transports import unix as peer_unix
from slop_ai.transports.unix_client import UnixClientTransport

from sightline.slop.conform.requirements import REQUIREMENTS
from sightline.slop.conform.trial import TrialTarget
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.trying import TrialBounds, Tried, try_consumer, try_provider
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import connect_unix, serve_unix
from support.real import Mailbox

_HEAD = """\
# Conformance

`sightline conform ADDR` tries, from outside, every clause of the protocol to which any provider
can be held, and `sightline conform --serve ADDR` every one to which any consumer can that
connects. A clause is *held* where nothing that was tried shows otherwise, *not held*, with the
messages that show it, or *not shown*, where the peer gives no occasion.

```console background
$ sightline demo --unix demo.sock
```

```console
$ sightline conform unix:demo.sock > found.txt; echo "exit code $?"; head -n 2 found.txt
exit code 0
held      hello.first                  hello is the first message, once.
held      hello.fields                 hello says id, name, slop_version and capabilities.
```

- **It does nothing to the app**: what is invoked are a node and an action that no app has, and one
  action that is not dangerous, with every required param of a type that its schema forbids.
  `--look-only` leaves that out, too. With `--act PATH ACTION` (and `--params JSON`) an action that
  you name runs twice, and what it changes is followed.
- **It ends whatever the peer does**: each answer has `--timeout` seconds, a thousand messages and
  64 MiB.
- `--json` gives an object for each clause: `clause`, `sentence`, `held` (`null` is not shown),
  `why` and `messages`.
- The exit code is 5 where a clause is not held, 4 where nobody is there.
- A consumer shows what it made of a message by whether it subscribes again. It should subscribe
  when it has connected, and stay.

Of the {all} clauses that this project's tests know, {provider} can be tried of a provider and
{consumer} of a consumer; the others need a look inside.

What follows is written by `python -m proof.conformance`, over Unix sockets; a test compares the
two.
"""


# A busy machine is nobody's fault.
_BOUNDS = TrialBounds(step_s=30, settle_s=1.5)


def peer_app() -> SlopServer:
    """An app of the peer's that gives occasion for as many clauses as it can."""
    app = SlopServer("mail", "Mail")
    state = {"n": 0}

    def note(own: str) -> dict[str, Any]:
        body = {"type": "document", "props": {"text": own}}
        return {"id": own, "type": "item", "props": {"title": own}, "children": {"body": body}}

    @app.node("inbox")  # type: ignore[untyped-decorator] # the peer has no types
    def inbox() -> dict[str, Any]:
        letters = [note(f"msg-{n}") for n in range(1, 4)]
        for letter, salience in zip(letters, (1.0, 0.5, 0.1), strict=True):
            letter["meta"] = {"salience": salience}
        props = {"label": "Inbox", "n": state["n"]}
        return {"type": "collection", "props": props, "summary": "3 messages", "items": letters}

    @app.action("inbox", "count")  # type: ignore[untyped-decorator] # likewise
    def count() -> None:
        state["n"] += 1
        app.refresh()

    @app.action("inbox", "find", params={"text": "string"})  # type: ignore[untyped-decorator] # likewise
    def find(text: str) -> list[str]:
        return [text]

    app.register("me", {"type": "context", "props": {"user": "ada"}})
    app.refresh()  # it sees actions only when it builds its tree anew
    return app


async def _provider_of_ours(place: Path) -> list[Tried]:
    serving = Mailbox().app.serving(unix=place / "ours.sock", discoverable=False)
    async with serving as [address]:
        target = TrialTarget(act=("/", "count"))
        return [tried async for tried in try_provider(dial_address(address), target, _BOUNDS)]


async def _provider_of_peer(place: Path) -> list[Tried]:
    app = peer_app()
    # What the peer's own handlers raise ends up there, and is evidence here already.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    server = await peer_unix.listen(app, str(place / "peer.sock"))
    dial = dial_address(f"unix:{place / 'peer.sock'}")
    target = TrialTarget(act=("/inbox", "count"))
    found = [tried async for tried in try_provider(dial, target, _BOUNDS)]
    server.close()
    while app._connections:
        await asyncio.sleep(0.01)
    return found


async def _consumer(place: Path, *, ours: bool) -> list[Tried]:
    path = place / f"script-{ours}.sock"
    found: asyncio.Future[list[Tried]] = asyncio.get_running_loop().create_future()

    async def handle(link: Link) -> None:
        found.set_result([tried async for tried in try_consumer(link, _BOUNDS)])

    async with serve_unix(handle, path), contextlib.AsyncExitStack() as stack:
        if ours:
            dial = lambda: connect_unix(path)  # noqa: E731 - a dial, as everywhere
            client = await stack.enter_async_context(Client(dial, reconnect=False))
            client.subscribe()
        else:
            consumer = SlopConsumer(UnixClientTransport(str(path)))
            await consumer.connect()
            stack.push_async_callback(consumer._connection.close)  # its own way leaves it open
            await consumer.subscribe("/")
        return await found


async def _all(place: Path) -> list[list[Tried]]:
    """Everything at once: most of it is waiting for a consumer to say nothing."""
    found = await asyncio.gather(
        _provider_of_ours(place),
        _consumer(place, ours=True),
        _provider_of_peer(place),
        _consumer(place, ours=False),
    )
    return list(found)


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as directory:
        *ours, provider, consumer = asyncio.run(_all(Path(directory)))
    counts = {"provider": len(provider), "consumer": len(consumer), "all": len(REQUIREMENTS)}
    peer = f"slop-ai {version('slop-ai')}"
    pieces = [
        _HEAD.format(**counts),
        "## Ours\n",
        _table(chain.from_iterable(ours)),
        f"\n## {peer} as a provider\n",
        _table(provider),
        *_evidence(provider),
        f"\n## {peer} as a consumer\n",
        _table(consumer),
        *_evidence(consumer),
    ]
    return "\n".join(pieces).rstrip() + "\n"


_WORDS = {True: "held", False: "**not held**", None: "not shown"}


def _table(results: Iterable[Tried]) -> str:
    lines = ["| clause | what it demands | |", "| --- | --- | --- |"]
    for tried in results:
        verdict = tried.verdict
        why = f": {verdict.why}" if verdict.why else ""
        lines.append(f"| `{verdict.clause}` | {tried.sentence} | {_WORDS[verdict.held]}{why} |")
    return "\n".join(lines)


def _evidence(results: Iterable[Tried]) -> Iterable[str]:
    for tried in results:
        if tried.verdict.held is False:
            yield f"\n`{tried.verdict.clause}`, the messages (→ ours):\n"
            yield from (f"    {'→' if m.is_ours else '←'} {m.text}" for m in tried.messages)


if __name__ == "__main__":
    sys.stdout.write(page())
