"""`/apps`, `/connect`, `/tree`, `/focus`, `/invoke` …: the apps, by hand."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import click
import msgspec

from sightline.agent.host.judge import shown_by
from sightline.cli.clean import visible
from sightline.cli.commands.command import CommandCall, Section, rest
from sightline.cli.commands.offers import AppPath, find_app, find_path, offering
from sightline.cli.io import read_object
from sightline.cli.options import current_directory
from sightline.config.consents import differences, get_consent, parts_of, store_consent
from sightline.config.mcp_files import McpEntry, desktop_file, project_file, read_mcp_file
from sightline.context.projection import tools
from sightline.context.projection.temporal import changes_between
from sightline.errors import InvalidInput, NotFound
from sightline.slop.protocol.scope import find_action
from sightline.slop.protocol.text import format_tree

COMMANDS: Final = Section("Apps")
_app: Final = click.argument("app", shell_complete=offering(lambda here, *_: here.apps()))
_nodes: Final = offering(lambda here, word, _: here.nodes(word))
_node: Final = click.argument("path", metavar="PLACE", shell_complete=_nodes)
_any_node: Final = click.argument("path", metavar="[PLACE]", default="", shell_complete=_nodes)
_SHOWN_CHANGES: Final = 50


@COMMANDS.command("apps")
async def _apps(call: CommandCall) -> None:
    """List the apps: connected, lost, and available."""
    world = call.host.world
    rows: list[tuple[str, ...]] = [
        (app.id, app.name, app.status, app.reason or app.last_seen or "") for app in world.apps
    ]
    rows += [(app.id, app.name, "available", app.transport) for app in world.available]
    call.table(rows, "No app is here. `sightline demo` starts one; /connect adds one.")


@COMMANDS.command("connect", example="/connect unix:/tmp/mail.sock")
@rest("address", offers=offering(lambda here, *_: here.available()))
async def _connect(call: CommandCall, address: str) -> None:
    """Connect an app: ws://…, https://…, unix:/path, nats://…, stdio:CMD, mcp:CMD or its id."""
    app = await call.host.connect(address)
    call.console.write(f"Connected to {app}.")


@COMMANDS.command("mcp", example="/mcp time")
@click.argument("name", required=False, default="")
async def _mcp(call: CommandCall, name: str) -> None:
    """Connect an MCP server that .mcp.json or Claude Desktop's file names; alone, list them."""
    entries = await asyncio.to_thread(_mcp_entries, call)
    if not name:
        rows = [(one.name, visible(one.target.address), visible(str(one.path))) for one in entries]
        call.table(rows, "No server is named in .mcp.json or Claude Desktop's file.")
        return
    entry = next((one for one in entries if one.name == name), None)
    if entry is None:
        raise NotFound(f"no file names an MCP server {name!r:.80}")
    if await _may_start(call, entry):
        call.console.write(f"Connecting to {call.host.hub.add_mcp(entry.target)}.")


def _mcp_entries(call: CommandCall) -> list[McpEntry]:
    """Read the directory's file and the user's, in this order; one that is not there is none."""
    entries: list[McpEntry] = []
    project, env = project_file(current_directory()), call.host.env
    if project is not None:
        entries += read_mcp_file(project, env, of_user=False)
    with suppress(NotFound):
        entries += read_mcp_file(desktop_file(env), env)
    return entries


async def _may_start(call: CommandCall, entry: McpEntry) -> bool:
    """Ask before a command is started, or a URL reached, that a directory's file names."""
    if entry.path == desktop_file(call.host.env):
        return True
    key, now = f"mcp:{entry.path}#{entry.name}", parts_of({entry.name: entry.definition})
    consent = await asyncio.to_thread(get_consent, key)
    if differences(consent, now):
        had = "".join(f"\nYou agreed to: {visible(one.text)}" for one in consent.parts.values())
        call.console.write(f"{visible(str(entry.path))} has: {visible(entry.definition)}{had}")
        if not await call.console.ask("Start it, now and whenever it is asked for?"):
            call.console.write("Nothing was started.")
            return False
        await asyncio.to_thread(store_consent, key, agreed=True, parts=now)
    return True


@COMMANDS.command("disconnect")
@_app
async def _disconnect(call: CommandCall, app: str) -> None:
    """Let go of an app."""
    found = find_app(call.host.world, app)
    await call.host.disconnect(found.id)
    call.console.write(f"{found.id} is disconnected.")


