"""Trees against `slop-ai`: change, diff, apply, build, text, compaction, memory, growth.

Where the two sides cannot do quite the same work, the peer gets the easier part:
it has no change API, so only its diff is timed, on a changed tree made beforehand;
it applies ops that are already parsed; it checks nothing when it builds.
"""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from typing import Any

from msgspec import Raw
from slop_ai import PatchOp, SlopNode, StateMirror, auto_compact, count_nodes, diff_nodes
from slop_ai import format_tree as peer_format_tree

from benchmarks.data import Tree, as_json, flat_list, mail_tree
from benchmarks.harness import Row, allocated, measure, measure_each
from sightline.slop.protocol import codec
from sightline.slop.protocol.compaction import compact
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.patch import Op, apply, encode_ops
from sightline.slop.protocol.path import join
from sightline.slop.protocol.text import LiveText, format_blocks, format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Projector, View

__all__ = ["run"]

# What a change may cost in a tree of which few nodes are shown, and how few that is.
_PROMISE_S = 0.001
_FEW = 200
# Beyond this the peer takes minutes to compact a tree.
_PEER_NODES = 10_000
# An op on a flat list is too short for the clock: so many are timed together.
_OPS = 20


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many nodes the trees have, and how often the slow side runs."""

    tree: int
    text: int
    growth: tuple[int, ...]
    wide: tuple[int, ...]
    runs: int
    peer_runs: int


_FULL = _Sizes(
    tree=100_000,
    text=10_000,
    growth=(1_000, 10_000, 100_000),
    wide=(1_000, 10_000, 100_000, 1_000_000),
    runs=9,
    peer_runs=3,
)
_QUICK = _Sizes(tree=1_000, text=300, growth=(100, 1_000), wide=(100, 1_000), runs=2, peer_runs=1)


def run(*, quick: bool = False) -> list[Row]:
    """Run all races of this module; `quick` shows that they run, on small trees."""
    sizes = _QUICK if quick else _FULL
    return [
        *_one_change(sizes),
        *_equal_trees(sizes),
        *_flat_list_ops(sizes),
        *_build(sizes),
        *_text(sizes),
        *_max_nodes(sizes),
        *_memory(sizes),
        *_growth(sizes),
    ]


def _one_change(sizes: _Sizes) -> Iterator[Row]:
    work = "one property changed, then diff"
    yield _change_row("change-diff", work, sizes.tree, sizes, bar=5_000)


def _change_row(slug: str, work: str, size: int, sizes: _Sizes, bar: float | None = None) -> Row:
    tree = mail_tree(size)
    root = codec.build(as_json(tree))
    path = _path_of_last_item(root)
    turns = cycle((True, False))

    def ours() -> None:
        flag = next(turns)
        changed = root.change(path, lambda node: node.with_property("flagged", flag))
        assert len(diff(root, changed)) == 1

    peer = _peer_diff(tree, path, sizes)
    return Row(slug, work, size, measure(ours, sizes.runs), peer, bar)


def _path_of_last_item(root: Node) -> str:
    ids = []
    node = root
    while node.children:
        node = node.children[-1]
        ids.append(node.id)
    return "/" + "/".join(ids)


def _peer_diff(tree: Tree, path: str, sizes: _Sizes) -> float:
    old, new = SlopNode.from_dict(tree), SlopNode.from_dict(tree)
    node = new
    for node_id in path.split("/")[1:]:
        node = next(child for child in node.children if child.id == node_id)
    node.properties = {**node.properties, "flagged": True}
    return measure(lambda: diff_nodes(old, new), sizes.peer_runs)


def _equal_trees(sizes: _Sizes) -> Iterator[Row]:
    data = as_json(mail_tree(sizes.tree))
    a, b = codec.build(data), codec.build(data)
    peer_a, peer_b = _peer_build(data), _peer_build(data)
    ours = measure(lambda: diff(a, b), sizes.runs)
    peer = measure(lambda: diff_nodes(peer_a, peer_b), sizes.peer_runs)
    work = "diff of two equal trees that share nothing"
    yield Row("equal-diff", work, sizes.tree, ours, peer, 10)


def _flat_list_ops(sizes: _Sizes) -> Iterator[Row]:
    """Ops on items all over the list, one after the other, as a mirror gets them."""
    tree = flat_list(sizes.tree)
    data = as_json(tree)
    count = (sizes.runs + 1) * _OPS
    ids = [f"msg-{i}" for i in random.Random(7).sample(range(sizes.tree), count)]
    item = {**tree["children"][0], "id": "new"}
    races: list[tuple[str, list[Op], float, str]] = [
        (
            "replace a property",
            [Op("replace", f"/{i}/properties/unread", Raw(b"true")) for i in ids],
            100,
            "",
        ),
        ("remove a child", [Op("remove", f"/{i}") for i in ids], 100, ""),
        (
            "add a child",
            [
                Op("add", f"/new-{i}", Raw(as_json({**item, "id": f"new-{i}"})), index=at)
                for i, at in enumerate(random.Random(8).sample(range(sizes.tree), count))
            ],
            1,
            "the peer inserts in place, and neither checks the child nor looks for its id",
        ),
    ]
    for name, ops, bar, note in races:
        ours = measure_each(_our_jobs(codec.build(data), ops)) / _OPS
        peer = measure_each(_peer_jobs(tree, ops)) / _OPS
        slug, work = f"apply-{name.split()[0]}", f"apply in a flat list: {name}"
        yield Row(slug, work, sizes.tree, ours, peer, bar, note=note)
    op = races[0][1][0]
    fresh = [codec.build(data) for _ in range(sizes.runs)]
    first = measure_each(partial(apply, root, [op]) for root in fresh)
    work = "the first op in a flat list, which makes its index"
    yield Row("apply-first", work, sizes.tree, first)


def _our_jobs(tree: Node, ops: list[Op]) -> Iterator[Callable[[], object]]:
    """Jobs of some ops each; the first ops make the list's index and are not timed."""
    tree = apply(tree, ops[:_OPS])

    def job(batch: list[Op]) -> None:
        nonlocal tree
        for op in batch:
            tree = apply(tree, [op])

    for start in range(_OPS, len(ops), _OPS):
        yield partial(job, ops[start : start + _OPS])


