"""All slash commands: found, run, listed and documented from one table.

A name may have two words (`/context drop`); the longest name that fits is meant. A line that
begins with `/` and names no command is an error, never a message to the model; a message
that must begin with a slash is written with two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from sightline.agent.host import Host
from sightline.cli.commands import apps, general, groups, insight, memos, sessions
from sightline.cli.commands.command import Argument, Command, CommandCall
from sightline.cli.commands.console import Console
from sightline.cli.commands.lines import columns, cut
from sightline.errors import InvalidInput

__all__ = ["COMMANDS", "FoundCommand", "find", "is_command", "run", "said", "to_markdown"]

MARK: Final = "/"
ALIASES: Final = {"messages": "message", "exit": "quit"}
_KEYS: Final = (
    "//… says something that begins with a slash, @FILE attaches a file. Esc and Ctrl-C stop the "
    "turn, Alt-Enter or a \\ at the end begin a new line, Ctrl-D leaves."
)


class FoundCommand(NamedTuple):
    """A command as it was typed: which one, and what follows its name."""

    command: Command
    rest: str


def is_command(line: str) -> bool:
    """Tell whether a line is for us and not for the model."""
    return line.startswith(MARK) and not line.startswith(MARK * 2)


def said(line: str) -> str:
    """Return what a line says to the model: without the first of two slashes."""
    return line[1:] if line.startswith(MARK * 2) else line


def find(line: str) -> FoundCommand:
    """Find the command of a line. Raises InvalidInput, with what is close."""
    words = line.removeprefix(MARK).split(None, 2)
    typed = words[0].lower() if words else ""
    first = ALIASES.get(typed, typed)
    if len(words) > 1 and (command := _BY_NAME.get(f"{first} {words[1].lower()}")):
        return FoundCommand(command, words[2] if len(words) > 2 else "")
    if command := _BY_NAME.get(first):
        rest = line.removeprefix(MARK).lstrip()[len(typed) :].strip()
        return FoundCommand(command, rest)
    family = [command for command in COMMANDS if command.name.startswith(f"{first} ")]
    if first and family:
        usages = "; ".join(command.usage for command in family)
        raise InvalidInput(f"/{first} what? usage: {usages}")
    close = get_close_matches(first, _BY_NAME, n=1)
    hint = f"did you mean /{close[0]}?" if close else "/help lists them"
    raise InvalidInput(f"there is no command /{first[:40]}; {hint}")


async def run(line: str, host: Host, console: Console, *, chat: bool = False) -> str | None:
    """Run a line that is a command; what it returns is to be said to the model.

    Raises InvalidInput for what cannot be understood, `Leave` to end, and whatever the
    command's own work raises.
    """
    command, rest = find(line)
    arguments = command.read(rest)
    if command.chat and not chat:
        raise InvalidInput(f"/{command.name} needs a terminal")
    return await command.run(CommandCall(host, console, arguments))


async def _help(call: CommandCall) -> None:
    wanted = call.text("COMMAND").removeprefix(MARK)
    chosen = [
        command
        for command in COMMANDS
        if not wanted or command.name == wanted or command.name.startswith(f"{wanted} ")
    ]
    if not chosen:
        raise InvalidInput(f"there is no command /{wanted[:40]}; /help lists them")
    width = call.console.width
    for line in columns([(command.usage, command.help) for command in chosen]):
        call.console.write(cut(line, width) if not wanted else line)
    for command in chosen if wanted else ():
        if command.example:
            call.console.write(f"  {command.example}")
    if not wanted:
        call.console.write(_KEYS)


COMMANDS: Final[tuple[Command, ...]] = (
    *groups.COMMANDS,
    *sessions.COMMANDS,
    *memos.COMMANDS,
    *apps.COMMANDS,
    *insight.COMMANDS,
    *general.COMMANDS,
    Command(
        "help", "List the commands, or explain one.", _help,
        (Argument("COMMAND", source="commands", optional=True, rest=True),),
    ),
)  # fmt: skip
_BY_NAME: Final[Mapping[str, Command]] = {command.name: command for command in COMMANDS}

_SECTIONS: Final[Sequence[tuple[str, tuple[Command, ...]]]] = (
    ("The conversation", groups.COMMANDS),
    ("Sessions", sessions.COMMANDS),
    ("Memos", memos.COMMANDS),
    ("Apps", apps.COMMANDS),
    ("Insight", insight.COMMANDS),
    ("The rest", (*general.COMMANDS, _BY_NAME["help"])),
)


def to_markdown() -> str:
    """Write the tables of docs/commands.md."""
    lines: list[str] = []
    for title, commands in _SECTIONS:
        lines += [f"## {title}", "", "| command | what it does |", "| --- | --- |"]
        for command in commands:
            notes = [command.help]
            if command.example:
                notes.append(f"`{command.example}`")
            if command.chat:
                notes.append("*Needs a terminal.*")
            if command.idle:
                notes.append("*Waits for the turn to end.*")
            usage = command.usage.replace("|", "\\|")
            lines.append(f"| `{usage}` | {' '.join(notes)} |")
        lines.append("")
    return "\n".join(lines)
