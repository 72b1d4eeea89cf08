"""Choosing what to show: what comes first, what is left out, and that every cut has a reason."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from context.projection.requirements import proves
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import Omission, Selection, quarter_chars, select
from sightline.context.projection.tail import Format, render_state
from sightline.context.tokens.tokens import counter_for
from sightline.demo import demo_tree
from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support.trees import tree as random_tree

AT = parse_moment("2026-04-28T10:30:00Z")
DESK = World((AppState("desk", "Desk", tree=demo_tree()),))
FORMS: tuple[Format, ...] = ("text", "json", "yaml")


def by_the_call(text: str) -> int:
    """A token for each character, and one for being asked."""
    return len(text) + 1


def joined_weighs_more(text: str) -> int:
    """Lines that weigh more together than one by one."""
    return len(text) // 4 + text.count("\n") ** 2 // 8


def in_wholes_only(text: str) -> int:
    """Nothing at all, until it is a block."""
    return len(text) if text.startswith("<slop-state") else 0


COUNTERS: dict[str, Callable[[str], int]] = {
    "quarter_chars": quarter_chars,
    "o200k_base": counter_for("o200k_base").count,
    "estimate": counter_for("estimate").count,
    "by_the_call": by_the_call,
    "joined_weighs_more": joined_weighs_more,
    "in_wholes_only": in_wholes_only,
}


def item(node_id: str, salience: float | None = None, **meta: object) -> Node:
    hints = {**({} if salience is None else {"salience": salience}), **meta}
    return Node.of(node_id, "item", properties={"title": f"Title of {node_id}"}, meta=hints)


def group(node_id: str, *children: Node, kind: str = "collection", **meta: object) -> Node:
    return Node.of(node_id, kind, meta=meta, children=children)


def world(*roots: Node) -> World:
    return World(tuple(AppState(root.id, root.id, tree=root) for root in roots))


def shown(selection: Selection) -> list[str]:
    found: list[str] = []
    for app in selection.world.apps:
        if app.tree is not None:
            found.extend(node.id for node in app.tree.walk())
    return found


def size(selection: Selection, form: Format = "text") -> int:
    return quarter_chars(render_state(selection.world, AT, form))


def test_what_fits_is_shown_whole_and_is_the_same_object() -> None:
    selection = select(DESK, 10_000)
    assert selection.world.apps[0].tree is DESK.apps[0].tree
    assert selection.cuts == ()
    exact = size(selection)
    assert select(DESK, exact).cuts == ()
    assert select(DESK, exact - 1).cuts != ()


@proves("CI-6")
def test_focus_and_its_view_come_before_what_is_merely_salient() -> None:
    inbox = group("inbox", item("m1"), item("m2", focus=True), item("m3"), kind="view")
    news = group("news", *(item(f"n{i}", 1.0) for i in range(10)), salience=1.0)
    selection = select(world(group("app", news, inbox, kind="root")), 95)
    assert {"inbox", "m1", "m2", "m3"} <= set(shown(selection))
    assert "n9" not in shown(selection)


@proves("CI-6")
def test_the_more_salient_comes_first_and_lifts_what_leads_to_it() -> None:
    faint = group("faint", item("hot", 0.95), item("cold", 0.1), salience=0.1)
    plain = group("plain", item("a"), item("b"), item("c"), salience=0.6)
    selection = select(world(group("app", plain, faint, kind="root")), 75)
    assert "hot" in shown(selection)
    assert "cold" not in shown(selection)


def test_what_is_pinned_is_shown_whatever_it_costs() -> None:
    deep = group("a", group("b", item("here", 0.0, pinned=True), salience=0.0), salience=0.0)
    root = group("app", *(item(f"n{i}", 1.0) for i in range(50)), deep, kind="root")
    selection = select(world(root), 1)
    assert shown(selection) == ["app", "a", "b", "here"]
    assert selection.over_budget
    by_user = select(world(root), 1, pins={"app": ["/n7", "/not/there"]})
    assert shown(by_user) == ["app", "n7", "a", "b", "here"]


def test_a_collection_that_does_not_fit_is_a_window_or_a_stub_with_its_summary() -> None:
    root = group("app", group("list", *(item(f"n{i}") for i in range(40)), summary="40 things"))
    text = render_state(select(world(root), 100).world, AT)
    assert '[collection] list  — "40 things"' in text
    assert "of 40)" in text


def test_a_node_too_long_to_show_is_a_stub() -> None:
    long = Node.of("list", "collection", properties={"about": "x" * 400}, children=[item("n")])
    selection = select(world(group("app", long, kind="root")), 60)
    assert "[collection] list\n    (1 child not loaded)" in render_state(selection.world, AT)
    assert selection.cuts == (Omission("app", "/list", "stub", 1),)


def test_a_window_says_where_it_is_in_the_apps_own() -> None:
    children = [item(f"n{i}") for i in range(20)]
    inner = Node.of(
        "list", "collection", meta={"total_children": 500, "window": [100, 20]}, children=children
    )
    chosen = select(world(group("app", inner, kind="root")), 120).world.apps[0].tree
    assert chosen is not None
    meta = chosen.at("/list").meta
    assert meta.total_children == 500
    assert meta.window is not None
    assert meta.window == (100, len(chosen.at("/list").children))
    assert 0 < meta.window[1] < 20


def test_a_loud_app_does_not_silence_the_others() -> None:
    loud = group("loud", *(item(f"l{i}", 1.0) for i in range(500)), kind="root")
    quiet = group("quiet", *(item(f"q{i}", 0.2) for i in range(5)), kind="root")
    selection = select(world(loud, quiet), 400)
    assert {f"q{i}" for i in range(5)} <= set(shown(selection))
    greedy = select(world(loud, quiet), 400, even_share=0)
    assert "q0" not in shown(greedy)


def test_a_threshold_cuts_what_is_faint_and_says_so() -> None:
    root = group("app", item("a", 0.9), group("b", item("c"), salience=0.1), item("d"), kind="root")
    selection = select(world(root), 10_000, min_salience=0.5)
    assert shown(selection) == ["app", "a", "d"]
    assert selection.cuts == (Omission("app", "/", "salience", 2),)


@proves("CI-8")
def test_an_app_without_current_state_has_no_tree_and_a_reason() -> None:
    tree = group("x", item("y"))
    gone = AppState("gone", "Gone", "disconnected", tree)
    selection = select(World((gone, AppState("new", "New", "awaiting"))), 1_000)
    assert [app.tree for app in selection.world.apps] == [None, None]
    assert selection.cuts == (
        Omission("gone", "/", "disconnected", 2),
        Omission("new", "/", "awaiting", 0),
    )


def worlds(seed: int) -> Iterator[World]:
    """Trees of anything, folders that are shown in part, deep ones, and wide ones."""
    rng = random.Random(seed)
    yield world(*(from_value(random_tree(rng, 5, f"r{at}")) for at in range(rng.randrange(1, 4))))
    folders = (
        group(f"folder-{n}", *(item(f"file-{n}-{at}", 0.1 if at else 0.9) for at in range(6)))
        for n in range(rng.randrange(20, 60))
    )
    yield world(group("files", *folders, kind="root"))
    deep = item("bottom", rng.random())
    for level in range(rng.randrange(10, 30)):
        beside = [item(f"leaf-{at}", rng.random()) for at in range(rng.randrange(4))]
        bare = Node.of("empty", "item", children=[])
        deep = group(f"level-{level}", *beside[:2], deep, bare, *beside[2:])
    wide = [item(f"n{at}", rng.random(), pinned=not at) for at in range(rng.randrange(50, 200))]
    yield world(deep, group("wide", *wide, total_children=5_000, window=[700, len(wide)]))


@proves("CI-B")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counter", COUNTERS)
def test_nothing_is_over_budget_lost_or_split(counter: str, form: Format) -> None:
    count = COUNTERS[counter]
    for seed in range(3):
        for offered in worlds(seed):
            least = select(offered, 0, count, form=form)
            for budget in (40, 100, 250, 1_000, 2_500):
                selection = select(offered, budget, count, form=form)
                weight = count(render_state(selection.world, AT, form))
                assert selection.tokens == weight
                assert weight <= budget or selection.world == least.world
                assert_every_node_is_accounted_for(offered, selection)


@proves("CI-B")
@pytest.mark.parametrize("form", FORMS)
def test_the_same_world_and_budget_give_the_same_selection(form: Format) -> None:
    for offered, again in zip(worlds(7), worlds(7), strict=True):
        for budget in (100, 600):
            selection = select(offered, budget, joined_weighs_more, form=form)
            assert select(offered, budget, joined_weighs_more, form=form) == selection
            afresh = select(again, budget, joined_weighs_more, form=form)
            assert (afresh.cuts, afresh.tokens) == (selection.cuts, selection.tokens)


def assert_every_node_is_accounted_for(offered: World, selection: Selection) -> None:
    for before, after in zip(offered.apps, selection.world.apps, strict=True):
        assert before.tree is not None
        assert after.tree is not None
        cut = sum(item.nodes for item in selection.cuts if item.app_id == before.id)
        assert sum(1 for _ in after.tree.walk()) + cut == sum(1 for _ in before.tree.walk())
        stubs = {item.path for item in selection.cuts if item.reason == "stub"}
        stack = [(before.tree, after.tree, "")]
        while stack:
            old, new, path = stack.pop()
            if (path or "/") not in stubs:
                assert new.properties_json == old.properties_json
                assert new.affordances_json == old.affordances_json
                assert new.content_ref_json == old.content_ref_json
            for child in new.children:
                past = old.child(child.id)
                assert past is not None
                stack.append((past, child, f"{path}/{child.id}"))


def test_a_large_tree_is_counted_only_where_it_is_shown() -> None:
    root = group("app", *(item(f"n{i}") for i in range(20_000)), kind="root")
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return quarter_chars(text)

    selection = select(world(root), 1_000, count)
    assert len(counted) < 3 * len(shown(selection)) + 100
    assert selection.cuts == (Omission("app", "/", "budget", 20_001 - len(shown(selection))),)


def test_what_is_too_much_together_is_given_back_from_the_last_in_a_few_steps() -> None:
    root = group("app", *(item(f"n{i}", i / 400) for i in range(400)), kind="root")
    weighed: list[int] = []

    def count(text: str) -> int:
        tokens = joined_weighs_more(text)
        if text.startswith("<slop-state"):
            weighed.append(tokens)
        return tokens

    selection = select(world(root), 2_000, count)
    assert not selection.over_budget
    assert shown(selection)[1:] == [f"n{i}" for i in range(401 - len(shown(selection)), 400)]
    assert len(shown(selection)) > 50
    assert max(weighed) > 2_000
    assert len(weighed) < 5


def test_a_counter_that_never_says_how_much_is_over_is_asked_only_so_often() -> None:
    root = group("app", *(item(f"n{i}") for i in range(400)), kind="root")
    asked = 0

    def count(text: str) -> int:
        nonlocal asked
        if not text.startswith("<slop-state"):
            return quarter_chars(text)
        asked += 1
        return 2_001 if text.count("\n") > 10 else 100

    assert not select(world(root), 2_000, count).over_budget
    assert asked <= 3 + (2_000).bit_length()


def test_a_block_dated_to_fractions_of_a_second_has_room_for_them() -> None:
    moment = parse_moment("2026-04-28T10:30:00.123456Z")
    for budget in range(300, 400, 7):
        selection = select(DESK, budget, len, at=moment)
        assert len(render_state(selection.world, moment)) == selection.tokens <= budget


@pytest.mark.parametrize("options", [{"even_share": 1.5}, {"min_salience": -0.1}])
def test_a_share_that_is_none_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        select(World(), 10, **options)  # type: ignore[arg-type]  # one of two floats


def test_what_is_chosen_again_is_the_same_object_where_nothing_changed() -> None:
    root = Node.of("app", "root", children=[
        Node.of(f"c{at}", "collection", children=[
            Node.of(f"n{n}", "item", properties={"title": f"Item {n}"}) for n in range(100)
        ])
        for at in range(4)
    ])  # fmt: skip
    first = select(World((AppState("app", "App", tree=root),)), 1_000).world.apps[0].tree
    changed = root.change("/c0/n0", lambda node: node.with_property("title", "Item O"))
    second = select(World((AppState("app", "App", tree=changed),)), 1_000).world.apps[0].tree
    assert first is not None
    assert second is not None
    assert first.child("c0") is not second.child("c0")
    assert first.child("c1") is second.child("c1") is not root.child("c1"), "a part of it is shown"
