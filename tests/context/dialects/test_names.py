"""Names and ids: legal, unique, and the same every time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.context.dialects import endpoints, profile_for
from sightline.context.dialects.names import Names, wire_id
from sightline.context.dialects.profile import Tools
from sightline.errors import InvalidInput

LEGAL = {
    "openai_chat": r"[A-Za-z0-9_-]{1,64}",
    "openai_responses": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}",
    "bedrock": r"[a-zA-Z0-9_-]{1,64}",
    "ollama": r"[A-Za-z0-9_-]{1,64}",
}
PROFILES = [profile_for(endpoint) for endpoint in endpoints()]
IDS = {"safe": r"[a-zA-Z0-9_-]+", "dotted": r"[a-zA-Z0-9_.:-]{1,64}", "nine": r"[A-Za-z0-9]{9}"}


@given(st.lists(st.text(min_size=1, max_size=200), unique=True, max_size=8))
def test_every_name_becomes_legal_and_none_becomes_another(names: list[str]) -> None:
    for profile in PROFILES:
        mapped = Names(names, profile.tools)
        wired = [mapped.wire(name) for name in names]
        assert all(re.fullmatch(LEGAL[profile.dialect], name) for name in wired)
        assert len({name.casefold() for name in wired}) == len(names)
        back = mapped.changed
        assert [back.get(name, name) for name in wired] == names


def test_a_legal_name_stays_and_others_depend_on_nothing_but_themselves() -> None:
    rules = Tools()
    assert Names(["mail_search"], rules).wire("mail_search") == "mail_search"
    alone = Names(["mail.search"], rules).wire("mail.search")
    assert alone == Names(["a", "mail.search", "b"], rules).wire("mail.search")
    assert alone == Names([], rules).wire("mail.search")
    assert len(Names([], rules).wire("x" * 200)) == 64


def test_a_name_may_have_any_length_where_there_is_no_limit() -> None:
    names = Names([], Tools(max_name=0))
    assert names.wire("x" * 200) == "x" * 200
    assert names.wire("x." * 100).startswith("x_" * 100)


def test_names_that_differ_by_case_are_told_apart() -> None:
    names = Names(["Add", "add"], Tools())
    assert len({names.wire("Add").casefold(), names.wire("add").casefold()}) == 2


def test_a_tool_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="the tool 'a' is there 2 times"):
        Names(["a", "a"], Tools())


@given(st.text(max_size=100))
def test_every_id_becomes_legal(ours: str) -> None:
    for rule, pattern in IDS.items():
        made = wire_id(ours, rule)  # type: ignore[arg-type]  # the rules by name
        assert re.fullmatch(pattern, made)
        assert made == wire_id(ours, rule)  # type: ignore[arg-type]  # as above
        assert wire_id(made, rule) == made  # type: ignore[arg-type]  # as above
