"""Draw figures as SVG, by hand: a picture of a few points needs no plotting library.

`growth_svg` has both axes logarithmic, so that linear growth is a line of slope one;
`lines_svg` has both linear; `bars_svg` is for things that do not grow. All stand on a white
ground, which reads in the light and in the dark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Protocol

from benchmarks.harness import quantity

__all__ = ["Bar", "Series", "bars_svg", "growth_svg", "lines_svg"]

_LEFT, _TOP, _WIDTH, _HEIGHT = 80, 60, 450, 200
_BAR_LEFT, _BAR_WIDTH, _BAR_STEP = 250, 250, 22
_COLOURS = ("#1f6feb", "#cf222e", "#1a7f37")
_CENTRED, _END = 'text-anchor="middle"', 'text-anchor="end"'
_Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its name, and (size, cost) from small to large."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it is of, how long it is, and what is written at its end."""

    name: str
    value: float
    text: str
    peer: bool = False


class _Scale(Protocol):
    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""

    @property
    def ticks(self) -> list[float]:
        """The values that are written at the axis."""


@dataclass(frozen=True, slots=True)
class _Powers:
    """Between two powers of ten."""

    low: int
    high: int

    @classmethod
    def over(cls, values: list[float]) -> _Powers:
        low = floor(log10(min(values)))
        return cls(low, max(low + 1, ceil(log10(max(values)))))

    def share(self, value: float) -> float:
        return (log10(value) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


@dataclass(frozen=True, slots=True)
class _Steps:
    """From zero up, in at most six even and whole steps."""

    step: float
    count: int

    @classmethod
    def over(cls, values: list[float]) -> _Steps:
        high = max(values)
        power = max(1.0, 10.0 ** floor(log10(high / 6)))
        step = next(power * n for n in (1, 2, 5, 10) if high <= 6 * power * n)
        return cls(step, ceil(high / step))

    def share(self, value: float) -> float:
        return value / (self.step * self.count)

    @property
    def ticks(self) -> list[float]:
        return [self.step * number for number in range(self.count + 1)]


def growth_svg(title: str, across: str, series: Sequence[Series], unit: str = "s") -> str:
    """Draw cost over size; a dashed line from each first point is exactly linear growth."""
    sizes = _Powers.over([size for line in series for size, _ in line.points])
    costs = _Powers.over([cost for line in series for _, cost in line.points])
    place = _placed(sizes, costs)
    parts = _axes(f"{title}; dashed is exactly linear", across, sizes, costs, unit)
    # Above their points the figures of two lines find room, those of a third stand below.
    lowest = min(series, key=lambda line: line.points[-1][1]) if len(series) > 2 else None
    for line, colour in zip(series, _COLOURS, strict=False):
        (first, cost), last = line.points[0], line.points[-1][0]
        leaves = first * costs.ticks[-1] / cost  # the size at which it would pass the top
        end = min(last, leaves)
        (x1, y1), (x2, y2) = place(first, cost), place(end, cost * end / first)
        parts.append(
            f'<path d="M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}" stroke="{colour}" '
            'stroke-opacity="0.4" stroke-dasharray="5 4"/>'
        )
        parts += _line(line, colour, place)
        below = line is lowest
        for point in line.points:
            x, y = place(*point)
            style, aside = (_CENTRED, 0) if x > _LEFT + 20 else ("", 6)
            y += 18 if below else -9
            parts.append(_text(x + aside, y, quantity(point[1], unit), style))
    return _svg([*parts, *_legend(series)], _TOP + _HEIGHT + 55)


def lines_svg(title: str, across: str, series: Sequence[Series], unit: str) -> str:
    """Draw figures that follow each other; the last of each line is written beside it."""
    sizes = _Steps.over([size for line in series for size, _ in line.points])
    costs = _Steps.over([cost for line in series for _, cost in line.points])
    place = _placed(sizes, costs)
    parts = _axes(title, across, sizes, costs, unit)
    for line, colour in zip(series, _COLOURS, strict=False):
        parts += _line(line, colour, place)
        x, y = place(*line.points[-1])
        parts.append(_text(x, y - 9, quantity(line.points[-1][1], unit), _CENTRED))
    return _svg([*parts, *_legend(series)], _TOP + _HEIGHT + 55)


def bars_svg(title: str, bars: Sequence[Bar]) -> str:
    """Draw bars below each other; the longest fills the width."""
    longest = max(bar.value for bar in bars)
    parts = [_text(10, 20, title)]
    for number, bar in enumerate(bars):
        y = 36 + number * _BAR_STEP
        width = max(1.0, bar.value / longest * _BAR_WIDTH)
        colour = _COLOURS[1] if bar.peer else _COLOURS[0]
        parts.append(_text(_BAR_LEFT - 8, y + 12, bar.name, _END))
        parts.append(
            f'<rect x="{_BAR_LEFT}" y="{y}" width="{width:.1f}" height="16" fill="{colour}"/>'
        )
        parts.append(_text(_BAR_LEFT + width + 6, y + 12, bar.text))
    return _svg(parts, 36 + len(bars) * _BAR_STEP + 10)


def _placed(sizes: _Scale, costs: _Scale) -> _Place:
    def place(size: float, cost: float) -> tuple[float, float]:
        down = min(1.0, max(0.0, 1 - costs.share(cost)))
        return _LEFT + sizes.share(size) * _WIDTH, _TOP + down * _HEIGHT

    return place


def _axes(title: str, across: str, sizes: _Scale, costs: _Scale, unit: str) -> list[str]:
    bottom = _TOP + _HEIGHT
    parts = [_text(10, 20, title), _text(_LEFT + _WIDTH / 2, bottom + 42, across, _CENTRED)]
    for tick in sizes.ticks:
        x = _LEFT + sizes.share(tick) * _WIDTH
        parts.append(f'<path d="M{x:.0f},{_TOP} V{bottom}" stroke="#eaeef2"/>')
        parts.append(_text(x, bottom + 18, f"{tick:,.0f}", _CENTRED))
    for tick in costs.ticks:
        y = bottom - costs.share(tick) * _HEIGHT
        parts.append(f'<path d="M{_LEFT},{y:.0f} h{_WIDTH}" stroke="#eaeef2"/>')
        written = f"{tick:,.0f}" if unit == "tokens" else quantity(tick, unit)
        parts.append(_text(_LEFT - 8, y + 4, written, _END))
    return parts


def _line(line: Series, colour: str, place: _Place) -> list[str]:
    way = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line.points)
    drawn = [f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for point in line.points:
        x, y = place(*point)
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
    return drawn


def _legend(series: Sequence[Series]) -> list[str]:
    parts, x = [], 10.0
    for line, colour in zip(series, _COLOURS, strict=False):
        parts.append(f'<rect x="{x:.0f}" y="30" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 16, 39, line.name, f'fill="{colour}"'))
        x += 16 + 7 * len(line.name) + 24
    return parts


def _svg(parts: list[str], height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {height}" '
        'font-family="sans-serif" font-size="12" fill="#57606a">'
    )
    return "\n".join(
        [head, f'<rect width="600" height="{height}" fill="#ffffff"/>', *parts, "</svg>\n"]
    )


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
