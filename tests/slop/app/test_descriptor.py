"""A descriptor becomes a node, or an error that names the path and the key."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from sightline.errors import InvalidDescriptor, InvalidInput, InvalidTree
from sightline.slop.app.descriptor import describe
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import ContentRef, Meta, Node


def node_of(given: object) -> Node:
    return describe(given, ("list",), "list").node()


def test_every_key_finds_its_place() -> None:
    node = node_of(
        {
            "type": "collection",
            "props": {"due": date(2026, 3, 1), "tags": ["a"], "ratio": 0.5},
            "summary": "two things",
            "meta": {"salience": 0.5, "totalChildren": 9},
            "actions": {"clear": lambda: None},
            "contentRef": {"mime": "text/plain", "summary": "a text"},
            "items": [{"id": 1, "props": {"n": 1}}, {"id": "b", "type": "document"}],
        }
    )
    assert node == from_value(
        {
            "id": "list",
            "type": "collection",
            "properties": {"due": "2026-03-01", "tags": ["a"], "ratio": 0.5},
            "meta": {"salience": 0.5, "total_children": 9, "summary": "two things"},
            "affordances": [{"action": "clear"}],
            "content_ref": {
                "type": "text", "uri": "slop://content/list", "mime": "text/plain",
                "summary": "a text",
            },
            "children": [
                {"id": "1", "type": "item", "properties": {"n": 1}},
                {"id": "b", "type": "document"},
            ],
        }
    )  # fmt: skip


def test_a_window_says_where_it_stands_and_how_many_there_are() -> None:
    node = node_of({"window": {"items": [{"id": "a"}, {"id": "b"}], "total": 500, "offset": 25}})
    assert node.meta.window == (25, 2)
    assert node.meta.total_children == 500
    assert len(node.children) == 2


def test_children_that_are_none_are_lazy() -> None:
    node = node_of({"children": None, "meta": {"total_children": 3}})
    assert node.is_lazy


def test_children_may_be_a_mapping_of_ids_beside_a_list_of_items() -> None:
    named = {"b": {"type": "group", "children": {"c": {}}}, "d": Node.of("d", "status")}
    node = node_of({"items": [{"id": "a"}], "children": named})
    assert [(one.id, one.type) for one in node.walk()][1:] == [
        ("a", "item"), ("b", "group"), ("c", "item"), ("d", "status"),
    ]  # fmt: skip
    assert node_of({"children": named}).children == node.children[1:]
    assert node_of({"children": {}}).children == ()


def test_typed_meta_and_content_refs_are_taken() -> None:
    ref = ContentRef("binary", "image/png", "https://x.example/a.png", "a picture")
    node = node_of({"meta": Meta(pinned=True), "content_ref": ref})
    assert node.meta.pinned
    assert node.content_ref == ref


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "/list: must be a dict or a Node, not a list"),
        ({"propz": {}}, "/list: 'propz' is not one of"),
        ({"props": {}, "properties": {}}, "/list: 'properties' is given twice"),
        ({"props": []}, "/list: 'props' must be an object"),
        ({"props": {"a": {"b": math.nan}}}, "/list: 'props.a.b' must not be NaN"),
        ({"props": {"a": object()}}, "/list: 'props.a' is a object, which is not JSON"),
        ({"props": {"a": {1: 2}}}, "/list: 'props.a' must have strings as keys"),
        ({"summary": 1}, "/list: 'summary' must be a string"),
        ({"meta": 1}, "/list: 'meta' must be an object"),
        ({"meta": {"salience": 2}}, "/list/meta/salience: must be a number from 0 to 1"),
        ({"items": "abc"}, "/list: 'items' must be a list"),
        ({"items": [{}]}, r"/list items\[0\]: 'id' must be given"),
        ({"items": [{"id": "a", "x": 1}]}, "/list/a: 'x' is not one of"),
        ({"items": [], "window": {"items": []}}, "/list: 'window' stands instead of 'items'"),
        ({"items": [], "children": []}, "/list: 'children' is given twice, as 'items' too"),
        ({"children": {"a": 1}}, r"/list children\['a'\]: must be a dict or a Node, not a int"),
        ({"children": {"a": {"id": "b"}}}, r"/list children\['a'\]: 'id' is 'b', and its key"),
        ({"window": []}, "/list: 'window' must be a mapping"),
        ({"window": {"items": [], "of": 1}}, "/list: 'window.of' is not one of"),
        ({"actions": []}, "/list: 'actions' must map"),
        ({"actions": {"go": 1}}, "/list: 'actions.go' must be a function"),
        ({"actions": {"go": {"handler": 1}}}, "/list: 'actions.go' must have a handler"),
        (
            {"actions": {"go": {"handler": print, "colour": 1}}},
            "/list: 'actions.go.colour' is not one of",
        ),
        ({"content_ref": 1}, "/list: 'content_ref' must be an object"),
    ],
)
def test_what_is_wrong_is_said_with_path_and_key(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        node_of(given)


def test_a_broken_rule_of_trees_is_said_with_its_path() -> None:
    with pytest.raises(InvalidTree, match="/list/children/0/id: an id must not be the reserved"):
        node_of({"items": [{"id": "type"}]})


def test_a_text_that_cannot_be_written_is_said_with_its_path() -> None:
    with pytest.raises(InvalidTree, match="/list/properties/a: a string must not contain a lone"):
        node_of({"props": {"a": "\ud800"}})


def test_a_node_that_no_mirror_would_take_is_refused_where_it_is_made() -> None:
    long = {f"text-{n}": "x" * 200_000 for n in range(6)}
    large = {"items": [{"id": "page", "props": long}]}
    with pytest.raises(InvalidTree, match=r"page has more than 1048576 bytes .* content_ref"):
        node_of(large)
    many = {"items": [{"id": f"page-{n}", "props": {"text": "x" * 200_000}} for n in range(6)]}
    assert len(node_of(many).children) == 6, "together they may be larger"


def test_nesting_has_a_bound() -> None:
    given: dict[str, Any] = {"id": "x"}
    for _ in range(70):
        given = {"id": "x", "items": [given]}
    with pytest.raises(InvalidDescriptor, match="levels"):
        node_of(given)


def test_the_same_words_have_the_same_digest() -> None:
    one = describe({"props": {"n": 1}}, ("a",), "a")
    assert one.digest == describe({"properties": {"n": 1}}, ("a",), "a").digest
    assert one.digest != describe({"props": {"n": 2}}, ("a",), "a").digest
