"""Context blocks made of hostile text, read by a reader that is easily fooled."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import msgspec

from sightline.context.projection.moment import parse_moment
from sightline.context.projection.tail import Format, render_state, render_tail
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, World
from support import lenient
from support.forgeries import random_text

AT = parse_moment("2026-04-28T10:30:00Z")
FORMATS: tuple[Format, ...] = ("text", "json", "yaml")
BOTH_BLOCKS = ["slop-apps-available", "/slop-apps-available", "slop-state", "/slop-state"]
TAILS, NODES, PER_NODE = 100, 20, 5


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def hostile_node(node_id: str, text: str, next_text: str) -> Node:
    """A node that says `text` wherever an app can say something; built without its checks."""
    actions = [
        {
            "action": text or "a",
            "description": text,
            "params": {
                "properties": {
                    text: {"type": text},
                    "e": {"enum": [text, text], "default": text},
                    "f": {"type": "string", "format": text, "const": text},
                },
                "required": [text],
            },
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
        assert lenient.actions(tail.available) == [], f"{form}: {texts!r}"
        check = {"text": assert_text, "json": assert_json, "yaml": assert_yaml}[form]
        check(tail.state, world, len(texts))
    assert_described(world, len(texts))


def assert_text(block: str, world: World, texts: int) -> None:
    assert len(lenient.headings(block)) == 1 + len(world.apps)
    assert lenient.node_lines(block) == 1 + 2 * texts
    assert len(lenient.actions(block)) == 2 * texts
    assert len(lenient.read(block).split("\n")) == block.count("\n") + 1


def assert_described(world: World, texts: int) -> None:
    block = render_state(world, AT, described=True)
    assert lenient.tags(block) == BOTH_BLOCKS[2:]
    assert_text(block, world, texts)


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


def assert_random_text_forges_nothing(rng: random.Random, tails: int = TAILS) -> None:
    """Render blocks of random strings, `NODES * PER_NODE` in each, in every format."""
    for _ in range(tails):
        nodes = tuple(_says(f"n{at}", *(random_text(rng) for _ in range(5))) for at in range(NODES))
        root = Node("root", "root", child_list=nodes)
        world = World((AppState("app", random_text(rng), tree=root),))
        for form in FORMATS:
            state = render_tail(world, AT, form).state
            assert lenient.tags(state) == BOTH_BLOCKS[2:], form
            if form == "text":
                assert len(lenient.headings(state)) == 2
                assert lenient.node_lines(state) == NODES + 1
                assert len(lenient.actions(state)) == NODES


def _says(node_id: str, kind: str, label: str, value: str, summary: str, action: str) -> Node:
    properties, meta = {"label": label, "k": value}, {"summary": summary}
    return Node(node_id, kind, raw(properties), raw(meta), raw([{"action": action}]))
