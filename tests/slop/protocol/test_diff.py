"""Diffs: the fewest ops, in the shape that deployed mirrors apply."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from sightline.slop.protocol.codec import decode, encode, from_value
from sightline.slop.protocol.diff import diff, needs_snapshot
from sightline.slop.protocol.patch import Op, apply, encode_ops
from sightline.slop.protocol.tree import Node
from support.exact import exact
from support.mirror import mirror_apply

REF = {"type": "text", "mime": "text/plain", "uri": "slop://content/a", "summary": "s"}
MANY = [{"id": f"k{i}", "type": "item"} for i in range(20)]


def ops_between(
    old: dict[str, Any], new: dict[str, Any], *, fields: bool = False
) -> list[dict[str, Any]]:
    """The ops from one tree to another, after making sure that they lead there."""
    before, after = from_value(old), from_value(new)
    ops = diff(before, after, fields=fields)
    written: list[dict[str, Any]] = json.loads(encode_ops(ops))
    result = apply(before, ops)
    assert result == after
    assert exact(json.loads(encode(result))) == exact(new)
    assert exact(mirror_apply(old, written)) == exact(new)
    return written


def under_root(**fields: Any) -> dict[str, Any]:
    return {"id": "r", "type": "root", "children": [{"id": "x", "type": "item", **fields}]}


def node_ops(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The ops for one child whose fields change; first small, then with a large subtree."""
    small = ops_between(under_root(**old), under_root(**new))
    large_old, large_new = (under_root(**{"children": MANY} | fields) for fields in (old, new))
    large = ops_between(large_old, large_new, fields=True)
    assert all(op["path"] != "/x" for op in large), "a large subtree was sent again"
    return small


def op(kind: str, path: str, *value: Any, **rest: Any) -> dict[str, Any]:
    made = {"op": kind, "path": path}
    return {**made, **({"value": value[0]} if value else {}), **rest}


def whole(**fields: Any) -> list[dict[str, Any]]:
    """The replacement of the whole child."""
    return [op("replace", "/x", {"id": "x", "type": "item", **fields})]


