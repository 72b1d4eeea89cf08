"""`/context …`, `/undo`, `/redo`, `/message …`: what the model is shown of the conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sightline.cli.commands.command import Argument, Command, CommandCall
from sightline.cli.commands.lines import columns, cut
from sightline.cli.commands.picture import draw, picture_of
from sightline.cli.commands.transcript import transcript
from sightline.context.ledger import Group
from sightline.context.messages.window import Window

__all__ = ["COMMANDS"]

_LISTED: Final = 10
_GROUP: Final = Argument("GID", source="groups", number=True)


async def _picture(call: CommandCall) -> None:
    preview = await call.host.preview()
    picture = picture_of(preview.prompt.receipt, preview.request.profile.window_tokens)
    call.console.draw(draw(picture, call.console.width))
    for warning in preview.prompt.receipt.warnings:
        call.console.write(f"warning: {warning.message}")


async def _show(call: CommandCall) -> None:
    preview = await call.host.preview()
    await call.console.page(transcript(preview.prompt))


async def _window(call: CommandCall) -> None:
    size = call.number("N")
    session = call.host.session

    # Slack keeps the cache warm, but who asks for a few groups shall not get many more.
    window = Window(size, min(session.window.slack, size // 2))
    await call.ledger(lambda ledger: ledger.sessions.set_window(session.id, window))
    groups = "1 group" if size == 1 else f"{size} groups"
    shown = f"the last {groups}" if size else "all of the conversation"
    slack = f", up to {window.slack} more before it folds" if window.slack else ""
    call.console.write(f"The window shows {shown}{slack}.")


async def _rebuild(call: CommandCall) -> None:
    call.console.write(await call.host.rebuild_state())


async def _drop(call: CommandCall) -> None:
    group = call.number("GID")
    await call.ledger(lambda ledger: ledger.groups.drop(call.host.session.id, group))
    call.console.write(
        f"Group {group} is out of the window; /context restore {group} brings it back."
    )


async def _restore(call: CommandCall) -> None:
    group = call.number("GID")
    await call.ledger(lambda ledger: ledger.groups.restore(call.host.session.id, group))
    call.console.write(f"Group {group} is in the window again.")


async def _undo(call: CommandCall) -> None:
    group = await call.ledger(lambda ledger: ledger.groups.undo(call.host.session.id))
    call.console.write(f"Took back group {group}; /redo brings it back until the next turn.")


async def _redo(call: CommandCall) -> None:
    group = await call.ledger(lambda ledger: ledger.groups.redo(call.host.session.id))
    call.console.write(f"Group {group} is back.")


async def _list(call: CommandCall) -> None:
    last = call.number("N", _LISTED)
    groups = await call.ledger(lambda ledger: ledger.groups.recent(call.host.session.id, last))
    if not groups:
        call.console.write("Nothing was said yet.")
        return
    await call.console.page("\n".join(_group_lines(groups, call.console.width)))


def _group_lines(groups: Iterable[Group], width: int) -> list[str]:
    rows = [("GID", "messages", "tokens", "session", "prompt")]
    rows.extend(
        (
            str(group.id),
            str(group.messages),
            f"{group.tokens:,}",
            "" if group.snapshot is None else f"{group.snapshot:,}",
            ("(dropped) " if group.status == "dropped" else "") + group.prompt,
        )
        for group in groups
    )
    return [cut(line, width) for line in columns(rows, right=range(4))]


async def _show_group(call: CommandCall) -> None:
    group = call.number("GID")
    await call.console.page(await _group_text(call, group))


async def _remove(call: CommandCall) -> None:
    group = call.number("GID")
    await call.console.page(await _group_text(call, group))
    if not await call.may_delete(f"group {group}"):
        return
    await call.ledger(lambda ledger: ledger.groups.remove(call.host.session.id, group))
    call.console.write(f"Group {group} is deleted.")


async def _group_text(call: CommandCall, group: int) -> str:
    entries = await call.ledger(lambda ledger: ledger.groups.show(call.host.session.id, group))
    return transcript(entries)


_COUNT: Final = Argument("N", number=True, optional=True)
_MESSAGE_LIST: Final = "List the last N groups (10) with their weight in tokens."

COMMANDS: Final = (
    Command("context", "Draw the window: slots in prompt order, the boundary, free.", _picture),
    Command("context show", "Show everything that would be sent now, exactly.", _show),
    Command(
        "context window",
        "Show the model the last N groups, the running turn among them; 0 is all.", _window,
        (Argument("N", number=True),), idle=True, example="/context window 20",
    ),
    Command(
        "context rebuild", "Have the model write its ### STATE anew from the window.", _rebuild,
        idle=True,
    ),
    Command(
        "context drop", "Take a group out of the window; the ledger keeps it.", _drop, (_GROUP,),
        idle=True, example="/context drop 12",
    ),
    Command(
        "context restore", "Bring a dropped group back.", _restore, (_GROUP,), idle=True,
    ),
    Command("undo", "Take back the last group, and the state that it left.", _undo, idle=True),
    Command("redo", "Bring back what was undone.", _redo, idle=True),
    Command("message", "Short for /message list; /messages is the same.", _list, (_COUNT,)),
    Command("message list", _MESSAGE_LIST, _list, (_COUNT,)),
    Command("message show", "Show one group whole.", _show_group, (_GROUP,)),
    Command(
        "message remove", "Delete a group for good, after showing it.", _remove, (_GROUP,),
        idle=True,
    ),
)  # fmt: skip
