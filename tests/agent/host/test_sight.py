"""What of the apps goes into a request: no keys, no walls of text, and no more than fits."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.helpers import NOW, hosted, turn
from sightline.agent.host.sight import LONGEST_TEXT, SafeWorlds, SightRules, look
from sightline.context.dialects.profiles import profile_for
from sightline.context.messages.parts import ToolCall
from sightline.context.projection.select import quarter_chars
from sightline.context.projection.tail import Format
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, World
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


MANY = Node.of(
    "app", "root",
    children=[Node.of(f"i{n}", "item", properties={"t": f"row {n} " * 20}) for n in range(2_000)],
)  # fmt: skip
NOT_CONNECTED = tuple(AvailableApp(f"app-{n}", f"App {n}", "unix", "local") for n in range(300))


forms = st.sampled_from(["text", "json"])


@given(st.integers(0, 60), st.integers(0, 200), st.integers(0, 3_000), forms)
def test_state_and_catalogue_keep_to_their_limit_and_count_what_is_missing(
    rows: int, apps: int, most: int, form: Format
) -> None:
    shown_world = World(
        (AppState("app", "App", tree=MANY.with_child_list(tuple(MANY.children[:rows]))),),
        NOT_CONNECTED[:apps],
    )
    rules = SightRules(10_000, form, max_tokens=most)
    tail = look(shown_world, NOW, rules, quarter_chars).tail
    weight = quarter_chars(tail.state) + quarter_chars(tail.available)
    least = 150  # the frames of both blocks, the app's heading and its root
    assert most == 0 or weight <= max(most, least)
    listed = tail.available.count("- App ")
    left = re.search(r"\((\d+) more; slop_query", tail.available)
    assert listed + (int(left[1]) if left else 0) == apps
    if form == "text" and most > 400:
        items = tail.state.count("[item]")
        assert items == rows or f"(showing {items} of {rows})" in tail.state or items == 0
    if most == 0:
        assert (listed, tail.state.count("row 0 ") > 0) == (apps, rows > 0)


async def test_a_large_app_on_a_large_window_costs_no_more_than_on_a_small_one(
    tmp_path: Path,
) -> None:
    big = profile_for("anthropic", "claude-opus-4-8")
    assert big.window_tokens == 1_000_000
    rest = ToolCall("q", "slop_query", {"app": "live", "path": "/", "offset": 1_990, "count": 9})
    notes = "a plan of many steps " * 2_000
    async with hosted(tmp_path, [[rest], "Seen."], app=LiveApp(MANY), profile=big) as (host, model):
        host.ledger.scratchpad.replace(host.session.id, notes)
        await turn(host)
        receipt = host.last.prompt.receipt if host.last else None
    assert receipt is not None
    assert 3_500 < receipt.slot("state").kept + receipt.slot("apps").kept <= 4_000
    assert receipt.slot("scratchpad").cut == 0
    first, second = (request.data.decode() for request in model.requests)
    items = first.count("[item]")
    assert f"(showing {items} of 2000)" in first
    assert "[item] i1995" not in first
    assert "[item] i1995" in second, "one slop_query away"


async def test_a_long_catalogue_is_one_query_away(tmp_path: Path) -> None:
    every = ToolCall("q", "slop_query", {"app": "*"})
    async with hosted(tmp_path, [[every], "Seen."], app=LiveApp()) as (host, model):
        host.hub.world = replace(host.hub.world, available=NOT_CONNECTED)
        await turn(host)
    first, second = (request.data.decode() for request in model.requests)
    [left] = re.findall(r"\((\d+) more; slop_query with app", first)
    assert first.count("- App ") + int(left) == 300
    assert "301 of 301 apps" in second
    assert "- App 299 (app-299), not connected" in second
    assert "- Live (live), connected" in second


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
