"""Whatever a model was shown, with the changes applied, is what is there now.

The reader (`support.shown`) knows the text alone, of the first block and of each that followed.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.context.projection.changes import ShownState, changed_nodes, render_changes
from sightline.context.projection.select import select
from sightline.context.projection.strip import strip_blocks
from sightline.context.projection.tail import Format, render_tail
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support import lenient
from support.blocks import body_of, hostile_world
from support.edits import grown, next_world
from support.forgeries import random_text
from support.share import share
from support.shown import known, read, read_json

AT = datetime(2026, 11, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
@settings(max_examples=share(200))
@given(seed=st.integers(0, 2**32))
def test_what_was_shown_and_the_changes_are_what_is_there(form: Format, seed: int) -> None:
    rng = random.Random(seed)
    reads = read if form == "text" else read_json
    full: Format = "text" if form == "text" else "json"
    trees = [grown(rng, Node.of("r", "root"), 12) for _ in range(2)]
    world = World(tuple(AppState(f"a{at}", "A", tree=tree) for at, tree in enumerate(trees)))
    budget = rng.choice([120, 400, 4_000])
    shown, apps, catalogue = None, {}, ""
    for step in range(6):
        at = AT + timedelta(seconds=step)
        seen = select(world, budget).world
        current = msgspec.json.decode(
            msgspec.json.encode(ShownState.of(seen, at, form)), type=ShownState
        )
        whole = render_tail(seen, at, full)
        if shown is None:
            apps, catalogue = reads({}, whole.state), whole.available
        else:
            tail = render_changes(shown, current)
            assert strip_blocks(f"said\n\n{tail.text}") == "said"
            apps, catalogue = reads(apps, tail.state), tail.available or catalogue
        expected = reads({}, whole.state)
        assert {key: (known(app), below) for key, (app, below) in apps.items()} == {
            key: (known(app), below) for key, (app, below) in expected.items()
        }
        assert [line for line in catalogue.split("\n") if line.startswith("- ")] == [
            line for line in whole.available.split("\n") if line.startswith("- ")
        ]
        still = render_changes(current, current)
        assert body_of(still.state) in ("(nothing has changed)", '{"changed":[]}')
        shown, world = current, next_world(rng, world, rng.choice([0, 0, 2]))


@given(seed=st.integers(0, 2**32))
def test_the_listed_changes_are_those_that_the_block_has(seed: int) -> None:
    rng = random.Random(seed)
    world = World((AppState("a", "A", tree=grown(rng, Node.of("r", "root"), 12)),))
    other = next_world(rng, world, 0)
    before, after = (ShownState.of(one, AT) for one in (world, other))
    block = render_changes(before, after).state
    listed = list(changed_nodes(before, after))
    assert bool(listed) == (before.apps != after.apps)
    for node in listed:
        assert all(line.strip() in block for line in node.text.splitlines())
        lost = node.path.rpartition("/")[2]
        assert node.change != "gone" or f"gone: {lost}" in block or "(gone)" in block


@settings(max_examples=share(200))
@given(seed=st.integers(0, 2**32))
def test_no_app_forges_a_line_of_the_changes(seed: int) -> None:
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(3)]
    world, other = hostile_world(texts), hostile_world([*reversed(texts)])
    for form in ("text", "json", "yaml"):
        before, after = ShownState.of(world, AT, form), ShownState.of(other, AT, form)
        for one, two in ((before, after), (ShownState(before.at, form), after)):
            block = render_changes(one, two).state
            assert lenient.tags(block) == ["slop-state", "/slop-state"]
            assert len(lenient.read(block).split("\n")) == block.count("\n") + 1
            if form != "text":
                json.loads(body_of(block).replace("\\U", "\\\\U"))
                continue
            rows = sum(line.lstrip().startswith("[") for line in block.split("\n"))
            assert lenient.node_lines(block) == rows
            heads = sum(line.startswith("### ") for line in block.split("\n"))
            assert len(lenient.headings(block)) == heads
