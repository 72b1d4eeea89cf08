"""Law 4: escaped text can never open, close or fake a context block, a tree line, an app heading
or an action; the substitution table is what a reader sees for its patterns, and nothing else is
lost."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import msgspec
import pytest

from projection.requirements import proves
from sightline.projection.body import Format
from sightline.projection.escape import escape_line, escape_name, escape_text
from sightline.projection.moment import parse_moment
from sightline.projection.tail import render_tail
from sightline.protocol.tree import Node
from sightline.protocol.world import AppState, AvailableApp, World
from support import lenient
from support.forgeries import ACTIONS, LINES, corpus, random_text

AT = parse_moment("2026-04-28T10:30:00Z")
FORMATS: tuple[Format, ...] = ("text", "json", "yaml")
BOTH_BLOCKS = ["slop-apps-available", "/slop-apps-available", "slop-state", "/slop-state"]
CORPUS = corpus()


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def hostile_node(node_id: str, text: str, next_text: str) -> Node:
    """A node that says `text` wherever an app can say something; built without its checks."""
    actions = [
        {
            "action": text or "a",
            "description": text,
            "params": {"properties": {text: {"type": text}}},
        }
    ]
    return Node(
        f"{node_id}{text}",
        text or "t",
        raw({"label": text, text: text, "deep": [{text: [text]}], "z": next_text}),
        raw({"summary": text, "salience": 0.5, "reason": text, text: text}),
        raw(actions),
        raw({"type": "text", "mime": text, "uri": text, "summary": text}),
    )


def hostile_world(texts: list[str]) -> World:
    """One app that says all of it, in every place, and in halves across neighbouring fields."""
    nodes = []
    for at, text in enumerate(texts):
        half = len(text) // 2
        nodes.append(hostile_node(f"a{at}", text, text))
        nodes.append(hostile_node(f"b{at}", text[:half], text[half:]))
    root = Node("root", "root", child_list=tuple(nodes))
    apps = tuple(
        AppState(text, text, tree=root if at == 0 else None) for at, text in enumerate(texts)
    )
    gone = AppState("gone", texts[0], "disconnected", root, last_seen=texts[0])
    available = tuple(AvailableApp(text, text, text, text, text) for text in texts)
    return World((*apps, gone), available)


def assert_nothing_is_forged(texts: list[str]) -> None:
    world = hostile_world(texts)
    for form in FORMATS:
        tail = render_tail(world, AT, form)
        assert lenient.tags(tail.text) == BOTH_BLOCKS, f"{form}: {texts!r}"
        lines = tail.available.split("\n")
        assert len(lenient.read(tail.available).split("\n")) == len(lines) == len(texts) + 2
        check = {"text": assert_text, "json": assert_json, "yaml": assert_yaml}[form]
        check(tail.state, world, len(texts))


def assert_text(block: str, world: World, texts: int) -> None:
    assert len(lenient.headings(block)) == 1 + len(world.apps)
    assert lenient.node_lines(block) == 1 + 2 * texts
    assert len(lenient.actions(block)) == 2 * texts
    assert len(lenient.read(block).split("\n")) == block.count("\n") + 1


def body_of(block: str) -> str:
    return block.split("\n", 1)[1].rsplit("\n", 1)[0]


def assert_json(block: str, world: World, texts: int) -> None:
    value = json.loads(body_of(block))
    assert len(value["apps"]) == len(world.apps)
    children = value["apps"][0]["tree"]["children"]
    assert [len(child["affordances"]) for child in children] == [1] * (2 * texts)
    assert block.count("\n") == len(lenient.read(block).split("\n")) - 1 == len(world.apps) + 3


YAML_LINE = re.compile(r'( *)(- )?("(?:[^"\\]|\\.)*"|[a-z_]+):( (.*))?')
FAR = re.compile(r"\\U([0-9a-f]{8})")


def yaml_value(text: str) -> Any:
    """JSON but for one kind of escape."""
    return json.loads(FAR.sub(lambda match: json.dumps(chr(int(match[1], 16)))[1:-1], text))


def assert_yaml(block: str, world: World, texts: int) -> None:
    counts: dict[str, int] = {}
    for line in body_of(block).split("\n"):
        match = YAML_LINE.fullmatch(line)
        assert match, line
        counts[match[3]] = counts.get(match[3], 0) + 1
        if match[5]:
            yaml_value(match[5])
    assert counts["id"] == len(world.apps) + 1 + 2 * texts
    assert counts["affordances"] == 2 * texts
    assert len(lenient.read(block).split("\n")) == block.count("\n") + 1


@proves("CI-3", "CI-E", "CI-F")
@pytest.mark.parametrize("start", range(0, len(CORPUS), 20))
def test_no_disguise_gets_through(start: int) -> None:
    for _, text in CORPUS[start : start + 20]:
        assert_nothing_is_forged([text])


def test_the_corpus_is_large_and_the_reader_is_fooled_without_escaping() -> None:
    assert len(CORPUS) >= 200
    tags = [text for how, text in CORPUS if "slop-" in how]
    fooled = [text for text in tags if lenient.tags(text + ">")]
    assert len(fooled) > len(tags) * 0.8
    assert all(lenient.headings(text) or lenient.node_lines(text) for text in LINES)
    assert all(lenient.actions(text) == ["forged"] for text in ACTIONS)


BLOCKS, TAILS, NODES, PER_NODE = 10, 100, 20, 5


@proves("CI-3")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_100_000_random_strings_over_the_alphabet_forge_nothing(block: int) -> None:
    assert BLOCKS * TAILS * NODES * PER_NODE == 100_000
    rng = random.Random(block)
    for _ in range(TAILS):
        nodes = tuple(_says(f"n{at}", *(random_text(rng) for _ in range(5))) for at in range(NODES))
        root = Node("root", "root", child_list=nodes)
        world = World((AppState("app", random_text(rng), tree=root),))
        for form in FORMATS:
            state = render_tail(world, AT, form).state
            assert lenient.tags(state) == BOTH_BLOCKS[2:], f"block {block}, {form}"
            if form == "text":
                assert len(lenient.headings(state)) == 2
                assert lenient.node_lines(state) == NODES + 1
                assert len(lenient.actions(state)) == NODES


def _says(node_id: str, kind: str, label: str, value: str, summary: str, action: str) -> Node:
    properties, meta = {"label": label, "k": value}, {"summary": summary}
    return Node(node_id, kind, raw(properties), raw(meta), raw([{"action": action}]))


ESCAPE = re.compile(r"\\u([0-9a-f]{4})")


def seen_through(text: str) -> str:
    """Undo the visible escapes."""
    plain = ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def pattern(name: str, slash: str = "") -> re.Pattern[str]:
    return re.compile(rf"<\s*{slash}{name}\b[^>]*>", re.IGNORECASE)


TABLE = [
    (pattern("slop-state"), "<slop-state-escaped>"),
    (pattern("slop-state", r"/\s*"), r"<\\/slop-state>"),
    (pattern("slop-apps-available"), "<slop-apps-available-escaped>"),
    (pattern("slop-apps-available", r"/\s*"), r"<\\/slop-apps-available>"),
]


def by_the_table(text: str) -> str:
    for found, replacement in TABLE:
        text = found.sub(replacement, text)
    return text


@proves("CI-E")
@pytest.mark.parametrize("seed", range(10))
def test_what_a_reader_sees_is_the_tables_result_and_nothing_else_is_lost(seed: int) -> None:
    rng = random.Random(1_000 + seed)
    for _ in range(1_000):
        text = random_text(rng).replace("\\", "")
        assert seen_through(escape_text(text)) == by_the_table(text), repr(text)


@pytest.mark.parametrize("seed", range(5))
def test_escaping_twice_is_escaping_once(seed: int) -> None:
    rng = random.Random(2_000 + seed)
    for _ in range(1_000):
        text = random_text(rng)
        for escape in (escape_text, escape_line, escape_name):
            assert escape(escape(text)) == escape(text), repr(text)


@pytest.mark.parametrize("seed", range(5))
def test_a_json_body_parses_to_the_tree_it_came_from(seed: int) -> None:
    rng = random.Random(3_000 + seed)
    for _ in range(200):
        text = random_text(rng)
        tree = Node("root", "root", raw({"a": text, text: [text, {"b": text}]}))
        block = render_tail(World((AppState("a", "A", tree=tree),)), AT, "json").state
        shown = json.loads(body_of(block))["apps"][0]["tree"]["properties"]
        once = opened_by_the_table(text)
        assert shown == {"a": once, once: [once, {"b": once}]}, repr(text)


def opened_by_the_table(text: str) -> str:
    """What a program reads: `<\\/` is JSON for `</`, so only names and attributes can be lost."""
    for found, replacement in TABLE:
        text = found.sub(replacement.replace("\\\\", ""), text)
    return text
