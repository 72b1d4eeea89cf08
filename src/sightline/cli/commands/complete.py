"""What could come next on a line: commands, their arguments, places in apps, files.

`complete` is a function of the line and of `Sources`, which says what there is. What follows
the name of a command, click knows, as it does in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from click.shell_completion import CompletionItem, ShellComplete

from sightline.cli.commands.offers import Offer, Sources, fitting
from sightline.cli.commands.registry import COMMANDS, is_command

FILE_MARK: Final = "@"
_QUOTE: Final = '"'
_IN_QUOTES: Final = re.compile(r'(?<!\S)@"([^"\n]*)$')


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
