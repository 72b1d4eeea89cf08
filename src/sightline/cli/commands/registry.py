"""All slash commands: found, run, completed, listed and documented from one table.

A name may have two words (`/context drop`); the longest name that fits is meant. A line that
begins with `/` and names no command is an error, never a message to the model; a message
that must begin with a slash is written with two. Messages that somebody wrote down in a file
(`agent.workspace.guidance`) are called by their name like commands; ours come first.

What could come next on a line is a function of the line and of `Sources`, which says what there is.
What follows the name of a command, click knows, as it does in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from sightline.agent.host import Host
from sightline.agent.workspace.guidance import MarkdownFile, with_arguments
from sightline.cli.commands import apps, general, groups, insight, memos, runs, sessions
from sightline.cli.commands.command import CommandCall, SlashCommand, rest
from sightline.cli.commands.console import Console, columns, cut
from sightline.cli.commands.offers import Offer, Sources, fitting
from sightline.errors import InvalidInput

MARK: Final = "/"
FILE_MARK: Final = "@"
_QUOTE: Final = '"'
_IN_QUOTES: Final = re.compile(r'(?<!\S)@"([^"\n]*)$')
ALIASES: Final = {"messages": "message", "exit": "quit"}
_KEYS: Final = (
    "//… says something that begins with a slash, @FILE attaches a file, !COMMAND runs one in your "
    "shell and !!COMMAND shows the model what it said. Esc and Ctrl-C stop the "
    "turn, Alt-Enter or a \\ at the end begin a new line, Ctrl-D leaves."
)


def is_command(line: str) -> bool:
    """Tell whether a line is for us and not for the model."""
    return line.startswith(MARK) and not line.startswith(MARK * 2)


def message_of(line: str) -> str:
    """Return what a line says to the model: without the first of two slashes."""
    return line[1:] if line.startswith(MARK * 2) else line


def find(line: str) -> tuple[SlashCommand, str]:
    """Find the command of a line, and what follows its name.

    Raises InvalidInput, with what is close.
    """
    words = line.removeprefix(MARK).split(None, 2)
    typed = words[0].lower() if words else ""
    first = ALIASES.get(typed, typed)
    if len(words) > 1 and (command := COMMANDS.get(f"{first} {words[1].lower()}")):
        return command, words[2] if len(words) > 2 else ""
    if command := COMMANDS.get(first):
        rest = line.removeprefix(MARK).lstrip()[len(typed) :].strip()
        if not rest or command.params or len(_family(first)) == 1:
            return command, rest
    if family := _family(first):
        usages = "; ".join(command.usage for command in family)
        raise InvalidInput(f"/{first} what? usage: {usages}")
    close = get_close_matches(first, COMMANDS, n=1)
    hint = f"did you mean /{close[0]}?" if close else "/help lists them"
    raise InvalidInput(f"there is no command /{first[:40]}; {hint}")


async def run(line: str, host: Host, console: Console, *, chat: bool = False) -> str | None:
    """Run a line that is a command; what it returns is to be said to the model.

    Raises InvalidInput for what cannot be understood, `Leave` to end, and whatever the
    command's own work raises.
    """
    if (written := _written(line, host)) is not None:
        return written
    command, given = find(line)
    context = command.read(given, CommandCall(host, console))
    if command.chat and not chat:
        raise InvalidInput(f"/{command.name} needs a terminal")
    return await command.run(context)


def _written(line: str, host: Host) -> str | None:
    """Find the message that somebody wrote down under a name, with its arguments in it."""
    name, _, arguments = line.removeprefix(MARK).partition(" ")
    if name.lower() in ALIASES or _family(name.lower()):
        return None
    found = next((one for one in written_commands(host) if one.name == name), None)
    return None if found is None else with_arguments(found.text, arguments.strip())


def written_commands(host: Host) -> list[MarkdownFile]:
    """List the messages that can be sent by their name."""
    return [one for found in host.guidance for one in found.commands]


def _family(name: str) -> list[SlashCommand]:
    """Find the command of a name, and those whose name begins with it and has a word more."""
    return [one for full, one in COMMANDS.items() if f"{full} ".startswith(f"{name} ")]


def _names(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem]:
    return fitting(word, ((name, command.title) for name, command in COMMANDS.items()))


@general.COMMANDS.command("help")
@rest("command", required=False, offers=_names)
async def _help(call: CommandCall, command: str) -> None:
    """List the commands, or explain one."""
    typed = command.removeprefix(MARK).lower()
    wanted = ALIASES.get(typed, typed)
    chosen = _family(wanted) if wanted else list(COMMANDS.values())
    written = [(f"/{one.name}", one.about) for one in written_commands(call.host)]
    chosen_written = [row for row in written if not wanted or row[0] == f"/{wanted}"]
    if not chosen and not chosen_written:
        raise InvalidInput(f"there is no command /{wanted[:40]}; /help lists them")
    width = call.console.width
    rows = [(one.usage, one.title) for one in chosen]
    for line in columns([*rows, *chosen_written]):
        call.console.write(line if wanted else cut(line, width))
    for one in chosen if wanted else ():
        if one.example:
            call.console.write(f"  {one.example}")
    if not wanted:
        call.console.write(_KEYS)


_SECTIONS: Final = (
    groups.COMMANDS,
    sessions.COMMANDS,
    memos.COMMANDS,
    apps.COMMANDS,
    runs.COMMANDS,
    insight.COMMANDS,
    general.COMMANDS,
)
COMMANDS: Final[Mapping[str, SlashCommand]] = {
    str(command.name): command for section in _SECTIONS for command in section
}


def to_markdown() -> str:
    """Write the tables of docs/commands.md."""
    lines: list[str] = []
    for section in _SECTIONS:
        lines += [f"## {section.name}", "", "| command | what it does |", "| --- | --- |"]
        for command in section:
            notes = [command.title]
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


class Completion(NamedTuple):
    """A word that fits, how many characters before the cursor it replaces, and what it is."""

    text: str
    replaces: int
    about: str = ""


def complete(line: str, sources: Sources) -> list[Completion]:
    """Say what could follow; the line ends at the cursor."""
    if is_command(line):
        return _for_command(line[1:], sources)
    if quoted := _IN_QUOTES.search(line):
        return _files(quoted[1], sources, opened=True)
    word = line.rpartition(" ")[2].rpartition("\n")[2]
    if word.startswith(FILE_MARK):
        return _files(word.removeprefix(FILE_MARK), sources, opened=False)
    if "/" in word.removeprefix("/") or "/" in word[1:]:
        return _completions(word, fitting(word, sources.nodes(word)))
    return []


def _files(name: str, sources: Sources, *, opened: bool) -> list[Completion]:
    """Offer files, in quotes where they are `opened` or a name has blanks."""
    return [
        Completion(_quoted(text, opened=opened), replaces, about)
        for text, replaces, about in _completions(name, fitting(name, sources.files(name)))
    ]


def _quoted(text: str, *, opened: bool) -> str:
    if not opened and " " not in text:
        return text
    # What is in a directory comes next: its quotes stay open.
    return ("" if opened else _QUOTE) + text + ("" if text.endswith("/") else _QUOTE)


def _for_command(typed: str, sources: Sources) -> list[Completion]:
    low = typed.lower()
    names: list[Offer] = [(name, one.title) for name, one in COMMANDS.items()]
    names += sources.written()
    begun = _completions(typed, fitting(low, names))
    name = max((name for name in COMMANDS if low.startswith(f"{name} ")), key=len, default="")
    if not name:
        return begun
    *before, word = typed[len(name) + 1 :].split(" ")
    given = [one for one in before if one]
    click = ShellComplete(COMMANDS[name], {"obj": sources}, name, "")
    found = _completions(word, click.get_completions(given, word))
    # /context d… could still become the name of another command
    return found if found or given else begun


def _completions(word: str, items: Iterable[CompletionItem]) -> list[Completion]:
    return [
        Completion(item.value, len(word), item.help or "") for item in items if item.value != word
    ]
