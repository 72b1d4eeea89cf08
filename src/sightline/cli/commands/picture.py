"""The picture of the window: who has how much of it, in prompt order.

    the cells of a bar add up to its width, in the order of the prompt
    whatever has tokens has a cell, as long as there are enough cells

Letters and colours are fixed: a slot looks the same in every picture, and the letters alone
are enough to read it. What stands left of the boundary is sent as the same bytes next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sightline._amounts import percent
from sightline.cli.clean import clean_line
from sightline.cli.commands.console import Line, Piece, cut, width_of
from sightline.context.slots.prompt import Receipt

FREE: Final = "free"
RESERVE: Final = "reserve"
BOUNDARY: Final = "│"
_NARROW: Final = 60
_ROWS: Final = 3

# slot → its letter, and what makes it smaller
_KNOWN: Final = {
    "tools": ("T", "config: tools.style = fixed"),
    "frame": ("F", ""),
    "system": ("S", ""),
    "guidelines": ("G", ""),
    "instructions": ("N", "shorten AGENTS.md, /instructions off"),
    "history": ("H", "/context window N, /compact, /context drop GID"),
    "input": ("I", "say less, attach files"),
    "memos": ("M", "/memo delete ID"),
    "anchor": ("A", "/context rebuild"),
    "scratchpad": ("P", "/session scratchpad edit"),
    "hooks": ("K", "config: hooks"),
    "mode": ("O", "/mode ask"),
    "apps": ("C", "announce fewer apps"),
    "state": ("V", "/unfocus, /disconnect APP, config: tail.max_tokens"),
    FREE: ("·", ""),
    RESERVE: ("░", "kept for the answer"),
}


@dataclass(frozen=True, slots=True)
class PictureShare:
    """What one slot has of the window. `shrink` says how to have less; `volatile` is the tail."""

    name: str
    letter: str
    tokens: int
    cut: int = 0
    volatile: bool = False
    shrink: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A window of `window` tokens and who has it; free and reserve are the last two shares."""

    window: int
    used: int
    shares: tuple[PictureShare, ...]
    basis: str


def style_of(slot: str) -> str:
    """Name the style of a slot; those of other strategies share one."""
    return f"slot.{slot}" if slot in _KNOWN else "slot.other"


def picture_of(receipt: Receipt, window_tokens: int) -> Picture:
    """Make the picture of an assembled prompt; what the budget leaves of the window is reserve."""
    shares: list[PictureShare] = []
    taken = {letter for letter, _ in _KNOWN.values()}
    for name, tokens in (("frame", receipt.overhead), ("tools", receipt.tools)):
        if tokens:
            shares.append(_share(name, tokens, taken))
    for line in receipt.slots:
        if line.offered:
            volatile = line.stability == "volatile"
            shares.append(_share(line.name, line.kept, taken, cut=line.cut, volatile=volatile))
    shares.append(_share(FREE, max(receipt.free, 0), taken))
    shares.append(_share(RESERVE, max(window_tokens - receipt.budget, 0), taken))
    window = max(window_tokens, receipt.budget)
    return Picture(window, receipt.total, tuple(shares), receipt.provenance)


def _share(
    name: str, tokens: int, taken: set[str], *, cut: int = 0, volatile: bool = False
) -> PictureShare:
    if name in _KNOWN:
        letter, shrink = _KNOWN[name]
        return PictureShare(name, letter, tokens, cut, volatile, shrink)
    wanted = f"{name.upper()}0123456789"
    letter = next((char for char in wanted if char.isascii() and char.isalnum()
                   and char not in taken), "?")  # fmt: skip
    taken.add(letter)
    return PictureShare(name, letter, tokens, cut, volatile)


def cells_of(tokens: Sequence[int], width: int) -> list[int]:
    """Share out the cells of a bar: by weight, one at least for whoever has a token."""
    present = sum(1 for amount in tokens if amount > 0)
    if not present or width <= 0:
        return [0] * len(tokens)
    if present >= width:
        first = [index for index, amount in enumerate(tokens) if amount > 0][:width]
        return [int(index in first) for index in range(len(tokens))]
    total = sum(tokens)
    spare = width - present
    exact = [amount * spare / total for amount in tokens]
    cells = [int(share) + (amount > 0) for share, amount in zip(exact, tokens, strict=True)]
    by_rest = sorted(
        range(len(tokens)), key=lambda index: (int(exact[index]) - exact[index], index)
    )
    for index in by_rest[: width - sum(cells)]:
        cells[index] += 1
    return cells


def draw(picture: Picture, width: int) -> list[Line]:
    """Draw a picture in so many columns: a sum, the bar, and a line for each share."""
    lines: list[Line] = [_sum(picture)]
    lines.extend(_bar(picture.shares, width))
    name_width = max(width_of(clean_line(share.name)) for share in picture.shares)
    drawn = False
    for share in picture.shares:
        if share.volatile and not drawn:
            lines.append((("boundary", _boundary(width)),))
            drawn = True
        elif drawn and not share.volatile and share.name == FREE:
            lines.append((("boundary", "─" * min(width, _NARROW)),))
        lines.extend(_legend(share, picture.window, min(name_width, 16), width))
    return lines


def _sum(picture: Picture) -> Line:
    marked = "" if picture.basis == "counted" else f" ({picture.basis})"
    return (
        ("bold", f"{picture.used:,} of {picture.window:,} tokens"),
        ("dim", f", {percent(picture.used, picture.window)}{marked}"),
    )


def _bar(shares: Sequence[PictureShare], width: int) -> Iterable[Line]:
    volatile = [index for index, share in enumerate(shares) if share.volatile]
    size = max(width, 8) * _ROWS - bool(volatile)
    cells = cells_of([share.tokens for share in shares], size)
    pieces: list[Piece] = []
    for index, (share, count) in enumerate(zip(shares, cells, strict=True)):
        if volatile and index == volatile[0]:
            pieces.append(("boundary", BOUNDARY))
        pieces.extend([(style_of(share.name), share.letter)] * count)
    row = max(width, 8)
    return [_merged(pieces[start : start + row]) for start in range(0, len(pieces), row)]


def _merged(cells: Sequence[Piece]) -> Line:
    """Put cells of one style together."""
    pieces: list[Piece] = []
    for style, text in cells:
        if pieces and pieces[-1][0] == style:
            pieces[-1] = (style, pieces[-1][1] + text)
        else:
            pieces.append((style, text))
    return tuple(pieces)


def _boundary(width: int) -> str:
    label = "── boundary: above, the same bytes next time " if width >= _NARROW else "── boundary "
    return label + "─" * max(0, min(width, _NARROW) - len(label))


def _legend(share: PictureShare, window: int, name_width: int, width: int) -> Iterable[Line]:
    name = cut(clean_line(share.name), name_width)
    padding = " " * (name_width - width_of(name))
    part = f"{percent(share.tokens, window):>5}" if window else ""
    lost = f"  {share.cut:,} cut" if share.cut else ""
    head: Line = (
        (style_of(share.name), share.letter),
        ("", f" {name}{padding} {share.tokens:>9,}"),
        ("dim", f" {part}"),
        ("warn", lost),
    )
    if not share.shrink:
        return [head]
    used = sum(width_of(text) for _, text in head)
    if used + 2 + width_of(share.shrink) <= width:
        return [(*head, ("dim", f"  {share.shrink}"))]
    return [head, (("dim", cut(f"    {share.shrink}", width)),)]
