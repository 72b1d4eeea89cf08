"""Lines and markdown as text for a terminal: the one door to the screen.

    every control sequence in what `paint` returns is ours: a style that rich wrote

Whatever is painted is taken apart into pieces first, each piece of text is made harmless,
and only then its style is put around it. So no text can bring a sequence of its own, not
even one that was hidden in a link or in a code block.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Final, Literal, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from sightline.cli.clean import clean
from sightline.cli.commands.console import Line

# Of `full` and `light` the ground is dark and light; `none` has styles without colours.
Colors: TypeAlias = Literal["full", "light", "none", "plain"]

STYLES: Final = {
    "dim": "dim",
    "warn": "yellow",
    "error": "bold red",
    "ask": "bold yellow",
    "tool": "cyan",
    "user": "bold",
    "diff.old": "red",
    "diff.new": "green",
    "diff.old.word": "bold reverse red",
    "diff.new.word": "bold reverse green",
    "boundary": "bold magenta",
    "slot.tools": "bright_black",
    "slot.frame": "bright_black",
    "slot.system": "blue",
    "slot.guidelines": "bright_blue",
    "slot.instructions": "bright_cyan",
    "slot.history": "cyan",
    "slot.input": "bold white",
    "slot.memos": "yellow",
    "slot.anchor": "magenta",
    "slot.scratchpad": "bright_magenta",
    "slot.hooks": "bright_red",
    "slot.mode": "bright_yellow",
    "slot.apps": "bright_green",
    "slot.state": "green",
    "slot.free": "dim",
    "slot.reserve": "dim",
    "slot.other": "red",
}
# On a light ground yellow, white and whatever is bright cannot be read.
LIGHT_STYLES: Final = {
    **STYLES,
    "warn": "color(94)",
    "error": "bold color(124)",
    "ask": "bold color(94)",
    "tool": "color(24)",
    "diff.old": "color(124)",
    "diff.new": "color(22)",
    "diff.old.word": "bold reverse color(124)",
    "diff.new.word": "bold reverse color(22)",
    "slot.system": "color(18)",
    "slot.guidelines": "color(25)",
    "slot.instructions": "color(30)",
    "slot.history": "color(24)",
    "slot.input": "bold",
    "slot.memos": "color(94)",
    "slot.anchor": "color(90)",
    "slot.scratchpad": "color(127)",
    "slot.hooks": "color(88)",
    "slot.mode": "color(58)",
    "slot.apps": "color(28)",
    "slot.state": "color(22)",
    "slot.other": "color(124)",
    "markdown.code": "bold color(24)",
    "markdown.link": "color(25)",
    "markdown.link_url": "color(25)",
    "markdown.block_quote": "color(90)",
    "markdown.item.bullet": "bold color(94)",
    "markdown.item.number": "bold color(94)",
}
_THEMES: Final = {True: Theme(LIGHT_STYLES), False: Theme(STYLES)}


class _PlainHeading(Heading):
    """A heading at the left, bold, without a box: an answer is no title page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _PlainHeading}  # noqa: RUF012 - as in the base


def paint_lines(lines: Iterable[Line], width: int, colors: Colors) -> str:
    """Paint styled lines, each on a line of its own; long ones are wrapped."""
    texts = [
        Text.assemble(*((clean(text), style) for style, text in line), overflow="fold")
        for line in lines
    ]
    return "".join(_paint(text, width, colors) for text in texts)


def paint_markdown(text: str, width: int, colors: Colors) -> str:
    """Paint markdown. Links are shown, not made."""
    code = "ansi_light" if colors == "light" else "ansi_dark"
    return _paint(_Markdown(clean(text), hyperlinks=False, code_theme=code), width, colors)


def _paint(renderable: RenderableType, width: int, colors: Colors) -> str:
    console = Console(
        file=StringIO(),
        width=max(width, 10),
        theme=_THEMES[colors == "light"],
        force_terminal=True,
        color_system="256",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    text = "".join(
        _styled(clean(segment.text), segment.style, colors)
        for segment in console.render(renderable, console.options)
        if segment.control is None
    )
    return text if text.endswith("\n") else f"{text}\n"


def _styled(text: str, style: Style | None, colors: Colors) -> str:
    if style is None or colors == "plain" or not text.strip("\n"):
        return text
    style = style.update_link(None)
    return (style.without_color if colors == "none" else style).render(text)
