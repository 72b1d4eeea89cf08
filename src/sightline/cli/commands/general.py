"""`/model`, `/mode`, `/rules`, `/compact`, `/editor`, `/quit`: the turn and the chat themselves."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from sightline.agent.models.choose import usable
from sightline.agent.policy import Mode, in_words
from sightline.cli.approval import visible
from sightline.cli.commands.command import Argument, Command, CommandCall, Leave
from sightline.cli.commands.lines import columns

__all__ = ["COMMANDS"]

MODES: Final = {
    "ask": "asks before it does anything in an app",
    "auto": "asks before what an app calls dangerous",
    "plan": "does nothing, only looks and talks",
}


async def _model(call: CommandCall) -> None:
    if call.text("MODEL"):
        model = await call.host.use_model(call.text("MODEL"))
        call.console.write(f"Now talking to {model.label}.")
        return
    choices = await asyncio.to_thread(usable, call.host.settings, call.host.env)
    rows = [(choice.reference, choice.why) for choice in choices if choice.usable]
    call.console.write(f"Talking to {(await call.host.model()).label}. Usable now:")
    for line in columns(rows) if rows else ():
        call.console.write(f"  {line}")
    call.console.write("`sightline models` says what the others need.")


async def _mode(call: CommandCall) -> None:
    if call.text("MODE"):
        call.host.set_mode(cast(Mode, call.text("MODE")))  # one of the choices, it was checked
    call.console.write(f"Mode {call.host.mode}: the model {MODES[call.host.mode]}.")


async def _rules(call: CommandCall) -> None:
    rules, fixed = call.host.rules, len(call.host.settings.policy)
    for number, rule in enumerate(rules, 1):
        source = "your configuration" if number <= fixed else "this session"
        call.console.write(f"{number}  {visible(in_words(rule))}  ({source})")
    if not rules:
        call.console.write("There are no rules: what the mode does not approve is asked for.")


async def _rules_remove(call: CommandCall) -> None:
    gone = call.host.forget(call.number("NUMBER"))
    call.console.write(f"Removed: {visible(in_words(gone))}")


async def _compact(call: CommandCall) -> None:
    if not await call.host.compact():
        call.console.write("There is nothing to fold.")
        return
    receipt = (await call.host.preview()).prompt.receipt
    call.console.write(f"Folded: {receipt.total:,} of {receipt.budget:,} tokens.")


async def _editor(call: CommandCall) -> str | None:
    text = await call.console.edit("")
    return text if text and text.strip() else None


async def _quit(_: CommandCall) -> None:
    raise Leave


COMMANDS: Final = (
    Command(
        "model", "Talk to another model; without one, say which and what else is usable.", _model,
        (Argument("MODEL", source="models", optional=True),), idle=True,
        example="/model anthropic:claude-sonnet-5",
    ),
    Command(
        "mode", "Say what the model may do without asking.", _mode,
        (Argument("MODE", choices=tuple(MODES), optional=True),),
    ),
    Command("rules", "List the rules that decide on actions before you are asked.", _rules),
    Command(
        "rules remove", "Remove a rule that you had remembered in this session.", _rules_remove,
        (Argument("NUMBER", number=True),), example="/rules remove 2",
    ),
    Command("compact", "Fold the window now instead of when it is full.", _compact, idle=True),
    Command("editor", "Write the next message in $EDITOR.", _editor, chat=True),
    Command("quit", "Leave; Ctrl-D does the same.", _quit),
)  # fmt: skip
