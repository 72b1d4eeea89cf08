"""Addresses: request paths, patch paths, and the pointers inside a field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InvalidPath
from sightline.slop.protocol.path import (
    FIELDS,
    PatchPath,
    escape,
    format_path,
    join,
    parse_patch_path,
    parse_path,
    unescape,
)

IDS = st.lists(
    st.text(min_size=1).filter(lambda s: "/" not in s and "~" not in s and s not in FIELDS)
)


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("", ()),
        ("/", ()),
        ("/inbox", ("inbox",)),
        ("inbox", ("inbox",)),
        ("/inbox/", ("inbox",)),
        ("/inbox/msg-42", ("inbox", "msg-42")),
        ("/a b/日本", ("a b", "日本")),
    ],
)
def test_a_request_path_is_the_ids_from_the_root(path: str, ids: tuple[str, ...]) -> None:
    assert parse_path(path) == ids


@pytest.mark.parametrize("path", ["//", "///", "/a//b", "a//", "//a"])
def test_a_request_path_has_no_empty_segments(path: str) -> None:
    with pytest.raises(InvalidPath, match="empty segments") as caught:
        parse_path(path)
    assert caught.value.path == path


@given(IDS)
def test_a_written_request_path_reads_as_its_ids(ids: list[str]) -> None:
    assert parse_path(format_path(ids)) == tuple(ids)
    joined = "/"
    for node_id in ids:
        joined = join(joined, node_id)
    assert joined == format_path(ids)


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/", PatchPath((), None, ())),
        ("", PatchPath((), None, ())),
        ("/inbox", PatchPath(("inbox",), None, ())),
        ("/inbox/msg-1", PatchPath(("inbox", "msg-1"), None, ())),
        ("/properties", PatchPath((), "properties", ())),
        ("/inbox/properties/a~1b", PatchPath(("inbox",), "properties", ("a/b",))),
        ("/properties/~01", PatchPath((), "properties", ("~1",))),
        ("/properties/", PatchPath((), "properties", ("",))),
        ("/a/properties/b//c", PatchPath(("a",), "properties", ("b", "", "c"))),
        ("/properties/meta/type", PatchPath((), "properties", ("meta", "type"))),
        ("/a/type", PatchPath(("a",), "type", ())),
        ("/a/children", PatchPath(("a",), "children", ())),
        ("/a/id", PatchPath(("a", "id"), None, ())),
    ],
)
def test_the_first_field_name_of_a_patch_path_enters_that_field(
    path: str, parts: PatchPath
) -> None:
    assert parse_patch_path(path) == parts


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("inbox", "must start with '/'"),
        ("//", "empty segments"),
        ("/a//b", "empty segments"),
        ("/a/", "empty segments"),
        ("/properties/~", "'~' must be written '~0'"),
        ("/properties/a~2", "'~' must be written '~0'"),
        ("/properties/~~0", "'~' must be written '~0'"),
    ],
)
def test_a_malformed_patch_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(InvalidPath, match=reason):
        parse_patch_path(path)


@given(IDS, st.sampled_from(sorted(FIELDS)), st.lists(st.text()))
def test_any_key_survives_as_a_pointer(ids: list[str], field: str, tokens: list[str]) -> None:
    segments = [*ids, field, *map(escape, tokens)]
    assert parse_patch_path("/" + "/".join(segments)) == (tuple(ids), field, tuple(tokens))


@given(st.text())
def test_unescape_undoes_escape(token: str) -> None:
    written = escape(token)
    assert "/" not in written
    assert unescape(written, "/") == token
