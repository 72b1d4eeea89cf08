"""What is done in bulk comes out as if it had been done node by node."""

from __future__ import annotations

import json
import random

import pytest

from sightline.errors import InvalidTree
from sightline.slop.protocol.codec import build, decode
from sightline.slop.protocol.siblings import CHUNK, Siblings
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node

HOSTILE = [
    "plain", "é", "会議", "🎉", "a\u200db", "\x7f", "\x85", "a\u2028b", "\u202e", "\xa0", '"', "\\",
    "\n", "\x00", "  actions: {x}", '  — "y"', "  salience=1", "salience=1", ',"a":1', "{[",
]  # fmt: skip


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_node_reads_the_same_in_a_block_and_alone(ensure_ascii: bool, indent: int | None) -> None:
    rng = random.Random(1)
    items = [
        {
            "id": f"{i}{rng.choice(HOSTILE).replace('/', '')}",
            "type": rng.choice(["item", "x]y"]),
            "properties": {
                rng.choice(["title", "label", "other"]): rng.choice([*HOSTILE, 7, None, [1.5]]),
                rng.choice(HOSTILE): [rng.choice(HOSTILE), {rng.choice(HOSTILE): 1}],
            },
            "meta": rng.choice([None, {"summary": rng.choice(HOSTILE), "total_children": 3}]),
        }
        for i in range(700)
    ]
    tree = {"id": "root", "type": "root", "children": items}
    root = build(json.dumps(tree, ensure_ascii=ensure_ascii, indent=indent).encode())
    alone = [format_tree(child) for child in root.children]
    indented = [f"  {line}" for text in alone for line in text.split("\n")]
    assert format_tree(root).split("\n") == ["[root] root", *indented]


def test_nulls_beside_it_do_not_excuse_a_value_that_nests_too_deep() -> None:
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    quiet = [{"id": f"c{i}", "type": "item", "properties": None} for i in range(100)]
    loud = {"id": "x", "type": "item", "properties": {"a": deep}}
    tree = {"id": "root", "type": "root", "children": [*quiet, loud]}
    with pytest.raises(InvalidTree, match="nest deeper"):
        decode(json.dumps(tree))


def test_versions_of_a_long_list_find_their_own_nodes_whatever_the_others_do() -> None:
    rng = random.Random(5)
    start = [Node(f"n{i}", "item") for i in range(3 * CHUNK)]
    versions = [(Siblings.of(start), start)]
    for _ in range(3_000):
        siblings, model = rng.choice(versions[-8:])
        node_id = f"n{rng.randrange(4 * CHUNK)}"
        expected = next((node for node in model if node.id == node_id), None)
        place = siblings.find(node_id)
        assert siblings.get(node_id) is expected
        node = Node(node_id, "item")
        if place is None:
            at = rng.randrange(len(model) + 1)
            siblings, model = siblings.inserted(at, node), [*model[:at], node, *model[at:]]
        elif rng.random() < 0.5:
            siblings, model = siblings.removed(place), [n for n in model if n is not expected]
        else:
            siblings = siblings.replaced(place, node)
            model = [node if n is expected else n for n in model]
        assert len(siblings) == len(model)
        versions.append((siblings, model))
    siblings, model = versions[-1]
    assert list(map(id, siblings)) == list(map(id, model))


def test_an_emptied_list_finds_nothing_and_can_be_filled_again() -> None:
    siblings = Siblings.of([Node("a", "item"), Node("b", "item")])
    for node_id in ("a", "b"):
        place = siblings.find(node_id)
        assert place is not None
        siblings = siblings.removed(place)
    assert siblings.find("a") is None
    assert siblings.inserted(0, Node("a", "item")).find("a") == (0, 0)


def test_a_list_whose_ids_come_and_go_does_not_remember_them_all() -> None:
    siblings = Siblings.of([Node(f"n{i}", "item") for i in range(10)])
    for i in range(10, 2_000):
        siblings = siblings.inserted(10, Node(f"n{i}", "item"))
        place = siblings.find(f"n{i - 10}")
        assert place == (0, 0)
        siblings = siblings.removed(place)
        assert siblings.find(f"n{i - 10}") is None
    assert siblings._hints is not None
    assert len(siblings._hints) < 30
