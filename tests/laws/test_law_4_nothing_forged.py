"""Law 4: escaped text can never open, close or fake a context block, a tree line, an app heading
or an action; the substitution table is what a reader sees for its patterns, and nothing else is
lost."""

from __future__ import annotations

import json
import random
import re

import pytest

from context.projection.requirements import proves
from sightline.context.projection.escape import escape_line, escape_name, escape_text
from sightline.context.projection.tail import render_tail
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support import lenient
from support.blocks import (
    AT,
    NODES,
    PER_NODE,
    TAILS,
    assert_nothing_is_forged,
    assert_random_text_forges_nothing,
    body_of,
    raw,
)
from support.forgeries import ACTIONS, LINES, corpus, random_text
from support.share import share

CORPUS = corpus()


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


BLOCKS = 10


@proves("CI-3")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_strings_over_the_alphabet_forge_nothing(block: int) -> None:
    assert BLOCKS * TAILS * NODES * PER_NODE == 100_000
    assert_random_text_forges_nothing(random.Random(block), share(TAILS))


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
