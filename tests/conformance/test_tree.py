"""Nodes, paths, views and text: what holds before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sightline.errors import InvalidTree
from sightline.protocol.codec import encode, from_value
from sightline.protocol.diff import diff
from sightline.protocol.ids import RESERVED, id_problem, legal_id
from sightline.protocol.patch import apply, ops_from_value
from sightline.protocol.scope import find_action, inherited_context
from sightline.protocol.text import format_tree
from sightline.protocol.tree import Node
from sightline.protocol.view import View, project
from support.live import TREE


def item(own: str, **fields: Any) -> dict[str, Any]:
    return {"id": own, "type": "item", **fields}


def root(*children: dict[str, Any], **fields: Any) -> Node:
    return from_value({"id": "r", "type": "root", "children": list(children), **fields})


def rules_of(value: dict[str, Any]) -> str:
    with pytest.raises(InvalidTree) as invalid:
        from_value(value)
    return "; ".join(str(violation) for violation in invalid.value.violations)


def seen(tree: Node, **view: Any) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(encode(project(tree, View(**view))))
    return shown


@pytest.mark.proves("node.id-present", "node.id-unique", "node.id-reserved", "node.id-characters")
@pytest.mark.proves("node.id-error")
def test_an_illegal_id_is_named_with_its_rule() -> None:
    for own in ("", *RESERVED, "a/b", "a~b"):
        said = rules_of({"id": "r", "type": "root", "children": [item(own)]})
        assert "id" in said
    assert "'a/b'" in rules_of({"id": "r", "type": "root", "children": [item("a/b")]})
    twins = {"id": "r", "type": "root", "children": [item("x"), item("x")]}
    assert "unique among siblings" in rules_of(twins)
    assert "type" in rules_of({"id": "r"})
    cousins = root(item("a", children=[item("x")]), item("b", children=[item("x")]))
    assert cousins.at("/b/x").id == "x"


@pytest.mark.proves("node.id-foreign")
def test_any_string_can_be_made_an_id() -> None:
    foreign = ["https://a.example/b?c", "src/main.py", "~", "", "type", "x" * 1000, "ключ"]
    ids = [legal_id(text) for text in foreign]
    assert len(set(ids)) == len(foreign)
    assert [id_problem(own) for own in ids] == [None] * len(ids)


@pytest.mark.proves("node.unknown-fields", "node.meta-unknown", "node.type-custom")
def test_what_is_not_known_is_kept_through_patches() -> None:
    value = {
        "id": "r",
        "type": "acme:board",
        "meta": {"mood": "calm", "salience": 0.5},
        "x_colour": {"r": 1},
        "children": [item("a", x_new=[None])],
    }
    tree = from_value(value)
    changed = apply(tree, ops_from_value([{"op": "remove", "path": "/a"}]))
    assert json.loads(encode(changed)) == {**value, "children": []}
    assert json.loads(encode(tree)) == value


@pytest.mark.proves("node.lazy")
def test_lazy_children_are_told_from_none() -> None:
    assert TREE.at("/notes").is_lazy
    assert not TREE.at("/me").is_lazy
    null = from_value({"id": "r", "type": "root", "children": None, "meta": {"total_children": 1}})
    assert null.is_lazy
    assert format_tree(null).endswith("(1 child not loaded)")


@pytest.mark.proves("path.field-wins", "path.pointer", "ops.move", "ops.null")
def test_patch_paths_and_operations_mean_what_they_say() -> None:
    tree = root(item("a", properties={"x/y": 1}), item("b"), item("c"))
    ops = [
        {"op": "replace", "path": "/a/properties/x~1y", "value": None},
        {"op": "move", "path": "/a", "index": 2},
        {"op": "add", "path": "/b/properties", "value": {"properties": 1}},
        {"op": "replace", "path": "/b/properties/properties", "value": 2},
    ]
    after = apply(tree, ops_from_value(ops))
    assert [child.id for child in after.children] == ["b", "c", "a"]
    assert after.at("/a").properties == {"x/y": None}
    assert after.at("/b").properties == {"properties": 2}


@pytest.mark.proves("ops.exact")
def test_a_diff_reproduces_the_new_tree() -> None:
    old = root(item("a", properties={"n": 1}), item("b"), item("c", children=[]))
    new = root(
        item("c"), item("d", meta={"salience": 1}), item("a", properties={"n": None, "m": 0})
    )
    assert encode(apply(old, diff(old, new))) == encode(new)


@pytest.mark.proves("view.filter", "view.filter-default", "view.filter-root", "retain.ancestors")
@pytest.mark.proves("scaling.no-retention")
def test_filters() -> None:
    tree = root(
        item("low", meta={"salience": 0.1}, children=[item("gem", meta={"salience": 1})]),
        item("plain"),
        {"id": "other", "type": "group"},
        meta={"salience": 0},
    )
    kept = seen(tree, min_salience=0.5)["children"]
    assert [child["id"] for child in kept] == ["plain", "other"]
    assert seen(tree, min_salience=0.6)["children"] == []
    typed = seen(tree, types=frozenset({"item"}))["children"]
    assert [child["id"] for child in typed] == ["low", "plain"]
    retained = seen(tree, min_salience=0.6, retain_ancestors=True)["children"]
    assert [(child["id"], len(child["children"])) for child in retained] == [("low", 1)]


@pytest.mark.proves("view.depth", "view.depth-leaf", "view.stub", "hint.actions")
def test_depth() -> None:
    inbox = TREE.at("/inbox")
    assert seen(inbox, depth=0) == {
        "id": "inbox",
        "type": "collection",
        "meta": {"summary": "3 messages", "salience": 0.9, "total_children": 3},
    }
    [first, *_] = seen(inbox, depth=1)["children"]
    assert first == {
        "id": "msg-1",
        "type": "item",
        "meta": {"salience": 1.0, "total_children": 1},
    }
    hinted = seen(inbox, depth=1, available_actions=True)["children"][0]
    assert hinted["meta"]["available_actions"] == ["archive"]
    leaf = seen(TREE, depth=1)["children"][0]
    assert leaf == {"id": "me", "type": "context", "properties": {"user": "ada"}}
    assert project(TREE, View(depth=-1)) is TREE


@pytest.mark.proves("view.compacted", "view.not-blurred", "view.compact-spares")
@pytest.mark.proves("view.over-budget", "scaling.summary")
def test_compaction() -> None:
    [_, inbox, notes] = seen(TREE, max_nodes=4)["children"]
    assert [child["id"] for child in inbox["children"]] == ["msg-1", "msg-2", "msg-3"]
    for child in inbox["children"]:
        assert child.keys() == {"id", "type", "properties", "affordances", "meta"}
        assert child["meta"]["total_children"] == 1
        assert child["meta"]["summary"] == "1 children"
    assert notes["id"] == "notes"
    pinned = root(
        item("a", children=[item("keep", meta={"pinned": True}, children=[item("x")])]),
        item("b", children=[item("y", children=[item("z")])]),
    )
    [a, b] = seen(pinned, max_nodes=1)["children"]
    assert a["children"][0]["children"][0]["id"] == "x"
    assert "children" not in b["children"][0]
    stub = seen(pinned, depth=1)["children"][1]
    assert stub.keys() == {"id", "type", "meta"}


@pytest.mark.proves("view.order")
def test_a_view_is_filtered_then_truncated_then_compacted_then_cut() -> None:
    tree = root(
        item("dim", meta={"salience": 0.1}),
        item("a", children=[item("x", children=[item("deep")])]),
        item("b", children=[item("y", children=[item("deep")]), item("z")]),
    )
    shown = seen(tree, min_salience=0.4, depth=2, max_nodes=5, window=(1, 1))
    # Cut before it was filtered, it would be `a`; and the stub of y counts as one node.
    assert [child["id"] for child in shown["children"]] == ["b"]
    assert shown["meta"] == {"window": [1, 1], "total_children": 2}
    assert [child["id"] for child in seen(tree, depth=2, max_nodes=7)["children"]] == [
        "dim", "a", "b",
    ]  # fmt: skip
    assert "children" in seen(tree, depth=2, max_nodes=7)["children"][1]


@pytest.mark.proves("view.window")
def test_a_window_is_a_slice_that_says_so() -> None:
    shown = seen(TREE.at("/inbox"), window=(1, 5))
    assert [child["id"] for child in shown["children"]] == ["msg-2", "msg-3"]
    assert shown["meta"]["window"] == [1, 2]
    assert shown["meta"]["total_children"] == 3


@pytest.mark.proves("text.canonical")
def test_the_text_of_the_reference_example() -> None:
    search = {"type": "object", "properties": {"query": {"type": "string"}}}
    add = {"type": "object", "properties": {"quantity": {"type": "number"}}}
    duck = {
        "id": "prod-1", "type": "item",
        "properties": {"label": "Rubber Duck", "price": 4.99, "in_stock": True},
        "affordances": [{"action": "add_to_cart", "params": add}, {"action": "view"}],
    }  # fmt: skip
    catalog = {
        "id": "catalog", "type": "collection", "properties": {"label": "Catalog", "count": 142},
        "meta": {"total_children": 142, "window": [0, 25], "summary": "142 products, 12 on sale"},
        "children": [duck],
    }  # fmt: skip
    cart = {
        "id": "cart", "type": "collection", "properties": {"label": "Cart"},
        "meta": {"total_children": 3, "summary": "3 items, $24.97"},
    }  # fmt: skip
    store = {
        "id": "store", "type": "root", "properties": {"label": "Pet Store"},
        "meta": {"salience": 0.9}, "affordances": [{"action": "search", "params": search}],
        "children": [catalog, cart],
    }  # fmt: skip
    assert format_tree(from_value(store)).splitlines() == [
        "[root] store: Pet Store  salience=0.9  actions: {search(query: string)}",
        '  [collection] catalog: Catalog (count=142)  — "142 products, 12 on sale"',
        "    (showing 1 of 142)",
        "    [item] prod-1: Rubber Duck (price=4.99, in_stock=true)"
        "  actions: {add_to_cart(quantity: number), view}",
        '  [collection] cart: Cart  — "3 items, $24.97"',
        "    (3 children not loaded)",
    ]


@pytest.mark.proves("text.param-types")
def test_a_param_of_several_types_or_of_none_says_so() -> None:
    properties = {"a": {"type": ["string", "null"]}, "b": {}, "c": {"enum": [1]}}
    go = {"action": "go", "params": {"type": "object", "properties": properties}}
    text = format_tree(root(affordances=[go]))
    assert text == "[root] r  actions: {go(a: string|null, b: any, c: any)}"


@pytest.mark.proves("text.one-line")
def test_no_text_can_fake_a_line() -> None:
    evil = "x\n[item] fake: Fake\r\u2028\u202e\x1b[2J"
    tree = root(
        item("a", properties={"label": evil, "title": evil, evil: evil}, meta={"summary": evil}),
        item("b", affordances=[{"action": "go\n[item] fake"}]),
    )
    assert len(format_tree(tree).splitlines()) == 3


@pytest.mark.proves("scaling.lookup", "scaling.context")
def test_scope_is_looked_up() -> None:
    found = find_action(TREE, "/inbox/msg-1/body", "count")
    assert found is not None
    assert found.path == "/"
    assert inherited_context(TREE, "/inbox/msg-1") == {"user": "ada"}
