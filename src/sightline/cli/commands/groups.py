"""`/context …`, `/undo`, `/redo`, `/message …`, `/result`: what the model is shown of it all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import msgspec

import sightline.context.messages.parts as parts
from sightline.cli.clean import clean_line
from sightline.cli.commands.command import NUMBER, CommandCall, Section
from sightline.cli.commands.console import columns, cut
from sightline.cli.commands.offers import offering
from sightline.cli.commands.picture import draw, picture_of
from sightline.cli.out import counted
from sightline.config import Settings, WindowSettings
from sightline.context.ledger import Group, Ledger
from sightline.context.messages.window import Window
from sightline.context.slots.prompt import Prompt
from sightline.errors import NotFound

if TYPE_CHECKING:
    from sightline.agent.workspace.checkpoints import Restoration


# std::slop, context management: /context, /message, /undo. What restores or draws is ours.
COMMANDS: Final = Section("The conversation")
_group: Final = click.argument(
    "gid", type=NUMBER, shell_complete=offering(lambda here, *_: here.groups())
)
_count: Final = click.argument("n", type=NUMBER, default=10)
_INDENT = "  "


@COMMANDS.command("context")
async def _picture(call: CommandCall) -> None:
    """Draw the window: slots in prompt order, the boundary, free."""
    preview = await call.host.preview()
    picture = picture_of(preview.prompt.receipt, preview.request.profile.window_tokens)
    call.console.draw(draw(picture, call.console.width))
    for warning in preview.prompt.receipt.warnings:
        call.console.write(f"warning: {warning.message}")


@COMMANDS.command("context show")
async def _show(call: CommandCall) -> None:
    """Show everything that would be sent now, exactly, message by message."""
    preview = await call.host.preview()
    await call.console.page(transcript(preview.prompt))


@COMMANDS.command("context window", idle=True, example="/context window 20")
@click.argument("n", type=NUMBER)
@click.argument("slack", type=NUMBER, required=False)
async def _window(call: CommandCall, n: int, slack: int | None) -> None:
    """Show the model the last N groups, the running turn among them; 0 is all.

    With SLACK so many more may gather before the window folds back to N; without it, as many
    as your settings say, if they do.
    """
    window = _window_of(n, slack, call.host.settings.window)
    await call.ledger(lambda ledger: ledger.sessions.set_window(call.host.session.id, window))
    shown = f"the last {counted(n, 'group')}" if n else "all of the conversation"
    more = f", up to {window.slack} more before it folds" if n and window.slack else ""
    call.console.write(f"The window shows {shown}{more}.")


def _window_of(size: int, slack: int | None, configured: WindowSettings) -> Window:
    """Make a window of what was typed; the slack of the settings is theirs to give and to keep."""
    if slack is None:
        built_in = configured == Settings().window
        slack = 0 if built_in and size != configured.size else configured.slack
    return Window(size, slack)


@COMMANDS.command("context rebuild", idle=True)
async def _rebuild(call: CommandCall) -> None:
    """Have the model write its ### STATE anew from the window."""
    call.console.write(await call.host.rebuild_state())


@COMMANDS.command("context drop", idle=True, example="/context drop 12")
@_group
async def _drop(call: CommandCall, gid: int) -> None:
    """Take a group out of the window; the ledger keeps it."""
    await call.ledger(lambda ledger: ledger.groups.drop(call.host.session.id, gid))
    call.console.write(f"Group {gid} is out of the window; /context restore {gid} brings it back.")


@COMMANDS.command("context restore", idle=True)
@_group
async def _restore(call: CommandCall, gid: int) -> None:
    """Bring a dropped group back."""
    await call.ledger(lambda ledger: ledger.groups.restore(call.host.session.id, gid))
    call.console.write(f"Group {gid} is in the window again.")


@COMMANDS.command("undo", idle=True)
async def _undo(call: CommandCall) -> None:
    """Take back the last group and the state that it left; its files too, if you say so."""
    await _take_back(call, 1)


