"""The fast path of `decode` vouches for a document exactly when the rules accept it.

    decode(text) succeeds  ⇔  violations(loads(text)) == []

on documents that are legal but for one or two small things, in any spelling.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sightline.errors import InvalidJson, InvalidTree
from sightline.slop.protocol.codec import decode, from_value
from sightline.slop.protocol.jsontext import loads
from sightline.slop.protocol.limits import DEFAULT, Limits
from sightline.slop.protocol.rules import violations
from support.trees import Tree, copy_of, every_node, tree

TIGHT = Limits(levels=3, nodes=12, id_bytes=6, string_bytes=40, value_levels=3)
ODD: list[Any] = [
    None, True, 0, -1, 0.5, 1.0, 2, 1e30, 2**64, "", "a", "/", "id", "high", "text", [], [0, 1],
    [0, 1.0], [-1, 0], {}, {"action": "open"}, [{"action": "open"}], [{"action": ""}],
    [{"action": "open"}, {"action": "open"}], [{"action": "open", "params": None}],
    [{"action": "a", "params": {"x": 1e30}}], "é" * 200, "x" * 60, [[[[1]]]], {"a": {"b": {}}},
    {"type": "text", "mime": "m", "uri": "u", "summary": ""}, [[], {"id": "a", "type": "b"}],
]  # fmt: skip
PLACES: list[tuple[str, ...]] = [
    ("id",), ("type",), ("properties",), ("meta",), ("affordances",), ("content_ref",),
    ("children",), ("unknown",), ("properties", "x"), ("meta", "summary"), ("meta", "salience"),
    ("meta", "pinned"), ("meta", "urgency"), ("meta", "total_children"), ("meta", "window"),
    ("meta", "available_actions"), ("meta", "x"), ("content_ref", "type"), ("content_ref", "uri"),
    ("content_ref", "size"), ("affordances", "0"), ("affordances", "0", "action"),
    ("affordances", "0", "params"), ("affordances", "0", "estimate"),
    ("affordances", "0", "dangerous"),
]  # fmt: skip
# Texts that no value stands for: put into the document in the place of a marker.
TEXTS = [
    "NaN", "-Infinity", "1e999", "-0", "1" * 400, "1" * 5000, '"\\ud800"', '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"', '"\\u0000"', '"\\/"', '{"a":1,"a":2}', '{"salience":7,"salience":1}',
    '[{"action":"a","action":"b"}]', "01", "1.", "tru", '"\\x"', "[1,]", '"\t"', "{,}", "'a'",
    '{"\\ud800":1}', "0.0", "1E0", '"\\u0061/"', '"\\u002f"', '"\\u007e"', '"t\\u0079pe"',
]  # fmt: skip
MARKER = "\ue000 marker"

# A law runs the same lines a million times: the other tests say which lines are covered.
pytestmark = pytest.mark.no_cover


def put(node: Tree, place: tuple[str, ...], value: Any) -> None:
    holder: Any = node
    for name in place[:-1]:
        if isinstance(holder, dict) and not isinstance(holder.get(name), (dict, list)):
            holder[name] = [{"action": "go"}] if name == "affordances" else {}
        holder = holder[int(name)] if isinstance(holder, list) and holder else holder
        holder = holder.get(name, {}) if isinstance(holder, dict) else {}
    if isinstance(holder, dict):
        holder[place[-1]] = value
    elif holder:
        holder[0] = value


def mutated(rng: random.Random, legal: Tree) -> str:
    """A document that may or may not be legal any more, in some spelling."""
    value = copy_of(legal)
    nodes = every_node(value)
    text = None
    for _ in range(rng.choice([0, 1, 1, 2])):
        target = rng.choice(nodes)
        pick = rng.random()
        if pick < 0.2:
            target.pop(rng.choice(list(target)), None)
        elif pick < 0.3 and isinstance(target.get("children"), list) and target["children"]:
            target["children"].append(copy_of(rng.choice(target["children"])))
        elif pick < 0.4:
            target["id"] = rng.choice(["a/b", "~", "", "meta", "ids", "x" * 257, "é" * 4, 5])
        elif pick < 0.6 and text is None:
            text = rng.choice(TEXTS)
            put(target, rng.choice(PLACES), MARKER)
        else:
            put(target, rng.choice(PLACES), copy_of(rng.choice(ODD)))
    written = json.dumps(
        value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1, "\t"])
    )
    for spelled in (json.dumps(MARKER), json.dumps(MARKER, ensure_ascii=False)):
        written = written.replace(spelled, text or "null")
    if rng.random() < 0.1:
        written = rng.choice([" ", "\n"]) + written + rng.choice(["", " ", "\r\n", "x", "\x00"])
    if rng.random() < 0.05:
        written = written[: rng.randrange(len(written))]
    return written


def outcome_by_the_rules(text: str, limits: Limits) -> object:
    try:
        value = loads(text)
    except InvalidJson as error:
        return str(error)
    broken = violations(value, limits)
    return tuple(broken) if broken else from_value(value, limits)


def outcome_of_decode(text: str | bytes, limits: Limits) -> object:
    try:
        return decode(text, limits)
    except InvalidJson as error:
        return str(error)
    except InvalidTree as error:
        return error.violations


@pytest.mark.parametrize("limits", [DEFAULT, TIGHT], ids=["default limits", "tight limits"])
@pytest.mark.parametrize("block", range(3))
def test_decode_accepts_what_the_rules_accept(block: int, limits: Limits) -> None:
    accepted = refused = 0
    for seed in range(block * 1_000, (block + 1) * 1_000):
        rng = random.Random(seed)
        text = mutated(rng, tree(rng, rng.choice([1, 2, 3])))
        expected = outcome_by_the_rules(text, limits)
        assert outcome_of_decode(text, limits) == expected, f"seed {seed}: {text[:500]}"
        assert outcome_of_decode(text.encode(), limits) == expected, f"seed {seed}"
        if isinstance(expected, (str, tuple)):
            refused += 1
        else:
            accepted += 1
    assert min(accepted, refused) > 150, "the documents are too legal, or not legal enough"


def test_whatever_decode_returns_can_be_read() -> None:
    for seed in range(2_000):
        rng = random.Random(seed)
        result = outcome_of_decode(mutated(rng, tree(rng, 2)), DEFAULT)
        if isinstance(result, (str, tuple)):
            continue
        for node in result.walk():  # type: ignore[attr-defined]
            assert node.properties is not None
            assert node.meta is not None
            assert node.affordances is not None
            assert node.content_ref is None or node.content_ref.uri is not None
            assert node.unknown is not None
