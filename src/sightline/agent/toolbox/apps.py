"""The tools that look at apps and act in them, through the hub.

Nothing here decides whether an action may run: that is the policy's, before a call gets
here. An app's refusal, a lost connection and a path that leads nowhere are results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

import sightline.errors as errors
from sightline.agent.toolbox.advice import about_failure, missing_app, missing_node
from sightline.agent.toolbox.bench import Bench
from sightline.agent.toolbox.results import RESULT_CHARS, Ran, rendered, safe_json
from sightline.context.projection.actions import action_details, danger_line
from sightline.context.projection.escape import reveal
from sightline.context.projection.tail import EVERY_APP, app_heading, tree_body
from sightline.context.projection.tools import FOCUS, QUERY, UNFOCUS, ToolTarget
from sightline.slop.hub.client import Outcome
from sightline.slop.hub.content import ContentAccess, path_in_app, read_text
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.scope import nearest_context
from sightline.slop.protocol.tree import Affordance, ContentRef, Node
from sightline.slop.protocol.world import AppState, AvailableApp, World

LOOK_TOOLS: Final = (QUERY, FOCUS, UNFOCUS)
MayRead: TypeAlias = Callable[[ToolTarget, Affordance], bool]
CONTENT: Final = ContentAccess(max_bytes=256 * 1024)
DEPTH: Final = 2
NODES: Final = 400
CHILDREN: Final = 50


def normal_path(path: str) -> str:
    """Write a path in its one spelling, which is what policies and apps are given."""
    return format_path(parse_path(path))


async def invoke(bench: Bench, call: ToolTarget, check: Callable[[], None] | None = None) -> Ran:
    """Do an action, if `check` raises nothing. Whatever becomes of it is a result."""
    world = bench.hub.world
    if not _is_known(world, call.app):
        return Ran.failed(missing_app(world, call.app))
    try:
        client = await bench.hub.client(call.app)
        limit_s = bench.own_invoke_s.get(call.app, bench.invoke_s)
        outcome = await client.invoke(
            call.path, call.action, call.params or None, timeout_s=limit_s, check=check
        )
    except errors.ActionFailed as error:
        advice = about_failure(
            error, bench.hub.world, call.app, call.path, call.action, bench.query_name
        )
        return Ran.failed(f"The app says {error}", advice)
    except errors.TimedOut as error:
        return Ran.failed(
            str(error),
            "It may have been done all the same: look at the current state before trying again.",
        )
    except errors.Unreachable as error:
        return _unreachable(call.app, error)
    return _result_of(outcome)


async def run_look(bench: Bench, name: str, arguments: Mapping[str, Any], may_read: MayRead) -> Ran:
    """Run a tool that only looks; its arguments were checked.

    `may_read` says whether an app may be asked for the content of a node, unasked.
    """
    app, path = arguments["app"], normal_path(arguments.get("path", "/"))
    if name == QUERY.name and app == EVERY_APP:
        return _every_app(bench.hub.world, arguments)
    if not _is_known(bench.hub.world, app):
        return Ran.failed(missing_app(bench.hub.world, app))
    if name == QUERY.name:
        return await _query(bench, app, path, arguments, may_read)
    return _focus(bench, app, path) if name == FOCUS.name else _unfocus(bench, app, path)


async def _query(
    bench: Bench, app: str, path: str, arguments: Mapping[str, Any], may_read: MayRead
) -> Ran:
    window = None
    if "offset" in arguments or "count" in arguments:
        window = (arguments.get("offset", 0), arguments.get("count", CHILDREN))
    depth = arguments.get("depth", DEPTH)
    try:
        tree = await bench.hub.query(app, path, depth=depth, max_nodes=NODES, window=window)
    except errors.RequestRefused as error:
        if error.reason == "not_found":
            return Ran.failed(missing_node(bench.hub.world, app, path, bench.query_name))
        return Ran.failed(f"The app says {error}")
    except errors.Unreachable as error:
        return _unreachable(app, error)
    lines = [f"{path} in {app}, now:", reveal(tree_body(tree, "text")), danger_line(tree)]
    lines += (action_details(tree), _context(bench.hub.world, app, path))
    if tree.content_ref is not None:
        lines.append(await _content(bench, app, path, tree, tree.content_ref, may_read))
    return Ran.of("\n".join(filter(None, lines)))


def _context(world: World, app: str, path: str) -> str:
    """Write what holds at a node by the context around it, which its own tree does not show."""
    state = world.app(app)
    if path == "/" or state is None or state.tree is None or state.status != "connected":
        return ""
    found = nearest_context(state.tree, path)
    if not found:
        return ""
    around = Node.of("around", "context", properties=found)
    return f"In the context of:\n{reveal(tree_body(around, 'text'))}"


async def _content(
    bench: Bench, app: str, path: str, node: Node, ref: ContentRef, may_read: MayRead
) -> str:
    """Write what a node's content is, or why it is not here."""
    # SLOP, content references: the node's own `read_content` serves it, which the policy may deny.
    served_by = path_in_app(ref)
    if served_by is not None:
        offered = next((one for one in node.affordances if one.action == "read_content"), None)
        target = ToolTarget(app, path, "read_content", {})
        if offered is None or normal_path(served_by) != path or not may_read(target, offered):
            return f"Its content is not read by a query: read_content on {served_by} may be."
    try:
        return f"Its content:\n{await read_text(await bench.hub.client(app), ref, CONTENT)}"
    except errors.SightlineError as error:
        return f"Its content cannot be shown: {error}"


