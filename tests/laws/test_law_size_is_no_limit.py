"""No tree is too deep or too wide: every function works on 10,000 levels and on 100,000 siblings,
under the interpreter's own recursion limit."""

from __future__ import annotations

import sys

import pytest

from sightline.errors import InvalidTree
from sightline.slop.protocol.codec import decode, encode, from_value
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.patch import apply, decode_ops, encode_ops
from sightline.slop.protocol.rewrite import share
from sightline.slop.protocol.text import format_blocks
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Projector, View, project

LEVELS = 10_000
WIDTH = 100_000

# A law runs the same lines a million times: the other tests say which lines are covered.
pytestmark = pytest.mark.no_cover


def deep_text(extra: str = "") -> str:
    inner = '{"id":"leaf","type":"item","properties":{"n":1}}'
    opening = f'{{"id":"d","type":"group"{extra},"children":['
    return opening * (LEVELS - 1) + inner + "]}" * (LEVELS - 1)


def wide_text() -> str:
    items = ",".join(
        f'{{"id":"n{i}","type":"item","properties":{{"n":{i}}},"meta":{{"salience":0.{i % 10}}}}}'
        for i in range(WIDTH)
    )
    return f'{{"id":"r","type":"collection","children":[{items}]}}'


@pytest.fixture(scope="module", autouse=True)
def _the_default_recursion_limit() -> None:
    assert sys.getrecursionlimit() == 1000


LEAF = "/d" * (LEVELS - 2) + "/leaf"


@pytest.fixture(scope="module")
def deep() -> Node:
    """The deep tree: no test changes it, trees are values."""
    return decode(deep_text())


@pytest.fixture(scope="module")
def deeply_changed(deep: Node) -> Node:
    """The same, with another property of its leaf."""
    return deep.change(LEAF, lambda node: node.with_property("n", 2))


@pytest.mark.parametrize("extra", ["", ',"x":1'], ids=["known fields", "unknown fields"])
def test_a_deep_tree_is_read_written_and_compared(extra: str) -> None:
    text = deep_text(extra)
    tree = decode(text)
    assert encode(tree) == text.encode()
    again = decode(encode(tree))
    assert again == tree
    assert sum(1 for _ in tree.walk()) == LEVELS
    assert repr(tree) == "Node(group 'd', 1 children)"
    assert share(tree, again) is tree
    assert diff(tree, again) == []
    del tree, again


def test_a_deep_tree_is_changed_diffed_and_patched(deep: Node, deeply_changed: Node) -> None:
    tree, changed = deep, deeply_changed
    assert changed != tree
    ops = diff(tree, changed)
    assert [op.path for op in ops] == [f"{LEAF}/properties/n"]
    assert apply(tree, decode_ops(encode_ops(ops))) == changed
    assert [op.path for op in diff(tree, decode(encode(changed)))] == [f"{LEAF}/properties/n"]


def test_a_deep_tree_arrives_whole_in_a_patch(deep: Node) -> None:
    empty = Node("r", "root")
    full = empty.with_child(deep)
    ops = diff(empty, full)
    assert apply(empty, ops) == full
    assert apply(empty, decode_ops(encode_ops(ops))) == full
    listed = decode_ops('[{"op":"add","path":"/children","value":[' + deep_text() + "]}]")
    assert apply(empty, listed) == full
    assert apply(full, diff(full, empty)) == empty


@pytest.mark.parametrize(
    "view",
    [
        View(depth=5),
        View(depth=LEVELS - 2),
        View(max_nodes=100),
        View(min_salience=0.5),
        View(types=frozenset({"item"}), retain_ancestors=True),
        View(window=(0, 1)),
        View(depth=9_000, max_nodes=500, min_salience=0.1, window=(0, 5), available_actions=True),
    ],
    ids=str,
)
def test_a_deep_tree_is_shown(deep: Node, deeply_changed: Node, view: View) -> None:
    projector = Projector(view)
    shown = projector.project(deep)
    assert shown.id == "d"
    assert projector.project(deeply_changed) == project(deeply_changed, view)


def test_a_deep_tree_is_written_in_blocks_that_stay_small(deep: Node) -> None:
    """All of its text, mostly indent, has 100 MB."""
    lines = 0
    last = ""
    for block in format_blocks(deep):
        assert len(block) < 10_000_000
        lines += block.count("\n") + 1
        last = block
    assert lines == LEVELS
    assert last.endswith("  [item] leaf (n=1)")


def test_a_deep_tree_is_refused_on_the_wire_in_one_sentence() -> None:
    with pytest.raises(InvalidTree) as caught:
        decode(deep_text(), WIRE)
    assert [v.rule for v in caught.value.violations] == ["a tree must not have more than 64 levels"]


def test_a_deep_python_value_becomes_a_tree_and_is_forgotten_again() -> None:
    value: dict[str, object] = {"id": "leaf", "type": "item"}
    for _ in range(LEVELS - 1):
        value = {"id": "d", "type": "group", "children": [value]}
    tree = from_value(value)
    assert sum(1 for _ in tree.walk()) == LEVELS
    for _ in range(9 * LEVELS):
        tree = Node("up", "group", child_list=(tree,))
    del tree


def test_a_wide_tree_goes_through_everything() -> None:
    text = wide_text()
    tree = decode(text)
    assert encode(tree) == text.encode()
    again = decode(text)
    assert again == tree
    assert share(tree, again) is tree
    changed = tree.change("/n77777", lambda node: node.with_property("n", -1))
    ops = diff(tree, changed)
    assert [op.path for op in ops] == ["/n77777/properties/n"]
    assert apply(again, decode_ops(encode_ops(ops))) == changed
    for view in (
        View(depth=0),
        View(depth=1),
        View(max_nodes=10),
        View(min_salience=0.5),
        View(types=frozenset({"item"}), retain_ancestors=True),
        View(window=(50_000, 25)),
    ):
        projector = Projector(view)
        projector.project(tree)
        assert projector.project(changed) == project(changed, view)
    assert sum(block.count("\n") + 1 for block in format_blocks(changed)) == WIDTH + 1
    rest = tree.without_child("n50000").with_child_moved("n0", WIDTH - 2)
    assert [op.op for op in diff(tree, rest)] == ["remove", "move"]
    assert apply(tree, diff(tree, rest)) == rest
    assert repr(tree) == f"Node(collection 'r', {WIDTH} children)"
