"""The report's pictures: which rows of which module are drawn, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmarks.harness import Row, quantity
from benchmarks.plot import Bar, Series, draw_bars, draw_growth, draw_lines

__all__ = ["PICTURES", "Picture"]

Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a module: its file, what it shows in words, and who draws it."""

    file: str
    shows: str
    draw: Callable[[Rows], Figure]


def _lines(rows: Rows, prefix: str, ours: str, peer: str = "") -> list[Series]:
    """The rows of a size each, ours and the peer's where it ran."""
    mine = [row for row in rows if row.slug.removeprefix(prefix).isdigit()]
    theirs = tuple((row.size, row.peer) for row in mine if row.peer is not None)
    lines = [Series(ours, tuple((row.size, row.ours) for row in mine))]
    return [*lines, Series(peer, theirs)] if peer and theirs else lines


def _trees(rows: Rows) -> Figure:
    lines = _lines(rows, "growth-change-", "Sightline", "slop-ai")
    flat = _lines(rows, "growth-flat-", "Sightline, one flat list")
    few = _lines(rows, "growth-compact-", "Sightline, compacted to 200 nodes")
    all_lines = [*lines, *flat, *(line for line in few if line.points)]
    return draw_growth("One property changed, then diff", "nodes of the tree", all_lines)


def _tree_memory(rows: Rows) -> Figure:
    lines = _lines(rows, "memory-", "Sightline", "slop-ai")
    return draw_growth("Memory of a tree", "nodes of the tree", lines, "bytes")


def _live_k(rows: Rows) -> Figure:
    across = "subscribers of the root of 10,000 nodes; the peer's beyond 10 are extrapolated"
    lines = _lines(rows, "k-", "Sightline", "slop-ai")
    return draw_growth("One change, encoded for everybody", across, lines)


def _live_n(rows: Rows) -> Figure:
    lines = _lines(rows, "n-", "Sightline", "slop-ai")
    across = "nodes, with 10 subscribers of the root"
    return draw_growth("One change, encoded for everybody", across, lines)


def _turns(rows: Rows) -> Figure:
    across = "messages in the session"
    return draw_growth(
        "A turn stored durably, its window read", across, _lines(rows, "turn-", "Sightline")
    )


def _slots(rows: Rows) -> Figure:
    lines = _lines(rows, "warm-", "Sightline", "langchain-core")
    across = "messages in the history (budget 128,000 tokens)"
    return draw_growth("A render, counts warm", across, lines)


def _escape(rows: Rows) -> Figure:
    shown = [row for row in rows if row.slug.startswith(("plain-", "bomb-"))]
    bars = []
    for row in shown:
        pace = row.size / row.ours / 1e6
        text = f"{pace:,.0f}" if pace >= 100 else f"{pace:.3g}"
        bars.append(Bar(row.work.removeprefix("escape "), pace, text))
    title = "Escaping: megabytes (of a bomb: million characters) a second"
    return draw_bars(title, [*bars, Bar("promised for plain text", 50, "50", peer=True)])


def _cache(rows: Rows) -> Figure:
    theirs = ("before", "layers", "users")
    bars = [
        Bar(row.work, row.more["price"], f"{row.more['price']:.2f}", peer=row.slug in theirs)
        for row in rows
    ]
    return draw_bars("The price of prompts, four vendors' mean; the default is 1", bars)


def _local(rows: Rows) -> Figure:
    turns = [row for row in rows if row.slug.removeprefix("turn-").isdigit()]
    numbered = list(enumerate(turns, 1))
    lines = [
        Series("state as a tail", tuple((at, row.ours) for at, row in numbered)),
        Series("state before the history", tuple((at, row.peer or 0) for at, row in numbered)),
    ]
    return draw_lines(
        "Prompt tokens evaluated, by the runtime's own report", "turn", lines, "tokens"
    )


def _inspector(rows: Rows) -> Figure:
    shown = [row for row in rows if row.unit == "bytes"]
    bars = [Bar(f"at {row.size:,} turns", row.ours, quantity(row.ours, "bytes")) for row in shown]
    return draw_bars("Memory of the inspector's server", bars)


def _json(rows: Rows) -> Figure:
    reads = [row for row in rows if row.slug.startswith("read-")]
    bars = [
        Bar(f"{row.slug.removeprefix('read-')}, to plain objects", row.peer or 0,
            quantity(row.peer or 0, "s"), peer=True)
        for row in reads
    ]  # fmt: skip
    ours = Bar("msgspec, straight to nodes", reads[0].ours, quantity(reads[0].ours, "s"))
    return draw_bars(f"Reading {reads[0].size:,} nodes of JSON", [*bars, ours])


PICTURES: dict[str, tuple[Picture, ...]] = {
    "trees": (
        Picture("trees-growth.svg", "Time of one change over the size of the tree", _trees),
        Picture("trees-memory.svg", "Memory over the size of the tree", _tree_memory),
    ),
    "live": (
        Picture("live-subscribers.svg", "Time of one change over the subscribers", _live_k),
        Picture("live-nodes.svg", "Time of one change over the size of the tree", _live_n),
    ),
    "ledger": (Picture("ledger-turn.svg", "Time of a turn over the session's length", _turns),),
    "slots": (Picture("slots-growth.svg", "Time of a render over the messages", _slots),),
    "tail": (Picture("tail-escape.svg", "Speed of escaping, by kind of text", _escape),),
    "cache": (Picture("cache-layouts.svg", "The price of prompts, by layout", _cache),),
    "local": (Picture("local-turns.svg", "Tokens evaluated in every turn, by layout", _local),),
    "inspector": (Picture("inspector-memory.svg", "Memory of the server", _inspector),),
    "json_libraries": (Picture("json-libraries.svg", "Time to read, by library", _json),),
}