@COMMANDS.command("rewind", idle=True, example="/rewind 3")
@click.argument("n", type=NUMBER, required=False)
async def _rewind(call: CommandCall, n: int | None) -> None:
    """Take back the last N groups, as /undo does one; without N, list how far back each is."""
    if n is not None:
        await _take_back(call, n)
        return
    session = call.host.session.id
    recent = await call.ledger(lambda ledger: ledger.groups.recent(session, 10, dropped=False))
    rows = [(str(back), group.prompt) for back, group in enumerate(reversed(recent), 1)]
    if not rows:
        raise NotFound("there is nothing to undo")
    lines = columns([("N", "takes back this and what follows"), *reversed(rows)], right=[0])
    call.console.write("\n".join(cut(line, call.console.width) for line in lines))


async def _take_back(call: CommandCall, count: int) -> None:
    session = call.host.session.id
    recent = await call.ledger(lambda ledger: ledger.groups.recent(session, count, dropped=False))
    groups = [group.id for group in recent]
    if not groups:
        raise NotFound("there is nothing to undo")
    chosen = await _choose_files(call, groups, await call.host.restoration(groups))
    if chosen is not None:
        await call.host.restore(chosen)
    for _ in groups:
        group = await call.ledger(lambda ledger: ledger.groups.undo(session))
        call.console.write(f"Took back group {group}; /redo brings it back until the next turn.")
    _tell_files(call, chosen, "back as before")


@COMMANDS.command("redo", idle=True)
async def _redo(call: CommandCall) -> None:
    """Bring back what was undone; its files too, if you say so."""
    group = await call.ledger(lambda ledger: ledger.groups.redo(call.host.session.id))
    call.console.write(f"Group {group} is back.")
    found = await call.host.restoration([group], forward=True)
    if (chosen := await _choose_files(call, [], found)) is not None:
        await call.host.restore(chosen)
    _tell_files(call, chosen, "as that turn left them")


async def _choose_files(
    call: CommandCall, groups: Sequence[int], found: Restoration
) -> Restoration | None:
    """Say which files changed, and ask which of them come back; None for none."""
    console = call.console
    if await call.ledger(partial(_ran_commands, call.host.session.id, groups)):
        console.write("Commands ran, too; what they changed is not taken back.")
    if found.lost:
        console.write(f"No longer kept: {_names(found.lost)}.")
    if found.elsewhere:
        console.write(f"In another directory, and left alone: {_names(found.elsewhere)}.")
    if not found.changes:
        return None
    console.write(f"Files: {_names(change.path for change in found.changes)}")
    if not await console.ask("Bring these files back, too?"):
        console.write("The files stay as they are.")
        return None
    if found.foreign:
        console.write(f"Somebody else changed since: {_names(found.foreign)}")
        if not await console.ask("Overwrite what they did?"):
            found = found.without(found.foreign)
    return found


def _tell_files(call: CommandCall, chosen: Restoration | None, how: str) -> None:
    if chosen is not None and chosen.changes:
        paths = _names(change.path for change in chosen.changes)
        call.console.write(f"Files {how}: {paths}")


def _names(paths: Iterable[str]) -> str:
    return ", ".join(map(clean_line, paths))


def _ran_commands(session_id: int, groups: Iterable[int], ledger: Ledger) -> bool:
    entries = (entry for group in groups for entry in ledger.groups.show(session_id, group))
    calls = (call.arguments for entry in entries for call in entry.message.tool_calls)
    return any(call.get("app") == "workspace" and call.get("action") == "run" for call in calls)


@COMMANDS.command("message")
@_count
async def _message(call: CommandCall, n: int) -> None:
    """Short for /message list; /messages is the same."""
    await _list_groups(call, n)


@COMMANDS.command("message list")
@_count
async def _list(call: CommandCall, n: int) -> None:
    """List the last N groups (10) with their weight in tokens."""
    await _list_groups(call, n)


