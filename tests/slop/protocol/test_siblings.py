"""A long child list behaves as the plain list that it stands for."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sightline.slop.protocol.siblings import CHUNK, Chunk, SiblingPosition, Siblings
from sightline.slop.protocol.tree import Node


def item(name: object) -> Node:
    return Node(str(name), "item")


def items(count: int) -> list[Node]:
    return [item(i) for i in range(count)]


def place_of(siblings: Siblings, node_id: str) -> SiblingPosition:
    place = siblings.find(node_id)
    assert place is not None
    return place


class AgainstAList(RuleBasedStateMachine):
    """Every operation is done on a Siblings and on a list; they must never disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.model = items(0)
        self.siblings = Siblings.of(self.model)
        self.made = 0

    @rule(count=st.integers(0, 3 * CHUNK))
    def start_again(self, count: int) -> None:
        self.model = items(count)
        self.siblings = Siblings.of(self.model)

    @rule(at=st.floats(0, 1), count=st.integers(1, 200))
    def insert_a_run(self, at: float, count: int) -> None:
        for _ in range(count):
            index = round(at * len(self.model))
            self.made += 1
            node = item(f"new-{self.made}")
            self.model.insert(index, node)
            self.siblings = self.siblings.inserted(index, node)

    @precondition(lambda self: self.model)
    @rule(at=st.floats(0, 1, exclude_max=True), count=st.integers(1, 200))
    def remove_a_run(self, at: float, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            node = self.model.pop(int(at * len(self.model)))
            self.siblings = self.siblings.removed(place_of(self.siblings, node.id))

    @precondition(lambda self: self.model)
    @rule(at=st.floats(0, 1, exclude_max=True))
    def replace(self, at: float) -> None:
        index = int(at * len(self.model))
        node = item(self.model[index].id)
        before, self.model[index] = self.model[index], node
        changed = self.siblings.replaced(place_of(self.siblings, node.id), node)
        assert self.siblings.get(node.id) is before, "the list before the change has changed"
        self.siblings = changed

    @rule(
        start=st.integers(-2000, 2000),
        stop=st.integers(-2000, 2000),
        step=st.sampled_from([1, -1, 7]),
    )
    def slice_it(self, start: int, stop: int, step: int) -> None:
        assert self.siblings[start:stop:step] == tuple(self.model[start:stop:step])

    @invariant()
    def says_what_the_list_says(self) -> None:
        assert len(self.siblings) == len(self.model)
        assert all(a is b for a, b in zip(self.siblings, self.model, strict=True))
        assert self.siblings.find("nobody") is None
        assert self.siblings.get("nobody") is None
        for index in {0, len(self.model) // 2, len(self.model) - 1} if self.model else ():
            assert self.siblings[index] is self.model[index]
            assert self.siblings[index - len(self.model)] is self.model[index]
            assert self.siblings.get(self.model[index].id) is self.model[index]


AgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def test_a_long_run_of_edits_agrees_with_a_list() -> None:
    rng = random.Random(1)
    model = items(5_000)
    siblings = Siblings.of(model)
    for n in range(3_000):
        if model and rng.random() < 0.5:
            node = model.pop(rng.randrange(len(model)))
            siblings = siblings.removed(place_of(siblings, node.id))
        else:
            node, index = item(f"n{n}"), rng.randrange(len(model) + 1)
            model.insert(index, node)
            siblings = siblings.inserted(index, node)
    assert list(siblings) == model
    assert [siblings.get(node.id) for node in model] == model
    assert all(len(chunk.nodes) <= 2 * CHUNK for chunk in siblings.chunks)


def test_a_change_copies_one_chunk_and_shares_the_others() -> None:
    before = Siblings.of(items(10 * CHUNK))
    node = item(3 * CHUNK + 5)
    after = before.replaced(place_of(before, node.id), node)
    differing = [i for i in range(10) if before.chunks[i] is not after.chunks[i]]
    assert differing == [3]


def test_an_index_out_of_range_is_an_index_error() -> None:
    siblings = Siblings.of(items(3))
    for index in (3, -4):
        with pytest.raises(IndexError):
            siblings[index]


def test_empty_chunks_are_no_trouble() -> None:
    one, two = items(2)
    siblings = Siblings((Chunk(()), Chunk((one,)), Chunk(()), Chunk((two,)), Chunk(())))
    assert list(siblings) == [one, two]
    assert siblings[0] is one
    assert siblings[-1] is two
    new = item("new")
    for index in range(3):
        expected = [one, two]
        expected.insert(index, new)
        assert list(siblings.inserted(index, new)) == expected


def test_it_shows_its_length_not_its_nodes() -> None:
    assert repr(Siblings.of(items(300))) == "Siblings(300 nodes)"
