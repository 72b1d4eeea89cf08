"""Trees from JSON and back; what is not one says where it goes wrong."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from sightline.errors import InvalidJson, InvalidTree
from sightline.slop.protocol.codec import build, decode, encode, from_value
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.limits import WIRE, Limits
from sightline.slop.protocol.patch import apply, decode_ops, encode_ops
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from support.exact import exact
from support.trees import tree, wide


def node(fields: str) -> str:
    return f'{{"id":"a","type":"b",{fields}}}'


def test_a_tree_survives_the_way_there_and_back() -> None:
    for seed in range(300):
        value = tree(random.Random(seed))
        made = from_value(value)
        written = encode(made)
        assert exact(json.loads(written)) == exact(value)
        assert decode(written) == made
        assert decode(written.decode()) == made
        assert encode(decode(written)) == written
        assert decode(json.dumps(value, indent=2)) == made


def test_a_known_legal_tree_can_be_built_unchecked() -> None:
    value = wide(random.Random(3))
    value.pop("x-color", None)
    text = encode(from_value({name: value[name] for name in ("id", "type", "children")}))
    assert build(text) == decode(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"a","type":"b"}',
        '{"id":"a","type":"b","properties":null,"meta":null,"affordances":null}',
        '{"id":"a","type":"b","content_ref":null,"children":null}',
        '{"id":"a","type":"b","properties":{},"meta":{},"affordances":[],"children":[]}',
        '{"id":"a","type":"b","properties":{"x":null,"y":[null]}}',
        '{"id":"a","type":"b","meta":{"summary":null}}',
        '{"id":"a","type":"b"," ":1,"extra":2,"properties_json":3,"x":null}',
        '{"id":"a","type":"b","children":[{"id":"c","type":"d","version":[1,{"a":null}]}]}',
    ],
)
def test_null_absent_empty_and_unknown_stay_what_they_are(text: str) -> None:
    node = decode(text)
    assert exact(json.loads(encode(node))) == exact(json.loads(text))
    assert decode(encode(node)) == node
    assert from_value(json.loads(text)) == node


DIGITS = ["1e999", "-1E+4000", "1" * 400, "1" * 5000, "0.1000000000000000055511151231257827"]


@pytest.mark.parametrize("digits", DIGITS, ids=lambda d: d[:12])
@pytest.mark.parametrize(
    "unknown", ["", ',"x":1'], ids=["the native path", "the exact path of unknown fields"]
)
def test_a_number_of_any_size_keeps_its_value_everywhere(digits: str, unknown: str) -> None:
    small = decode(node(f'"properties":{{"n":1}}{unknown}'))
    text = node(f'"properties":{{"n":{digits}}}{unknown}')
    large = decode(text)
    if digits != DIGITS[-1]:  # the last one is a double like any other
        assert Decimal(str(large.properties["n"])) == Decimal(digits)
    assert decode(encode(large)) == large
    ops = decode_ops(encode_ops(diff(small, large)))
    assert apply(small, ops) == large
    assert diff(large, decode(text)) == []
    written = format_tree(large)
    shown = written.removeprefix("[b] a (n=").removesuffix(")")
    assert float(Decimal(shown)) == float(Decimal(digits))
    if not unknown:
        assert digits.encode() in encode(large)


@pytest.mark.parametrize("digits", DIGITS, ids=lambda d: d[:12])
def test_a_number_of_any_size_may_stand_in_a_schema(digits: str) -> None:
    schema = f'{{"type":"object","properties":{{"n":{{"type":"number","maximum":{digits}}}}}}}'
    tree = decode(node(f'"affordances":[{{"action":"set","params":{schema}}}]'))
    assert [item.action for item in tree.affordances] == ["set"]
    assert format_tree(tree) == "[b] a  actions: {set(n: number)}"


@pytest.mark.parametrize(
    ("data", "line", "column", "reason"),
    [
        (b"", 1, 1, "expecting value, but the text ends here"),
        (b"\n\n", 3, 1, "expecting value, but the text ends here"),
        (b'{"id":"a",\n "type":}', 2, 9, "expecting value"),
        (b'{"id":"a","type":"b"', 1, 21, "expecting ',' delimiter, but the text ends here"),
        (b'{"id":"a","type":"b"} x', 1, 23, "extra data"),
        (b'{"id":"a","type":"b"}{}', 1, 22, "extra data"),
        (b"\xef\xbb\xbf{}", 1, 1, "unexpected UTF-8 BOM"),
        (b'{"id":"a",\n"type":"\xff"}', 2, 9, "not UTF-8"),
        (b'{"id":"a","type":"\xed\xa0\x80"}', 1, 19, "not UTF-8"),
        (b"\xff\xfe{\x00", 1, 1, "not UTF-8"),
        (b'{"id":"a","type":"b","properties":{"x":"\xc3("}}', 1, 41, "not UTF-8"),
        (b'{"id":"a","type":"b","properties":{"x":01}}', 1, 41, "expecting ',' delimiter"),
        (b'{"id":"a","type":"b","properties":{"x":"\x00"}}', 1, 41, "invalid control character"),
        (b"{'id':'a'}", 1, 2, "expecting property name enclosed in double quotes"),
        ("{“id”:1}".encode(), 1, 2, "expecting property name enclosed in double quotes"),
        (b"nul", 1, 1, "expecting value"),
    ],
)
def test_what_is_not_json_is_told_its_line_and_column(
    data: bytes, line: int, column: int, reason: str
) -> None:
    with pytest.raises(InvalidJson) as caught:
        decode(data)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "data", [b"[]", b"null", b'"x"', b"1", b"NaN", "[[[[", "\ud800", '"\ud800"']
)
def test_any_input_is_a_tree_or_a_clear_error(data: bytes | str) -> None:
    with pytest.raises((InvalidJson, InvalidTree)):
        decode(data)


def test_a_lone_surrogate_in_a_string_is_a_violation_not_a_crash() -> None:
    rule = "/properties/x: a string must not contain a lone surrogate"
    for text in ('{"x":"\\ud800"}', '{"x":"\ud800"}'):
        with pytest.raises(InvalidTree) as caught:
            decode(node(f'"properties":{text}'))
        assert str(caught.value) == rule


def test_a_repeated_key_counts_once_with_its_last_value() -> None:
    node = decode('{"id":"x","id":"a","type":"b","properties":{"n":1,"n":2}}')
    assert node.id == "a"
    assert node == decode('{"id":"a","type":"b","properties":{"n":2}}')
    assert node.with_property("m", 1).properties == {"n": 2, "m": 1}


LONG = "x" * 262_145


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"type": LONG}, "/type"),
        ({"type": "é" * 131_073}, "/type"),
        ({"properties": {"a": LONG}}, "/properties/a"),
        ({"meta": {"summary": LONG}}, "/meta/summary"),
        ({"affordances": [{"action": LONG}]}, "/affordances/0/action"),
        ({"x": LONG}, "/x"),
    ],
)
def test_a_string_over_its_limit_is_refused_wherever_it_stands(
    fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidTree) as caught:
        decode(json.dumps({"id": "a", "type": "b", **fields}, ensure_ascii=False))
    (only,) = caught.value.violations
    assert only.path == path


def test_limits_are_held_by_the_fast_path_too() -> None:
    two_levels = (
        '{"id":"a","type":"b","children":[{"id":"cc","type":"d","properties":{"x":[[1]]}}]}'
    )
    assert decode(two_levels, WIRE).children[0].id == "cc"
    for limits, path in [
        (Limits(levels=1), "/cc"),
        (Limits(nodes=1), "/cc"),
        (Limits(id_bytes=1), "/children/0/id"),
        (Limits(value_levels=2), "/cc/properties/x/0"),
    ]:
        with pytest.raises(InvalidTree) as caught:
            decode(two_levels, limits)
        assert caught.value.violations[0].path == path
    long = "x" * 300
    assert decode(f'{{"id":"{long}","type":"b"}}', Limits(id_bytes=300)).id == long


def test_keys_that_are_not_strings_are_refused_where_json_could_not_have_them() -> None:
    with pytest.raises(InvalidTree, match="an object's keys must be strings, not a number"):
        from_value({"id": "a", "type": "b", "properties": {1: 2}})


def test_a_changed_long_list_is_written_like_any_other() -> None:
    root = from_value(wide(random.Random(5), 1000))
    changed = root.change("/n500", lambda node: node.with_property("n", -1))
    written = json.loads(encode(changed))
    assert [child["properties"]["n"] for child in written["children"]] == [
        -1 if n == 500 else n for n in range(1000)
    ]
    assert decode(encode(changed)) == changed


def test_only_a_long_list_makes_the_encoder_ask_for_help() -> None:
    node = Node("a", "b", child_list=("not a node",))  # type: ignore[arg-type]
    assert encode(node) == b'{"id":"a","type":"b","children":["not a node"]}'