async def _list_groups(call: CommandCall, last: int) -> None:
    groups = await call.ledger(lambda ledger: ledger.groups.recent(call.host.session.id, last))
    if not groups:
        call.console.write("Nothing was said yet.")
        return
    await call.console.page("\n".join(_group_lines(groups, call.console.width)))


def _group_lines(groups: Iterable[Group], width: int) -> list[str]:
    rows = [("GID", "messages", "tokens", "session", "prompt")]
    for group in groups:
        snapshot = "" if group.snapshot is None else f"{group.snapshot:,}"
        prompt = ("(dropped) " if group.status == "dropped" else "") + group.prompt
        rows.append((str(group.id), str(group.messages), f"{group.tokens:,}", snapshot, prompt))
    return [cut(line, width) for line in columns(rows, right=range(4))]


@COMMANDS.command("message show")
@_group
async def _show_group(call: CommandCall, gid: int) -> None:
    """Show one group whole."""
    await call.console.page(await _group_text(call, gid))


@COMMANDS.command("result", example="/result 13")
@click.argument("message", type=NUMBER)
async def _result(call: CommandCall, message: int) -> None:
    """Show one message whole: a result of which the chat showed the beginning."""
    entry = await call.ledger(lambda ledger: ledger.message(message))
    if entry.session_id != call.host.session.id:
        raise NotFound(f"no message {message} in this session")
    await call.console.page(transcript([entry]))


@COMMANDS.command("message remove", idle=True)
@_group
async def _remove(call: CommandCall, gid: int) -> None:
    """Delete a group for good, after showing it."""
    await call.console.page(await _group_text(call, gid))
    if not await call.may_delete(f"group {gid}"):
        return
    await call.ledger(lambda ledger: ledger.groups.remove(call.host.session.id, gid))
    call.console.write(f"Group {gid} is deleted.")


async def _group_text(call: CommandCall, group: int) -> str:
    entries = await call.ledger(lambda ledger: ledger.groups.show(call.host.session.id, group))
    return transcript(entries)


def transcript(source: Prompt | Sequence[parts.Entry]) -> str:
    """Write a prompt, with its tools and its boundary, or stored messages."""
    lines = _prompt_lines(source) if isinstance(source, Prompt) else _entry_lines(source)
    return "\n".join(lines)


def _prompt_lines(prompt: Prompt) -> Iterator[str]:
    yield f"── tools ({len(prompt.tools)})"
    for tool in prompt.tools:
        yield _INDENT + msgspec.json.encode(tool).decode()
    for index, message in enumerate(prompt.messages):
        if index == prompt.boundary:
            yield "══ boundary: everything above is sent as the same bytes next time"
        yield f"── {index}. {message.role}"
        yield from _message_lines(message)
    receipt = prompt.receipt
    yield f"── {receipt.total:,} of {receipt.budget:,} tokens, {receipt.free:,} free"


def _entry_lines(entries: Iterable[parts.Entry]) -> Iterator[str]:
    for entry in entries:
        mark = "" if entry.status == "complete" else f", {entry.status}"
        yield f"── {entry.role} (message {entry.id}, {entry.tokens:,} tokens{mark})"
        yield from _message_lines(entry.message)


def _message_lines(message: parts.Message) -> Iterator[str]:
    for part in message.parts:
        # Indented, so that no text can pass for a heading of ours.
        for line in _part_text(part).split("\n"):
            yield _INDENT + line


def _part_text(part: parts.Part) -> str:
    match part:
        case parts.Text(text):
            return text
        case parts.Reasoning(text):
            return f"[reasoning] {text}"
        case parts.ToolCall():
            return f"[calls {part.name} {msgspec.json.encode(part.arguments).decode()}]"
        case parts.ToolResult():
            outcome = "error" if part.is_error else "result"
            return f"[{outcome} of {part.name or part.call_id}]\n{part.content}"
        case parts.File():
            return f"[file {part.name or part.uri}, {part.mime}]"
