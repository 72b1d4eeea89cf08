"""Every rule of a tree: what breaks it, where, and in which words."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from sightline.errors import InvalidTree, Violation
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.limits import WIRE, Limits
from sightline.slop.protocol.rules import field_violations, violations


def broken(value: object, limits: Limits | None = None) -> list[tuple[str, str]]:
    found = violations(value) if limits is None else violations(value, limits)
    return [(violation.path, violation.rule) for violation in found]


def node(**fields: Any) -> dict[str, Any]:
    return {"id": "root", "type": "root", **fields}


def child(**fields: Any) -> dict[str, Any]:
    """A tree whose only child has these fields."""
    return node(children=[{"id": "kid", "type": "item", **fields}])


REF = {"type": "text", "mime": "text/plain", "uri": "slop://content/a", "summary": "s"}
COUNT = "must be a whole number, 0 or more"
WINDOW = "must be [offset, count], two whole numbers, 0 or more"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"properties": {}, "meta": {}, "affordances": [], "children": []},
        dict.fromkeys(["properties", "meta", "affordances", "content_ref", "children"]),
        {"meta": dict.fromkeys(["summary", "salience", "pinned", "window", "urgency"])},
        {"meta": {"salience": 0, "window": [0, 0], "total_children": 10**30}},
        {"meta": {"salience": 1.0, "urgency": "critical", "x-own": [1, {"a": None}]}},
        {"meta": {"available_actions": ["open", "close"]}},
        {"affordances": [{"action": "a", "params": {}, "returns": {}, "estimate": "async"}]},
        {"affordances": [{"action": "a", "x-own": 1}, {"action": "b", "label": None}]},
        {"content_ref": {**REF, "size": 0, "preview": "p", "encoding": "utf-8", "hash": "h"}},
        {"properties": {"": 1, "/": 2, "~": 3, "id": 4, "n": Decimal("1e999")}},
        {"x-unknown": [{"deep": [1]}], "": 0},
        {"properties": {"tuple": (1, 2)}},
    ],
)
def test_a_legal_tree_breaks_no_rule(fields: dict[str, Any]) -> None:
    assert broken(child(**fields)) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), ([], "a list"), ("x", "a string"), (1, "a number"), (True, "a boolean")],
)
def test_a_node_must_be_an_object(value: object, kind: str) -> None:
    assert broken(value) == [("/", f"a node must be an object, not {kind}")]
    assert broken(node(children=[value])) == [
        ("/children/0", f"a node must be an object, not {kind}")
    ]


@pytest.mark.parametrize(
    ("fields", "path", "rule"),
    [
        ({"type": ""}, "/kid/type", "must be a name, not empty"),
        ({"type": 3}, "/kid/type", "must be a name, not a number"),
        ({"type": None}, "/kid/type", "must be a name, not null"),
        ({"properties": []}, "/kid/properties", "must be an object, not a list"),
        ({"properties": "x"}, "/kid/properties", "must be an object, not a string"),
        ({"meta": []}, "/kid/meta", "must be an object, not a list"),
        ({"meta": {"summary": 1}}, "/kid/meta/summary", "must be a string"),
        ({"meta": {"salience": 1.01}}, "/kid/meta/salience", "must be a number from 0 to 1"),
        ({"meta": {"salience": -0.1}}, "/kid/meta/salience", "must be a number from 0 to 1"),
        ({"meta": {"salience": True}}, "/kid/meta/salience", "must be a number from 0 to 1"),
        ({"meta": {"salience": "1"}}, "/kid/meta/salience", "must be a number from 0 to 1"),
        ({"meta": {"pinned": 1}}, "/kid/meta/pinned", "must be true or false"),
        ({"meta": {"changed": "yes"}}, "/kid/meta/changed", "must be true or false"),
        ({"meta": {"focus": 0}}, "/kid/meta/focus", "must be true or false"),
        (
            {"meta": {"urgency": "huge"}},
            "/kid/meta/urgency",
            "must be one of none low medium high critical",
        ),
        (
            {"meta": {"urgency": []}},
            "/kid/meta/urgency",
            "must be one of none low medium high critical",
        ),
        ({"meta": {"reason": {}}}, "/kid/meta/reason", "must be a string"),
        ({"meta": {"total_children": -1}}, "/kid/meta/total_children", COUNT),
        ({"meta": {"total_children": 1.5}}, "/kid/meta/total_children", COUNT),
        ({"meta": {"total_children": 3.0}}, "/kid/meta/total_children", COUNT),
        ({"meta": {"total_children": True}}, "/kid/meta/total_children", COUNT),
        ({"meta": {"window": [0]}}, "/kid/meta/window", WINDOW),
        ({"meta": {"window": [0, -1]}}, "/kid/meta/window", WINDOW),
        ({"meta": {"window": {"a": 1}}}, "/kid/meta/window", WINDOW),
        ({"meta": {"created": 1}}, "/kid/meta/created", "must be a string"),
        ({"meta": {"updated": 1}}, "/kid/meta/updated", "must be a string"),
        (
            {"meta": {"available_actions": "open"}},
            "/kid/meta/available_actions",
            "must be a list of strings",
        ),
        (
            {"meta": {"available_actions": [1]}},
            "/kid/meta/available_actions",
            "must be a list of strings",
        ),
        ({"affordances": {}}, "/kid/affordances", "must be a list, not an object"),
        ({"affordances": ["open"]}, "/kid/affordances/0", "must be an object, not a string"),
        ({"affordances": [{}]}, "/kid/affordances/0", "must have 'action'"),
        ({"affordances": [{"action": ""}]}, "/kid/affordances/0/action", "must be a name"),
        ({"affordances": [{"action": 1}]}, "/kid/affordances/0/action", "must be a name"),
        (
            {"affordances": [{"action": "a"}, {"action": "b"}, {"action": "a"}]},
            "/kid/affordances/2/action",
            "an action must be unique on its node: 'a'",
        ),
        (
            {"affordances": [{"action": "a", "params": []}]},
            "/kid/affordances/0/params",
            "must be a JSON Schema, an object",
        ),
        (
            {"affordances": [{"action": "a", "returns": 1}]},
            "/kid/affordances/0/returns",
            "must be a JSON Schema, an object",
        ),
        (
            {"affordances": [{"action": "a", "label": 1}]},
            "/kid/affordances/0/label",
            "must be a string",
        ),
        (
            {"affordances": [{"action": "a", "description": 1}]},
            "/kid/affordances/0/description",
            "must be a string",
        ),
        (
            {"affordances": [{"action": "a", "dangerous": "no"}]},
            "/kid/affordances/0/dangerous",
            "must be true or false",
        ),
        (
            {"affordances": [{"action": "a", "idempotent": 1}]},
            "/kid/affordances/0/idempotent",
            "must be true or false",
        ),
        (
            {"affordances": [{"action": "a", "estimate": "soon"}]},
            "/kid/affordances/0/estimate",
            "must be one of instant fast slow async",
        ),
        ({"content_ref": "x"}, "/kid/content_ref", "must be an object, not a string"),
        (
            {"content_ref": {**REF, "type": "image"}},
            "/kid/content_ref/type",
            "must be one of text binary stream",
        ),
        ({"content_ref": {**REF, "size": -1}}, "/kid/content_ref/size", COUNT),
        ({"content_ref": {**REF, "size": 1.0}}, "/kid/content_ref/size", COUNT),
        ({"content_ref": {**REF, "hash": 1}}, "/kid/content_ref/hash", "must be a string"),
        ({"children": {}}, "/kid/children", "must be a list or null, not an object"),
        ({"children": "x"}, "/kid/children", "must be a list or null, not a string"),
        ({1: "x"}, "/kid", "an object's keys must be strings, not a number"),
        ({"\ud800": 1}, "/kid", "a string must not contain a lone surrogate"),
    ],
)
def test_a_wrong_field_is_named_with_its_rule(fields: dict[str, Any], path: str, rule: str) -> None:
    assert broken(node(children=[{"id": "kid", "type": "item"} | fields])) == [(path, rule)]


def test_a_content_reference_must_have_its_four_members() -> None:
    assert broken(child(content_ref={})) == [
        ("/kid/content_ref", f"must have '{name}'") for name in ("type", "mime", "uri", "summary")
    ]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (math.nan, "NaN and Infinity are not JSON"),
        (math.inf, "NaN and Infinity are not JSON"),
        (-math.inf, "NaN and Infinity are not JSON"),
        (Decimal("NaN"), "NaN and Infinity are not JSON"),
        (Decimal("Infinity"), "NaN and Infinity are not JSON"),
        ("a\ud800b", "a string must not contain a lone surrogate"),
        (b"bytes", "a bytes is not a JSON value"),
        ({1, 2}, "a set is not a JSON value"),
        (object, "a type is not a JSON value"),
        (10**4300, "a whole number must not have more than 4300 digits"),
        ("x" * 262_145, "a string must not be longer than 262144 bytes (it has 262145)"),
        ("é" * 131_073, "a string must not be longer than 262144 bytes (it has 262146)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("name", ["properties", "x-unknown"])
def test_what_is_not_json_is_named_where_it_stands(name: str, value: object, rule: str) -> None:
    tree = child(**{name: {"a": [0, {"b/c~": value}]}})
    assert broken(tree) == [(f"/kid/{name}/a/1/b~1c~0", rule)]


@pytest.mark.parametrize("name", ["properties", "meta", "affordances", "content_ref"])
def test_a_value_that_is_not_json_is_found_in_every_field(name: str) -> None:
    fields: dict[str, Any] = {
        "properties": {"x": math.nan},
        "meta": {"x": math.nan},
        "affordances": [{"action": "a", "x": math.nan}],
        "content_ref": {**REF, "x": math.nan},
    }
    where = f"/kid/{name}/0/x" if name == "affordances" else f"/kid/{name}/x"
    assert broken(child(**{name: fields[name]})) == [(where, "NaN and Infinity are not JSON")]


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        (1, "an object's keys must be strings, not a number"),
        (None, "an object's keys must be strings, not null"),
        ("\udfff", "a string must not contain a lone surrogate"),
    ],
)
def test_a_key_must_be_a_string_that_can_be_written(key: object, rule: str) -> None:
    assert broken(child(properties={"a": {key: 1}})) == [("/kid/properties/a", rule)]
    assert broken(child(meta={key: 1})) == [("/kid/meta", rule)]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_nests_to_its_limit_and_no_deeper() -> None:
    assert broken(child(properties={"a": nested(63)})) == []
    assert broken(child(meta={"a": nested(63)})) == []
    assert broken(child(affordances=[{"action": "a", "x": nested(62)}])) == []
    rule = "a value must not nest deeper than 64 levels"
    assert broken(child(properties={"a": nested(64)})) == [("/kid/properties/a" + "/0" * 63, rule)]
    assert broken(child(meta={"a": nested(64)})) == [("/kid/meta/a" + "/0" * 63, rule)]
    assert broken(child(affordances=[{"action": "a", "x": nested(63)}])) == [
        ("/kid/affordances/0/x" + "/0" * 62, rule)
    ]
    assert broken(child(x=nested(100_000))) == [("/kid/x" + "/0" * 64, rule)]


@pytest.mark.parametrize(
    ("node_id", "rule"),
    [
        ("", "an id must not be empty"),
        ("meta", "an id must not be the reserved field name 'meta'"),
        ("a/b", "an id must not contain '/' or '~': 'a/b'"),
        ("~", "an id must not contain '/' or '~': '~'"),
        (5, "an id must be a string"),
        (None, "an id must be a string"),
        ("\ud800", "an id must not contain a lone surrogate: '\\ud800'"),
        ("x" * 257, "an id must not be longer than 256 bytes (this one has 257)"),
    ],
)
def test_an_illegal_id_is_found_by_its_position(node_id: object, rule: str) -> None:
    tree = node(children=[{"id": "a", "type": "t"}, {"id": node_id, "type": "t", "meta": 1}])
    assert broken(tree) == [
        ("/children/1/id", rule),
        ("/children/1/meta", "must be an object, not a number"),
    ]
    assert broken({"id": node_id, "type": "t"}) == [("/id", rule)]


def test_a_node_must_have_an_id_and_a_type() -> None:
    assert broken({}) == [("/", "a node must have an id"), ("/", "a node must have a type")]
    assert broken(node(children=[{"type": "t"}])) == [("/children/0", "a node must have an id")]


def test_siblings_must_not_share_an_id_but_cousins_may() -> None:
    twins = [{"id": "a", "type": "t"}, {"id": "b", "type": "t"}, {"id": "a", "type": "t"}]
    assert broken(node(children=twins)) == [
        ("/children/2/id", "ids must be unique among siblings: 'a' is also child 0")
    ]
    cousins = [{"id": i, "type": "t", "children": [{"id": "a", "type": "t"}]} for i in "ab"]
    assert broken(node(children=cousins)) == []


def test_every_violation_is_reported_in_document_order() -> None:
    tree = {
        "id": "root",
        "type": 7,
        "meta": {"x": math.nan, "window": 1, "salience": 2, "y": b""},
        "children": [
            {"id": "a", "type": "t", "properties": {"p": [math.inf, {"q": "\ud800"}]}},
            {"id": "a", "type": ""},
            {
                "type": "t",
                "affordances": [{"action": "x", "label": 1}, 2, {"action": "x"}],
                "children": [{"id": "type", "type": "t"}],
            },
        ],
    }
    assert [path for path, _ in broken(tree)] == [
        "/type",
        "/meta/x",
        "/meta/window",
        "/meta/salience",
        "/meta/y",
        "/children/1/id",
        "/a/properties/p/0",
        "/a/properties/p/1/q",
        "/a/type",
        "/children/2",
        "/children/2/affordances/0/label",
        "/children/2/affordances/1",
        "/children/2/affordances/2/action",
        "/children/2/children/0/id",
    ]
    with pytest.raises(InvalidTree) as caught:
        from_value(tree)
    assert list(caught.value.violations) == violations(tree)
    assert str(caught.value) == "/type: must be a name, not a number (and 13 more)"


def test_a_tree_may_have_so_many_levels() -> None:
    tree = {"id": "d", "type": "t"}
    for _ in range(64):
        tree = {"id": "d", "type": "t", "children": [tree]}  # type: ignore[dict-item]
    path = "/d" * 64
    assert broken(tree) == []
    assert broken(tree, WIRE) == [(path, "a tree must not have more than 64 levels")]
    assert broken(tree, Limits(levels=65)) == []


def test_a_tree_may_have_so_many_nodes_and_reading_stops_there() -> None:
    kids = [{"id": f"n{i}", "type": "t"} for i in range(9)]
    assert broken(node(children=kids), Limits(nodes=10)) == []
    worse = [*kids, {"id": "n9", "type": "t"}, {"id": "n10", "type": 7}]
    assert broken(node(children=worse), Limits(nodes=10)) == [
        ("/n9", "a tree must not have more than 10 nodes")
    ]


def test_every_limit_is_settable() -> None:
    tree = child(properties={"a": ["four"]})
    assert broken(tree, Limits(string_bytes=4, value_levels=2, id_bytes=4)) == []
    assert broken(tree, Limits(string_bytes=3)) == [
        ("/type", "a string must not be longer than 3 bytes (it has 4)"),
        ("/kid/type", "a string must not be longer than 3 bytes (it has 4)"),
        ("/kid/properties/a/0", "a string must not be longer than 3 bytes (it has 4)"),
    ]
    assert broken(tree, Limits(value_levels=1)) == [
        ("/kid/properties/a", "a value must not nest deeper than 1 levels")
    ]
    assert broken(tree, Limits(id_bytes=3)) == [
        ("/id", "an id must not be longer than 3 bytes (this one has 4)")
    ]


def test_one_field_can_be_asked_about_alone() -> None:
    assert list(field_violations("meta", {"salience": 2}, "/a/b")) == [
        Violation("/a/b/meta/salience", "must be a number from 0 to 1")
    ]
    assert list(field_violations("meta", None, "/")) == []
    assert [str(v) for v in field_violations("type", None, "/")] == [
        "/type: must be a name, not null"
    ]
