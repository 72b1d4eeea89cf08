"""Draw how costs grow, both axes logarithmic: linear growth is a line of slope one.

An SVG made by hand, for a picture of a few points needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

__all__ = ["Series", "growth_svg"]

_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 40, 460, 200
_COLOURS = ("#1f6feb", "#cf222e", "#1a7f37")
_CENTRED = 'text-anchor="middle"'
_Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its name, and (size, seconds) from small to large."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a value lies between two powers of ten."""

    low: int
    high: int

    @classmethod
    def over(cls, values: list[float]) -> _Scale:
        low = floor(log10(min(values)))
        return cls(low, max(low + 1, ceil(log10(max(values)))))

    def share(self, value: float) -> float:
        return (log10(value) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def growth_svg(title: str, across: str, series: list[Series]) -> str:
    """Draw time over size; a dashed line from each first point is exactly linear growth."""
    sizes = _Scale.over([size for line in series for size, _ in line.points])
    times = _Scale.over([seconds for line in series for _, seconds in line.points])

    def place(size: float, seconds: float) -> tuple[float, float]:
        down = min(1.0, max(0.0, 1 - times.share(seconds)))
        return _LEFT + sizes.share(size) * _WIDTH, _TOP + down * _HEIGHT

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {_TOP + _HEIGHT + 55}" '
        'font-family="sans-serif" font-size="12" fill="#57606a">',
        f'<rect width="600" height="{_TOP + _HEIGHT + 55}" fill="#ffffff"/>',
        _text(_LEFT, 20, f"{title}; dashed is exactly linear"),
        _text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 42, across, _CENTRED),
    ]
    for tick in sizes.ticks:
        x, bottom = place(tick, times.ticks[0])
        parts.append(f'<path d="M{x:.0f},{_TOP} V{bottom:.0f}" stroke="#eaeef2"/>')
        parts.append(_text(x, bottom + 18, f"{tick:,.0f}", _CENTRED))
    for tick in times.ticks:
        _, y = place(sizes.ticks[0], tick)
        parts.append(f'<path d="M{_LEFT},{y:.0f} h{_WIDTH}" stroke="#eaeef2"/>')
        parts.append(_text(_LEFT - 8, y + 4, _time(tick), 'text-anchor="end"'))
    for line, colour in zip(series, _COLOURS, strict=False):
        parts.extend(_drawn(line, colour, place))
    return "".join([*parts, "</svg>\n"])


def _drawn(line: Series, colour: str, place: _Place) -> list[str]:
    (first, seconds), last = line.points[0], line.points[-1][0]
    (x1, y1), (x2, y2) = place(first, seconds), place(last, seconds * last / first)
    way = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line.points)
    drawn = [
        f'<path d="M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}" stroke="{colour}" '
        'stroke-opacity="0.4" stroke-dasharray="5 4"/>',
        f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>',
    ]
    for size, cost in line.points:
        x, y = place(size, cost)
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        drawn.append(_text(x + 8, y - 8, _time(cost)))
    x, y = place(*line.points[-1])
    return [*drawn, _text(x + 8, y + 14, line.name, f'fill="{colour}"')]


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _time(seconds: float) -> str:
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
