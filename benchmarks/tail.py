"""What it costs to show state safely: escaping, on plain text and on bombs, and choosing.

    python -m benchmarks --only tail

On plain text the peer is a promise, 50 MB a second. On bombs it is the substitution
table applied as it stands, with four regular expressions: a reader is fooled by
half of the forgeries it lets through, and on unterminated tags it is quadratic,
which is why the sizes differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, product

from benchmarks.harness import Row, measure, measure_each
from sightline.context.projection.escape import escape_text, mark_json
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import quarter_chars, select
from sightline.context.projection.tail import render_tail
from sightline.context.tokens.tokens import counter_for
from sightline.slop.protocol import codec
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

_AT = parse_moment("2026-04-28T10:30:00Z")
_PROMISE_BYTES_PER_S = 50_000_000
_PROMISE_CHOICE_S = 0.005

PLAIN = {
    "prose": ("English prose", "The launch moved to Thursday, please confirm by noon. "),
    "scripts": ("prose in many scripts", "Größe und Übermut — naïve 日本語 текст, 中文。 "),
    "json": (
        "JSON of a tree",
        '{"id":"msg-1","type":"item","properties":{"title":"Lunch?","n":1}}, ',
    ),
}
BOMBS = {
    "less-than signs": "<",
    "spaces after one": " ",
    "combining marks": "\u0301",
    "unterminated tags": "<slop-state",
    "closing tags": "</slop-state>",
    "zero-width spaces": "\u200b",
}
_TABLE = [
    re.compile(rf"<\s*{slash}{name}\b[^>]*>", re.IGNORECASE)
    for name in ("slop-state", "slop-apps-available")
    for slash in ("", r"/\s*")
]


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything once and return the rows."""
    million = 100_000 if quick else 1_000_000
    rows = [_plain(slug, name, unit, 4 * million) for slug, (name, unit) in PLAIN.items()]
    rows.extend(_bomb(name, unit, million) for name, unit in BOMBS.items())
    rows.append(_race(2_000 if quick else 20_000))
    rows.extend(_choosing(5_000 if quick else 50_000))
    return rows


def _plain(slug: str, name: str, unit: str, size: int) -> Row:
    text = unit * (size // len(unit.encode()))
    size = len(text.encode())
    work: Callable[[str], object] = (
        partial(mark_json, lines=True) if slug == "json" else escape_text
    )
    ours = measure(lambda: work(text))
    return Row(
        f"plain-{slug}", f"escape {name}", size, ours, size / _PROMISE_BYTES_PER_S, 1,
        note=f"{size / ours / 1e6:.0f} MB/s; the peer is the promise of 50",
        more={"mb_per_s": size / ours / 1e6},
    )  # fmt: skip


def _bomb(name: str, unit: str, size: int) -> Row:
    """Time two sizes: linear work takes ten times as long for ten times as much."""
    small, large = (
        measure(partial(escape_text, _bomb_text(unit, n)), 3) for n in (size // 10, size)
    )
    pace = f"{size / large / 1e6:.1f} million characters/s"
    note = f"{pace}; ten times the size, {large / small:.1f} times the time"
    more = {"small": size // 10, "small_s": small}
    slug = f"bomb-{name.replace(' ', '-')}"
    return Row(slug, f"escape a bomb: {name}", size, large, note=note, more=more)


def _bomb_text(unit: str, size: int) -> str:
    return "<" + unit * (size // len(unit))


def _race(size: int) -> Row:
    text = _bomb_text("<slop-state", size)
    ours = measure(partial(escape_text, text), 3)
    peer = measure(lambda: _by_the_table(text), 1)
    return Row("table", "escape unterminated tags, against the bare table", size, ours, peer)


def _by_the_table(text: str) -> str:
    for pattern in _TABLE:
        text = pattern.sub("", text)
    return text


def _choosing(nodes: int) -> list[Row]:
    groups = nodes // 1_000
    root = Node.of("app", "root", children=[
        Node.of(f"c{at}", "collection", meta={"salience": at % 10 / 10}, children=[
            Node.of(f"n{n}", "item", properties={"title": f"Item {n}"}) for n in range(1_000)
        ])
        for at in range(groups)
    ])  # fmt: skip
    world = World((AppState("app", "App", tree=root),))
    rows = [
        Row(
            f"choose-{budget}", f"choose {budget} tokens' worth, of a tree not seen before", nodes,
            measure_each(partial(select, one, budget) for one in _unknown(root, 3)),
        )
        for budget in (1_000, 4_000)
    ]  # fmt: skip
    rows.extend(_choosing_again(root, nodes))
    chosen = select(world, 4_000).world
    shown = sum(1 for app in chosen.apps if app.tree is not None for _ in app.tree.walk())
    # Nobody has seen these trees: what is written of one is known from then on.
    tree = chosen.apps[0].tree
    assert tree is not None
    cold = measure_each(partial(render_tail, one, _AT) for one in _unknown(tree, 9))
    rows.append(Row("render", "render what was chosen", shown, cold))
    rows.append(_rendering_again(tree, shown, cold))
    return rows


def _rendering_again(tree: Node, shown: int, cold: float) -> Row:
    """Render after each of many changes, the tags of the block looked for in all of it."""
    turns = count()
    paths = [f"/{group.id}/{item.id}" for group in tree.children for item in group.children]

    def again() -> None:
        nonlocal tree
        turn = next(turns)
        path = paths[turn * 7 % len(paths)]
        tree = tree.change(path, lambda node: node.with_property("turn", turn))
        render_tail(World((AppState("app", "App", tree=tree),)), _AT)

    again()
    work = "render it after one change, against anew"
    return Row("render-again", work, shown, measure(again, 9), cold)


def _unknown(root: Node, times: int) -> list[World]:
    """The same tree in other objects, of which nothing is known."""
    trees = [codec.build(codec.encode(root)) for _ in range(times)]
    return [World((AppState("app", "App", tree=tree),)) for tree in trees]


def _choosing_again(root: Node, nodes: int) -> Iterator[Row]:
    """Choose from the tree after each of many changes, by two ways of counting tokens."""
    turns = count()
    counters: dict[str, Callable[[str], int]] = {
        "by characters": quarter_chars,
        "by tokenizer": counter_for("o200k_base").count,
    }
    for (name, counter), budget in product(counters.items(), (1_000, 4_000)):

        def again(counter: Callable[[str], int] = counter, budget: int = budget) -> None:
            nonlocal root
            turn = next(turns)
            path = f"/c{turn % (nodes // 1_000)}/n{turn * 7 % 1_000}"
            root = root.change(path, lambda node: node.with_property("turn", turn))
            select(World((AppState("app", "App", tree=root),)), budget, counter)

        again()
        yield Row(
            f"choose-again-{name.split()[1]}-{budget}",
            f"choose {budget} tokens' worth after one change, counted {name}",
            nodes, measure(again, 9), _PROMISE_CHOICE_S, 1,
            note="the peer is the promise of 5 ms",
        )  # fmt: skip
