"""`/model`, `/mode`, `/plan`, `/rules`, `/instructions`, `/compact`, `/editor`, `/quit`."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from sightline.agent.models.choose import usable
from sightline.agent.policy import Mode, in_words
from sightline.cli.clean import visible
from sightline.cli.commands.command import NUMBER, CommandCall, Leave, Section, rest
from sightline.cli.commands.console import columns
from sightline.cli.commands.offers import offering
from sightline.cli.diff import diff_lines

COMMANDS: Final = Section("The rest")
MODES: Final[dict[Mode, str]] = {
    "ask": "asks before it does anything in an app",
    "auto": "asks before what an app calls dangerous",
    "plan": "looks, takes notes and asks, and ends with a plan for you to accept",
}


@COMMANDS.command("model", idle=True, example="/model anthropic:claude-sonnet-5")
@click.argument("model", default="", shell_complete=offering(lambda here, *_: here.models()))
async def _model(call: CommandCall, model: str) -> None:
    """Talk to another model; without one, say which and what else is usable."""
    if model:
        chosen = await call.host.use_model(model)
        call.console.write(f"Now talking to {chosen.label}.")
        return
    choices = await asyncio.to_thread(usable, call.host.settings, call.host.env)
    rows = [(choice.reference, choice.why) for choice in choices if choice.usable]
    call.console.write(f"Talking to {(await call.host.model()).label}. Usable now:")
    for line in columns(rows):
        call.console.write(f"  {line}")
    call.console.write("`sightline models` says what the others need.")


@COMMANDS.command("mode")
@click.argument("mode", type=click.Choice(tuple(MODES)), required=False)
async def _mode(call: CommandCall, mode: Mode | None) -> None:
    """Say what the model may do without asking."""
    if mode:
        call.host.set_mode(mode)
    call.console.write(f"Mode {call.host.mode}: the model {MODES[call.host.mode]}.")


@COMMANDS.command("plan", idle=True, example="/plan split the parser into two modules")
@rest("words", required=False)
async def _plan(call: CommandCall, words: str) -> str | None:
    """Have the model look and make a plan, and do nothing before you accept it."""
    call.host.set_mode("plan")
    call.console.write(f"Mode plan: the model {MODES['plan']}.")
    return words or None


@COMMANDS.command("plan accept", idle=True)
async def _plan_accept(call: CommandCall) -> str:
    """Accept the plan of the last answer: the mode before is back, and it is carried out."""
    words = call.host.accept_plan()
    call.console.write(f"Mode {call.host.mode}: the model {MODES[call.host.mode]}.")
    return words


@COMMANDS.command("rules")
async def _rules(call: CommandCall) -> None:
    """List the rules that decide on actions before you are asked."""
    rules, fixed = call.host.rules, len(call.host.settings.policy)
    for number, rule in enumerate(rules, 1):
        source = "your configuration" if number <= fixed else "this session"
        words = in_words(rule, call.host.sandboxed)
        call.console.write(f"{number}  {visible(words)}  ({source})")
    if not rules:
        call.console.write("There are no rules: what the mode does not approve is asked for.")


@COMMANDS.command("rules remove", example="/rules remove 2")
@click.argument("number", type=NUMBER)
async def _rules_remove(call: CommandCall, number: int) -> None:
    """Remove a rule that you had remembered in this session."""
    gone = call.host.forget(number)
    call.console.write(f"Removed: {visible(in_words(gone, call.host.sandboxed))}")


@COMMANDS.command("instructions", example="/instructions on")
@click.argument("follow", type=click.Choice(("on", "off")), required=False)
async def _instructions(call: CommandCall, follow: str | None) -> None:
    """Say which files tell the model how to work here; `on` and `off` decide on the directory's."""
    if follow:
        changed = "\n".join(call.host.guidance_changes.values())
        call.console.draw(diff_lines(changed, call.console.width, None))
        await asyncio.to_thread(call.host.follow, follow == "on", call.host.offered_guidance)
    for found in call.host.guidance:
        for path in found.paths:
            call.console.write(f"  {found.root / path}")
    offered = call.host.offered_guidance
    if offered is None:
        call.console.write("This directory has no instructions, commands or skills.")
    elif not call.host.follows:
        call.console.write(f"Not followed: {', '.join(offered.paths)}; /instructions on does.")


@COMMANDS.command("compact", idle=True)
async def _compact(call: CommandCall) -> None:
    """Fold the window now instead of when it is full."""
    if not await call.host.compact():
        call.console.write("There is nothing to fold.")
        return
    receipt = (await call.host.preview()).prompt.receipt
    call.console.write(f"Folded: {receipt.total:,} of {receipt.budget:,} tokens.")


@COMMANDS.command("editor", chat=True)
async def _editor(call: CommandCall) -> str | None:
    """Write the next message in $EDITOR."""
    text = await call.console.edit("")
    return text if text and text.strip() else None


@COMMANDS.command("quit")
async def _quit(_: CommandCall) -> None:
    """Leave; Ctrl-D does the same."""
    raise Leave
