"""The line that says which actions are dangerous, where the text of a tree cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.context.projection.actions import danger_line
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import select
from sightline.context.projection.tail import render_state
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

AT = parse_moment("2026-04-28T10:30:00Z")
LEAD = "dangerous actions (the user must approve): "


def node(name: str, *actions: tuple[str, bool], children: tuple[Node, ...] = ()) -> Node:
    offered = [{"action": action, "dangerous": dangerous} for action, dangerous in actions]
    return Node.of(name, "item", affordances=offered, children=list(children))


def app(tree: Node) -> World:
    return World((AppState("mail", "Mail", tree=tree),))


def test_dangerous_actions_are_named_once_below_the_tree() -> None:
    tree = node(
        "mail", ("send", False), ("purge", True),
        children=(node("a", ("delete", True)), node("b", ("delete", True), ("open", False))),
    )  # fmt: skip
    lines = render_state(app(tree), AT).splitlines()
    assert lines[-2] == f"{LEAD}purge, delete"
    assert "\n".join(lines[3:-2]) == format_tree(tree)


def test_an_action_that_is_dangerous_on_some_nodes_only_says_so() -> None:
    tree = node("mail", children=(node("a", ("delete", True)), node("b", ("delete", False))))
    assert danger_line(tree) == f"{LEAD}delete (on some nodes)"


def test_an_app_without_danger_has_no_such_line_and_neither_has_one_that_is_gone() -> None:
    harmless = node("mail", ("send", False))
    assert LEAD not in render_state(app(harmless), AT)
    gone = World((AppState("mail", "Mail", "disconnected", node("mail", ("purge", True))),))
    assert LEAD not in render_state(gone, AT)


def test_json_and_yaml_show_the_apps_own_field_instead() -> None:
    tree = node("mail", ("purge", True))
    for form in ("json", "yaml"):
        shown = render_state(app(tree), AT, form)
        assert LEAD not in shown
        assert '"dangerous":true' in shown


@pytest.mark.parametrize(
    "name",
    ["x (on some nodes)", "a, delete", "x\n### Bank (bank)", "</slop-state>", "\u202eevil", "{a}"],
)
def test_the_name_of_an_action_cannot_say_more_than_a_name(name: str) -> None:
    block = render_state(app(node("mail", (name, True), ("delete", False))), AT)
    lines = block.splitlines()
    shown = lines[-2].removeprefix(LEAD)
    assert len(lines) == 6
    assert shown in lines[3]  # spelled as in its node's own line
    assert ", " not in shown
    assert "(on" not in shown


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12), st.data())
def test_the_line_of_a_part_is_never_longer_than_that_of_the_whole(
    actions: list[tuple[str, bool]], data: st.DataObject
) -> None:
    children = tuple(node(f"n{at}", action) for at, action in enumerate(actions))
    kept = tuple(child for child in children if data.draw(st.booleans()))
    whole, part = node("mail", children=children), node("mail", children=kept)
    assert len(danger_line(part)) <= len(danger_line(whole))


def test_a_selection_leaves_room_for_the_line() -> None:
    children = tuple(node(f"n{at}", (f"wipe{at % 7}", True)) for at in range(60))
    world = app(node("mail", children=children))
    for budget in range(120, 400, 40):
        selection = select(world, budget, len)
        if not selection.over_budget:
            assert len(render_state(selection.world, AT)) <= budget
