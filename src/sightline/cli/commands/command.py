"""A slash command as a value: its name, what it takes, what it says of itself, what it does.

Arguments are declared, so that they are checked, completed and documented from one place.
Words are separated by spaces; "a word in quotes" is one. The last argument may be the rest
of the line. A wrong argument is one line that ends with the usage.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from sightline.agent.host import Host
from sightline.cli.commands.console import Console
from sightline.context.ledger import Ledger, MemoShelf
from sightline.errors import InvalidInput

__all__ = ["Argument", "Command", "CommandCall", "Leave", "Source", "read_words"]

Source: TypeAlias = Literal[
    "", "apps", "available", "commands", "files", "groups", "memos", "models", "nodes", "actions",
    "sessions", "slots",
]  # fmt: skip
_T = TypeVar("_T")
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
_MAX_DIGITS: Final = 15


class Leave(Exception):
    """The user has had enough; whoever runs commands ends."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `rest` takes all that is left of the line; `source` says what completes it.

    A `flag` is a word of its own that stands before the others or is left out.
    """

    name: str
    source: Source = ""
    choices: tuple[str, ...] = ()
    optional: bool = False
    number: bool = False
    rest: bool = False
    flag: bool = False

    @property
    def usage(self) -> str:
        """How it is written in a usage line."""
        if self.flag:
            return f"[{self.name}]"
        name = "|".join(self.choices) or self.name
        name = f"{name}…" if self.rest and not self.choices else name
        return f"[{name}]" if self.optional else name

    def check(self, text: str) -> None:
        """Raise InvalidInput if this is nothing for it."""
        if self.number and not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
            raise InvalidInput(f"{self.name} is a number, not {text[:40]!r}")
        if self.choices and text not in self.choices:
            raise InvalidInput(f"{text[:40]!r} is none of {', '.join(self.choices)}")


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One call of a command: what it may use, and what it was given."""

    host: Host
    console: Console
    arguments: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return an argument; empty if it was left out."""
        return self.arguments.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """Return a number that was given, or the default."""
        return int(self.arguments[name]) if name in self.arguments else default

    async def may_delete(self, what: str) -> bool:
        """Ask before something goes for good; whoever says no is told that nothing did."""
        if await self.console.ask(f"Delete {what} for good?"):
            return True
        self.console.write("Nothing was deleted.")
        return False

    async def ledger(self, work: Callable[[Ledger], _T]) -> _T:
        """Work with the ledger, off the event loop."""
        return await asyncio.to_thread(work, self.host.ledger)

    async def memos(self, work: Callable[[MemoShelf], _T]) -> _T:
        """Work with the memos of this project and the user's, off the event loop."""
        return await asyncio.to_thread(work, self.host.memos)


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `idle` ones wait for the turn to end; `chat` ones need a terminal.

    What `run` returns, if anything, is said to the model next.
    """

    name: str
    help: str
    run: Callable[[CommandCall], Awaitable[str | None]]
    arguments: tuple[Argument, ...] = ()
    idle: bool = False
    chat: bool = False
    example: str = ""

    @property
    def usage(self) -> str:
        """How it is called."""
        return " ".join((f"/{self.name}", *(argument.usage for argument in self.arguments)))

    def read(self, text: str) -> dict[str, str]:
        """Read what follows the name. Raises InvalidInput, with the usage."""
        try:
            return _read(self.arguments, text)
        except InvalidInput as error:
            raise InvalidInput(f"{error}; usage: {self.usage}") from None


def read_words(text: str) -> list[tuple[str, int]]:
    """Split a line into its words, each with the place where it begins."""
    return [(match[1] if match[1] is not None else match[2], match.start())
            for match in _WORD.finditer(text)]  # fmt: skip


def _read(arguments: Sequence[Argument], text: str) -> dict[str, str]:
    words = read_words(text)
    given: dict[str, str] = {}
    flags = {argument.name for argument in arguments if argument.flag}
    while words and words[0][0] in flags:
        flag, _ = words.pop(0)
        given[flag] = flag
    arguments = [argument for argument in arguments if not argument.flag]
    for place, argument in enumerate(arguments):
        if place >= len(words):
            if not argument.optional:
                raise InvalidInput(f"{argument.usage} is missing")
            return given
        word, start = words[place]
        given[argument.name] = text[start:].strip() if argument.rest else word
        argument.check(given[argument.name])
        if argument.rest:
            return given
    if len(words) > len(arguments):
        raise InvalidInput(f"{words[len(arguments)][0][:40]!r} is too much")
    return given
