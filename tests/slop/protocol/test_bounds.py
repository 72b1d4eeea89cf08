"""An app's own limits: counted from where they belong, and the same however a tree came about."""

from __future__ import annotations

import random

import pytest

from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Bound, Bounding, Bounds, View
from support.trees import Tree, edited


def chain(*ids: str) -> Tree:
    """Nodes one below the other."""
    own, *below = ids
    return {"id": own, "type": "group", **({"children": [chain(*below)]} if below else {})}


def app() -> Node:
    views = [chain("mail", "inbox", "m1", "body"), chain("desk", "drawer", "pen", "ink")]
    return from_value({"id": "r", "type": "root", "children": views})


def limited(**bounds: Bound) -> Bounds:
    made = Bounds()
    for path, bound in bounds.items():
        made.set(() if path == "app" else tuple(path.split("__")), bound)
    return made


def cut(bounds: Bounds, path: tuple[str, ...] = ()) -> list[str]:
    """What a subscription to a path is shown, as `id` and how deep it stands."""
    bounding = bounds.at(path)
    node = app().at("/" + "/".join(path))
    shown = node if bounding is None else bounding(node)
    return [line.replace("[group] ", "").rstrip() for line in format_tree(shown).splitlines()]


def test_without_limits_there_is_nothing_to_cut() -> None:
    assert Bounds().at(()) is None
    assert limited(app=Bound()).at(("mail",)) is None


def test_the_depth_of_an_app_counts_from_what_is_subscribed_to() -> None:
    bounds = limited(app=Bound(depth=1))
    more = "(1 child not loaded)"
    assert cut(bounds)[1:] == ["  mail", f"    {more}", "  desk", f"    {more}"]
    assert cut(bounds, ("mail",)) == ["mail", "  inbox", f"    {more}"]
    assert cut(bounds, ("mail", "inbox", "m1")) == ["m1", "  body"]


def test_a_view_that_has_a_depth_of_its_own_counts_from_itself() -> None:
    bounds = limited(app=Bound(depth=1), mail=Bound(depth=2))
    inside = ["  mail", "    inbox", "      m1", "        (1 child not loaded)"]
    assert cut(bounds)[1:] == [*inside, "  desk", "    (1 child not loaded)"]
    assert cut(bounds, ("mail", "inbox")) == ["inbox", "  m1", "    body"]
    whole = limited(app=Bound(depth=1), mail=Bound(depth=-1))
    assert cut(whole)[4] == "        body"


def test_a_view_inside_a_view_counts_from_itself_too() -> None:
    bounds = limited(mail=Bound(depth=1), mail__inbox=Bound(depth=1))
    assert cut(bounds)[1:5] == [
        "  mail", "    inbox", "      m1", "        (1 child not loaded)",
    ]  # fmt: skip
    assert len(cut(bounds)) == 9  # the desk is nobody's to cut


def test_the_nodes_of_a_view_are_counted_within_it_and_those_of_the_app_in_all() -> None:
    def shelf(own: str) -> Tree:
        books = [{"id": f"b{n}", "type": "item"} for n in range(8)]
        row = {"id": "row", "type": "group", "children": books}
        return {"id": own, "type": "view", "children": [{**chain("top"), "children": [row]}]}

    tree = from_value({"id": "r", "type": "root", "children": [shelf("one"), shelf("two")]})

    def sizes(bounds: Bounds) -> list[int]:
        bounding = bounds.at(())
        assert bounding is not None
        return [sum(1 for _ in child.walk()) for child in bounding(tree).children]

    assert sizes(limited(two=Bound(max_nodes=5))) == [11, 3]
    assert sizes(limited(app=Bound(max_nodes=15))) == [3, 11]
    assert sizes(limited(app=Bound(max_nodes=8), two=Bound(max_nodes=5))) == [3, 3]


@pytest.mark.parametrize("seed", range(12))
def test_what_follows_a_change_is_what_a_fresh_look_shows(seed: int) -> None:
    rng = random.Random(seed)
    bounds = limited(
        app=Bound(depth=rng.choice([None, 2, 3]), max_nodes=rng.choice([None, 9])),
        v=Bound(depth=rng.choice([None, 1, 2]), max_nodes=rng.choice([None, 4])),
    )
    value: Tree = {"id": "r", "type": "root", "children": [chain("v", "a", "b", "c")]}
    lasting = bounds.at(())
    for _ in range(40):
        value = edited(rng, value)
        tree = from_value(value)
        fresh = bounds.at(())
        if lasting is None or fresh is None:
            assert lasting is fresh
            return
        assert lasting(tree) == fresh(tree)
        assert lasting(tree) is lasting(tree)


def test_what_is_really_shown_is_the_less_of_two() -> None:
    bound = Bound(depth=3, max_nodes=100)
    assert bound.applied_to(View()) == View(depth=3, max_nodes=100)
    assert bound.applied_to(View(depth=2, max_nodes=500)) == View(depth=2, max_nodes=100)
    assert Bound().applied_to(View(depth=2)) == View(depth=2)
    assert isinstance(Bounding(bound, {}).bound, Bound)


@pytest.mark.parametrize("bound", [{"depth": -2}, {"max_nodes": 0}])
def test_a_limit_that_means_nothing_is_refused(bound: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        Bound(**bound)
