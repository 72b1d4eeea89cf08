"""A slash command is a click command whose words come from a line instead of a shell.

Its arguments are declared as the shell's are, so that click checks, completes and documents
both. Words are separated by spaces; "a word in quotes" is one. The last argument may be the
rest of the line, as typed, or one in quotes. A wrong argument is one line that ends with the usage.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from sightline.agent.host import Host
from sightline.cli.commands.console import Console, columns, cut
from sightline.context.ledger import Ledger, MemoShelf
from sightline.errors import InvalidInput

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
NUMBER: Final = click.IntRange(0, 10**15 - 1)
NUMBER.name = "number"  # click says "integer range" in its complaints
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
_QUOTED: Final = re.compile(r'"[^"]*"')


class Leave(Exception):
    """The user has had enough; whoever runs commands ends."""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """What one call of a command may use: its first argument."""

    host: Host
    console: Console

    def table(self, rows: Sequence[Sequence[str]], otherwise: str) -> None:
        """Write rows in columns, each on one line of the screen; without any, something else."""
        lines = (cut(line, self.console.width) for line in columns(rows))
        self.console.write("\n".join(lines) or otherwise)

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


class SlashCommand(click.Command):
    """One slash command. `idle` ones wait for the turn to end; `chat` ones need a terminal.

    Its function is called with a `CommandCall` and what was given; what it returns, if
    anything, is said to the model next.
    """

    def __init__(
        self, *given: Any, idle: bool = False, chat: bool = False, example: str = "", **more: Any
    ) -> None:
        super().__init__(*given, **{**more, "add_help_option": False})
        self.idle, self.chat, self.example = idle, chat, example
        self._options = [one.opts[0] for one in self.params if isinstance(one, click.Option)]
        self.options_metavar = " ".join(f"[{option}]" for option in self._options)
        self.title = " ".join((self.help or "").split())

    @property
    def usage(self) -> str:
        """How the command is typed, with its arguments."""
        return " ".join((f"/{self.name}", *self.collect_usage_pieces(click.Context(self))))

    def read(self, text: str, call: CommandCall | None = None) -> click.Context:
        """Read what follows the name. Raises InvalidInput, with the usage."""
        try:
            return self.make_context(self.name, self._words(text), obj=call)
        except click.UsageError as error:
            complaint = error.format_message().removesuffix(".")
            raise InvalidInput(f"{complaint}; usage: {self.usage}") from None

    def run(self, context: click.Context) -> Awaitable[str | None]:
        """Begin the command's work, with what `read` gave."""
        function = cast(Callable[..., Awaitable[str | None]], self.callback)
        return function(context.obj, **context.params)

    def _words(self, text: str) -> list[str]:
        """Split a line for click: options, a mark, words, and the rest as it was typed."""
        found = list(_words_of(text))
        given = [word for word, _ in takewhile(lambda item: item[0] in self._options, found)]
        words = [word for word, _ in found[len(given) :]]
        arguments = [one for one in self.params if isinstance(one, click.Argument)]
        whole = len(arguments) - 1
        if arguments and arguments[-1].nargs == -1 and len(words) > whole:
            left = text[found[len(given) + whole][1] :].strip()
            words[whole:] = words[whole:] if _QUOTED.fullmatch(left) else [left]
        return [*given, "--", *words]


class Section(click.Group):
    """A part of the table of slash commands; its name is its heading."""

    command_class = SlashCommand

    def __iter__(self) -> Iterator[SlashCommand]:
        return iter(cast(dict[str, SlashCommand], self.commands).values())


def rest(
    name: str, *, required: bool = True, offers: Completer | None = None
) -> Callable[[_F], _F]:
    """Declare the last argument, which takes all that is left of the line."""
    shown = f"{name.upper()}…"
    return click.argument(
        name, nargs=-1, required=required, metavar=shown if required else f"[{shown}]",
        callback=lambda _, __, words: " ".join(words), shell_complete=offers,
    )  # fmt: skip


def _words_of(text: str) -> Iterator[tuple[str, int]]:
    """Split a line into its words, each with the place where it begins."""
    for match in _WORD.finditer(text):
        yield match[2] if match[1] is None else match[1], match.start()
