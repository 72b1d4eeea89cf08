"""The demo tree is legal, small enough for a tiny model, and shows the patterns it is to show."""

from __future__ import annotations

import json

from sightline.demo import demo_tree
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.rules import violations
from sightline.slop.protocol.text import format_tree


def test_it_breaks_no_rule() -> None:
    assert violations(json.loads(encode(demo_tree())), WIRE) == []


def test_it_reads_in_a_few_hundred_words() -> None:
    assert len(format_tree(demo_tree())) < 2_000


def test_it_has_a_view_in_focus_a_window_a_stub_and_something_dangerous() -> None:
    tree = demo_tree()
    inbox = tree.at("/inbox")
    assert inbox.meta.focus is True
    assert inbox.meta.window == (0, 4)
    assert len(inbox.children) == 4 < inbox.total_children
    assert tree.at("/drafts").is_lazy
    assert any(action.dangerous for node in tree.walk() for action in node.affordances)
    assert any(node.content_ref for node in tree.walk())