P = "/x/properties"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 2}, [op("replace", f"{P}/a", 2)]),
        ({"a": 1}, {"a": 1.0}, [op("replace", f"{P}/a", 1.0)]),
        ({"a": 1}, {"a": True}, [op("replace", f"{P}/a", True)]),
        ({"a": 1}, {"a": None}, [op("replace", f"{P}/a", None)]),
        ({"a": None}, {"a": 0}, [op("replace", f"{P}/a", 0)]),
        ({"a": None, "b": 1}, {"b": 1}, [op("remove", f"{P}/a")]),
        ({"b": 1}, {"b": 1, "a": None}, [op("add", f"{P}/a", None)]),
        ({"a": 1}, {"a": 1, "b": 2}, [op("add", f"{P}/b", 2)]),
        ({"a": 1, "b": 2}, {"a": 1}, [op("remove", f"{P}/b")]),
        ({"a": 1}, {}, [op("remove", f"{P}/a")]),
        ({"a/b": 1}, {"a/b": 2}, [op("replace", f"{P}/a~1b", 2)]),
        ({"~": 1}, {"~": 2}, [op("replace", f"{P}/~0", 2)]),
        ({"~1": 1}, {"~1": 2}, [op("replace", f"{P}/~01", 2)]),
        ({"meta": 1}, {"meta": 2}, [op("replace", f"{P}/meta", 2)]),
        ({"a": {"b": [{"c": 2}]}}, {"a": {"b": []}}, [op("replace", f"{P}/a", {"b": []})]),
        (
            {"a": 1, "b": 2},
            {"b": 3, "a": 1},
            [op("remove", f"{P}/a"), op("replace", f"{P}/b", 3), op("add", f"{P}/a", 1)],
        ),
        (
            {"a": 1},
            {"b": 2, "a": 1},
            [op("remove", f"{P}/a"), op("add", f"{P}/b", 2), op("add", f"{P}/a", 1)],
        ),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_a_property_change_is_a_field_op(
    old: dict[str, Any], new: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert node_ops({"properties": old}, {"properties": new}) == expected


@pytest.mark.parametrize(
    ("old", "new", "field_op"),
    [
        ({}, {"properties": {"a": 1}}, op("add", P, {"a": 1})),
        ({"properties": {}}, {"properties": {"a": 1}}, op("add", f"{P}/a", 1)),
        ({"properties": {"a": 1}}, {}, op("remove", P)),
        ({"properties": None}, {"properties": {}}, op("replace", P, {})),
        ({"properties": {"a": 1}}, {"properties": None}, op("replace", P, None)),
        ({"properties": {"": 1}}, {"properties": {"": 2}}, op("replace", f"{P}/", 2)),
        ({}, {"meta": {"focus": True}}, op("add", "/x/meta", {"focus": True})),
        ({"meta": {"focus": True}}, {}, op("remove", "/x/meta")),
        ({"meta": None}, {"meta": {}}, op("replace", "/x/meta", {})),
        ({}, {"affordances": [{"action": "a"}]}, op("add", "/x/affordances", [{"action": "a"}])),
        (
            {"affordances": [{"action": "a"}]},
            {"affordances": [{"action": "b"}]},
            op("replace", "/x/affordances", [{"action": "b"}]),
        ),
        ({"affordances": [{"action": "a"}]}, {}, op("remove", "/x/affordances")),
        ({}, {"content_ref": REF}, op("add", "/x/content_ref", REF)),
        (
            {"content_ref": REF},
            {"content_ref": {**REF, "size": 1}},
            op("replace", "/x/content_ref", {**REF, "size": 1}),
        ),
        ({"content_ref": REF}, {}, op("remove", "/x/content_ref")),
    ],
)
def test_what_deployed_mirrors_mishandle_is_a_whole_child_however_large_it_is(
    old: dict[str, Any], new: dict[str, Any], field_op: dict[str, Any]
) -> None:
    assert node_ops(old, new) == whole(**new)
    large_old, large_new = ({"children": MANY} | fields for fields in (old, new))
    assert ops_between(under_root(**large_old), under_root(**large_new)) == whole(**large_new)
    # Who takes operations on fields gets one, where that is less.
    changed = ops_between(under_root(**large_old), under_root(**large_new), fields=True)
    assert changed == [field_op]


@pytest.mark.parametrize("fields", [False, True])
def test_a_child_whose_type_changes_is_replaced_whole(fields: bool) -> None:
    """There is no field of that name in a patch path: it would address a child."""
    old, new = {"type": "item", "children": MANY}, {"type": "view", "children": MANY}
    assert ops_between(under_root(**old), under_root(**new), fields=fields) == whole(**new)


def test_a_child_is_replaced_whole_where_that_takes_fewer_bytes() -> None:
    """By bytes, not by how many nodes there are: this one has one, and then one more."""
    new = {"affordances": [{"action": "go"}], "meta": {"focus": True}, "properties": {"a": 1}}
    assert ops_between(under_root(), under_root(**new), fields=True) == whole(**new)
    long = [{"id": "y", "type": "item", "properties": {"text": "x" * 500}}]
    changed = ops_between(under_root(children=long), under_root(children=long, **new), fields=True)
    assert [each["path"] for each in changed] == ["/x/properties", "/x/meta", "/x/affordances"]


def test_a_meta_change_is_a_field_op_where_there_is_meta() -> None:
    assert node_ops({"meta": {"salience": 0.5}}, {"meta": {"salience": 1, "focus": True}}) == [
        op("replace", "/x/meta/salience", 1),
        op("add", "/x/meta/focus", True),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [({}, {"v": 1}), ({"v": 1}, {"v": 2}), ({"v": 1}, {}), ({"v": None}, {}), ({"v": 1}, {"w": 1})],
)
def test_a_field_that_the_protocol_does_not_name_takes_the_whole_child(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert ops_between(under_root(**old), under_root(**new)) == whole(**new)
    large_old, large_new = ({"children": MANY} | fields for fields in (old, new))
    assert ops_between(under_root(**large_old), under_root(**large_new))[0]["path"] == "/x"
    root_old, root_new = ({"id": "r", "type": "root", **fields} for fields in (old, new))
    assert ops_between(root_old, root_new) == [op("replace", "/", root_new)]


@pytest.mark.parametrize("old", [None, [], "absent", MANY[:2]], ids=str)
@pytest.mark.parametrize("new", [None, [], "absent", MANY[:2], MANY], ids=lambda v: str(v)[:30])
def test_a_child_list_is_gained_emptied_declared_lazy_and_lost(old: object, new: object) -> None:
    fields = [{} if value == "absent" else {"children": value} for value in (old, new)]
    ops_between(under_root(**fields[0]), under_root(**fields[1]))
    roots = [{"id": "r", "type": "root", **each} for each in fields]
    ops_between(roots[0], roots[1])


def listed(ids: Any) -> dict[str, Any]:
    return {"id": "r", "type": "root", "children": [{"id": str(i), "type": "item"} for i in ids]}


@pytest.mark.parametrize("index", range(6))
def test_a_child_is_added_at_its_index(index: int) -> None:
    ids = list("abcde")
    new = [*ids[:index], "new", *ids[index:]]
    expected = [op("add", "/new", {"id": "new", "type": "item"}, index=index)]
    assert ops_between(listed(ids), listed(new)) == expected


@pytest.mark.parametrize("index", range(5))
def test_a_child_is_removed(index: int) -> None:
    ids = list("abcde")
    gone = ids[index]
    assert ops_between(listed("abcde"), listed([i for i in ids if i != gone])) == [
        op("remove", f"/{gone}")
    ]


def longest_increasing(order: tuple[int, ...]) -> int:
    """By brute force: the largest subset that is in order."""
    return next(
        size
        for size in range(len(order), -1, -1)
        if any(list(some) == sorted(some) for some in itertools.combinations(order, size))
    )


@pytest.mark.parametrize("width", range(1, 7))
def test_any_reordering_takes_the_fewest_moves(width: int) -> None:
    for order in itertools.permutations(range(width)):
        ops = ops_between(listed(range(width)), listed(order))
        assert [each["op"] for each in ops] == ["move"] * (width - longest_increasing(order))


def test_any_mixture_of_removals_moves_and_additions_is_minimal() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        old = rng.sample(range(12), rng.randrange(9))
        new = rng.sample(range(12), rng.randrange(9))
        staying = tuple(old.index(i) for i in new if i in old)
        ops = ops_between(listed(old), listed(new))
        kinds = [each["op"] for each in ops]
        assert kinds.count("remove") == len(set(old) - set(new))
        assert kinds.count("add") == len(set(new) - set(old))
        assert kinds.count("move") == len(staying) - longest_increasing(staying)


@pytest.mark.parametrize(("start", "end"), [(0, 9_999), (9_999, 0), (17, 5_000), (5_000, 4_999)])
def test_one_item_moved_in_a_long_list_is_one_op(start: int, end: int) -> None:
    old = from_value(listed(range(10_000)))
    moved = old.with_child_moved(str(start), end)
    for new in (moved, decode(encode(moved))):
        ops = diff(old, new)
        assert len(ops) == 1
        assert ops[0].op == "move"
        assert apply(old, ops) == new


def test_a_long_list_turned_around_still_arrives() -> None:
    old = from_value(listed(range(3_000)))
    new = from_value(listed(reversed(range(3_000))))
    ops = diff(old, new)
    assert len(ops) == 2_999
    assert apply(old, ops) == new


def test_everything_at_once_is_one_patch() -> None:
    old = {
        "id": "r", "type": "root", "properties": {"n": 1, "": 0}, "meta": {"focus": True},
        "children": [
            {"id": "a", "type": "item", "properties": {"x": None, "a/b": [1]}},
            {"id": "b", "type": "item", "content_ref": REF},
            {"id": "c", "type": "group", "children": MANY},
            {"id": "d", "type": "item", "affordances": [{"action": "go"}], "v": 1},
        ],
    }  # fmt: skip
    new = {
        "id": "r", "type": "root", "properties": {"": 1, "m": 2}, "meta": {"focus": False},
        "children": [
            {"id": "d", "type": "view", "affordances": [], "v": 2},
            {"id": "e", "type": "item", "meta": {"salience": 1}},
            {"id": "c", "type": "view", "children": list(reversed(MANY)), "meta": None},
            {"id": "a", "type": "item", "properties": {"a/b": [1, 2]}, "children": None},
        ],
    }  # fmt: skip
    for fields in (False, True):
        ops_between(old, new, fields=fields)
        ops_between(new, old, fields=fields)


def test_a_tree_differs_from_itself_in_nothing() -> None:
    tree = from_value(under_root(properties={"n": 1}, children=MANY))
    assert diff(tree, tree) == []
    assert diff(tree, decode(encode(tree))) == []
    assert diff(tree, decode(json.dumps(json.loads(encode(tree)), indent=1))) == []


def test_a_diff_after_a_change_looks_only_at_its_path() -> None:
    """The nodes beside the path are not even readable here: looking at one would raise."""
    hidden = Node("hidden", "item", properties_json=object())  # type: ignore[arg-type]
    wide = [Node(f"n{i}", "item") for i in range(2000)]
    deep = Node("p", "group", child_list=(hidden, Node("list", "group", child_list=tuple(wide))))
    old = Node("r", "root", child_list=(hidden, deep))
    new = old.change("/p/list/n1500", lambda node: node.with_property("a", 1))
    assert [each.path for each in diff(old, new)] == ["/p/list/n1500"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", True),
        ("/type", True),
        ("/properties", True),
        ("/meta", True),
        ("/affordances", True),
        ("/children", True),
        ("/properties/", True),
        ("/properties/a", False),
        ("/meta/focus", False),
        ("/x", False),
        ("/x/type", False),
        ("/x/properties/", False),
    ],
)
def test_a_change_of_the_root_that_mirrors_cannot_follow_needs_a_snapshot(
    path: str, expected: bool
) -> None:
    root = Node.of("r", "root", properties={"a": 1}, meta={"summary": "s"})
    ops = [Op("remove", "/z"), Op("replace", path)]
    assert needs_snapshot(root, ops) is expected
    assert needs_snapshot(root, ops, fields=True) is (path == "/")
    assert not needs_snapshot(root, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"type": "view"}),
        ({}, {"properties": {"a": 1}}),
        ({}, {"meta": {"focus": True}}),
        ({}, {"affordances": []}),
        ({"content_ref": REF}, {}),
        ({}, {"v": 1}),
        ({}, {"id": "other"}),
        ({"properties": {"": 1}}, {"properties": {"": 2}}),
        ({"properties": {}}, {"properties": {"a": 1}}),
        ({"meta": {}}, {"meta": {"focus": True}}),
    ],
)
def test_such_changes_of_the_root_are_reported(old: dict[str, Any], new: dict[str, Any]) -> None:
    root = {"id": "r", "type": "root", "children": MANY}
    before, after = from_value({**root, **old}), from_value({**root, **new})
    ops = diff(before, after)
    assert apply(before, ops) == after
    assert needs_snapshot(before, ops)