def _peer_jobs(tree: Tree, ops: list[Op]) -> Iterator[Callable[[], object]]:
    mirror = StateMirror({"tree": tree, "version": 1})
    patches = [
        {"version": 1, "ops": [PatchOp.from_dict(json.loads(encode_ops([op]))[0])]} for op in ops
    ]

    def job(batch: list[dict[str, Any]]) -> None:
        for patch in batch:
            mirror.apply_patch(patch)

    for start in range(_OPS, len(patches), _OPS):
        yield partial(job, patches[start : start + _OPS])


def _build(sizes: _Sizes) -> Iterator[Row]:
    data = as_json(mail_tree(sizes.tree))
    peer = measure(lambda: _peer_build(data), sizes.peer_runs)
    built = measure(lambda: codec.build(data), sizes.runs)
    note = "neither side checks anything"
    yield Row("build", "build from JSON", sizes.tree, built, peer, 20, note=note)
    checked = measure(lambda: codec.decode(data), sizes.runs)
    work = "build from JSON, every rule checked"
    yield Row("build-checked", work, sizes.tree, checked, peer, note="ours only")
    gc.disable()
    try:
        peer = measure(lambda: _peer_build(data), sizes.peer_runs)
        built = measure(lambda: codec.build(data), sizes.runs)
    finally:
        gc.enable()
    work = "build from JSON, garbage collector off"
    yield Row("build-no-gc", work, sizes.tree, built, peer)


def _peer_build(data: bytes) -> SlopNode:
    return SlopNode.from_dict(json.loads(data))


def _text(sizes: _Sizes) -> Iterator[Row]:
    data = as_json(mail_tree(sizes.text))
    root, peer_root = codec.build(data), _peer_build(data)
    ours = measure(lambda: format_tree(root), sizes.runs)
    peer = measure(lambda: peer_format_tree(peer_root), sizes.runs)
    yield Row("text", "canonical text", sizes.text, ours, peer, 2.5)
    cold = measure(lambda: list(format_blocks(root)), sizes.runs)
    work = "the same in blocks after one change, against anew"
    yield _text_row("text-again", work, root, sizes, cold, 100)
    work = "the same joined after one change, against anew"
    note = "most of it is copying: one emoji makes every character of a text four bytes"
    yield _text_row("text-again-joined", work, root, sizes, ours, None, note)


