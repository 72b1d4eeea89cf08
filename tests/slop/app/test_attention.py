"""What helps a model look: views, marks, lazy children, windows, content."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sightline.errors import ActionError, InvalidDescriptor
from sightline.slop.app.app import App
from sightline.slop.app.attention import mark_changes
from sightline.slop.app.parameters import Call
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.testing import connect


def shop() -> App:
    app = App("shop", "Shop", coalesce_s=0)

    @app.view("cart", summary=lambda: "3 items, 127.49")
    def cart() -> dict[str, Any]:
        return {"props": {"total": 127.49}, "items": [{"id": "mouse"}]}

    @app.view("orders", summary="12 orders, 1 in transit")
    def orders() -> dict[str, Any]:
        return {"items": [{"id": "o1"}]}

    @app.action("/", "navigate")
    def navigate(to: str, session: Any) -> None:
        app.focus(to, session)

    return app


async def test_one_view_is_open_and_the_others_are_stubs_with_summaries() -> None:
    async with connect(shop()) as client:
        assert format_tree(client.tree).splitlines()[1:] == [
            '  [view] cart (total=127.49)  — "3 items, 127.49"',
            "    [item] mouse",
            '  [view] orders  — "12 orders, 1 in transit"',
        ]
        assert client.tree.at("/cart").meta.focus
        await client.invoke("/", "navigate", to="orders")
        assert format_tree(client.tree).splitlines()[1:] == [
            '  [view] cart  — "3 items, 127.49"',
            '  [view] orders  — "12 orders, 1 in transit"',
            "    [item] o1",
        ]
        assert client.tree.at("/orders").meta.focus
        assert client.tree.at("/cart").meta.focus is None


async def test_each_session_has_its_own_open_view() -> None:
    app = shop()
    app.authenticate(lambda peer: peer.token)
    async with connect(app, token="ana") as ana, connect(app, token="bob") as bob:
        await ana.invoke("/", "navigate", to="orders")
        assert ana.tree.at("/orders").meta.focus
        assert (await bob.query("/cart")).meta.focus


def office() -> App:
    """An app of views with all that can be registered for one and below it."""
    app = App("office", "Office", coalesce_s=0)
    for name in ("desk", "shelf"):
        app.view(name, summary=f"the {name}")(
            lambda name=name: {"props": {"of": name}, "actions": {"tidy": lambda: "tidied"}}
        )
        app.node(f"{name}/papers")(lambda: {"items": [{"id": "p1", "props": {"text": "x" * 500}}]})
        app.register(f"{name}/lamp", {"type": "control", "actions": {"light": lambda: "lit"}})
        app.action(name, "move")(lambda: "moved")
        app.action(f"{name}/papers/{{own}}", "shred")(lambda own: own)
        app.content(name)(lambda: "all of it")
        app.register(f"{name}/box", {"children": None, "meta": {"total_children": 1}})
        app.children(f"{name}/box")(lambda: [{"id": "b1"}])
        app.children(name)(lambda: [{"id": "made"}])
        app.action(f"{name}/made", "use")(lambda: "used")
    app.action("{view}", "look")(lambda view: view)
    return app


async def test_nothing_that_is_registered_leaks_into_a_closed_view() -> None:
    async with connect(office()) as client:
        stub = client.tree.at("/shelf")
        assert json.loads(encode(stub)) == {
            "id": "shelf", "type": "view", "meta": {"summary": "the shelf"},
        }  # fmt: skip
        assert await client.query("/shelf") == stub
        desk = client.tree.at("/desk")
        assert [child.id for child in desk.children] == ["papers", "lamp", "box"]
        offered = {item.action for item in desk.affordances}
        assert offered == {"tidy", "move", "read_content", "look"}


@pytest.mark.parametrize("by_session", [False, True])
async def test_a_function_below_a_closed_view_is_called_when_it_opens(by_session: bool) -> None:
    app, called = App("a", "A", coalesce_s=0), list[str]()
    app.authenticate(lambda peer: peer.token)

    def describe(name: str) -> dict[str, Any]:
        called.append(name)
        return {"props": {"calls": called.count(name)}}

    for name in ("two", "one"):  # what is below may be registered before the view
        function = lambda session, name=name: describe(name) if session else {}  # noqa: E731
        app.node(f"{name}/list")(function if by_session else lambda name=name: describe(name))
    for name in ("one", "two"):
        app.view(name)(lambda: {"type": "view"})
    async with connect(app, token="ana") as ana:
        app.refresh()
        app.refresh("two/list")
        app.update("two/list", props={"calls": 7})
        assert set(called) == {"one"}
        app.focus("two", "ana")
        await ana.until(lambda: bool(ana.tree.at("/two").meta.focus))
        assert ana.tree.at("/two/list").properties == {"calls": 1}
        assert called.count("two") == 1
        ones = called.count("one")
        app.refresh()
        assert (called.count("two"), called.count("one")) == (2, ones)
        async with connect(app, token="bob") as bob:  # has the first one open
            assert bob.tree.at("/one/list").properties == {"calls": ones + 1}
        app.unregister("one")  # then it is no view, and hides nothing
        await ana.until(lambda: len(ana.tree.at("/one").children) == 1)


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/shelf", "tidy"), ("/shelf", "move"), ("/shelf", "read_content"), ("/shelf", "look"),
        ("/shelf/lamp", "light"), ("/shelf/papers/p1", "shred"), ("/shelf/made", "use"),
    ],
)  # fmt: skip
async def test_nothing_in_a_closed_view_can_be_done_or_asked_for(path: str, action: str) -> None:
    app = office()
    async with connect(app) as client:
        with pytest.raises(ActionError) as caught:
            await client.invoke(path, action)
        assert caught.value.code == "not_found"
        if path != "/shelf":
            with pytest.raises(ActionError, match="no child"):
                await client.query(path)
        app.focus("shelf")
        await client.until(lambda: bool(client.tree.at("/shelf").meta.focus))
        await client.invoke(path, action)


async def test_a_view_that_is_closed_meanwhile_does_nothing_any_more() -> None:
    app = App("a", "A", coalesce_s=0)
    done: list[str] = []
    for name in ("one", "two"):
        app.view(name)(lambda: {"type": "view"})
        app.action(name, "go", authorize=lambda: app.focus("two"))(lambda: done.append("went"))
    async with connect(app) as client:
        with pytest.raises(ActionError) as caught:
            await client.invoke("/one", "go")
        assert caught.value.code == "conflict"
        await client.invoke("/two", "go")
        assert done == ["went"]


def test_closed_views_cost_a_line_each_whatever_they_hold() -> None:
    app = App("a", "A")
    for n in range(50):
        app.view(f"v{n}", summary="3 items, 127.49")(lambda: {"props": {"text": "x" * 1000}})
        app.node(f"v{n}/list")(lambda: {"props": {"text": "x" * 1000}})
        app.action(f"v{n}", "go", description="x" * 1000)(lambda: None)
    closed = [child for child in app.tree().children if not child.meta.focus]
    assert len(closed) == 49
    assert max(len(encode(child)) for child in closed) <= 70


def test_a_view_around_the_open_one_is_open_without_the_focus() -> None:
    app = App("a", "A")
    app.view("mail", summary="mail")(lambda: {"type": "view"})
    app.view("mail/drafts", summary="2 drafts")(lambda: {"items": [{"id": "d1"}]})
    app.view("settings")(lambda: {"type": "view"})
    app.action("mail", "fetch")(lambda: None)

    def lines() -> list[str]:
        return format_tree(app.tree()).splitlines()[1:]

    inside = ['    [view] drafts  — "2 drafts"']
    here = '  [view] mail  — "mail"  actions: {fetch}'
    assert lines() == [here, *inside, "  [view] settings"]
    app.focus("mail/drafts")
    assert lines() == [here, *inside, "      [item] d1", "  [view] settings"]
    assert [node.id for node in app.tree().walk() if node.meta.focus] == ["drafts"]
    app.focus("settings")
    assert lines() == ['  [view] mail  — "mail"', "  [view] settings"]
    app.focus("mail/drafts")
    assert lines() == [here, *inside, "      [item] d1", "  [view] settings"]


async def test_a_closed_view_cannot_be_changed_behind_its_back() -> None:
    app = shop()
    async with connect(app) as client:
        stub = client.tree.at("/orders")
        app.update("orders", props={"leak": 1})
        app.update("orders/o1", props={"leak": 1})
        assert await client.query("/orders") == stub
        app.update("cart", props={"total": 1})
        await client.until(lambda: client.tree.at("/cart").properties == {"total": 1})


def test_a_window_gets_no_children_but_its_own() -> None:
    app = App("a", "A")
    items = [{"id": f"m{n}", "props": {"n": n}} for n in range(2)]
    app.node("inbox")(lambda: {"window": {"items": items, "total": 100, "offset": 0}})
    app.node("inbox/m1")(lambda: {"type": "item", "props": {"n": "registered"}})
    app.node("inbox/m0/files")(lambda: {"items": [{"id": "f1"}]})
    app.node("inbox/m70")(lambda: {"props": {"n": "elsewhere"}})
    inbox = app.tree().at("/inbox")
    assert [child.id for child in inbox.children] == ["m0", "m1"]
    assert (inbox.meta.window, inbox.meta.total_children) == ((0, 2), 100)
    assert inbox.children[0].properties == {"n": 0}
    assert inbox.children[0].at("/files/f1").id == "f1"
    assert inbox.children[1].properties == {"n": "registered"}
    items[:] = [{"id": "m0", "props": {"n": "new"}}, {"id": "m70"}]
    app.refresh("inbox")
    inbox = app.tree().at("/inbox")
    assert [child.properties for child in inbox.children] == [{"n": "new"}, {"n": "elsewhere"}]
    assert inbox.at("/m0/files/f1").id == "f1"


def test_only_views_can_be_opened() -> None:
    with pytest.raises(InvalidDescriptor, match="is not a view; views: cart, orders"):
        shop().focus("attic")


def test_a_typed_view_gets_its_focus_too() -> None:
    app = App("a", "A")
    app.view("x")(lambda: Node.of("x", "view", meta={"salience": 0.9}))
    assert app.tree().at("/x").meta.focus
    assert app.tree().at("/x").meta.salience == 0.9


async def test_marks_show_what_changed_last_and_are_cleared_by_the_next_change() -> None:
    app = App("a", "A", coalesce_s=0, mark_changed=True)
    state = {"x": 1, "y": 1}
    app.node("list")(lambda: {"items": [{"id": k, "props": {"n": v}} for k, v in state.items()]})

    def marked(tree: Node) -> list[str]:
        return [node.id for node in tree.walk() if node.meta.changed]

    async with connect(app) as client:
        assert marked(client.tree) == []
        state["x"] = 2
        app.refresh()
        await client.until(lambda: marked(client.tree) == ["x"])
        app.refresh()
        assert marked(await client.query()) == ["x"]
        state.update(y=2, z=1)
        app.refresh()
        await client.until(lambda: marked(client.tree) == ["y", "z"])


def test_of_a_new_subtree_its_top_is_marked() -> None:
    before = Node.of("r", "root", children=[])
    after = before.with_child(Node.of("a", "item", children=[Node.of("b", "item")]))
    tree = mark_changes(before, after)
    assert [node.id for node in tree.walk() if node.meta.changed] == ["a"]
    assert mark_changes(after, after) is after


def mail() -> tuple[App, list[str]]:
    app = App("mail", "Mail", coalesce_s=0)
    asked: list[str] = []

    @app.node("inbox")
    def inbox() -> dict[str, Any]:
        items = [
            {"id": f"m{n}", "children": None, "meta": {"total_children": 1, "summary": "1 file"}}
            for n in range(2)
        ]
        return {"type": "collection", "window": {"items": items, "total": 100, "offset": 0}}

    @app.children("inbox/{message}")
    async def files(message: str) -> list[dict[str, Any]]:
        asked.append(message)
        return [{"id": "file", "type": "media", "props": {"of": message}}]

    @app.children("inbox")
    def messages(offset: int, count: int) -> list[dict[str, Any]]:
        asked.append(f"{offset}+{count}")
        return [{"id": f"m{n}"} for n in range(offset, min(offset + count, 100))]

    return app, asked


async def test_lazy_children_are_made_when_a_query_names_them() -> None:
    app, asked = mail()
    async with connect(app) as client:
        assert client.tree.at("/inbox/m1").is_lazy
        await client.query("/")
        assert asked == []
        assert (await client.query("/inbox/m1")).children[0].properties == {"of": "m1"}
        assert (await client.query("/inbox/m0/file")).properties == {"of": "m0"}
        assert asked == ["m1", "m0"]
        assert (await client.query("/inbox/m1", depth=0)).is_lazy
        assert client.tree.at("/inbox/m1").is_lazy


async def test_another_part_of_a_window_is_fetched_when_a_query_asks() -> None:
    app, asked = mail()
    async with connect(app) as client:
        part = await client.query("/inbox", window=(90, 25))
        assert [child.id for child in part.children] == [f"m{n}" for n in range(90, 100)]
        assert part.meta.window == (90, 10)
        assert part.meta.total_children == 100
        assert asked == ["90+25"]
        assert len((await client.query("/inbox", window=(0, 2))).children) == 2
        assert asked == ["90+25"]
        assert (await client.query("/inbox/m40")).id == "m40"


async def test_what_a_query_showed_can_be_acted_on() -> None:
    app, _ = mail()
    opened: list[str] = []

    @app.action("inbox/{message}", "open")
    def open_message(message: str) -> None:
        opened.append(message)

    async with connect(app) as client:
        [shown] = (await client.query("/inbox", window=(90, 1))).children
        assert [item.action for item in shown.affordances] == ["open"]
        await client.invoke("/inbox/m90", "open")
        assert opened == ["m90"]
        for path, action in (("/inbox/m100", "open"), ("/inbox/m90", "shut")):
            with pytest.raises(ActionError) as caught:
                await client.invoke(path, action)
            assert caught.value.code == "not_found"


async def test_a_resolver_may_refuse_or_fail(caplog: pytest.LogCaptureFixture) -> None:
    app = App("a", "A", coalesce_s=0)
    app.register("x", {"children": None, "meta": {"total_children": 1}})
    app.register("y", {"children": None, "meta": {"total_children": 1}})

    @app.children("x")
    def refuse(call: Call) -> None:
        raise ActionError("unauthorized", f"not {call.path}")

    app.children("y")(lambda: 1 / 0)
    async with connect(app) as client:
        with pytest.raises(ActionError, match="not /x"):
            await client.query("/x")
        with pytest.raises(ActionError, match="failed to answer"):
            await client.query("/y")
        with pytest.raises(ActionError, match="has no child"):
            await client.query("/z")
        assert "ZeroDivisionError" in caplog.text


async def test_content_is_read_in_pieces() -> None:
    app = App("a", "A", coalesce_s=0)
    texts: dict[str, Any] = {"t": "smörgåsbord", "b": b"\x00\x01\x02", "none": None}
    mime = {"t": "text/plain", "b": "image/png", "none": "text/plain"}

    @app.node("files")
    def files() -> dict[str, Any]:
        return {
            "items": [
                {"id": key, "content_ref": {"mime": mime[key], "summary": key}} for key in texts
            ]
        }

    @app.content("files/{name}")
    def read(name: str) -> Any:
        return texts[name]

    async with connect(app) as client:
        ref = client.tree.at("/files/t").content_ref
        assert ref is not None
        assert (ref.type, ref.uri) == ("text", "slop://content/files/t")
        assert await client.invoke("/files/t", "read_content") == {
            "content": "smörgåsbord", "encoding": "utf-8", "offset": 0, "size": 11,
        }  # fmt: skip
        piece = await client.invoke("/files/t", "read_content", offset=4, length=3)
        assert piece["content"] == "gås"
        data = await client.invoke("/files/b", "read_content")
        assert (base64.b64decode(data["content"]), data["encoding"]) == (b"\x00\x01\x02", "base64")
        with pytest.raises(ActionError, match="no content"):
            await client.invoke("/files/none", "read_content")
        with pytest.raises(ActionError, match="must not be negative"):
            await client.invoke("/files/t", "read_content", offset=-1)


def test_a_reader_takes_nothing_from_the_caller() -> None:
    with pytest.raises(InvalidDescriptor, match="takes only the holes"):
        App("a", "A").content("x")(lambda which: which)
