"""Views: an oracle written from the protocol agrees, and unchanged parts are the same objects."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import encode, from_value
from sightline.slop.protocol.compaction import compact
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.patch import apply
from sightline.slop.protocol.rewrite import RewriteMemory, RewriteStage, rewrite
from sightline.slop.protocol.siblings import CHUNK
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import (
    Projector,
    View,
    _Filter,
    _Truncate,
    project,
    window,
)
from support.share import WHOLE
from support.trees import Tree, edited, every_node
from support.view_oracle import oracle_view

REF = {"type": "text", "mime": "m", "uri": "u", "summary": "s"}
TYPES = ["item", "view", "group", "status"]


def bushy(rng: random.Random, size: int) -> Tree:
    """A tree of about so many nodes, of any shape, with what a view looks at."""
    nodes: list[Tree] = []
    for n in range(size):
        made: Tree = {"id": f"n{n}", "type": rng.choice(TYPES)}
        if rng.random() < 0.5:
            made["properties"] = {"n": n}
        if rng.random() < 0.2:
            made["affordances"] = [{"action": "open"}, {"action": "close"}][: rng.randrange(3)]
        if rng.random() < 0.2:
            made["content_ref"] = REF
        if rng.random() < 0.1:
            made["x-unknown"] = n
        if rng.random() < 0.7:
            made["meta"] = meta(rng)
        if nodes:
            low = rng.choice([0, 0, max(0, n - 3)])
            parent = nodes[rng.randrange(low, n)]
            parent.setdefault("children", []).append(made)
        nodes.append(made)
    for made in nodes:
        if "children" not in made and rng.random() < 0.1:
            made["children"] = rng.choice([None, []])
    return nodes[0]


def meta(rng: random.Random) -> Any:
    made: dict[str, Any] = {}
    if rng.random() < 0.7:
        made["salience"] = rng.choice([0, 0.1, 0.3, 0.5, 0.5, 0.7, 1])
    if rng.random() < 0.06:
        made["pinned"] = rng.random() < 0.8
    if rng.random() < 0.2:
        made["summary"] = rng.choice(["all of it", ""])
    if rng.random() < 0.2:
        made["total_children"] = rng.randrange(50)
        if rng.random() < 0.5:
            made["window"] = [rng.randrange(9), rng.randrange(9)]
    return made if rng.random() < 0.97 else None


def any_view(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["depth"] = rng.randrange(-1, 5)
        options["available_actions"] = rng.random() < 0.3
    if rng.random() < 0.5:
        options["max_nodes"] = rng.randrange(1, 50)
    if rng.random() < 0.35:
        options["min_salience"] = rng.choice([0, 0.1, 0.4, 0.5, 0.6, 1])
    if rng.random() < 0.25:
        options["types"] = frozenset(rng.sample(TYPES, rng.randrange(1, 4)))
    if rng.random() < 0.25:
        options["window"] = (rng.randrange(12), rng.randrange(8))
    options["retain_ancestors"] = rng.random() < 0.4
    return options


def shown(node: Node) -> Tree:
    result: Tree = json.loads(encode(node))
    return result


@pytest.mark.no_cover  # the projector below runs the same lines
@pytest.mark.parametrize("block", range(4 if WHOLE else 1))
def test_the_oracle_sees_the_same(block: int) -> None:
    for seed in range(block * 1_000, (block + 1) * 1_000):
        rng = random.Random(seed)
        value, options = bushy(rng, rng.choice([1, 5, 20, 60])), any_view(rng)
        tree = from_value(value)
        before = encode(tree)
        assert shown(project(tree, View(**options))) == oracle_view(value, **options), (
            f"seed {seed}: {options}"
        )
        assert encode(tree) == before


@pytest.mark.parametrize("seed", range(200))
def test_a_projector_shows_what_a_fresh_view_shows_and_keeps_its_objects(seed: int) -> None:
    rng = random.Random(seed)
    value, options = bushy(rng, rng.choice([5, 30])), any_view(rng)
    view = View(**options)
    projector = Projector(view)
    tree = from_value(value)
    past = projector.project(tree)
    for _ in range(6):
        assert projector.project(tree) is past
        value = edited(rng, value)
        tree = apply(tree, diff(tree, from_value(value)))
        now = projector.project(tree)
        assert now == project(tree, view), f"seed {seed}: {options}"
        assert_kept(past, now)
        past = now


def assert_kept(past: Node, now: Node) -> None:
    stack = [(past, now)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        assert a != b, f"{b} is shown by a new object, though it says the same"
        stack.extend((before, child) for child in b.children if (before := a.child(child.id)))


def test_a_view_without_restrictions_is_the_tree_itself() -> None:
    tree = from_value(bushy(random.Random(0), 50))
    assert project(tree, View()) is tree
    assert project(tree, View(min_salience=0)) is tree
    assert project(tree, View(depth=100)) is tree
    assert project(tree, View(max_nodes=50)) is tree
    assert project(tree, View(depth=-1)) is tree


def test_pinned_nodes_and_what_is_below_them_are_always_there() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        value = bushy(rng, 60)
        expected: dict[str, Tree] = {}
        for node in every_node(value):
            if (node.get("meta") or {}).get("pinned"):
                expected.update((below["id"], below) for below in every_node(node))
        seen = {node.id: node for node in compact(from_value(value), 1).walk()}
        for node_id, node in expected.items():
            assert shown(seen[node_id]) == node


def test_the_budget_is_met_whenever_the_rules_allow_it() -> None:
    """With nothing pinned, all but the root, its children and one node below each can go."""
    for seed in range(500):
        rng = random.Random(seed)
        value = bushy(rng, 60)
        for node in every_node(value):
            (node.get("meta") or {}).pop("pinned", None)
        tree = from_value(value)
        floor = sum(1 for _ in compact(tree, 1).walk())
        smallest = 1 + sum(1 + len(child.children) for child in tree.children)
        assert floor == smallest
        budget = rng.randrange(smallest, 61)
        assert sum(1 for _ in compact(tree, budget).walk()) <= budget


def test_a_stub_and_a_compacted_node_are_never_blurred() -> None:
    leaf = Node.of("leaf", "item", properties={"n": 1})
    full = Node.of(
        "x", "group", properties={"p": 1}, affordances=[{"action": "go"}], content_ref=REF,
        meta={"salience": 0.1}, children=[leaf, Node.of("other", "item")], version=3,
    )  # fmt: skip
    tree = Node.of("r", "root", children=[Node.of("a", "group", children=[full])])
    stub = project(tree, View(depth=2)).at("/a/x")
    assert shown(stub) == {
        "id": "x", "type": "group", "meta": {"salience": 0.1, "total_children": 2},
    }  # fmt: skip
    compacted = compact(tree, 3).at("/a/x")
    assert shown(compacted) == {
        "id": "x", "type": "group", "properties": {"p": 1}, "affordances": [{"action": "go"}],
        "meta": {"salience": 0.1, "summary": "2 children", "total_children": 2},
    }  # fmt: skip
    hinted = project(tree, View(depth=2, available_actions=True)).at("/a/x")
    assert hinted.meta.available_actions == ("go",)
    assert project(tree, View(depth=3)) is tree


def test_a_consumer_can_always_tell_a_compacted_node_from_a_depth_stub() -> None:
    told = {"stub": 0, "compacted": 0}
    for seed in range(200):
        rng = random.Random(seed)
        tree, depth = from_value(bushy(rng, 60)), rng.randrange(1, 6)
        seen = project(tree, View(depth=depth, max_nodes=rng.randrange(1, 40)))
        stack = [(tree, seen, 0)]
        while stack:
            whole, left, distance = stack.pop()
            stack += [
                (below, child, distance + 1)
                for child in left.children
                if (below := whole.child(child.id)) is not None
            ]
            if whole.children and not left.children:
                says = shown(left).keys() & {"properties", "affordances"}
                shape = "compacted" if says else "stub"
                assert shape == ("stub" if distance == depth else "compacted"), seed
                told[shape] += 1
    assert min(told.values()) > 100


def test_a_leaf_at_the_limit_stays_whole_and_depth_0_stubs_the_root() -> None:
    leaf = Node.of("leaf", "item", properties={"n": 1}, content_ref=REF)
    tree = Node.of("r", "root", properties={"p": 1}, children=[leaf])
    assert project(tree, View(depth=1)).at("/leaf") is leaf
    assert shown(project(tree, View(depth=0))) == {
        "id": "r",
        "type": "root",
        "meta": {"total_children": 1},
    }
    assert project(leaf, View(depth=0)) is leaf


def test_the_declared_total_is_shown_not_the_inline_count() -> None:
    fields: dict[str, Any] = {
        "meta": {"total_children": 142, "window": [25, 2], "summary": "142 products"},
        "children": [Node.of("a", "item"), Node.of("b", "item")],
    }
    listing = Node.of("list", "collection", **fields)
    tree = Node.of("r", "root", children=[Node.of("g", "group", children=[listing])])
    assert shown(project(tree, View(depth=2)).at("/g/list"))["meta"] == {
        "total_children": 142, "window": [25, 2], "summary": "142 products",
    }  # fmt: skip
    assert compact(tree, 3).at("/g/list").meta == listing.meta
    assert shown(window(listing, 26, 5)) == {
        "id": "list", "type": "collection", "children": [{"id": "b", "type": "item"}],
        "meta": {"total_children": 142, "window": [26, 1], "summary": "142 products"},
    }  # fmt: skip
    assert shown(window(listing, 0, 10))["meta"]["window"] == [0, 0]
    lazy = Node.of("lazy", "item", properties={"p": 1}, meta={"total_children": 4}, children=None)
    assert project(lazy, View(depth=0, max_nodes=1)) is lazy


def test_the_root_and_its_children_are_never_dropped_by_a_budget() -> None:
    kids = [Node.of(f"k{i}", "item", meta={"salience": 0}) for i in range(10)]
    tree = Node.of("r", "root", children=kids)
    assert compact(tree, 1) is tree


def test_the_filter_never_drops_the_root_and_drops_whole_subtrees() -> None:
    hot = Node.of("hot", "status", meta={"salience": 1})
    cold = Node.of("cold", "group", meta={"salience": 0.1}, children=[hot])
    plain = Node.of("plain", "group")
    tree = Node.of("r", "root", meta={"salience": 0}, children=[cold, plain])
    assert [node.id for node in project(tree, View(min_salience=0.5)).walk()] == ["r", "plain"]
    assert [node.id for node in project(tree, View(min_salience=0.51)).walk()] == ["r"]
    kept = project(tree, View(min_salience=0.51, retain_ancestors=True))
    assert [node.id for node in kept.walk()] == ["r", "cold", "hot"]
    assert [node.id for node in project(tree, View(types=frozenset({"group"}))).walk()] == [
        "r", "cold", "plain",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": -2}, "depth must be -1 (unlimited) or more, not -2"),
        ({"max_nodes": 0}, "max_nodes must be 1 or more, not 0"),
        ({"min_salience": 1.1}, "min_salience must be from 0 to 1, not 1.1"),
        ({"min_salience": float("nan")}, "min_salience must be from 0 to 1, not nan"),
        ({"window": (-1, 2)}, "a window's offset and count must be 0 or more"),
    ],
)
def test_a_view_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        View(**options)
    assert str(caught.value) == message


def test_equal_views_can_be_shared() -> None:
    assert View(types=frozenset("ab")) == View(types=frozenset("ba"))
    assert hash(View(depth=1)) == hash(View(depth=1))


class Counting(RewriteStage):
    """A stage that counts how many nodes it was asked about."""

    def __init__(self, stage: RewriteStage) -> None:
        self.stage = stage
        self.asked = 0

    def enter(self, node: Node, distance: int) -> Node | object | None:
        self.asked += 1
        return self.stage.enter(node, distance)

    def leave(self, node: Node, distance: int) -> bool:
        return self.stage.leave(node, distance)


def a_stage(view: View) -> RewriteStage:

    if view.depth >= 0:
        return _Truncate(view.depth, view.available_actions)
    return _Filter(view.min_salience, view.types, view.retain_ancestors)


@pytest.mark.parametrize("view", [View(min_salience=0.3), View(depth=2)], ids=["filter", "depth"])
def test_after_one_change_in_a_long_list_only_its_path_is_looked_at(view: View) -> None:
    rng = random.Random(7)
    kids = [
        Node.of(
            f"n{i}",
            "item",
            meta={"salience": rng.random()},
            children=[Node.of("sub", "group", children=[Node.of("leaf", "item")])],
        )
        for i in range(20 * CHUNK)
    ]
    tree = Node.of("r", "root", children=kids)
    stage, memory = Counting(a_stage(view)), RewriteMemory()
    past = rewrite(tree, stage, memory)
    assert stage.asked > len(kids)
    for n in range(3):
        changed = f"n{n * 700}"
        tree = tree.change(
            f"/{changed}",
            lambda node, n=n: node.with_field("meta", {"salience": 1, "n": n}),  # type: ignore[misc]
        )
        stage.asked = 0
        now = rewrite(tree, stage, memory)
        assert stage.asked <= 4, "more was looked at than the way to the change"
        assert now == project(tree, view)
        others = [a is b for a, b in zip(past.children, now.children, strict=False)]
        if view.depth >= 0:
            assert others.count(False) == 1
        past = now


def test_a_long_list_is_filtered_edited_and_filtered_again() -> None:
    rng = random.Random(9)
    kids = [Node.of(f"n{i}", "item", meta={"salience": rng.random()}) for i in range(3000)]
    tree = Node.of("r", "root", children=kids)
    view = View(min_salience=0.5)
    projector = Projector(view)
    for step in range(60):
        assert projector.project(tree) == project(tree, view)
        pick = rng.random()
        victim = tree.children[rng.randrange(len(tree.children))].id
        if pick < 0.3:
            tree = tree.without_child(victim)
        elif pick < 0.6:
            new = Node.of(f"new{step}", "item", meta={"salience": rng.random()})
            tree = tree.with_child(new, rng.randrange(len(tree.children) + 1))
        elif pick < 0.8:
            tree = tree.with_child_moved(victim, rng.randrange(len(tree.children)))
        else:
            level = rng.random()
            tree = tree.change(
                f"/{victim}",
                lambda node, level=level: node.with_field("meta", {"salience": level}),  # type: ignore[misc]
            )