def _text_row(
    slug: str, work: str, root: Node, sizes: _Sizes, cold: float, bar: float | None, note: str = ""
) -> Row:
    """Changes all over a tree, one after the other, each followed by its text."""
    paths = cycle(random.Random(9).sample(list(_paths(root)), min(sizes.text, 500)))
    turns = count()
    text = LiveText()
    text.blocks(root)

    def ours() -> None:
        nonlocal root
        root = root.change(next(paths), lambda node: node.with_property("turn", next(turns)))
        if bar is None:
            text.of(root)
        else:
            text.blocks(root)

    return Row(slug, work, sizes.text, measure(ours, sizes.runs), cold, bar, note=note)


def _max_nodes(sizes: _Sizes) -> Iterator[Row]:
    data = as_json(mail_tree(sizes.tree))
    root, peer_root = codec.build(data), _peer_build(data)
    budget = sizes.tree // 5
    ours = measure(lambda: compact(root, budget), sizes.runs)
    peer = measure(lambda: auto_compact(peer_root, budget), sizes.peer_runs)
    left = sum(1 for _ in compact(root, budget).walk())
    peer_left = count_nodes(auto_compact(peer_root, budget))
    note = f"budget {budget:,}: ours leaves {left:,}, the peer {peer_left:,}"
    yield Row("max-nodes", "max_nodes", sizes.tree, ours, peer, 20, note=note)
    rows = [_compaction_row(size, sizes) for size in sizes.growth]
    yield from rows
    work = "the last of these, against what is promised"
    yield Row("compact-promise", work, rows[-1].size, rows[-1].ours, _PROMISE_S, bar=1)


def _compaction_row(size: int, sizes: _Sizes) -> Row:
    """Changes all over a tree, one after the other, each followed by a view of few nodes."""
    data = as_json(mail_tree(size))
    root = codec.build(data)
    ids = random.Random(9).sample(range(size), min(size, 500))
    paths = cycle([path for at, path in enumerate(_paths(root)) if at in set(ids)])
    turns = count()
    projector = Projector(View(max_nodes=_FEW))
    projector.project(root)

    def ours() -> None:
        nonlocal root
        root = root.change(next(paths), lambda node: node.with_property("turn", next(turns)))
        projector.project(root)

    peer_root = _peer_build(data)
    peer = measure(lambda: auto_compact(peer_root, _FEW), 1) if size <= _PEER_NODES else None
    work = f"growth: one property changed, then max_nodes {_FEW}"
    return Row(f"growth-compact-{size}", work, size, measure(ours, sizes.runs), peer)


def _paths(root: Node) -> Iterator[str]:
    stack = [(root, "/")]
    while stack:
        node, path = stack.pop()
        yield path
        stack.extend((child, join(path, child.id)) for child in reversed(node.children))


def _memory(sizes: _Sizes) -> Iterator[Row]:
    note = "our input text included, which the tree keeps"
    for size in sizes.growth:
        data = as_json(mail_tree(size))
        # A copy of the input is made inside: a tree keeps the text it was built from.
        ours = allocated(partial(_built_from_a_copy, codec.build, data))
        peer = allocated(partial(_built_from_a_copy, _peer_build, data))
        bar = 2 if size == sizes.tree else None
        yield Row(f"memory-{size}", "memory of a tree", size, ours, peer, bar, "bytes", note)


def _built_from_a_copy(build: Callable[[bytes], object], data: bytes) -> object:
    return build(bytes(bytearray(data)))


def _growth(sizes: _Sizes) -> Iterator[Row]:
    for size in sizes.growth:
        work = "growth: one property changed, then diff"
        yield _change_row(f"growth-change-{size}", work, size, sizes)
    for size in sizes.wide:
        yield _wide_row(size, sizes)


def _wide_row(size: int, sizes: _Sizes) -> Row:
    """One change in one list of this length; its items share a text, which no step looks at."""
    properties = Raw(as_json(flat_list(1)["children"][0]["properties"]))
    items = tuple([Node(f"msg-{i}", "item", properties) for i in range(size)])
    root = Node("inbox", "collection", child_list=items)
    path = f"/msg-{size // 2}"

    def ours() -> None:
        changed = root.change(path, lambda node: node.with_property("unread", "maybe"))
        assert len(diff(root, changed)) == 1

    work = "growth: the same in one flat list"
    return Row(f"growth-flat-{size}", work, size, measure(ours, sizes.runs))
