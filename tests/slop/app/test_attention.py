"""What helps a model look: views, marks, lazy children, windows, content."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from sightline.errors import ActionError, InvalidDescriptor
from sightline.slop.app.app import App
from sightline.slop.app.attention import mark_changes
from sightline.slop.app.call import Call
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
