"""Patches: what each op does, and how each bad one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from sightline.errors import InvalidInput, InvalidJson, InvalidPatch
from sightline.slop.protocol.codec import encode, from_value
from sightline.slop.protocol.limits import Limits
from sightline.slop.protocol.patch import Op, apply, decode_ops, encode_ops, ops_from_value

TREE: dict[str, Any] = {
    "id": "root",
    "type": "root",
    "properties": {"n": 1, "list": [10, 20, {"k": "v"}], "a/b": {"~": 0}, "": "empty"},
    "children": [
        {"id": "a", "type": "item", "properties": {"x": 1}, "meta": {"salience": 0.5}},
        {"id": "b", "type": "item", "affordances": [{"action": "open"}, {"action": "close"}]},
        {
            "id": "c",
            "type": "item",
            "content_ref": {"type": "text", "mime": "m", "uri": "u", "summary": "s"},
            "properties": None,
            "children": [{"id": "d", "type": "item"}],
        },
        {"id": "lazy", "type": "item", "children": None},
    ],
}
OWN = TREE["properties"]
LEAF = {"id": "new", "type": "item"}


def patched(*ops: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(encode(apply(from_value(TREE), ops_from_value(ops))))
    return result


def node_at(tree: dict[str, Any], *ids: str) -> dict[str, Any]:
    for node_id in ids:
        tree = next(child for child in tree["children"] if child["id"] == node_id)
    return tree


def op(kind: str, path: str, *value: Any, **rest: Any) -> dict[str, Any]:
    made = {"op": kind, "path": path, **rest}
    return {**made, "value": value[0]} if value else made


def child_ids(tree: dict[str, Any]) -> list[str]:
    return [child["id"] for child in tree["children"]]


@pytest.mark.parametrize(
    ("one", "ids"),
    [
        (op("add", "/new", LEAF), ["a", "b", "c", "lazy", "new"]),
        (op("add", "/new", LEAF, index=0), ["new", "a", "b", "c", "lazy"]),
        (op("add", "/new", LEAF, index=2), ["a", "b", "new", "c", "lazy"]),
        (op("add", "/new", LEAF, index=4), ["a", "b", "c", "lazy", "new"]),
        (op("remove", "/b"), ["a", "c", "lazy"]),
        (op("move", "/a", index=3), ["b", "c", "lazy", "a"]),
        (op("move", "/c", index=0), ["c", "a", "b", "lazy"]),
        (op("move", "/b", index=1), ["a", "b", "c", "lazy"]),
    ],
)
def test_children_are_added_removed_and_moved(one: dict[str, Any], ids: list[str]) -> None:
    assert child_ids(patched(one)) == ids


def test_a_child_can_be_replaced_and_added_anywhere() -> None:
    put = {"id": "a", "type": "view"}
    assert node_at(patched(op("replace", "/a", put)), "a") == put
    assert node_at(patched(op("add", "/c/d/new", LEAF)), "c", "d")["children"] == [LEAF]
    assert node_at(patched(op("add", "/lazy/new", LEAF)), "lazy")["children"] == [LEAF]
    assert patched(op("replace", "/", LEAF)) == LEAF
    assert patched(op("replace", "", LEAF)) == LEAF


@pytest.mark.parametrize(
    ("one", "properties"),
    [
        (op("replace", "/properties/n", None), {**OWN, "n": None}),
        (op("add", "/properties/n", 2), {**OWN, "n": 2}),
        (op("add", "/properties/new", 2), {**OWN, "new": 2}),
        (op("replace", "/properties/", 2), {**OWN, "": 2}),
        (op("add", "/properties/a~1b/~0", 9), {**OWN, "a/b": {"~": 9}}),
        (op("add", "/properties/a~1b/meta", 9), {**OWN, "a/b": {"~": 0, "meta": 9}}),
        (op("replace", "/properties/list/0", 9), {**OWN, "list": [9, 20, {"k": "v"}]}),
        (op("add", "/properties/list/0", 9), {**OWN, "list": [9, 10, 20, {"k": "v"}]}),
        (op("add", "/properties/list/3", 9), {**OWN, "list": [10, 20, {"k": "v"}, 9]}),
        (op("add", "/properties/list/-", 9), {**OWN, "list": [10, 20, {"k": "v"}, 9]}),
        (op("remove", "/properties/list/1"), {**OWN, "list": [10, {"k": "v"}]}),
        (op("replace", "/properties/list/2/k", 1), {**OWN, "list": [10, 20, {"k": 1}]}),
        (op("remove", "/properties/list/2/k"), {**OWN, "list": [10, 20, {}]}),
        (op("replace", "/properties", {"z": 1}), {"z": 1}),
        (op("replace", "/properties", None), None),
    ],
)  # fmt: skip
def test_a_pointer_reaches_into_properties(
    one: dict[str, Any], properties: dict[str, Any] | None
) -> None:
    found = patched(one)["properties"]
    assert json.dumps(found) == json.dumps(properties)


def test_a_member_is_removed_wherever_it_stands() -> None:
    assert list(patched(op("remove", "/properties/list"))["properties"]) == ["n", "a/b", ""]
    assert "properties" not in patched(op("remove", "/properties"))
    assert node_at(patched(op("remove", "/a/properties/x")), "a")["properties"] == {}


def test_every_field_can_be_gained_changed_and_lost() -> None:
    ref = {"type": "binary", "mime": "m", "uri": "u", "summary": "s"}
    assert node_at(patched(op("add", "/b/properties", {"p": 1})), "b")["properties"] == {"p": 1}
    assert node_at(patched(op("add", "/b/properties/p", 1)), "b")["properties"] == {"p": 1}
    assert node_at(patched(op("add", "/c/properties/p", 1)), "c")["properties"] == {"p": 1}
    assert node_at(patched(op("add", "/b/meta/focus", True)), "b")["meta"] == {"focus": True}
    assert node_at(patched(op("remove", "/a/meta")), "a").get("meta") is None
    assert node_at(patched(op("add", "/a/content_ref", ref)), "a")["content_ref"] == ref
    changed = patched(op("replace", "/c/content_ref/type", "stream"))
    assert node_at(changed, "c")["content_ref"]["type"] == "stream"
    assert "content_ref" not in node_at(patched(op("remove", "/c/content_ref")), "c")
    assert node_at(patched(op("replace", "/a/type", "view")), "a")["type"] == "view"
    assert node_at(patched(op("add", "/a/type", "view")), "a")["type"] == "view"
    more = patched(op("add", "/b/affordances/-", {"action": "go"}))
    assert [one["action"] for one in node_at(more, "b")["affordances"]] == ["open", "close", "go"]
    fewer = patched(op("remove", "/b/affordances/0"))
    assert node_at(fewer, "b")["affordances"] == [{"action": "close"}]
    assert node_at(patched(op("replace", "/c/children", None)), "c")["children"] is None
    assert node_at(patched(op("replace", "/c/children", [LEAF])), "c")["children"] == [LEAF]
    assert node_at(patched(op("add", "/a/children", [])), "a")["children"] == []
    assert "children" not in node_at(patched(op("remove", "/c/children")), "c")


def test_ops_apply_in_order() -> None:
    result = patched(
        op("add", "/new", LEAF),
        op("add", "/new/properties/x", 1),
        op("move", "/new", index=0),
        op("replace", "/new/properties/x", 2),
        op("remove", "/a"),
    )
    assert child_ids(result) == ["new", "b", "c", "lazy"]
    assert result["children"][0] == {**LEAF, "properties": {"x": 2}}


def test_what_a_patch_does_not_touch_is_the_same_object() -> None:
    tree = from_value(TREE)
    result = apply(tree, ops_from_value([op("replace", "/a/properties/x", 2)]))
    assert result.children[0] is not tree.children[0]
    assert all(a is b for a, b in zip(result.children[1:], tree.children[1:], strict=True))
    same = apply(tree, ops_from_value([op("replace", "/c", TREE["children"][2])]))
    assert same.children[2] is tree.children[2]
    listed = apply(tree, ops_from_value([op("replace", "/children", TREE["children"])]))
    assert listed is tree
    assert apply(tree, []) is tree


DEEP = "[" * 20_000 + "]" * 20_000

BAD: list[tuple[dict[str, Any], str]] = [
    (op("add", "/", LEAF), "the root can only be replaced"),
    (op("remove", "/"), "the root can only be replaced"),
    (op("move", "/", index=0), "the root can only be replaced"),
    (op("add", "/new"), "add needs a value"),
    (op("replace", "/a"), "replace needs a value"),
    (op("add", "/properties/x"), "add needs a value"),
    (op("add", "/other", LEAF), "the path ends in 'other', but the node's id is 'new'"),
    (op("replace", "/a", LEAF), "the path ends in 'a', but the node's id is 'new'"),
    (op("add", "/a", {"id": "a", "type": "item"}), "ids must be unique among siblings"),
    (op("add", "/new", LEAF, index=5), "index 5 is not from 0 to 4"),
    (op("add", "/new", LEAF, index=-1), "index -1 is not from 0 to 4"),
    (op("add", "/new", 7), "a node must be an object, not a number"),
    (op("add", "/new", {"id": "new"}), "a node must have a type"),
    (op("add", "/new", {**LEAF, "meta": {"salience": 2}}), "must be a number from 0 to 1"),
    (op("add", "/nobody/new", LEAF), "/ has no child 'nobody'"),
    (op("remove", "/nobody"), "there is no child 'nobody'"),
    (op("remove", "/a/nobody"), "there is no child 'nobody'"),
    (op("replace", "/nobody", {"id": "nobody", "type": "t"}), "/ has no child 'nobody'"),
    (op("move", "/nobody", index=0), "there is no child 'nobody'"),
    (op("move", "/a"), "a move needs an index"),
    (op("move", "/a", index=4), "index 4 is not from 0 to 3"),
    (op("move", "/a/properties/x", index=0), "only a child can be moved"),
    (op("replace", "/properties/nothing", 1), "there is no 'nothing' in 'properties'"),
    (op("remove", "/properties/nothing"), "there is no 'nothing' in 'properties'"),
    (op("replace", "/b/properties", {}), "there is no field 'properties'"),
    (op("remove", "/b/meta"), "there is no field 'meta'"),
    (op("remove", "/b/meta/focus"), "there is no 'focus' in 'meta'"),
    (op("replace", "/b/properties/x/y", 1), "there is no field 'properties'"),
    (op("add", "/c/properties/x/y", 1), "there is nothing at 'x'"),
    (op("add", "/properties/n/x", 1), "there is nothing at 'x'"),
    (op("replace", "/properties/list/3", 1), "'3' is not an index from 0 to 2"),
    (op("replace", "/properties/list/-", 1), "'-' is not an index from 0 to 2"),
    (op("add", "/properties/list/4", 1), "'4' is not an index from 0 to 3"),
    (op("add", "/properties/list/01", 1), "'01' is not an index"),
    (op("add", "/properties/list/-1", 1), "'-1' is not an index"),
    (op("add", "/properties/list/x", 1), "'x' is not an index"),
    (op("add", "/properties/list/\u0661", 1), "is not an index from 0 to 3"),
    (op("add", "/properties/list/" + "9" * 30, 1), "is not an index from 0 to 3"),
    (op("remove", "/properties/list/0/x"), "there is nothing at 'x'"),
    (op("replace", "/properties", []), "/properties: must be an object, not a list"),
    (op("replace", "/a/meta/salience", 2), "/meta/salience: must be a number from 0 to 1"),
    (op("add", "/a/meta/window", [1]), "/meta/window: must be [offset, count]"),
    (op("remove", "/b/affordances/0/action"), "/affordances/0: must have 'action'"),
    (op("add", "/b/affordances/0", {"action": "close"}), "an action must be unique on its node"),
    (op("remove", "/c/content_ref/uri"), "/content_ref: must have 'uri'"),
    (op("replace", "/type", 3), "/type: must be a name, not a number"),
    (op("remove", "/type"), "a type can only be replaced"),
    (op("replace", "/type/x", "y"), "a type can only be replaced"),
    (op("replace", "/children/0", LEAF), "a child is addressed by its id"),
    (op("replace", "/a/children", []), "there is no field 'children'"),
    (op("remove", "/a/children"), "there is no field 'children'"),
    (op("replace", "/c/children", [LEAF, LEAF]), "ids must be unique among siblings"),
    (op("replace", "/c/children", {}), "must be a list or null"),
    (op("replace", "a", LEAF), "a patch path must start with '/'"),
    (op("replace", "/a//b", LEAF), "a path must not have empty segments"),
    (op("add", "/properties/~2", 1), "'~' must be written '~0'"),
    (op("add", "/properties/\ud800", 1), "a string must not contain a lone surrogate"),
    (op("add", "/properties/a~1b/\ud800", 1), "a string must not contain a lone surrogate"),
    (op("add", "/a/id", "x"), "a node must be an object, not a string"),
]


@pytest.mark.parametrize(
    ("bad", "reason"), BAD, ids=lambda part: str(part)[:60].encode("ascii", "replace").decode()
)
def test_a_bad_op_is_refused_by_number_name_and_path(bad: dict[str, Any], reason: str) -> None:
    tree = from_value(TREE)
    before = encode(tree)
    ops = ops_from_value([op("replace", "/properties/n", 5), bad])
    with pytest.raises(InvalidPatch) as caught:
        apply(tree, ops)
    error = caught.value
    assert (error.index, error.op, error.path) == (1, bad["op"], bad["path"])
    assert reason in error.reason
    assert str(error) == f"op 1 ({bad['op']} {bad['path']}): {error.reason}"
    assert encode(tree) == before


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("/properties/x", b"{", "line 1, column 2"),
        ("/properties/x", b"", "the text ends here"),
        ("/properties/x", b'"\xff"', "not UTF-8"),
        ("/properties/x", b'"\xed\xa0\x80"', "not UTF-8"),
        ("/properties/x", b"NaN", "NaN and Infinity are not JSON"),
        ("/properties/x", b'"\\ud800"', "a string must not contain a lone surrogate"),
        ("/properties/x", DEEP.encode(), "must not nest deeper than 64 levels"),
        ("/properties/list/0", DEEP.encode(), "must not nest deeper than 64 levels"),
        ("/meta/x", DEEP.encode(), "must not nest deeper than 64 levels"),
        ("/properties", b'{"a":' + DEEP.encode() + b"}", "must not nest deeper than 64 levels"),
        ("/affordances", DEEP.encode(), "must be an object, not a list"),
        ("/children", DEEP.encode(), "a node must be an object, not a list"),
        ("/type", b"[", "the text ends here"),
        ("/type", DEEP.encode(), "must be a name, not a list"),
        ("/new", b"\xff", "not UTF-8"),
        ("/new", b'{"id":"new","type":"x"} x', "extra data"),
        ("/new", DEEP.encode(), "a node must be an object, not a list"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_a_value_that_is_not_sound_json_is_refused(path: str, text: bytes, reason: str) -> None:
    with pytest.raises(InvalidPatch) as caught:
        apply(from_value(TREE), [Op("add", path, Raw(text))])
    assert reason in caught.value.reason


def test_limits_hold_for_what_a_patch_brings() -> None:
    tree, limits = from_value(TREE), Limits(string_bytes=20, levels=1)
    with pytest.raises(InvalidPatch, match="must not be longer than 20 bytes"):
        apply(tree, ops_from_value([op("add", "/properties/x", "x" * 21)]), limits)
    with pytest.raises(InvalidPatch, match="must not have more than 1 levels"):
        apply(tree, ops_from_value([op("add", "/new", {**LEAF, "children": [LEAF]})]), limits)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('"\\ud800"', "surrogate"),
        ("[" * 65 + "]" * 65, "nest deeper"),
        ('{"a":' * 65 + "1" + "}" * 65, "nest deeper"),
        ('"' + "x" * 300_000 + '"', "must not be longer"),
    ],
)
def test_a_property_that_breaks_a_rule_is_refused(value: str, said: str) -> None:
    text = f'[{{"op":"add","path":"/properties/x","value":{value}}}]'
    with pytest.raises((InvalidPatch, InvalidJson), match=said):
        apply(from_value(TREE), decode_ops(text))


@pytest.mark.parametrize("kind", ["add", "replace", "children"])
def test_no_patch_makes_a_tree_deeper_than_it_may_be(kind: str) -> None:
    tree = from_value({"id": "r", "type": "root"})
    limits, path = Limits(levels=4), ""
    for level in range(2, 7):
        own = {"id": f"n{level}", "type": "item"}
        ops = {
            "add": [op("add", f"{path}/n{level}", own)],
            "replace": [
                op("add", f"{path}/n{level}", LEAF | own),
                op("replace", f"{path}/n{level}", own),
            ],
            "children": [op("add", f"{path}/children", [own])],
        }[kind]
        if level > 4:
            with pytest.raises(InvalidPatch, match="more than 4 levels"):
                apply(tree, ops_from_value(ops), limits)
            return
        tree = apply(tree, ops_from_value(ops), limits)
        path += f"/n{level}"


def test_ops_survive_the_way_there_and_back() -> None:
    ops = ops_from_value(
        [
            op("add", "/a", {"id": "a", "type": "b"}, index=0),
            op("remove", "/b"),
            op("replace", "/properties/x", None),
            op("move", "/c", index=1),
        ]
    )
    wire = encode_ops(ops)
    assert json.loads(wire)[2] == {"op": "replace", "path": "/properties/x", "value": None}
    assert json.loads(wire)[1] == {"op": "remove", "path": "/b"}
    for data in (wire, wire.decode()):
        assert decode_ops(data) == ops
    assert decode_ops(b"[]") == []


def test_a_patch_may_bring_a_tree_of_any_depth() -> None:
    deep = {"id": "new", "type": "t"}
    for _ in range(200):
        deep = {"id": "new", "type": "t", "children": [deep]}  # type: ignore[dict-item]
    tree = from_value(TREE)
    result = apply(tree, ops_from_value([op("add", "/new", deep)]))
    assert result.at("/new" * 201).children == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"op":"test","path":"/a"}]', "'op' must be add, remove, replace or move"),
        ('[{"path":"/a"}]', "'op' must be add, remove, replace or move"),
        ('[{"op":[],"path":"/a"}]', "'op' must be add, remove, replace or move"),
        ('[{"op":"add"}]', "'path' must be a string"),
        ('[{"op":"add","path":7}]', "'path' must be a string"),
        ('[{"op":"move","path":"/a","index":"1"}]', "'index' must be a whole number"),
        ('[{"op":"move","path":"/a","index":1.5}]', "'index' must be a whole number"),
        ('[{"op":"move","path":"/a","index":true}]', "'index' must be a whole number"),
        ('[{"op":"move","path":"/a","index":null}]', "'index' must be a whole number"),
        ("[7]", "an operation must be an object"),
        ('[{"op":"add","path":"/a","value":{"x":[NaN]}}]', "/value/x/0: NaN and Infinity"),
        ('[{"op":"add","path":"/a","value":"\\ud800"}]', "/value: a string must not contain"),
    ],
)
def test_what_is_not_an_op_is_refused_by_number(text: str, reason: str) -> None:
    fine = '{"op":"remove","path":"/b"}'
    with pytest.raises(InvalidPatch) as caught:
        decode_ops(f"[{fine},{text[1:]}")
    assert caught.value.index == 1
    assert reason in caught.value.reason


def test_a_patch_must_be_a_list_of_ops_in_json() -> None:
    with pytest.raises(InvalidInput, match="a patch must be a list of operations"):
        decode_ops("{}")
    with pytest.raises(InvalidJson, match="line 1, column 2"):
        decode_ops("[")
    with pytest.raises(InvalidJson, match="line 2, column 1: not UTF-8"):
        decode_ops(b"[\n\xff]")


def test_an_op_with_fields_that_nobody_knows_is_read() -> None:
    assert decode_ops('[{"op":"remove","path":"/a","x":1}]') == [Op("remove", "/a")]