@COMMANDS.command("tree", example="/tree desk/inbox")
@_any_node
async def _tree(call: CommandCall, path: str) -> None:
    """Show what the apps show, or one node and all below it."""
    world = call.host.world
    if path:
        await call.console.page(format_tree(find_path(world, path).node))
        return
    trees = [
        f"## {app.id} ({app.status})\n{'' if app.tree is None else format_tree(app.tree)}"
        for app in world.apps
    ]
    await call.console.page("\n".join(trees) or "No app is connected.")


@COMMANDS.command("focus", example="/focus desk/inbox")
@_any_node
async def _focus(call: CommandCall, path: str) -> None:
    """Always show the model a node; without one, list what is in focus."""
    if path:
        found = find_path(call.host.world, path)
        call.host.focus(found.app.id, found.path)
    _tell_focus(call)


@COMMANDS.command("unfocus")
@_node
async def _unfocus(call: CommandCall, path: str) -> None:
    """Leave a node to the budget again."""
    found = find_path(call.host.world, path)
    call.host.unfocus(found.app.id, found.path)
    _tell_focus(call)


def _tell_focus(call: CommandCall) -> None:
    paths = [app + ("" if path == "/" else path) for app, path in call.host.focused]
    shown = ", ".join(paths)
    call.console.write(f"Always shown: {shown}" if shown else "Nothing is in focus.")


@COMMANDS.command("invoke", example='/invoke desk/inbox/msg-103 reply {"body": "Gladly"}')
@_node
@click.argument(
    "action", shell_complete=offering(lambda here, _, given: here.actions(given["path"]))
)
@rest("json", required=False)
async def _invoke(call: CommandCall, path: str, action: str, json: str) -> None:
    """Do something in an app yourself."""
    if action.startswith("/"):  # as on the command line: APP PATH ACTION [JSON]
        path += action
        action, _, json = json.partition(" ")
    found, params = find_path(call.host.world, path), read_object(json or "{}", "JSON")
    if _is_dangerous(found, action) and not await _may_do(call, found, action):
        return
    outcome = await call.host.invoke(found.app.id, found.path, action, params)
    data = "" if outcome.data is None else f" {msgspec.json.encode(outcome.data).decode()}"
    call.console.write(f"{outcome.status}{data}")


async def _may_do(call: CommandCall, found: AppPath, action: str) -> bool:
    """Ask before something dangerous; a yes is to what is there when it is given."""
    host, target = call.host, tools.ToolTarget(found.app.id, found.path, action, {})

    def look() -> tuple[object, dict[str, str]]:
        return host.hub.origin(target.app), shown_by(host.hub.world, target).picture()

    origin, before = look()
    label = visible(shown_by(host.world, target).label)
    what = f"{visible(action)} on {found.path}" + (f' ("{label}")' if label else "")
    question = f"{found.app.id} (from {visible(str(origin))}) calls {what} dangerous. Do it?"
    if not await call.console.ask(question):
        call.console.write("Nothing was done.")
        return False
    if look() != (origin, before):
        call.console.write("It has changed since you were asked. Nothing was done.")
        return False
    return True


def _is_dangerous(found: AppPath, action: str) -> bool:
    scoped = find_action(found.tree, found.path, action)
    if scoped is None:
        raise InvalidInput(f"{found.app.id}{found.path} has no action {action[:80]!r}")
    return bool(scoped.affordance.dangerous)


@COMMANDS.command("pin", idle=True)
@_app
async def _pin(call: CommandCall, app: str) -> None:
    """Keep what an app shows now in the conversation, as a thing of the past."""
    found = find_app(call.host.world, app)
    await call.host.pin(found.id)
    call.console.write(f"What {found.id} shows now is part of the conversation from here on.")


@COMMANDS.command("diff")
async def _diff(call: CommandCall) -> None:
    """Say what has changed in the apps since the model looked."""
    last = call.host.last
    if last is None:
        call.console.write("The model has not looked yet.")
        return
    changes = list(changes_between(last.world, call.host.world))
    if not changes:
        call.console.write("Nothing has changed since the model looked.")
        return
    await call.console.page("\n".join(changes[:_SHOWN_CHANGES]))
    if len(changes) > _SHOWN_CHANGES:
        call.console.write(f"and {len(changes) - _SHOWN_CHANGES} more")
