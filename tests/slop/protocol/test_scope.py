"""Scope: local first, then the parent, then the root."""

from __future__ import annotations

import pytest

from sightline.errors import InvalidPath
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.scope import (
    actions_in_scope,
    find_action,
    inherited_context,
    nearest_context,
)


def actions(*names: str) -> list[dict[str, str]]:
    return [{"action": name} for name in names]


TREE = from_value(
    {
        "id": "app",
        "type": "root",
        "affordances": actions("navigate", "refresh"),
        "children": [
            {
                "id": "me",
                "type": "context",
                "properties": {"user": "alice", "locale": "en", "permissions": ["read"]},
                "affordances": actions("logout", "navigate"),
            },
            {
                "id": "inbox",
                "type": "view",
                "affordances": actions("refresh"),
                "children": [
                    {"id": "here", "type": "context", "properties": {"locale": "de", "box": 1}},
                    {"id": "msg-1", "type": "item", "affordances": actions("delete")},
                ],
            },
            {"id": "other", "type": "view", "affordances": actions("export")},
        ],
    }
)


def test_the_nearest_action_is_found() -> None:
    for action, path in (
        ("delete", "/inbox/msg-1"),
        ("refresh", "/inbox"),
        ("navigate", "/"),
        ("logout", "/me"),
    ):
        found = find_action(TREE, "/inbox/msg-1", action)
        assert found is not None
        assert (found.path, found.affordance.action) == (path, action)


def test_what_is_beside_the_way_up_is_out_of_scope() -> None:
    assert find_action(TREE, "/inbox/msg-1", "export") is None
    assert find_action(TREE, "/", "delete") is None


def test_actions_are_listed_nearest_first_and_once() -> None:
    listed = [
        (item.path, item.affordance.action) for item in actions_in_scope(TREE, "/inbox/msg-1")
    ]
    assert listed == [
        ("/inbox/msg-1", "delete"),
        ("/inbox", "refresh"),
        ("/", "navigate"),
        ("/me", "logout"),
    ]


def test_context_is_inherited_and_the_inner_word_is_the_last() -> None:
    outer = {"user": "alice", "locale": "en", "permissions": ["read"]}
    assert inherited_context(TREE, "/other") == outer
    assert inherited_context(TREE, "/inbox/msg-1") == {**outer, "locale": "de", "box": 1}
    assert inherited_context(TREE, "/me") == outer
    assert inherited_context(TREE, "/") == outer
    assert nearest_context(TREE, "/inbox/msg-1/not/shown") == inherited_context(
        TREE, "/inbox/msg-1"
    )
    assert nearest_context(TREE, "/nowhere") == outer


def test_a_path_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(InvalidPath, match="no node 'msg-9'"):
        find_action(TREE, "/inbox/msg-9", "delete")
