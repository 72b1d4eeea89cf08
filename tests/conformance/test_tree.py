"""Nodes, paths, views and text: what holds before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sightline.errors import InvalidTree
from sightline.slop.protocol.codec import encode, from_value
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.ids import RESERVED, id_problem, legal_id
from sightline.slop.protocol.patch import apply, ops_from_value
from sightline.slop.protocol.scope import find_action, inherited_context
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View, project
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


@pytest.mark.proves("node.meta-rules", "affordance.rules", "node.values")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"meta": {"salience": 1.1}}, "/meta/salience: must be a number from 0 to 1"),
        ({"meta": {"salience": True}}, "/meta/salience: must be a number from 0 to 1"),
        ({"meta": {"urgency": "huge"}}, "/meta/urgency: must be one of none low medium high"),
        ({"meta": {"window": [0]}}, "/meta/window: must be [offset, count]"),
        ({"meta": {"total_children": -1}}, "/meta/total_children: must be a whole number"),
        ({"affordances": [{"label": "x"}]}, "must have 'action'"),
        ({"affordances": [{"action": "a", "estimate": "soon"}]}, "one of instant fast slow async"),
        ({"affordances": [{"action": "a", "params": []}]}, "must be a JSON Schema, an object"),
        ({"affordances": [{"action": "a"}, {"action": "a"}]}, "unique on its node"),
        ({"properties": {"x": float("nan")}}, "NaN and Infinity are not JSON"),
        ({"properties": {"x": "\ud800"}}, "lone surrogate"),
        ({"properties": {1: 2}}, "keys must be strings"),
        ({"properties": [1]}, "must be an object"),
        ({"content_ref": {"type": "text"}}, "must have 'mime'"),
    ],
)
def test_what_breaks_a_rule_of_a_field_is_said(fields: dict[str, Any], said: str) -> None:
    assert said in rules_of({"id": "r", "type": "root", **fields})


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


@pytest.mark.proves("ops.add", "node.order")
def test_a_child_is_added_at_its_index_or_at_the_end() -> None:
    def added(own: str, **index: int) -> dict[str, Any]:
        return {"op": "add", "path": f"/{own}", "value": item(own), **index}

    ops = [added("x", index=1), added("y"), added("z", index=0)]
    after = apply(root(item("a"), item("b")), ops_from_value(ops))
    assert [child.id for child in after.children] == ["z", "a", "x", "b", "y"]


@pytest.mark.proves("ops.deployed-child")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"properties": {"n": 1}}),
        ({"properties": {}}, {"properties": {"n": 1}}),
        ({}, {"meta": {"focus": True}}),
        ({"type": "item"}, {"type": "view"}),
        ({"affordances": []}, {"affordances": [{"action": "go"}]}),
        ({"properties": {"": 1}}, {"properties": {"": 2}}),
    ],
)
def test_what_old_mirrors_mishandle_comes_as_a_whole_child(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    many = {"children": [item(f"k{n}") for n in range(50)]}
    for more in ({}, many):
        old, new = root(item("a") | before | more), root(item("a") | after | more)
        assert [(op.op, op.path) for op in diff(old, new)] == [("replace", "/a")]


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


@pytest.mark.proves("view.told-apart")
def test_a_node_with_nothing_of_its_own_is_told_from_a_stub_when_it_is_compacted() -> None:
    tree = root(item("a", children=[item("bare", children=[item("x"), item("y")])]))
    [compacted] = seen(tree, max_nodes=3)["children"][0]["children"]
    [stub] = seen(tree, depth=2)["children"][0]["children"]
    assert compacted.keys() == {"id", "type", "properties", "meta"}
    assert stub.keys() == {"id", "type", "meta"}


def nest(own: str, below: int, **meta: Any) -> dict[str, Any]:
    leaves = [item(f"{own}{n}") for n in range(below)]
    return item(own, children=leaves, **({"meta": meta} if meta else {}))


def collapsed(tree: Node, max_nodes: int) -> list[str]:
    """The nodes whose subtrees had to go."""
    shown = project(tree, View(max_nodes=max_nodes))
    return [node.id for node in shown.walk() if node.is_lazy]


@pytest.mark.proves("view.compact-score")
def test_the_lowest_score_is_collapsed_first() -> None:
    # Salience decides over size, size over depth, by the weights of the formula.
    salient = root(item("g", children=[nest("dull", 2, salience=0.49), nest("dear", 9)]))
    assert collapsed(salient, 13) == ["dull"]
    large = root(item("g", children=[nest("small", 2), nest("large", 3)]))
    assert collapsed(large, 8) == ["large"]
    # 0.01 a level against 0.001 a descendant: one level outweighs nine, not eleven.
    deep = item("h", meta={"pinned": False}, children=[nest("deep", 2)])
    close = root(item("g", children=[nest("flat", 11), deep]))
    assert collapsed(close, 17)[0] == "deep"
    far = root(item("g", children=[nest("flat", 14), deep]))
    assert collapsed(far, 20)[0] == "flat"


@pytest.mark.proves("view.compact-ties")
def test_equal_scores_are_collapsed_in_document_order() -> None:
    tree = root(item("g", children=[nest("b", 2), nest("a", 2), nest("c", 2)]))
    assert collapsed(tree, 10) == ["b"]
    assert collapsed(tree, 8) == ["b", "a"]


@pytest.mark.proves("view.compact-once")
def test_what_is_inside_a_collapsed_node_is_counted_once() -> None:
    # `inner` goes first (deepest), then `outer` around it, which frees only what is left there.
    inner = nest("inner", 4, salience=0.1)
    outer = item("outer", meta={"salience": 0.2}, children=[inner, item("o")])
    tree = root(item("g", children=[outer, nest("other", 3, salience=0.3)]))
    # 13 nodes. Without inner's 4: 9; without outer's other 2: 7; other's 3 must go too for 6.
    assert collapsed(tree, 9) == ["inner"]
    assert collapsed(tree, 8) == collapsed(tree, 7) == ["outer"]
    assert collapsed(tree, 6) == ["outer", "other"]


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


@pytest.mark.proves("text.canonical", "text.line", "text.summary", "text.actions")
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


@pytest.mark.proves("text.name", "text.properties", "text.salience", "text.not-loaded")
@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"properties": {"label": "L", "title": "T"}}, "[item] a: L"),
        ({"properties": {"title": "T", "n": 1}}, "[item] a: T (n=1)"),
        ({"properties": {"label": "a"}}, "[item] a"),
        (
            {"properties": {"z": {"k": [1, "é"]}, "b": None, "a": True}},
            '[item] a (z={"k":[1,"é"]}, b=null, a=true)',
        ),
        ({"meta": {"salience": 0.456}}, "[item] a  salience=0.46"),
        ({"meta": {"salience": 0.5}}, "[item] a  salience=0.5"),
        ({"meta": {"salience": 1.0}}, "[item] a  salience=1"),
        ({"meta": {"summary": "so"}}, '[item] a  — "so"'),
        ({"meta": {"total_children": 2}}, "[item] a|  (2 children not loaded)"),
        ({"meta": {"total_children": 1}}, "[item] a|  (1 child not loaded)"),
        ({"meta": {"total_children": 0}}, "[item] a"),
        (
            {"meta": {"total_children": 9, "window": [3, 1]}, "children": [item("x")]},
            "[item] a|  (showing 1 of 9)|  [item] x",
        ),
    ],
)
def test_each_part_of_a_line_has_its_form(fields: dict[str, Any], line: str) -> None:
    assert format_tree(from_value(item("a", **fields))) == line.replace("|", "\n")


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
