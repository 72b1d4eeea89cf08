"""Choose a session from a list that gets shorter as one types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from sightline.cli.chat.theme import SCREEN_STYLES, ground_of
from sightline.cli.commands.console import cut
from sightline.cli.ledger import overview_table
from sightline.cli.options import current_directory, ledger_path
from sightline.context.ledger import Ledger
from sightline.errors import NotFound

_MOST: Final = 1_000
_ROWS: Final = 15
_ASK: Final = "which session? "


def pick_session(ledger: str | None) -> str:
    """Have the user choose a session, those of this directory first; empty if they turn away."""
    with Ledger(ledger_path(None if ledger is None else Path(ledger))) as opened:
        listed = opened.sessions.overview(project=str(current_directory()), limit=_MOST)
    listed = [one for one in listed if one.session.groups]
    if not listed:
        raise NotFound("there is no session to go on with")
    head, *lines = overview_table(listed)
    chosen = pick(head, lines)
    return "" if chosen is None else str(listed[chosen].session.id)


def fitting(lines: Sequence[str], typed: str) -> list[int]:
    """Tell which lines have every word that was typed, in any case."""
    words = typed.casefold().split()
    return [
        number
        for number, line in enumerate(lines)
        if all(word in line.casefold() for word in words)
    ]


def pick(
    head: str,
    lines: Sequence[str],
    *,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
    output: Output | None = None,
) -> int | None:
    """Show lines under a heading, and return which one was chosen; None for none of them."""
    picker = _Picker(head, lines)
    style = Style.from_dict(SCREEN_STYLES[ground_of("auto", None, os.environ)])
    application: Application[int | None] = Application(
        Layout(picker.layout()), key_bindings=picker.keys(), style=style, erase_when_done=True,
        input=input, output=output,
    )  # fmt: skip
    return application.run()


class _Picker:
    def __init__(self, head: str, lines: Sequence[str]) -> None:
        self._head = head
        self._lines = lines
        self._at = 0
        self._typed = Buffer(multiline=False, on_text_changed=lambda _: self._move(-len(lines)))

    def layout(self) -> HSplit:
        asking = BufferControl(self._typed, input_processors=[BeforeInput(_ASK, "class:ask")])
        return HSplit([
            Window(asking, height=1),
            Window(FormattedTextControl(self._listed), height=_ROWS + 2, wrap_lines=False),
        ])  # fmt: skip

    def keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, step in (
            (("up", "c-p"), -1), (("down", "c-n"), 1), (("pageup",), -_ROWS), (("pagedown",), _ROWS)
        ):  # fmt: skip
            for name in names:
                keys.add(name)(lambda _, step=step: self._move(step))
        keys.add("enter")(self._choose)
        for name in ("escape", "c-c", "c-d"):
            keys.add(name)(lambda event: event.app.exit(result=None))
        return keys

    def _move(self, step: int) -> None:
        last = len(fitting(self._lines, self._typed.text)) - 1
        self._at = max(0, min(self._at + step, last))

    def _choose(self, event: KeyPressEvent) -> None:
        if found := fitting(self._lines, self._typed.text):
            event.app.exit(result=found[self._at])

    def _listed(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns - 2
        found = fitting(self._lines, self._typed.text)
        first = max(0, self._at - _ROWS + 1)
        shown: StyleAndTextTuples = [("class:dim", f"  {cut(self._head, width)}\n")]
        for row, number in enumerate(found[first : first + _ROWS], first):
            style, sign = ("class:ask", "> ") if row == self._at else ("", "  ")
            shown.append((style, f"{sign}{cut(self._lines[number], width)}\n"))
        more = len(found) - first - _ROWS
        last = f"  … {more} more" if more > 0 else "" if found else "  none of them fits"
        return [*shown, ("class:dim", last)]
