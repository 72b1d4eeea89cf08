"""Where a command writes and whom it asks: the whole of its outside.

`Console` is what a command needs; the terminal has one, a pipe has one, and tests have
one. Text given to a console may come from anywhere: making it harmless is the console's job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sightline.cli.clean import clean
from sightline.cli.commands.lines import Line, text_of
from sightline.cli.out import Writable


class Console(Protocol):
    """Where a slash command writes, shows what is long, and asks."""

    @property
    def width(self) -> int:
        """How many columns there are."""

    def write(self, text: str) -> None:
        """Write a text, which may have several lines."""

    def draw(self, lines: Iterable[Line]) -> None:
        """Write styled lines."""

    async def page(self, text: str) -> None:
        """Show a text that may be longer than the screen."""

    async def ask(self, question: str) -> bool:
        """Ask for a yes; without anybody to ask it is a no."""

    async def edit(self, text: str, suffix: str = ".md") -> str | None:
        """Let the user change a text; None if nothing came of it."""


class PlainConsole:
    """Writes plain text to a stream. There is nobody to ask: `yes` answers in advance."""

    def __init__(self, out: Writable, *, width: int = 80, yes: bool = False) -> None:
        self._out = out
        self._width = width
        self._yes = yes

    @property
    def width(self) -> int:
        return self._width

    def write(self, text: str) -> None:
        self._out.write(f"{clean(text)}\n")
        self._out.flush()

    def draw(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.write(text_of(line).rstrip())

    async def page(self, text: str) -> None:
        self.write(text)

    async def ask(self, question: str) -> bool:
        return self._yes

    async def edit(self, text: str, suffix: str = ".md") -> str | None:
        return None
