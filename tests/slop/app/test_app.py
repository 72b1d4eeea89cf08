"""An app shows what its functions say, wherever and whenever that changes."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import Any

import pytest

from sightline.errors import InvalidDescriptor, InvalidInput, InvalidPath, InvalidTree
from sightline.slop.app.app import App
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.testing import Client, connect


def make_app(**options: Any) -> App:
    return App("desk", "Desk", coalesce_s=0, **options)


def test_an_app_with_nothing_is_a_root_with_its_name() -> None:
    assert format_tree(make_app(props={"user": "ana"}).tree()) == '[root] desk: Desk (user="ana")'


def test_an_illegal_app_id_is_refused_with_the_rule() -> None:
    with pytest.raises(InvalidTree, match="must not contain"):
        App("a/b", "No")


@pytest.mark.parametrize(
    ("called", "instead"),
    [
        ("My Notes", "App('my-notes', 'My Notes')"),
        ("Größe / Size", "App('groe-size', 'Größe / Size')"),
        ("notes!", "App('notes', 'notes!')"),
        ("日記", "App('app', '日記')"),
        ("meta", "App('meta-app', 'meta')"),
        ("Work Space", "App('work-space-app', 'Work Space')"),
    ],
)
def test_an_app_says_at_once_which_id_it_would_take(called: str, instead: str) -> None:
    with pytest.raises(InvalidTree) as caught:
        App(called)
    assert str(caught.value).endswith(f"{instead} would do")


def test_an_app_without_a_name_is_called_by_its_id() -> None:
    assert App("notes").info.name == "notes"


def test_a_node_function_is_asked_when_somebody_looks() -> None:
    app = make_app()
    calls = []

    @app.node("inbox")
    def inbox() -> dict[str, Any]:
        calls.append(1)
        return {"type": "view", "props": {"unread": 2}}

    assert calls == []
    assert app.tree().at("/inbox").properties == {"unread": 2}
    app.tree()
    assert calls == [1]


def test_missing_ancestors_are_groups_and_order_is_the_order_of_registering() -> None:
    app = make_app()
    app.register("b/c/d", {"type": "item"})
    app.register("a", {"type": "view"})
    app.register("b/x", {"type": "item"})
    assert format_tree(app.tree()).splitlines() == [
        "[root] desk: Desk",
        "  [group] b",
        "    [group] c",
        "      [item] d",
        "    [item] x",
        "  [view] a",
    ]
    app.unregister("b/c/d")
    assert app.tree().at("/b").child("c") is None


def test_a_registration_below_another_joins_its_children() -> None:
    app = make_app()
    app.register("list/two", {"props": {"detail": True}})
    app.register("list", {"items": [{"id": "one"}, {"id": "two"}, {"id": "three"}]})
    app.register("list/four", {"type": "item"})
    assert [child.id for child in app.tree().at("/list").children] == [
        "one",
        "two",
        "three",
        "four",
    ]
    assert app.tree().at("/list/two").properties == {"detail": True}


def test_registering_again_replaces_in_place() -> None:
    app = make_app()
    app.register("a", {"props": {"n": 1}})
    app.register("b", {"props": {"n": 1}})
    app.register("a", {"props": {"n": 2}})
    assert [child.id for child in app.tree().children] == ["a", "b"]
    assert app.tree().at("/a").properties == {"n": 2}


def test_a_scope_registers_below_its_prefix() -> None:
    app = make_app()
    mail = app.scope("mail")
    mail.register("inbox", {"type": "view"})
    mail.scope("inbox").register("first", {"type": "item"})

    @mail.action("inbox", "archive")
    def archive() -> None: ...

    assert app.tree().at("/mail/inbox/first").type == "item"
    assert [item.action for item in app.tree().at("/mail/inbox").affordances] == ["archive"]


def test_the_root_can_be_described_too() -> None:
    app = make_app()

    @app.node("/")
    def root() -> dict[str, Any]:
        return {"props": {"open": 3}}

    @app.action("/", "search")
    def search(query: str) -> None: ...

    assert format_tree(app.tree()) == "[root] desk: Desk (open=3)  actions: {search(query: string)}"


def test_typed_nodes_are_shown_as_they_are() -> None:
    app = make_app()
    app.register("a", Node.of("ignored", "item", properties={"n": 1}))
    app.register("b", {"items": [Node.of("c", "item"), {"id": "d"}]})
    assert format_tree(app.tree()).splitlines()[1:] == [
        "  [item] a (n=1)", "  [group] b", "    [item] c", "    [item] d",
    ]  # fmt: skip


def test_none_is_nothing_and_comes_back_in_its_place() -> None:
    app = make_app()
    there = [True]
    app.node("first")(lambda: {"type": "item"} if there[0] else None)
    app.register("second", {"type": "item"})
    assert [child.id for child in app.tree().children] == ["first", "second"]
    there[0] = False
    app.refresh()
    assert [child.id for child in app.tree().children] == ["second"]
    there[0] = True
    app.refresh("first")
    assert [child.id for child in app.tree().children] == ["first", "second"]


def test_nothing_is_half_registered() -> None:
    app = make_app()
    app.register("list", {"props": {"n": 1}})
    before = app.tree()
    with pytest.raises(InvalidInput):
        app.register("list", {"items": [{"id": "a"}, {"id": "a"}]})
    with pytest.raises(InvalidDescriptor):
        app.register("list/~", {})
    with pytest.raises(InvalidDescriptor):
        app.node("list")(lambda argument: argument)
    assert app.tree() is before


def test_a_refresh_that_changes_nothing_keeps_every_object() -> None:
    app = make_app()
    app.node("list")(lambda: {"items": [{"id": n, "props": {"n": n}} for n in range(300)]})
    before = app.tree()
    app.refresh()
    assert app.tree() is before


def test_a_refresh_shares_what_did_not_change() -> None:
    app = make_app()
    state = {"a": 1, "b": 1}
    app.node("list")(lambda: {"items": [{"id": k, "props": {"n": v}} for k, v in state.items()]})
    before = app.tree()
    state["b"] = 2
    app.refresh("list")
    assert app.tree().at("/list/b").properties == {"n": 2}
    assert app.tree().at("/list/a") is before.at("/list/a")


def test_refreshing_what_is_not_registered_is_an_error() -> None:
    with pytest.raises(InvalidPath):
        make_app().refresh("nothing")
    with pytest.raises(InvalidPath):
        make_app().update("nothing", props={"a": 1})


def test_an_update_changes_one_node_until_its_function_speaks_again() -> None:
    app = make_app()
    app.node("list")(lambda: {"items": [{"id": "a", "props": {"n": 1}}, {"id": "b"}]})
    before = app.tree()
    app.update("list/a", props={"n": 5}, meta={"urgency": "high"})
    app.update("list/b", lambda node: node.with_property("x", 1))
    assert app.tree().at("/list/a").properties == {"n": 5}
    assert app.tree().at("/list/a").meta.urgency == "high"
    assert app.tree().at("/list/b").properties == {"x": 1}
    app.refresh()
    assert app.tree() == before


def test_an_update_of_a_long_list_leaves_the_rest_alone() -> None:
    app = make_app()
    app.register("list", {"items": [{"id": n, "props": {"n": n}} for n in range(2000)]})
    app.action("list/{id}", "open")(lambda: None)
    before = app.tree()
    app.update("list/7", props={"n": -7})
    after = app.tree()
    different = [
        child.id for child in after.at("/list").children
        if child is not before.at("/list").child(child.id)
    ]  # fmt: skip
    assert different == ["7"]
    assert [item.action for item in after.at("/list/7").affordances] == ["open"]


def test_a_failing_function_keeps_its_last_good_state_and_poisons_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app()
    state: dict[str, Any] = {"broken": False, "n": 1}

    @app.node("mail/inbox")
    def inbox() -> dict[str, Any]:
        if state["broken"]:
            raise RuntimeError("secret text")
        return {"props": {"n": state["n"]}}

    app.node("other")(lambda: {"props": {"n": state["n"]}})
    good = app.tree().at("/mail/inbox")
    state.update(broken=True, n=2)
    with caplog.at_level(logging.ERROR):
        app.refresh()
    assert app.tree().at("/mail/inbox") is good
    assert app.tree().at("/other").properties == {"n": 2}
    [status] = app.tree().at("/errors").children
    assert status.type == "status"
    assert status.properties["path"] == "/mail/inbox"
    assert status.meta.urgency == "high"
    assert "secret" not in format_tree(app.tree())
    assert "secret text" in caplog.text
    state["broken"] = False
    app.refresh("mail/inbox")
    assert app.tree().child("errors") is None
    assert app.tree().at("/mail/inbox").properties == {"n": 2}


def test_a_function_that_describes_an_illegal_node_is_a_failing_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app()
    app.node("list")(lambda: {"items": [{"id": "a/b"}]})
    assert app.tree().child("list") is None
    assert app.tree().at("/errors/list").properties["message"].endswith("is missing")
    assert "must not contain '/'" in caplog.text


def test_an_async_node_function_is_refused() -> None:
    async def later() -> dict[str, Any]:
        return {}

    with pytest.raises(InvalidDescriptor, match="must not be async"):
        make_app().node("x")(later)


async def shows(client: Client, properties: dict[str, Any]) -> None:
    await client.until(lambda: client.tree.at("/count").properties == properties)


async def test_a_refresh_from_another_thread_reaches_every_connection() -> None:
    app = make_app()
    state = {"n": 0}
    app.node("count")(lambda: {"props": dict(state)})
    async with connect(app) as one, connect(app) as other:
        state["n"] = 1
        await asyncio.to_thread(app.refresh)
        for client in (one, other):
            await shows(client, {"n": 1})
        await asyncio.to_thread(app.update, "count", props={"n": 2})
        for client in (one, other):
            await shows(client, {"n": 2})


async def test_many_threads_end_with_the_latest_state() -> None:
    app = make_app()
    state = {"n": 0}
    app.node("count")(lambda: {"props": dict(state)})

    def work() -> None:
        for _ in range(50):
            state["n"] += 1
            app.refresh("count")

    async with connect(app) as client:
        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        await shows(client, dict(state))


async def test_what_is_registered_later_is_seen_by_who_is_there() -> None:
    app = make_app()
    async with connect(app) as client:
        app.register("late", {"type": "item"})
        app.action("late", "go")(lambda: "gone")
        await client.until(lambda: bool((node := client.tree.child("late")) and node.affordances))
        assert await client.invoke("/late", "go") == "gone"
        app.unregister("late")
        await client.until(lambda: client.tree.child("late") is None)


async def test_events_reach_every_consumer() -> None:
    app = make_app()
    async with connect(app) as client:
        await asyncio.to_thread(app.emit, "saved", {"n": 1})
        await client.until(lambda: bool(client.events))
        assert (client.events[0].name, client.events[0].data) == ("saved", {"n": 1})


def test_replacing_and_removing_registrations_takes_their_errors_along() -> None:
    app = make_app()
    app.node("x")(lambda: 1 / 0)
    assert app.tree().child("errors") is not None
    app.register("x", {"type": "item"})
    assert app.tree().child("errors") is None
    app.node("/")(lambda: {"props": {"n": 1}})
    app.unregister("/")
    app.unregister("x")
    assert format_tree(app.tree()) == "[root] desk: Desk"
    with pytest.raises(InvalidPath):
        app.unregister("x")


def test_a_function_that_returns_a_coroutine_is_a_failing_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app()

    async def later() -> dict[str, Any]:
        return {}

    app.node("x")(lambda: later())
    assert app.tree().at("/errors/x").type == "status"
    assert "must not be async" in caplog.text


def test_long_lists_below_others_keep_their_actions_when_something_else_changes() -> None:
    app = make_app()
    state = {"n": 0}
    app.register("a/list", {"items": [{"id": n} for n in range(600)]})
    app.node("b")(lambda: {"props": dict(state)})
    app.action("a/list/{key}", "open")(lambda: None)
    app.update("a/list/5", props={"x": 1})
    before = app.tree()
    for turn in range(3):
        state["n"] = turn + 1
        app.refresh()
        assert app.tree().at("/a/list") is before.at("/a/list")
    app.update("a/list/6", props={"x": 1})
    after = app.tree().at("/a/list")
    assert all(child.affordances for child in after.children)
    assert after.child("7") is before.at("/a/list").child("7")


def test_actions_of_patterns_join_those_of_descriptors() -> None:
    app = make_app()
    app.register("x", {"actions": {"one": lambda: None}})
    app.action("x", "two")(lambda: None)
    app.action("x", "one")(lambda: None)
    assert [item.action for item in app.tree().at("/x").affordances] == ["one", "two"]


@pytest.mark.parametrize("path", ["a/{b", "a/{1x}", "{a}/{a}", "/".join(["x"] * 70), "a/type"])
def test_an_illegal_pattern_is_refused(path: str) -> None:
    with pytest.raises(InvalidDescriptor):
        make_app().action(path, "go")(lambda: None)


def test_a_docstring_describes_its_action_where_nothing_else_does() -> None:
    class Adder:
        """Not what the action does."""

        def __call__(self) -> None:
            """
            Add one.

            Two are refused.
            """

    def toggle(item: int) -> None:
        """Turn it over."""

    app = make_app()
    app.action("/", "add")(Adder())
    app.action("/", "toggle")(functools.partial(toggle, 4))
    app.action("/", "turn", description="Turn around")(functools.partial(toggle, 4))
    app.action("/", "hush", description="")(functools.partial(toggle, 4))
    app.action("/", "empty")(Adder)
    app.action("/", "bare")(lambda: None)
    described = {item.action: item.description for item in app.tree().affordances}
    assert described == {
        "add": "Add one.", "toggle": "Turn it over.", "turn": "Turn around", "hush": "",
        "empty": None, "bare": None,
    }  # fmt: skip


def test_an_action_says_what_it_returns() -> None:
    app = make_app()
    app.action("/", "count", returns=int)(lambda: 1)
    app.action("/", "page", returns={"n": "integer"})(lambda: {"n": 1})
    count, page = app.tree().affordances
    assert count.returns == {"type": "integer"}
    assert page.returns is not None
    assert page.returns["properties"] == {"n": {"type": "integer"}}
    with pytest.raises(InvalidInput):
        app.action("/", "odd", estimate="soonish")(lambda: None)
    with pytest.raises(InvalidDescriptor, match=r"actions\.odd\.params"):
        app.action("/", "odd", params=3)(lambda: None)  # type: ignore[arg-type]  # the point
