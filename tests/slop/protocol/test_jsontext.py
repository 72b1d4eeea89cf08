"""JSON as text: strict about where it stops being JSON, exact about numbers, any depth."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from sightline.errors import InvalidJson
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.jsontext import (
    canonical,
    clip,
    loads,
    members,
    nests_deeper,
    read,
    same,
    text_of,
)
from sightline.slop.protocol.patch import apply
from sightline.slop.protocol.text import format_tree
from support.json_values import json_values, spellings

DEEP = 20_000


@given(json_values())
def test_a_value_reads_back_as_it_was_written(value: Any) -> None:
    text = text_of(value)
    assert json.dumps(read(text)) == json.dumps(value)
    assert json.dumps(loads(bytes(text).decode())) == json.dumps(value)


@given(json_values(), st.data())
def test_spelling_and_spacing_do_not_count(value: Any, data: st.DataObject) -> None:
    a, b = (Raw(data.draw(spellings(value)).encode()) for _ in range(2))
    assert canonical(a) == canonical(b)
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1", "1.0"),
        ("1", "true"),
        ("0", "false"),
        ("0.0", "-0.0"),
        ("null", "0"),
        ('"1"', "1"),
        ("[]", "{}"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":null}', "{}"),
        ("1e999", "1e998"),
        ("1" * 5000, "1" * 4999 + "2"),
    ],
)
def test_different_things_are_not_the_same(a: str, b: str) -> None:
    assert not same(Raw(a.encode()), Raw(b.encode()))


@pytest.mark.parametrize(
    ("a", "b"), [("1e2", "100.0"), ('"\\u0041"', '"A"'), ("[1, 2]", "[1,2]"), ("1E999", "1e999")]
)
def test_two_spellings_of_one_thing_are_the_same(a: str, b: str) -> None:
    assert same(Raw(a.encode()), Raw(b.encode()))


def test_absent_is_only_the_same_as_absent() -> None:
    assert same(UNSET, UNSET)
    assert not same(UNSET, Raw(b"null"))
    assert not same(Raw(b"null"), UNSET)


def test_the_members_of_nothing_are_none() -> None:
    assert members(UNSET) == {}
    assert members(Raw(b"null")) == {}
    assert members(Raw(b'{"a": [1]}')) == {"a": Raw(b"[1]")}


@pytest.mark.parametrize("digits", ["1" * 400, "9" * 4300, "1" * 5000, "-" + "7" * 5000])
def test_a_whole_number_keeps_every_digit(digits: str) -> None:
    assert bytes(text_of(loads(digits))).decode() == digits
    assert bytes(text_of(read(Raw(digits.encode())))).decode() == digits


def test_a_number_that_no_double_holds_keeps_its_value() -> None:
    for value in (loads("1.25e999"), read(Raw(b"1.25e999"))):
        assert value == Decimal("1.25e999")
        assert Decimal(bytes(text_of(value)).decode()) == Decimal("1.25e999")


def test_what_is_not_json_but_common_comes_back_as_a_value_to_report() -> None:
    found = loads('[NaN, Infinity, -Infinity, "\\ud800"]')
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf, "\ud800"]


BROKEN = [
    ("", 1, 1, "expecting value, but the text ends here"),
    ("  \n ", 2, 2, "expecting value, but the text ends here"),
    ("[1, 2", 1, 6, "expecting ',' delimiter, but the text ends here"),
    ("[1,\n 2,,3]", 2, 4, "expecting value"),
    ('{"a" 1}', 1, 6, "expecting ':' delimiter"),
    ('{"a": 1,}', 1, 9, "expecting property name enclosed in double quotes"),
    ("[1, ]", 1, 5, "expecting value"),
    ("{a: 1}", 1, 2, "expecting property name enclosed in double quotes"),
    ("[1 2]", 1, 4, "expecting ',' delimiter"),
    ('{"a":1 "b":2}', 1, 8, "expecting ',' delimiter"),
    ('"abc', 1, 1, "unterminated string starting at"),
    ('["a\nb"]', 1, 4, "invalid control character at"),
    ('"\\q"', 1, 2, "invalid \\escape"),
    ("tru", 1, 1, "expecting value"),
    ("01", 1, 2, "extra data"),
    ("1 2", 1, 3, "extra data"),
    ("-", 1, 1, "expecting value"),
    ("\ufeff1", 1, 1, "unexpected UTF-8 BOM"),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), BROKEN)
def test_broken_text_is_told_where_and_why(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        loads(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.reason.startswith(reason)
    assert str(caught.value) == f"line {line}, column {column}: {caught.value.reason}"


@pytest.mark.parametrize(("text", "line", "column", "reason"), BROKEN[2:13])
def test_broken_text_is_told_the_same_however_deep_it_stands(
    text: str, line: int, column: int, reason: str
) -> None:
    opening = "[" * DEEP + "\n"
    with pytest.raises(InvalidJson) as caught:
        loads(opening + text)
    assert (caught.value.line, caught.value.column) == (line + 1, column)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize("digits", ["1\u0663", "1.\u0663", "1e\u0663"])
def test_digits_of_other_scripts_are_no_number_however_deep_they_stand(digits: str) -> None:
    for text in (digits, "[" * DEEP + digits + "]" * DEEP):
        with pytest.raises(InvalidJson):
            loads(text)


def levels_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(levels_of, value), default=0) if isinstance(value, list) else 0


HARD_TO_COUNT = ["]", "}", "[", "{", '"', "\\", '\\"', '\\\\"', '"]', "\\]", '\\"}', "", "\u00e9["]


@given(
    st.recursive(
        st.sampled_from(HARD_TO_COUNT) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(HARD_TO_COUNT), inner, max_size=3)
        ),
    ),
    st.data(),
)
def test_how_deep_a_text_nests_is_counted_as_a_parser_would(
    value: Any, data: st.DataObject
) -> None:
    text, levels = data.draw(spellings(value)), levels_of(value)
    for form in (text, text.encode()):
        assert not nests_deeper(form, levels)
        assert levels == 0 or nests_deeper(form, levels - 1)


@pytest.mark.parametrize(
    "text", ["[" * 9, '["]]]]"' + ",[" * 8, '["\\\\",' + "[" * 8, "[]" * 4 + "[" * 9]
)
def test_what_is_no_json_nests_as_deep_as_a_parser_would_get(text: str) -> None:
    assert nests_deeper(text, 8)
    assert not nests_deeper(text, 9)


@settings(max_examples=20)
@given(json_values(), st.data())
def test_text_of_any_depth_reads_as_shallow_text_does(value: Any, data: st.DataObject) -> None:
    text = data.draw(spellings(value))
    found = loads(f"{'[' * DEEP}{text}, {{}}, []{']' * DEEP}")
    for _ in range(DEEP - 1):
        found = found[0]
    assert json.dumps(found) == json.dumps([value, {}, []])


@example("1" * 5000)
@example("1e999")
@example("NaN")
@given(st.sampled_from(["-1.5e3", "0", "true", "null", "Infinity"]))
def test_deep_numbers_and_constants_are_exact(text: str) -> None:
    found = loads("[" * DEEP + text + "]" * DEEP)
    for _ in range(DEEP):
        found = found[0]
    assert str(found) == str(loads(text))


@pytest.mark.parametrize("close", ["", "]" * (DEEP + 1), "]" * (DEEP - 1) + "}", "]" * DEEP + " x"])
def test_deep_text_that_does_not_end_well_is_refused(close: str) -> None:
    with pytest.raises(InvalidJson):
        loads("[" * DEEP + close)


def test_a_value_of_any_depth_can_be_written() -> None:
    value: Any = {"k": ["\u2028", {}, [], None], "l": (1.5, True)}
    for _ in range(DEEP):
        value = {"a": [value], "b": 1}
    opening, closing = '{"a":[' * DEEP, '],"b":1}' * DEEP
    inner = '{"k":["\u2028",{},[],null],"l":[1.5,true]}'
    assert bytes(text_of(value)).decode() == opening + inner + closing


class Colour(str, Enum):  # noqa: UP042 - the older way, whose str() is not its value
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Whole(int):
    pass


class Real(float):
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Colour.RED, b'"red"'),
        (Level.HIGH, b"3"),
        (Text("x"), b'"x"'),
        (Whole(7), b"7"),
        (Real(1.5), b"1.5"),
        (MappingProxyType({"a": 1}), b'{"a":1}'),
        (OrderedDict(a=1), b'{"a":1}'),
        ((1, 2), b"[1,2]"),
    ],
)
def test_a_value_of_a_subclass_is_written_as_the_value_it_is(value: object, text: bytes) -> None:
    assert bytes(text_of(value)) == text


def test_what_is_no_value_is_not_written() -> None:
    with pytest.raises(TypeError, match="object is not a JSON value"):
        text_of(object())


def test_reading_what_is_not_utf_8_says_where() -> None:
    with pytest.raises(InvalidJson, match="line 2, column 2: not UTF-8"):
        read(Raw(b'[\n"\xff"]'))


HUGE = "1e99999999999999999999"


def test_a_number_that_nothing_can_hold_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidJson, match="line 2, column 2: a number that nothing can hold"):
        loads(f'{{"a":\n {HUGE}}}')


def test_in_a_tree_that_was_let_in_such_a_number_can_be_shown_compared_and_written() -> None:
    for number in (HUGE, f"-{HUGE}"):
        text = f'{{"id":"a","type":"t","properties":{{"n":{number}}}}}'
        tree = decode(text)
        assert encode(tree) == text.encode()
        assert isinstance(tree.properties["n"], Decimal)
        assert format_tree(tree).endswith("E+999999999999999999)")
        other = decode(text.replace("1e", "2e"))
        assert tree != other
        assert encode(apply(tree, diff(tree, other))) == encode(other)


@given(json_values(), st.integers(0, 6))
def test_clipping_keeps_what_is_shallow_and_empties_what_is_deep(value: Any, levels: int) -> None:
    text = bytes(text_of(value))
    clipped = clip(text, levels)
    assert json.loads(clipped) == emptied(value, levels)
    assert (clipped is text) == (emptied(value, levels + 1) == value and depth(value) <= levels)


def depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + max(map(depth, inside), default=0)


def emptied(value: Any, levels: int) -> Any:
    if isinstance(value, list):
        return [emptied(item, levels - 1) for item in value] if levels > 0 else []
    if isinstance(value, dict):
        return {key: emptied(item, levels - 1) for key, item in value.items()} if levels > 0 else {}
    return value


@pytest.mark.parametrize(
    ("text", "clipped"),
    [
        (b'[[["\\"]"],"]"]]', b'[[[],"]"]]'),
        (b'{"a":{"b":{"c":1}},"d":[[{}]]}', b'{"a":{"b":{}},"d":[[]]}'),
        (b"[[[", b"[[["),
        (b"]]][[[]]]", b"]]][[[]]]"),
        (b"[" * DEEP + b"]" * DEEP, b"[[[]]]"),
    ],
)
def test_brackets_in_strings_are_none_and_what_is_no_json_stays_none(
    text: bytes, clipped: bytes
) -> None:
    assert clip(text, 2) == clipped


PIECES = ["[", "]", "{", "}", '"', "\\\\", '\\"', "a"]


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.integers(0, 12))
@example([*"[{" * 8, *"}]" * 8], 15)
@example([*"[{" * 8, *"}]" * 8], 16)
def test_depth_is_counted_bracket_by_bracket_outside_of_strings(
    pieces: list[str], levels: int
) -> None:
    depth = deepest = 0
    quoted = False
    for piece in pieces:
        quoted ^= piece == '"'
        if not quoted and piece in "[]{}":
            depth += 1 if piece in "[{" else -1
            deepest = max(deepest, depth)
    assert nests_deeper("".join(pieces), levels) == (deepest > levels)
