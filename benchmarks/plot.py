"""Draw figures with matplotlib, the same bytes for the same figures.

`draw_growth` has both axes logarithmic, so that linear growth is a line of slope one;
`draw_lines` has both linear; `draw_bars` is for things that do not grow. All stand on a white
ground, which reads in the light and in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from benchmarks.harness import quantity

__all__ = ["Bar", "Series", "draw_bars", "draw_growth", "draw_lines", "svg"]

_COLOURS = ("#1f6feb", "#cf222e", "#1a7f37")
_INK = "#57606a"
rcParams.update(
    {
        "font.family": "DejaVu Sans",  # matplotlib brings it along
        "font.size": 8,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.spines.bottom": False,
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "xtick.color": _INK,
        "xtick.major.size": 0,
        "ytick.color": _INK,
        "ytick.major.size": 0,
        "grid.color": "#eaeef2",
        "legend.frameon": False,
        "lines.markersize": 5,
        # The same bytes for the same figure, and texts that stay texts.
        "svg.fonttype": "none",
        "svg.hashsalt": "sightline",
    }
)


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


def draw_growth(title: str, across: str, series: Sequence[Series], unit: str = "s") -> Figure:
    """Draw cost over size; a dashed line from each first point is exactly linear growth."""
    figure, axes = _framed(f"{title}; dashed is exactly linear", across, unit, scale="log")
    axes.minorticks_off()
    axes.margins(0.08, 0.12)
    # Above their points the figures of two lines find room, those of a third stand below.
    lowest = min(series, key=lambda line: line.points[-1][1]) if len(series) > 2 else None
    for line, colour in zip(series, _COLOURS, strict=False):
        _draw(axes, line, colour)
        for point in line.points:
            _write(axes, point, unit, below=line is lowest)
        (first, cost), (last, _) = line.points[0], line.points[-1]
        linear = (cost, cost * last / first)
        axes.plot((first, last), linear, "--", color=colour, alpha=0.4, scaley=False)
    return _named(figure, axes)


def draw_lines(title: str, across: str, series: Sequence[Series], unit: str) -> Figure:
    """Draw figures that follow each other; the last of each line is written beside it."""
    figure, axes = _framed(title, across, unit)
    for line, colour in zip(series, _COLOURS, strict=False):
        _draw(axes, line, colour)
        _write(axes, line.points[-1], unit)
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _named(figure, axes)


def draw_bars(title: str, bars: Sequence[Bar]) -> Figure:
    """Draw bars below each other; the longest fills the width."""
    height = 0.5 + 0.24 * len(bars)
    figure = _titled(title, height)
    axes = figure.add_axes((0.4, 0.02, 0.42, 1 - 0.36 / height))
    colours = [_COLOURS[bar.peer] for bar in bars]
    drawn = axes.barh([bar.name for bar in bars], [bar.value for bar in bars], color=colours)
    axes.bar_label(drawn, [bar.text for bar in bars], padding=4)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(NullLocator())
    axes.margins(x=0)
    return figure


def svg(figure: Figure) -> str:
    """Write a figure as SVG, with nothing in it of when and with what it was made."""
    written = StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def _titled(title: str, height: float) -> Figure:
    figure = Figure(figsize=(6, height))
    figure.text(0.02, 1 - 0.06 / height, title, va="top")
    return figure


def _framed(
    title: str, across: str, unit: str, *, scale: Literal["linear", "log"] = "linear"
) -> tuple[Figure, Axes]:
    figure = _titled(title, 3.1)
    axes = figure.add_axes((0.13, 0.16, 0.82, 0.64), axisbelow=True)
    axes.set(xlabel=across, xscale=scale, yscale=scale)
    axes.grid()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(
        lambda value, _: f"{value:,.0f}" if unit == "tokens" else quantity(value, unit)
    )
    return figure, axes


def _draw(axes: Axes, line: Series, colour: str) -> None:
    sizes, costs = zip(*line.points, strict=True)
    axes.plot(sizes, costs, marker="o", color=colour, label=line.name)


def _write(axes: Axes, point: tuple[float, float], unit: str, *, below: bool = False) -> None:
    above = (0, -13 if below else 6)
    text = quantity(point[1], unit)
    axes.annotate(text, point, above, textcoords="offset points", ha="center")


def _named(figure: Figure, axes: Axes) -> Figure:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.14, 1), ncols=3, labelcolor="linecolor")
    return figure
