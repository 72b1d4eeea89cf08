"""What could come next on a line: commands, their arguments, places in apps, files.

`complete` is a function of the line and of `Sources`, which says what there is. It is called
while somebody types: sources answer from memory or with one small query, and are asked only
for what the line needs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from sightline.agent.host import Host
from sightline.agent.models.choose import Choice, usable
from sightline.cli.clean import clean_line
from sightline.cli.commands.command import Argument, Command
from sightline.cli.commands.place import AppPath, find_place
from sightline.cli.commands.registry import COMMANDS, is_command
from sightline.errors import SightlineError
from sightline.slop.protocol.path import join
from sightline.slop.protocol.scope import actions_in_scope
from sightline.slop.protocol.tree import Node

__all__ = ["Completion", "Sources", "complete"]

MOST: Final = 50
FILE_MARK: Final = "@"
_QUOTE: Final = '"'
_IN_QUOTES: Final = re.compile(r'(?<!\S)@"([^"\n]*)$')


class Completion(NamedTuple):
    """A word that fits, how many characters before the cursor it replaces, and what it is."""

    text: str
    replaces: int
    about: str = ""


_Offer = tuple[str, str]  # a word, and what it is


class Sources:
    """What there is to complete with, asked of a host. All of it may be called from a thread."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def apps(self) -> Iterator[_Offer]:
        return ((app.id, app.name) for app in self._host.world.apps)

    def available(self) -> Iterator[_Offer]:
        return ((app.id, app.name) for app in self._host.world.available)

    def groups(self) -> Iterator[_Offer]:
        recent = self._host.ledger.groups.recent(self._host.session.id, MOST)
        return ((str(group.id), group.prompt) for group in reversed(recent))

    def sessions(self) -> Iterator[_Offer]:
        return ((str(one.id), one.name) for one in self._host.ledger.sessions.recent(limit=MOST))

    def memos(self) -> Iterator[_Offer]:
        shelf = self._host.memos
        return ((shelf.reference(memo), memo.content) for memo in shelf.recent(MOST))

    def models(self) -> Iterator[_Offer]:
        return ((choice.reference, choice.why) for choice in self._choices if choice.usable)

    @cached_property
    def _choices(self) -> list[Choice]:
        return usable(self._host.settings, self._host.env)

    def slots(self) -> Iterator[_Offer]:
        last = self._host.last
        lines = () if last is None else last.prompt.receipt.slots
        return ((line.name, f"{line.kept:,} tokens") for line in lines)

    def nodes(self, word: str) -> Iterator[_Offer]:
        """Offer apps, then what is below the node that the word names so far."""
        world = self._host.world
        if "/" not in word:
            yield from self.apps()
            return
        if word.startswith("/") and len(world.apps) != 1:
            return
        place = _place(self._host, word.rpartition("/")[0] or "/")
        if place is not None:
            head = "" if word.startswith("/") else place.app.id
            for child in place.node.children:
                yield head + join(place.path, child.id), _label(child)

    def actions(self, place: str) -> Iterator[_Offer]:
        found = _place(self._host, place)
        if found is not None:
            for scoped in actions_in_scope(found.tree, found.path):
                about = scoped.affordance.label or scoped.affordance.description or ""
                yield scoped.affordance.action, about

    def files(self, word: str) -> Iterator[_Offer]:
        """Offer what is in the directory that the word names so far; hidden files if asked for."""
        head, _, name = word.rpartition("/")
        folder = Path(f"{head}/" if head or word.startswith("/") else ".").expanduser()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        prefix = f"{head}/" if "/" in word else ""
        for entry in entries:
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            yield f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}", ""


def complete(line: str, sources: Sources) -> list[Completion]:
    """Say what could follow; the line ends at the cursor."""
    if is_command(line):
        return _completions(*_for_command(line, sources))
    if quoted := _IN_QUOTES.search(line):
        return _files(quoted[1], sources, opened=True)
    word = line.rpartition(" ")[2].rpartition("\n")[2]
    if word.startswith(FILE_MARK):
        return _files(word.removeprefix(FILE_MARK), sources, opened=False)
    if "/" in word.removeprefix("/") or "/" in word[1:]:
        return _completions(word, sources.nodes(word))
    return []


def _files(name: str, sources: Sources, *, opened: bool) -> list[Completion]:
    """Offer files, in quotes where they are `opened` or a name has blanks."""
    return [
        Completion(_quoted(text, opened=opened), replaces, about)
        for text, replaces, about in _completions(name, sources.files(name))
    ]


def _quoted(text: str, *, opened: bool) -> str:
    if not opened and " " not in text:
        return text
    # What is in a directory comes next: its quotes stay open.
    return ("" if opened else _QUOTE) + text + ("" if text.endswith("/") else _QUOTE)


def _for_command(line: str, sources: Sources) -> tuple[str, Iterable[_Offer]]:
    """Return the word at the cursor, and everything that could stand there."""
    typed = line[1:]
    command = max(
        (one for one in COMMANDS if typed.lower().startswith(f"{one.name} ")),
        key=lambda one: len(one.name),
        default=None,
    )
    names = _names(typed)
    if command is None:
        return typed, names
    rest = typed[len(command.name) + 1 :]
    word = rest.rpartition(" ")[2]
    before = rest[: len(rest) - len(word)].split()
    offers = list(_for_argument(command, before, word, sources))
    if not before:  # /context d… could still become the name of another command
        return (typed, names) if names and not offers else (word, offers)
    return word, offers


def _names(typed: str) -> list[_Offer]:
    low = typed.lower()
    return [(one.name, one.help) for one in COMMANDS if one.name.startswith(low)]


def _for_argument(
    command: Command, before: list[str], word: str, sources: Sources
) -> Iterable[_Offer]:
    flags = [argument.name for argument in command.arguments if argument.flag]
    while before and before[0] in flags:
        before = before[1:]
    if word.startswith("-") and not before:
        return ((flag, "") for flag in flags)
    arguments = [argument for argument in command.arguments if not argument.flag]
    if not arguments:
        return ()
    place = min(len(before), len(arguments) - 1)
    argument = arguments[place]
    if len(before) > place and not argument.rest:
        return ()
    if argument.choices:
        return ((choice, "") for choice in argument.choices)
    return _from_source(argument, before, word, sources)


def _from_source(
    argument: Argument, before: list[str], word: str, sources: Sources
) -> Iterable[_Offer]:
    match argument.source:
        case "":
            return ()
        case "nodes":
            return sources.nodes(word)
        case "actions":
            return sources.actions(before[0])
        case "files":
            return sources.files(word)
        case "slots":
            return (*sources.slots(), *sources.nodes(word))
        case "commands":
            return ((one.name, one.help) for one in COMMANDS)
        case "apps" | "available" | "groups" | "memos" | "models" | "sessions" as source:
            offers: Iterable[_Offer] = getattr(sources, source)()
            return offers


def _completions(word: str, offers: Iterable[_Offer]) -> list[Completion]:
    found: list[Completion] = []
    for text, about in offers:
        # What a terminal would not show as it is, it shall not put into a line either.
        if text.startswith(word) and text != word and clean_line(text) == text:
            found.append(Completion(text, len(word), clean_line(about)))
        if len(found) == MOST:
            break
    return found


def _place(host: Host, text: str) -> AppPath | None:
    try:
        return find_place(host.world, text) if text else None
    except SightlineError:
        return None


def _label(node: Node) -> str:
    label = node.properties.get("label") or node.properties.get("title")
    return label if isinstance(label, str) else node.type
