"""What of the apps goes into a request: no keys, no walls of text, and no more than fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host.helpers import NOW, hosted
from sightline.agent.host.sight import LONGEST_TEXT, SafeWorlds, SightRules, look
from sightline.context.dialects.profiles import profile_for
from sightline.context.projection.select import quarter_chars
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support.live import TREE, LiveApp

KEY = "sk-ant-" + "a1B2" * 8


def world(*trees: Node) -> World:
    return World(tuple(AppState(tree.id, tree.id, tree=tree) for tree in trees))


def test_keys_are_blanked_wherever_an_app_shows_them() -> None:
    tree = Node.of(
        "shop", "root",
        properties={"token": KEY, "list": [f"x {KEY}"]},
        meta={"summary": f"key {KEY}"},
        affordances=[{"action": "buy", "description": f"with {KEY}"}],
        children=[Node.of("a", "item", properties={"password": "hunter2hunter2"}, odd=KEY)],
    )  # fmt: skip
    safe = SafeWorlds().of(world(tree))
    shown = look(safe, NOW, SightRules(10_000, "json"), quarter_chars).tail.text
    assert KEY not in shown
    assert "hunter2" not in shown
    assert "[redacted:anthropic-key]" in shown


@pytest.mark.parametrize("known", ["properties", "meta", "odd"])
def test_a_key_is_blanked_however_an_app_spells_it_in_json(known: str) -> None:
    """PHP writes every slash with a backslash; and any character may be written as its number."""
    coded = "".join(f"\\u{ord(char):04x}" for char in KEY)
    address = "postgres:\\/\\/me:hunter2hunter2@db"
    text = f'{{"id":"shop","type":"root","{known}":{{"summary":"{coded} {address}"}}}}'
    safe = SafeWorlds().of(world(decode(text)))
    shown = encode(safe.apps[0].tree or Node("a", "a")).decode()
    assert "[redacted:anthropic-key]" in shown
    assert "[redacted:url-password]" in shown
    assert "hunter2" not in shown


def test_an_escape_alone_changes_nothing() -> None:
    tree = decode(
        r'{"id":"shop","type":"root","properties":{"a":"one\ntwo \u00e9 \/ \"","b":1.50}}'
    )
    first = world(tree)
    assert SafeWorlds().of(first) is first


def test_a_key_that_swallows_what_follows_cannot_take_the_closing_tag_along() -> None:
    tree = Node.of("shop", "root", properties={"label": "-----BEGIN PRIVATE KEY-----"})
    sight = look(SafeWorlds().of(world(tree)), NOW, SightRules(10_000), quarter_chars)
    assert sight.tail.state.endswith("</slop-state>")


def test_what_is_harmless_is_the_same_object_and_what_changed_shares_the_rest() -> None:
    worlds = SafeWorlds()
    first = world(TREE)
    assert worlds.of(first) is first
    changed = TREE.change("/inbox/msg-1", lambda node: node.with_property("subject", KEY))
    safe = worlds.of(world(changed)).apps[0].tree
    assert safe is not None
    assert safe.at("/inbox/msg-1").properties["subject"] == "[redacted:anthropic-key]"
    assert safe.at("/notes") is TREE.at("/notes")
    again = worlds.of(world(changed)).apps[0].tree
    assert again is safe


def test_a_wall_of_text_is_cut() -> None:
    wall = Node.of("shop", "root", properties={"label": "w" * 200_000})
    sight = look(SafeWorlds().of(world(wall)), NOW, SightRules(10_000), quarter_chars)
    assert len(sight.tail.state) < LONGEST_TEXT + 500
    assert "more characters" in sight.tail.state


def test_an_app_that_is_too_much_cannot_keep_the_others_out() -> None:
    greedy = Node.of("greedy", "root", properties={f"p{n}": "x" * 50 for n in range(2_000)})
    sight = look(SafeWorlds().of(world(greedy, TREE)), NOW, SightRules(2_000), quarter_chars)
    assert not sight.selection.over_budget
    assert "Message 1" in sight.tail.state
    assert "too large to show" in sight.tail.state


async def test_a_large_nested_app_is_in_the_request_as_a_real_tokenizer_weighs_it(
    tmp_path: Path,
) -> None:
    """A state that is heavier than its selection says would leave the request as a whole."""
    folders = [
        Node.of(f"folder-{n}", "collection", meta={"salience": 0.9 - n / 1_000}, children=[
            Node.of(f"file-{n}-{at}", "document", meta={"salience": 0.1 if at else 0.9})
            for at in range(6)
        ])
        for n in range(200)
    ]  # fmt: skip
    app = LiveApp(Node.of("app", "root", children=folders))
    limits = {"window_tokens": 24_000, "max_output_tokens": 2_000}
    profile = profile_for("openai-chat", "gpt-5.5", limits)
    async with hosted(tmp_path, ["ok"], app=app, profile=profile) as (host, _):
        preview = await host.preview("hi")
    assert preview.selection is not None
    assert preview.selection.cuts
    assert preview.selection.tokens > preview.selection.budget - 100
    request = preview.request.data.decode()
    assert "<slop-state generated_at" in request
    assert "file-0-0" in request
    assert preview.prompt.receipt.warnings == ()


def test_an_app_without_a_tree_is_told_as_it_is() -> None:
    gone = World((AppState("a", "A", "disconnected", last_seen="2026-01-01T00:00:00Z"),))
    sight = look(SafeWorlds().of(gone), NOW, SightRules(0), quarter_chars)
    assert "status: disconnected" in sight.tail.state
