"""Which strings may name a node, and the id that any string gets."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.slop.protocol.ids import (
    ID_BYTES,
    RESERVED,
    app_id_problem,
    id_problem,
    legal_id,
    reads_as_own,
    suggested_app_id,
)

# Any text at all: lone surrogates, controls and the escape character itself included.
ANY_TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=())) | st.text("%2F/~-t")


@pytest.mark.parametrize(
    "node_id", ["a", "msg-42", "日本", "🦆", "with space", "%", "ID", "x" * 256]
)
def test_an_ordinary_name_is_legal(node_id: str) -> None:
    assert id_problem(node_id) is None


@pytest.mark.parametrize(
    ("node_id", "problem"),
    [
        (7, "an id must be a string"),
        (None, "an id must be a string"),
        ("", "an id must not be empty"),
        ("a/b", "an id must not contain '/' or '~': 'a/b'"),
        ("~", "an id must not contain '/' or '~': '~'"),
        ("\ud800", "an id must not contain a lone surrogate: '\\ud800'"),
        ("x" * 257, "an id must not be longer than 256 bytes (this one has 257)"),
        ("é" * 129, "an id must not be longer than 256 bytes (this one has 258)"),
    ],
)
def test_an_illegal_id_is_told_which_rule_it_breaks(node_id: object, problem: str) -> None:
    assert id_problem(node_id) == problem


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_field_name_is_no_id_but_has_one(name: str) -> None:
    assert id_problem(name) == f"an id must not be the reserved field name {name!r}"
    assert id_problem(legal_id(name)) is None


def test_the_reserved_names_are_the_protocol_s_seven() -> None:
    expected = {"properties", "children", "affordances", "meta", "content_ref", "id", "type"}
    assert expected == RESERVED


def test_the_length_of_an_id_is_settable() -> None:
    assert id_problem("abcd", max_bytes=3) is not None
    assert id_problem("x" * 300, max_bytes=300) is None


@pytest.mark.parametrize(
    ("text", "node_id"),
    [
        ("msg-42", "msg-42"),
        ("src/main.py", "src%2Fmain.py"),
        ("https://a.b/c?d=~e", "https:%2F%2Fa.b%2Fc?d=%7Ee"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("type", "%74ype"),
        ("children", "%63hildren"),
        ("", "%"),
        ("a\nb", "a%0Ab"),
        ("日本", "日本"),
        ("\u2028", "%E2%80%A8"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_the_id_of_a_string_is_readable_and_the_same_for_ever(text: str, node_id: str) -> None:
    assert legal_id(text) == node_id


def test_a_long_string_keeps_its_beginning_and_its_digest() -> None:
    text = "https://example.org/" + "a" * 1000
    made = legal_id(text)
    assert made.startswith("https:%2F%2Fexample.org%2Faaa")
    assert made.endswith("%-" + hashlib.sha256(text.encode()).hexdigest())
    assert len(made.encode()) <= ID_BYTES


@given(ANY_TEXT | ANY_TEXT.map(lambda text: text * 60))
def test_any_text_has_a_legal_id(text: str) -> None:
    assert id_problem(legal_id(text)) is None


@given(ANY_TEXT)
def test_any_text_suggests_an_id_that_an_app_can_have(text: str) -> None:
    made = suggested_app_id(text)
    assert app_id_problem(made) is None
    assert id_problem(made) is None
    assert not reads_as_own(made)


@given(st.lists(ANY_TEXT | ANY_TEXT.map(lambda text: text * 60), min_size=2, max_size=6))
def test_two_texts_never_share_an_id(texts: list[str]) -> None:
    distinct = set(texts)
    assert len({legal_id(text) for text in distinct}) == len(distinct)


@given(ANY_TEXT)
def test_the_id_of_an_id_is_another_one_unless_nothing_was_escaped(text: str) -> None:
    made = legal_id(text)
    assert (legal_id(made) == made) == ("%" not in made)


@given(st.text("abcXYZ0189-_.: é日", min_size=1, max_size=80))
def test_a_readable_string_is_its_own_id(text: str) -> None:
    if text not in RESERVED:
        assert legal_id(text) == text
