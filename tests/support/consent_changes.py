"""Things that change after the user agreed to them, and a user who is asked, or is not.

Each row of `tests/agent/consent_changes.json` has a thing as the user saw it and as it is later.
`try_row` has the user agree to the first for as long as possible, makes the change and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import msgspec

import sightline.agent.policy as policy
import sightline.config.consents as consents
from agent.host.helpers import hosted, invoke, of_kind, turn
from sightline.agent.host import Host
from sightline.cli.approval import LineAsker, ask_to_follow, unasked
from sightline.config import AppSettings
from sightline.errors import InvalidPath
from sightline.events import ApprovalAsked, CallFinished, HostEvent, Noticed
from sightline.slop.app.local import local_dial
from sightline.slop.hub.client import Dial
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link, Peer
from support.live import LiveApp

TESTS = Path(__file__).parent.parent
FILE = TESTS / "agent" / "consent_changes.json"
SERVER = TESTS / "support" / "mcp_server.py"
DIRECTORY_APPS = AppSettings(discover=False)


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change: an action as an app describes it, a tool as a server lists it, files by path."""

    name: str
    thing: Literal["action", "mcp_tool", "instructions"]
    before: dict[str, Any]
    after: dict[str, Any]
    author: str


class Result(msgspec.Struct, frozen=True):
    """Whether the user was asked about the change and saw it, and whether it took effect."""

    asked: bool
    shown: str
    took_effect: bool


def read_rows() -> list[Row]:
    return msgspec.json.decode(FILE.read_bytes(), type=list[Row])


async def try_row(row: Row, directory: Path) -> Result:
    """Agree to the thing as it was before, change it, and go on. The user denies the rest."""
    things = {"action": _try_action, "mcp_tool": _try_tool, "instructions": _try_instructions}
    return await things[row.thing](row, directory)


@contextlib.contextmanager
def careless() -> Iterator[None]:
    """A host that compares nothing with what the user saw, as before the repair."""

    def covers(answer: policy.Answer, facts: policy.Facts) -> bool:
        is_same = answer.decision == "deny" or answer.dangerous or not facts.risky
        return policy._fits(answer, facts) and is_same

    with (
        patch.object(policy, "_covers", covers),
        patch.object(policy, "changed_since", lambda *_: None),
        patch.object(consents, "differences", lambda *_: {}),
    ):
        yield


# Actions and tools.


async def _try_action(row: Row, directory: Path) -> Result:
    app = LiveApp(_tree(row.before))
    call = "/thing", str(row.before["action"])
    script = _script("live", *call, **_sample(row.before.get("params")))
    async with hosted(directory, script, app=app) as (host, _):
        await _allow_always(host)
        app.publish(_tree(row.after))
        async for world in host.hub.changes():
            if world.apps[0].tree == app.tree:
                break
        return await _go_on(host)


def _tree(action: Mapping[str, Any]) -> Node:
    thing = {"id": "thing", "type": "item", "affordances": [dict(action)]}
    return from_value({"id": "app", "type": "root", "children": [thing]})


async def _try_tool(row: Row, directory: Path) -> Result:
    from sightline.adapters.mcp.client import McpApp
    from sightline.slop.hub.mcp import McpTarget

    listing = directory / "tools.json"
    listing.write_text(json.dumps([row.before]))
    command = sys.executable, "-S", "-E", str(SERVER), "changes", str(listing)
    server = McpApp(McpTarget("raw", command))
    path = f"/tools/{row.before['name']}"
    script = _script("mcp-raw", path, "call", **_sample(row.before.get("inputSchema")))
    async with _running(server), hosted(directory, script) as (host, _):
        await server.shown.wait()
        host.hub.add("mcp-raw", _as_server(local_dial(server.app)))
        await _until_shown(host, path)
        await _allow_always(host)
        listing.write_text(json.dumps([row.after]))
        await host.hub.invoke("mcp-raw", "/tools/echo", "call", {"text": "new"})
        await _until_shown(host, "/tools/new")
        return await _go_on(host)