def _every_app(world: World, arguments: Mapping[str, Any]) -> Ran:
    """List the apps by name and id, those that show their state first."""
    apps: tuple[AppState | AvailableApp, ...] = (*world.apps, *world.available)
    first, count = arguments.get("offset", 0), arguments.get("count", NODES)
    shown = apps[first : first + count]
    listed = (
        f"- {app_heading(app)}, {app.status if isinstance(app, AppState) else 'not connected'}"
        for app in shown
    )
    return Ran.of("\n".join((f"{len(shown)} of {len(apps)} apps, from {first} on:", *listed)))


def _focus(bench: Bench, app: str, path: str) -> Ran:
    state = bench.hub.world.app(app)
    if state is None or state.tree is None or state.status != "connected":
        return Ran.failed(f'"{app}" shows no state now, so there is nothing to keep in view.')
    try:
        state.tree.at(path)
    except errors.InvalidPath:
        return Ran.failed(missing_node(bench.hub.world, app, path))
    bench.attention = bench.attention.focus(app, path)
    return Ran.of(f"{path} in {app} is in view from the next request on.")


def _unfocus(bench: Bench, app: str, path: str) -> Ran:
    if (app, path) not in bench.attention.pairs:
        focused = ", ".join(map(" ".join, bench.attention.pairs)) or "nothing"
        return Ran.failed(f"{path} in {app} is not in focus. In focus: {focused}.")
    bench.attention = bench.attention.unfocus(app, path)
    return Ran.of(f"{path} in {app} is shown like any other node again.")


def _is_known(world: World, app: str) -> bool:
    return world.app(app) is not None or any(item.id == app for item in world.available)


def _unreachable(app: str, error: errors.SightlineError) -> Ran:
    return Ran.failed(f'"{app}" cannot be reached: {error}', "It may come back; tell the user.")


def _result_of(outcome: Outcome) -> Ran:
    if outcome.status == "accepted":
        task = outcome.data.get("taskId") if isinstance(outcome.data, dict) else None
        where = f" as /tasks/{task}" if task else ""
        ran = Ran.of(f"Accepted: it runs now{where}; the state shows how far it is.")
        return replace(ran, data=safe_json(outcome.data), accepted=True)
    ran = Ran.of("Done." if outcome.data is None else f"Done.\n{rendered(outcome.data)}")
    # What is too long to be shown whole is in no other form either.
    return replace(ran, data=safe_json(outcome.data)) if len(ran.content) < RESULT_CHARS else ran
