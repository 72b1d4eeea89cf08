"""Nodes: values that share what did not change, and cannot be changed behind anyone's back."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import UNSET

from sightline.errors import InvalidPath, InvalidTree
from sightline.slop.protocol.codec import decode, encode, from_value
from sightline.slop.protocol.siblings import WIDE, Siblings
from sightline.slop.protocol.tree import Affordance, ContentRef, Meta, Node
from support.trees import tree

REF = {"type": "text", "mime": "text/plain", "uri": "slop://content/a", "summary": "s"}


def item(node_id: str, **fields: Any) -> Node:
    return Node.of(node_id, "item", **fields)


def mail() -> Node:
    """Two folders with two messages each."""
    return Node.of(
        "mail",
        "root",
        children=[
            Node.of(folder, "collection", children=[item("m1", properties={"n": 1}), item("m2")])
            for folder in ("inbox", "sent")
        ],
    )


def long_list(width: int = 1000) -> Node:
    return Node.of("list", "collection", children=[item(f"n{i}") for i in range(width)])


def test_a_node_gives_back_what_it_was_made_of() -> None:
    node = Node.of(
        "msg",
        "item",
        properties={"label": "Hi", "n": None},
        meta={"salience": 0.5, "window": [0, 2], "x-own": 1},
        affordances=[{"action": "open", "params": {"type": "object"}}],
        content_ref=REF,
        children=[item("a")],
        version=7,
    )
    assert (node.id, node.type) == ("msg", "item")
    assert node.properties == {"label": "Hi", "n": None}
    assert node.meta == Meta(salience=0.5, window=(0, 2))
    assert node.affordances == (Affordance("open", params={"type": "object"}),)
    assert node.content_ref == ContentRef("text", "text/plain", "slop://content/a", "s")
    assert node.unknown == {"version": 7}
    assert node.children == (item("a"),)
    assert decode(encode(node)) == node


def test_typed_parts_can_be_given_instead_of_plain_ones() -> None:
    typed = Node.of(
        "a",
        "b",
        meta=Meta(summary="s", window=(0, 1)),
        affordances=[Affordance("open", dangerous=True), {"action": "close"}],
        content_ref=ContentRef(**REF),  # type: ignore[arg-type]
    )
    plain = Node.of(
        "a",
        "b",
        meta={"summary": "s", "window": [0, 1]},
        affordances=[{"action": "open", "dangerous": True}, {"action": "close"}],
        content_ref=REF,
    )
    assert typed == plain
    assert typed.with_field("meta", Meta(salience=1)) == plain.with_field("meta", {"salience": 1})


def test_absent_and_null_read_alike_and_are_different_things() -> None:
    absent = Node("a", "b")
    null = Node.of(
        "a", "b", properties=None, meta=None, affordances=None, content_ref=None, children=None
    )
    for node in (absent, null):
        assert node.properties == {}
        assert node.meta == Meta()
        assert node.affordances == ()
        assert node.content_ref is None
        assert node.children == ()
        assert node.unknown == {}
    assert absent != null
    assert Node.of("a", "b", children=[]) != Node.of("a", "b", children=None) != absent
    assert Node.of("a", "b", children=[]) != absent


def test_a_node_is_made_from_mappings_of_any_kind() -> None:
    node = Node.of("a", "b", properties=MappingProxyType({"x": MappingProxyType({"y": 1})}))
    assert node.properties == {"x": {"y": 1}}


def test_the_short_word_for_properties_is_taken_and_other_words_of_descriptors_are_not() -> None:
    assert Node.of("a", "item", props={"n": 1}) == Node.of("a", "item", properties={"n": 1})
    with pytest.raises(InvalidTree, match="/props: is given twice"):
        Node.of("a", "item", props={}, properties={})
    for word in ("items", "window", "summary", "actions", "contentRef"):
        with pytest.raises(InvalidTree, match=f"/{word}: is a descriptor's word: a Node has"):
            Node.of("a", "item", **{word: None})
    assert Node.of("a", "item", colour="red").unknown == {"colour": "red"}


def test_an_illegal_node_is_refused_with_every_rule() -> None:
    with pytest.raises(InvalidTree) as caught:
        Node.of("a/b", "", properties={"x": {1}}, meta={"salience": 7})
    assert [violation.path for violation in caught.value.violations] == [
        "/id",
        "/type",
        "/properties/x",
        "/meta/salience",
    ]
    with pytest.raises(InvalidTree, match="/a: ids must be unique among siblings"):
        Node.of("r", "root", children=[item("a"), item("a")])


def test_equality_is_by_content() -> None:
    for seed in range(200):
        value = tree(random.Random(seed))
        assert from_value(value) == from_value(value)
    base = mail()
    assert base == mail()
    assert base != base.with_field("type", "view")
    assert base != "mail"
    assert base.with_field("meta", {"a": 1, "b": 2}) != base.with_field("meta", {"b": 2, "a": 1})
    assert base != base.without_child("sent")
    assert Node.of("a", "b", x=1) != Node.of("a", "b", x=1.0)
    assert Node.of("a", "b", x=1) != Node.of("a", "b")
    with pytest.raises(TypeError, match="unhashable"):
        hash(base)


def test_the_number_of_children_is_the_declared_one() -> None:
    assert mail().total_children == 2
    assert Node.of("a", "b", meta={"total_children": 9}, children=[item("c")]).total_children == 9
    lazy = Node.of("a", "b", meta={"total_children": 9}, children=None)
    assert lazy.is_lazy
    assert lazy.total_children == 9
    assert not Node.of("a", "b").is_lazy
    assert not Node.of("a", "b", meta={"total_children": 0}).is_lazy
    assert not mail().is_lazy


def test_a_node_is_found_by_its_path() -> None:
    root = mail()
    assert root.at("/") is root
    assert root.at("/inbox/m2") is root.children[0].children[1]
    assert root.child("sent") is root.children[1]
    assert root.child("nobody") is None
    with pytest.raises(InvalidPath, match="/inbox/m9/x: /inbox has no child 'm9'"):
        root.at("/inbox/m9/x")


def test_a_walk_is_in_document_order() -> None:
    assert [node.id for node in mail().walk()] == [
        "mail", "inbox", "m1", "m2", "sent", "m1", "m2",
    ]  # fmt: skip


def test_a_change_shares_everything_beside_its_path() -> None:
    root = mail()
    changed = root.change("/inbox/m1", lambda node: node.with_property("unread", value=False))
    assert changed.at("/inbox/m1").properties == {"n": 1, "unread": False}
    assert changed.at("/inbox/m2") is root.at("/inbox/m2")
    assert changed.at("/sent") is root.at("/sent")
    assert root == mail()
    assert root.change("/", lambda node: node.with_field("type", "view")).type == "view"


def test_a_change_in_a_long_list_shares_all_other_chunks() -> None:
    root = long_list(5000)
    before = root.change("/n17", lambda node: node.with_property("a", 1))
    after = before.change("/n4000", lambda node: node.with_property("a", 1))
    assert isinstance(before.child_list, Siblings)
    assert isinstance(after.child_list, Siblings)
    pairs = zip(before.child_list.chunks, after.child_list.chunks, strict=True)
    assert sum(a is not b for a, b in pairs) == 1
    assert [node.id for node in after.children] == [f"n{i}" for i in range(5000)]


def test_a_change_must_keep_the_id_of_what_it_changes() -> None:
    for root in (mail(), long_list()):
        first = root.children[0].id
        with pytest.raises(InvalidTree, match=f"/{first}: a change must keep the node's id"):
            root.change(f"/{first}", lambda _: item("other"))
    assert mail().change("/", lambda _: item("other")).id == "other"


def test_a_change_of_nothing_that_is_there_is_refused() -> None:
    with pytest.raises(InvalidPath, match="/nobody: / has no child 'nobody'"):
        mail().change("/nobody", lambda node: node)


@pytest.mark.parametrize("width", [3, WIDE, WIDE + 1, 2000], ids=lambda width: f"{width} wide")
def test_children_are_added_removed_moved_and_replaced(width: int) -> None:
    root = long_list(width)
    ids = [f"n{i}" for i in range(width)]

    def ids_of(node: Node) -> list[str]:
        return [child.id for child in node.children]

    assert ids_of(root.with_child(item("new"))) == [*ids, "new"]
    assert ids_of(root.with_child(item("new"), 0)) == ["new", *ids]
    assert ids_of(root.with_child(item("new"), 2)) == [*ids[:2], "new", *ids[2:]]
    assert ids_of(root.with_child(item("new"), width)) == [*ids, "new"]
    assert ids_of(root.without_child("n1")) == [ids[0], *ids[2:]]
    assert ids_of(root.with_child_moved("n0", width - 1)) == [*ids[1:], "n0"]
    assert ids_of(root.with_child_moved(ids[-1], 0)) == [ids[-1], *ids[:-1]]
    assert ids_of(root.with_child_moved("n1", 1)) == ids
    put = item("n1", properties={"x": 1})
    replaced = root.with_child_replaced(put)
    assert replaced.child("n1") is put
    assert replaced.child("n2") is root.child("n2")
    assert ids_of(replaced) == ids
    assert ids_of(root) == ids


@pytest.mark.parametrize("width", [3, 2000])
def test_edits_of_children_that_cannot_be_are_refused(width: int) -> None:
    root = long_list(width)
    with pytest.raises(InvalidTree, match="/n1: ids must be unique among siblings"):
        root.with_child(item("n1"))
    with pytest.raises(InvalidPath, match=f"/new: index {width + 1} is not from 0 to {width}"):
        root.with_child(item("new"), width + 1)
    with pytest.raises(InvalidPath, match="/new: index -1 is not"):
        root.with_child(item("new"), -1)
    with pytest.raises(InvalidPath, match=f"/n1: index {width} is not from 0 to {width - 1}"):
        root.with_child_moved("n1", width)
    with pytest.raises(InvalidPath, match="/x: there is no child 'x'"):
        root.without_child("x")
    with pytest.raises(InvalidPath, match="/x: there is no child 'x'"):
        root.with_child_moved("x", 0)
    with pytest.raises(InvalidPath, match="/x: there is no child 'x'"):
        root.with_child_replaced(item("x"))


def test_the_child_list_can_be_set_emptied_and_declared_lazy() -> None:
    root = mail()
    assert root.with_children([item("a")]).children == (item("a"),)
    assert encode(root.with_children([])) == b'{"id":"mail","type":"root","children":[]}'
    assert encode(root.with_children(None)) == b'{"id":"mail","type":"root","children":null}'
    assert encode(root.with_child_list(UNSET)) == b'{"id":"mail","type":"root"}'
    assert Node("a", "b").with_child(item("c")).children == (item("c"),)
    assert Node.of("a", "b", children=None).with_child(item("c")).children == (item("c"),)


def test_properties_keep_their_place() -> None:
    node = item("a", properties={"x": 1, "y": 2})
    assert list(node.with_property("x", 9).properties.items()) == [("x", 9), ("y", 2)]
    assert list(node.with_property("z", 9).properties) == ["x", "y", "z"]
    assert node.without_property("x").properties == {"y": 2}
    assert item("a").with_property("", None).properties == {"": None}
    assert item("a", properties=None).with_property("x", [1]).properties == {"x": [1]}
    with pytest.raises(InvalidPath, match="/properties/z: there is no such property"):
        node.without_property("z")
    with pytest.raises(InvalidTree, match="/properties/x: NaN and Infinity are not JSON"):
        node.with_property("x", float("nan"))


def test_a_field_is_set_checked_and_removed() -> None:
    node = item("a", properties={"x": 1})
    assert node.with_field("properties", {"y": 2}).properties == {"y": 2}
    assert node.with_field("properties", UNSET) == item("a")
    assert node.with_field("properties", None) == item("a", properties=None)
    assert node.with_field("affordances", [Affordance("go")]).affordances[0].action == "go"
    assert node.with_field("content_ref", REF).content_ref is not None
    assert node.with_field("type", "view").type == "view"
    with pytest.raises(InvalidTree, match="/meta/salience: must be a number from 0 to 1"):
        node.with_field("meta", {"salience": 2})
    with pytest.raises(InvalidTree, match="/type: must be a name"):
        node.with_field("type", "")
    for name in ("id", "children", "x"):
        with pytest.raises(ValueError, match="is not a field that can be set"):
            node.with_field(name, "y")


def test_nothing_that_is_handed_out_can_change_the_tree() -> None:
    node = item("a", properties={"x": [1]}, affordances=[{"action": "go", "params": {"a": 1}}])
    for name in ("id", "type", "child_list", "properties_json"):
        with pytest.raises(AttributeError):
            setattr(node, name, "x")
    with pytest.raises(AttributeError):
        node.meta.summary = "x"  # type: ignore[misc]
    node.properties["x"].append(2)
    params = node.affordances[0].params
    assert params is not None
    params["b"] = 2
    assert node.properties == {"x": [1]}
    assert node.affordances == (Affordance("go", params={"a": 1}),)


def test_nothing_that_was_handed_in_can_change_the_tree() -> None:
    properties: dict[str, Any] = {"x": [1]}
    children = [item("c")]
    node = item("a", properties=properties, children=children)
    properties["x"].append(2)
    children.append(item("d"))
    assert node.properties == {"x": [1]}
    assert node.children == (item("c"),)


def test_a_search_in_a_long_list_changes_nothing_that_anyone_can_see() -> None:
    root = long_list()
    before = encode(root)
    assert root.child("n999") is root.children[999]
    assert encode(root) == before
    assert root == long_list()


def test_a_node_shows_what_it_is_not_what_it_holds() -> None:
    assert repr(mail()) == "Node(root 'mail', 2 children)"


def test_threads_that_ask_at_once_get_the_same_runs() -> None:
    """What one of them finds out about a run is there for the others."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for width in (3, 300):
            for _ in range(10):
                node = Node.of("r", "root", children=[Node.of(f"n{i}", "x") for i in range(width)])
                with ThreadPoolExecutor(4) as pool:
                    found = list(pool.map(lambda node: node.runs(), [node] * 8))
                assert all(
                    run is own for runs in found for run, own in zip(runs, node.runs(), strict=True)
                )
    finally:
        sys.setswitchinterval(interval)