@contextlib.asynccontextmanager
async def _running(server: Any) -> AsyncIterator[None]:
    life = asyncio.create_task(server.run())
    try:
        yield
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await server.app.close()


def _as_server(dial: Dial) -> Dial:
    """Reach an app as a hub reaches a server, though it is in this process."""

    async def dialled() -> Link:
        link = await dial()
        link.peer = Peer("mcp", "a server")
        return link

    return dialled


async def _until_shown(host: Host, path: str) -> None:
    async for world in host.hub.changes():
        app = world.app("mcp-raw")
        tree = None if app is None else app.tree
        with contextlib.suppress(InvalidPath):
            if tree is not None:
                tree.at(path)
                return


def _script(app: str, path: str, action: str, **params: Any) -> list[Any]:
    calls = (invoke(call_id, path, action, app=app, **params) for call_id in ("c1", "c2"))
    return [part for call in calls for part in (call, "Done.")]


def _sample(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Make parameters that a schema takes."""
    properties = (schema or {}).get("properties", {})
    values = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return {
        name: properties[name].get("enum", [values.get(properties[name].get("type"), "x")])[0]
        for name in (schema or {}).get("required", ())
    }


async def _allow_always(host: Host) -> None:
    """Have the first call run by the widest rule that is offered."""
    events: list[HostEvent] = []
    async for event in host.ask("do it"):
        events.append(event)
        if isinstance(event, ApprovalAsked):
            host.answer(event.call_id, approved=True, remember=len(event.rules))
    assert [call.ok for call in of_kind(events, CallFinished)] == [True], events
    assert host.rules


async def _go_on(host: Host) -> Result:
    events = await turn(host, answer=lambda _: False)
    asked = of_kind(events, ApprovalAsked)
    shown = "\n".join(line for event in asked for line in event.differences)
    ran = any(call.ok for call in of_kind(events, CallFinished))
    return Result(bool(asked), shown, ran)


# Instructions.


async def _try_instructions(row: Row, directory: Path) -> Result:
    """Change the files within a session first, then look at the next one, too."""
    project = directory / "project"
    (project / ".git").mkdir(parents=True)
    _write(project, row.before)
    folders = [Path(path).parent for path in {**row.before, **row.after}]
    nested = [one for one in folders if not one.parts or not one.parts[0].startswith(".")]
    work = project / max(nested, key=lambda one: len(one.parts), default=Path())
    work.mkdir(parents=True, exist_ok=True)
    around = {
        "SIGHTLINE_CONFIG": str(directory / "config" / "sightline.toml"),
        "XDG_STATE_HOME": str(directory / "state"),
    }
    with contextlib.chdir(work), patch.dict(os.environ, around):
        async with hosted(directory, ["one", "two"], apps=DIRECTORY_APPS) as (host, _):
            await ask_to_follow(host, _reader(StringIO(), "y"))
            await turn(host)
            assert host.guidance
            _write(project, row.after, row.before)
            notices = of_kind(await turn(host), Noticed)
            reported = any("not followed" in notice.message for notice in notices)
            took_effect = bool(host.guidance)
        async with hosted(directory, ["three"], apps=DIRECTORY_APPS) as (host, _):
            reported = reported and "not followed" in unasked(host)
            out = StringIO()
            await ask_to_follow(host, _reader(out, "v", ""))
            await turn(host)
            took_effect = took_effect or bool(host.guidance)
    question, _, shown = out.getvalue().partition("because the content changed since you agreed")
    asked = "has changed instructions" in question
    return Result(asked and reported, shown, took_effect)


def _write(root: Path, files: Mapping[str, str], before: Iterable[str] = ()) -> None:
    """Write files with the times that they had, and remove those of `before` that are gone."""
    for path in set(before) - set(files):
        (root / path).unlink()
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
        os.utime(target, (1_750_000_000, 1_750_000_000))


def _reader(out: StringIO, *answers: str) -> LineAsker:
    left = list(answers)

    async def ask(question: str) -> str:
        out.write(f"{question}\n")
        return left.pop(0) if left else ""

    return LineAsker(out, ask, width=100)
