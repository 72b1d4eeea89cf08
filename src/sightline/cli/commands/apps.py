"""`/apps`, `/connect`, `/tree`, `/focus`, `/invoke` …: the apps, by hand."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sightline.agent.host.judge import shown_by
from sightline.cli.approval import visible
from sightline.cli.commands.command import Argument, Command, CommandCall
from sightline.cli.commands.lines import columns, cut
from sightline.cli.commands.place import AppPath, find_app, find_place
from sightline.context.projection import tools
from sightline.context.projection.temporal import changes_between
from sightline.errors import InvalidInput
from sightline.slop.protocol.scope import find_action
from sightline.slop.protocol.text import format_tree

__all__ = ["COMMANDS"]

_APP: Final = Argument("APP", source="apps")
_PLACE: Final = Argument("PLACE", source="nodes")
_SHOWN_CHANGES: Final = 50


async def _apps(call: CommandCall) -> None:
    world = call.host.world
    rows: list[tuple[str, ...]] = [
        (app.id, app.name, app.status, app.reason or app.last_seen or "") for app in world.apps
    ]
    rows += [(app.id, app.name, "available", app.transport) for app in world.available]
    if not rows:
        call.console.write("No app is here. `sightline demo` starts one; /connect adds one.")
        return
    for line in columns(rows):
        call.console.write(cut(line, call.console.width))


async def _connect(call: CommandCall) -> None:
    app = await call.host.connect(call.text("ADDRESS"))
    call.console.write(f"Connected to {app}.")


async def _disconnect(call: CommandCall) -> None:
    app = find_app(call.host.world, call.text("APP"))
    await call.host.disconnect(app.id)
    call.console.write(f"{app.id} is disconnected.")


async def _tree(call: CommandCall) -> None:
    world = call.host.world
    if call.text("PLACE"):
        place = find_place(world, call.text("PLACE"))
        await call.console.page(format_tree(place.node))
        return
    trees = [
        f"## {app.id} ({app.status})\n{'' if app.tree is None else format_tree(app.tree)}"
        for app in world.apps
    ]
    await call.console.page("\n".join(trees) or "No app is connected.")


async def _focus(call: CommandCall) -> None:
    if call.text("PLACE"):
        place = find_place(call.host.world, call.text("PLACE"))
        call.host.focus(place.app.id, place.path)
    _tell_focus(call)


async def _unfocus(call: CommandCall) -> None:
    place = find_place(call.host.world, call.text("PLACE"))
    call.host.unfocus(place.app.id, place.path)
    _tell_focus(call)


def _tell_focus(call: CommandCall) -> None:
    places = [app + ("" if path == "/" else path) for app, path in call.host.focused]
    shown = ", ".join(places)
    call.console.write(f"Always shown: {shown}" if shown else "Nothing is in focus.")


async def _invoke(call: CommandCall) -> None:
    where, action, rest = call.text("PLACE"), call.text("ACTION"), call.text("JSON")
    if action.startswith("/"):  # as on the command line: APP PATH ACTION [JSON]
        where += action
        action, _, rest = rest.partition(" ")
    place, params = find_place(call.host.world, where), _params(rest)
    if _is_dangerous(place, action) and not await _may_do(call, place, action):
        return
    outcome = await call.host.invoke(place.app.id, place.path, action, params)
    data = "" if outcome.data is None else f" {msgspec.json.encode(outcome.data).decode()}"
    call.console.write(f"{outcome.status}{data}")


async def _may_do(call: CommandCall, place: AppPath, action: str) -> bool:
    """Ask before something dangerous; a yes is to what is there when it is given."""
    host, target = call.host, tools.ToolTarget(place.app.id, place.path, action, {})

    def look() -> tuple[object, dict[str, str]]:
        return host.hub.origin(target.app), shown_by(host.hub.world, target).picture()

    origin, before = look()
    label = visible(shown_by(host.world, target).label)
    what = f"{visible(action)} on {place.path}" + (f' ("{label}")' if label else "")
    asked = f"{place.app.id} (from {visible(str(origin))}) calls {what} dangerous. Do it?"
    if not await call.console.ask(asked):
        call.console.write("Nothing was done.")
        return False
    if look() != (origin, before):
        call.console.write("It has changed since you were asked. Nothing was done.")
        return False
    return True


def _params(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{text[:40]!r} is not a JSON object of parameters: {error}") from None


def _is_dangerous(place: AppPath, action: str) -> bool:
    found = find_action(place.tree, place.path, action)
    if found is None:
        raise InvalidInput(f"{place.app.id}{place.path} has no action {action[:80]!r}")
    return bool(found.affordance.dangerous)


async def _pin(call: CommandCall) -> None:
    app = find_app(call.host.world, call.text("APP"))
    await call.host.pin(app.id)
    call.console.write(f"What {app.id} shows now is part of the conversation from here on.")


async def _diff(call: CommandCall) -> None:
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


COMMANDS: Final = (
    Command("apps", "List the apps: connected, lost, and available.", _apps),
    Command(
        "connect", "Connect an app: ws://…, unix:/path, stdio:COMMAND or its id.", _connect,
        (Argument("ADDRESS", source="available", rest=True),),
        example="/connect unix:/tmp/mail.sock",
    ),
    Command("disconnect", "Let go of an app.", _disconnect, (_APP,)),
    Command(
        "tree", "Show what the apps show, or one node and all below it.", _tree,
        (Argument("PLACE", source="nodes", optional=True),), example="/tree desk/inbox",
    ),
    Command(
        "focus", "Always show the model a node; without one, list what is in focus.", _focus,
        (Argument("PLACE", source="nodes", optional=True),), example="/focus desk/inbox",
    ),
    Command("unfocus", "Leave a node to the budget again.", _unfocus, (_PLACE,)),
    Command(
        "invoke", "Do something in an app yourself.", _invoke,
        (
            _PLACE,
            Argument("ACTION", source="actions"),
            Argument("JSON", optional=True, rest=True),
        ),
        example='/invoke desk/inbox/msg-103 reply {"body": "Gladly"}',
    ),
    Command(
        "pin", "Keep what an app shows now in the conversation, as a thing of the past.", _pin,
        (_APP,), idle=True,
    ),
    Command("diff", "Say what has changed in the apps since the model looked.", _diff),
)  # fmt: skip
