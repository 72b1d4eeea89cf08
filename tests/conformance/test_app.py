"""What an app adds to the machines: checks, tasks, content, sessions, attention."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.conftest import APPS
from sightline.errors import ActionError, InvalidInput, InvalidTree, Unauthorized
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.app.serving import COALESCE_S
from sightline.slop.hub.client import Client as HubClient
from sightline.slop.hub.content import ContentAccess, read_content
from sightline.slop.hub.hub import Hub, WantedApp
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.transports.link import Link
from sightline.testing import Client, FixedClock, connect
from support.live import served
from support.wire import Wire

OVER_EVERY_TRANSPORT = pytest.mark.parametrize("wire", APPS, indirect=True)


async def code_of(wire: Wire, action: str, node: str = "/", /, **params: Any) -> tuple[str, str]:
    [result] = await wire.invoke(action, node, **params)
    assert result["status"] == "error"
    assert "data" not in result
    return result["error"]["code"], result["error"]["message"]


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("invoke.order", "invoke.not-run", "invoke.params", "invoke.caller")
@pytest.mark.proves("invoke.state", "invoke.node-exists", "invoke.still-exposed")
@pytest.mark.proves("affordance.never-authorised")
async def test_an_invoke_is_checked_in_order_before_its_handler_runs(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.invoke("count")  # from here on the state forbids to knock
    # Each of these is wrong in every later way too: the first wrong is what is said.
    assert (await code_of(wire, "knock", "/nowhere", times="x"))[0] == "not_found"
    assert (await code_of(wire, "knock", "/inbox", times="x"))[0] == "not_found"
    code, message = await code_of(wire, "knock", times="many")
    assert code == "invalid_params"
    assert "/times" in message
    assert (await code_of(wire, "knock"))[0] == "invalid_params"
    assert (await code_of(wire, "knock", times=1, more=1))[0] == "invalid_params"
    assert (await code_of(wire, "knock", times=10))[0] == "unauthorized"
    assert await code_of(wire, "knock", times=1) == ("conflict", "somebody is counting")
    [result] = await wire.invoke("done")
    assert result["data"] == []


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("task.accepted", "task.node", "task.cancel")
async def test_a_task_is_accepted_shown_and_cancelled(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send({"type": "subscribe", "id": "s"})
    await wire.expect("snapshot")
    *patches, result = await wire.invoke("export", month="june")
    assert result["status"] == "accepted"
    path = f"/tasks/{result['data']['taskId']}"
    assert {patch["type"] for patch in patches} == {"patch"}
    await wire.send({"type": "query", "id": "q", "path": path})
    while (answer := await wire.receive())["type"] != "snapshot":
        assert answer["type"] == "patch"
    shown = answer["tree"]
    assert (shown["type"], shown["meta"]["salience"]) == ("status", 0.8)
    assert shown["properties"].pop("started_at")
    assert shown["properties"] == {
        "action": "export", "status": "running", "progress": 0.5,
        "message": "reading june", "params": {"month": "june"},
    }  # fmt: skip
    assert [item["action"] for item in shown["affordances"]] == ["cancel"]
    heard = await wire.invoke("cancel", path)
    while not any('"cancelled"' in json.dumps(message) for message in heard):
        heard.append(await wire.expect("patch"))
    assert (await code_of(wire, "cancel", path))[0] == "not_found"


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("content.ref", "content.read")
async def test_content_is_referred_to_and_read_in_pieces(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send({"type": "query", "id": "q", "path": "/manual"})
    shown = (await wire.expect("snapshot"))["tree"]
    assert shown["content_ref"] == {
        "type": "text", "mime": "text/plain", "uri": "slop://content/manual",
        "summary": "how to read mail",
    }  # fmt: skip
    assert [item["action"] for item in shown["affordances"]] == ["read_content"]
    [result] = await wire.invoke("read_content", "/manual", offset=5, length=2)
    assert result["data"] == {"content": "it", "encoding": "utf-8", "offset": 5, "size": 18}


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("content.read", "content.data", "content.allowed")
async def test_a_host_reads_content_from_where_it_allows(wire: Wire, tmp_path: Path) -> None:
    async def dial() -> Link:
        return wire.link

    note = tmp_path / "note.txt"
    note.write_text("kept here")
    allowed = ContentAccess(directories=(tmp_path,))
    async with HubClient(dial, reconnect=False) as client:
        shown = (await client.query("/manual")).content_ref
        assert shown is not None
        assert await read_content(client, shown) == b"open it, then look"
        inline = msgspec.structs.replace(shown, uri="data:;base64,aGk=")
        assert await read_content(client, inline) == b"hi"
        file = msgspec.structs.replace(shown, uri=f"file://{note}")
        assert await read_content(client, file, allowed) == b"kept here"
        page = msgspec.structs.replace(shown, uri="http://127.0.0.1:1/")
        for refused in (file, page):
            with pytest.raises(Unauthorized):
                await read_content(client, refused)


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("extension.harmless", "change.rest")
async def test_who_ignores_what_is_ours_is_served_as_the_protocol_says(wire: Wire) -> None:
    await wire.expect("hello")
    old = {"type": "subscribe", "id": "s", "path": "/inbox", "x_new": 1}
    await wire.send(old)
    snapshot = await wire.expect("snapshot")
    known = {"type", "id", "version", "seq", "tree"}
    assert snapshot.keys() == known
    patch, _ = await wire.invoke("set", path="/inbox", key="label", value="Post")
    assert patch.keys() - {"base"} == {"type", "subscription", "version", "seq", "ops"}
    assert COALESCE_S == 0.05  # and this app, like every app of these tests, has 0


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("capability.state", "resume.epoch", "hint.actions", "retain.ancestors")
@pytest.mark.proves("scaling.summary", "scaling.lazy-query", "view.stub")
async def test_what_is_ours_is_announced_and_given(wire: Wire) -> None:
    provider = (await wire.expect("hello"))["provider"]
    assert provider["epoch"]
    public = {"state", "patches", "affordances", "attention", "windowing", "async", "content_refs"}
    ours = {"x-resume", "x-retain", "x-actions-hint", "x-served"}
    declared = set(provider["capabilities"])
    assert public | ours <= declared
    assert all(name.startswith("x-") for name in declared - public)
    await wire.send({"type": "subscribe", "id": "flat", "depth": 1})
    children = (await wire.expect("snapshot"))["tree"]["children"]
    [inbox] = [child for child in children if child["id"] == "inbox"]
    assert inbox.keys() == {"id", "type", "meta"}
    assert inbox["meta"]["summary"] == "3 messages"
    assert inbox["meta"]["available_actions"] == ["archive_all"]
    bright = {"min_salience": 0.95, "retain_ancestors": True}
    await wire.send({"type": "query", "id": "q", "filter": bright})
    [kept] = (await wire.expect("snapshot"))["tree"]["children"]
    assert (kept["id"], [child["id"] for child in kept["children"]]) == ("inbox", ["msg-1"])
    await wire.send({"type": "query", "id": "r", "path": "/notes", "depth": 1})
    assert len((await wire.expect("snapshot"))["tree"]["children"]) == 7


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("invoke.result")
async def test_of_two_actions_of_one_name_and_shape_the_later_is_called(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send({"type": "subscribe", "id": "s", "path": "/inbox"})
    await wire.expect("snapshot")
    patch, result = await wire.invoke("archive", "/inbox/msg-1")
    assert result["status"] == "ok"
    assert [(op["op"], op["path"]) for op in patch["ops"]] == [("remove", "/msg-1")]


@OVER_EVERY_TRANSPORT
@pytest.mark.proves("transport.large")
async def test_a_large_snapshot_passes(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.invoke("fill", size=5 * 1024 * 1024)
    await wire.send({"type": "subscribe", "id": "s", "path": "/inbox"})
    snapshot = await wire.expect("snapshot")
    assert len(json.dumps(snapshot["tree"])) > 5 * 1024 * 1024


@pytest.mark.proves("served.said")
async def test_an_app_says_what_it_really_served(tmp_path: Path) -> None:
    app = App("a", "A", coalesce_s=0, limits=ProviderLimits(snapshot_nodes=5))
    app.register("list", {"items": [{"id": f"i{n}", "items": [{"id": "x"}]} for n in range(3)]})
    async with served("memory", tmp_path, app) as dial:
        wire = Wire(await dial())
        await wire.expect("hello")
        await wire.send({"type": "subscribe", "id": "s"})
        assert (await wire.expect("snapshot"))["served"]["max_nodes"] == 5
        await wire.send({"type": "query", "id": "q", "max_nodes": 3, "depth": 1})
        assert "served" not in await wire.expect("snapshot")
        await wire.link.close()


@pytest.mark.proves("invoke.internal")
async def test_an_unexpected_error_keeps_its_secrets() -> None:
    app = App("a", "A", coalesce_s=0)

    @app.action("/", "fail")
    def fail() -> None:
        raise KeyError("the password is hunter2")

    async with connect(app) as client:
        with pytest.raises(ActionError) as caught:
            await client.invoke("/", "fail")
    assert caught.value.code == "internal"
    assert "hunter2" not in caught.value.message


@pytest.mark.proves("invoke.codes")
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        *((code, code) for code in ("not_found", "invalid_params", "unauthorized", "conflict")),
        ("internal", "internal"),
        ("teapot", "internal"),
        ("bad_request", "internal"),
    ],
)
async def test_a_handlers_error_has_a_code_of_the_protocol(raised: str, told: str) -> None:
    app = App("a", "A", coalesce_s=0)

    @app.action("/", "fail")
    def fail() -> None:
        raise ActionError(raised, "why")

    async with connect(app) as client:
        with pytest.raises(ActionError) as caught:
            await client.invoke("/", "fail")
    assert caught.value.code == told


@pytest.mark.proves("affordance.fields", "affordance.unique")
def test_an_action_shows_what_its_app_declares() -> None:
    app = App("a", "A")
    inline = {"go": {"handler": lambda: None, "label": "inline"}}
    app.register("x", {"type": "item", "actions": inline})
    app.action("x", "go", label="pattern")(lambda: None)

    @app.action(
        "x", "drop", label="Drop", description="Away with it", dangerous=True, idempotent=True,
        estimate="slow", returns=int,
    )  # fmt: skip
    def drop(hard: bool = False) -> int:
        return int(hard)

    go, declared = json.loads(encode(app.tree().at("/x")))["affordances"]
    assert (go["action"], go["label"]) == ("go", "inline")
    assert declared.pop("params")["properties"]["hard"]["type"] == "boolean"
    assert declared.pop("returns")["type"] == "integer"
    assert declared == {
        "action": "drop", "label": "Drop", "description": "Away with it",
        "dangerous": True, "idempotent": True, "estimate": "slow",
    }  # fmt: skip


@pytest.mark.proves("node.whole-or-not", "node.id-error")
def test_what_is_illegal_is_not_registered_at_all() -> None:
    app = App("a", "A")
    app.register("list", {"items": [{"id": "x"}]})
    before = app.tree()
    with pytest.raises((InvalidInput, InvalidTree), match="'y/z'"):
        app.register("list", {"items": [{"id": "fine"}, {"id": "y/z"}]})
    assert app.tree() is before


class Exports:
    """An app with one long action, which ends as it is told."""

    def __init__(self, **options: Any) -> None:
        self.clock = FixedClock()
        self.error: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.app = App("exports", "Exports", coalesce_s=0, clock=self.clock, **options)
        self.app.action("/", "export", estimate="async")(self.export)

    async def export(self) -> None:
        async with self.app.task():
            if error := await self.error:
                raise error


def statuses(client: Client) -> list[str]:
    tasks = client.tree.child("tasks")
    return [] if tasks is None else [node.properties["status"] for node in tasks.children]


@pytest.mark.proves("task.leaves", "task.cancel")
async def test_a_task_that_ended_is_shown_for_a_while() -> None:
    exports = Exports(task_linger_s=60)
    async with connect(exports.app) as client:
        await client.result("/", "export")
        exports.error.set_result(None)
        await client.until(lambda: statuses(client) == ["done"])
        assert client.tree.at("/tasks").children[0].affordances == ()
        exports.clock.advance(59)
        exports.app.refresh()
        assert (await client.query()).child("tasks") is not None
        exports.clock.advance(1)
        exports.app.refresh()
        await client.until(lambda: statuses(client) == [])


@pytest.mark.proves("task.failed")
async def test_a_task_that_failed_asks_for_attention() -> None:
    exports = Exports()
    async with connect(exports.app) as client:
        await client.result("/", "export")
        exports.error.set_result(ActionError("conflict", "no such month"))
        await client.until(lambda: statuses(client) == ["failed"])
        meta = client.tree.at("/tasks").children[0].meta
        assert (meta.salience, meta.urgency) == (1, "high")


@pytest.mark.proves("session.own-tree", "session.refresh", "session.caller")
async def test_each_session_sees_and_changes_its_own() -> None:
    app = App("notes", "Notes", coalesce_s=0)
    notes = {"ana": ["ana's"], "bob": ["bob's"]}
    app.authenticate(lambda peer: peer.token)

    @app.node("mine")
    def mine(session: str) -> dict[str, Any]:
        return {"props": {"notes": list(notes[session])}}

    @app.action("mine", "add", refreshes=())
    def add(text: str, session: str) -> str:
        notes[session].append(text)
        return session

    async with connect(app, token="ana") as ana, connect(app, token="bob") as bob:
        assert await ana.invoke("/mine", "add", text="more of ana's") == "ana"
        assert await bob.invoke("/mine", "add", text="more of bob's") == "bob"
        app.refresh(where=lambda session: session == "ana")
        await ana.until(lambda: len(ana.tree.at("/mine").properties["notes"]) == 2)
        assert (await bob.query("/mine")).properties == {"notes": ["bob's"]}
        app.refresh()
        await bob.until(lambda: len(bob.tree.at("/mine").properties["notes"]) == 2)
        assert b"bob" not in encode(ana.tree)
        assert b"ana" not in encode(bob.tree)


@pytest.mark.proves("scaling.closed", "scaling.window-only")
async def test_what_is_registered_elsewhere_opens_no_view_and_widens_no_window() -> None:
    app = App("shop", "Shop", coalesce_s=0)
    window = {"items": [{"id": "mouse"}], "total": 142, "offset": 25}
    app.view("cart", summary="3 items")(lambda: {"window": window})
    app.register("cart/keyboard", {"type": "item"})
    app.view("orders", summary="12 orders")(lambda: {"props": {"n": 12}})
    app.register("orders/o1", {"type": "item"})
    app.action("orders", "cancel")(lambda: "cancelled")
    async with connect(app) as client:
        assert [child.id for child in client.tree.at("/cart").children] == ["mouse"]
        stub = json.loads(encode(client.tree.at("/orders")))
        assert stub == {"id": "orders", "type": "view", "meta": {"summary": "12 orders"}}
        with pytest.raises(ActionError) as refused:
            await client.invoke("/orders", "cancel")
        assert refused.value.code == "not_found"


@pytest.mark.proves("scaling.cheap", "scaling.context-always", "scaling.descriptor")
async def test_the_app_itself_is_there_from_any_view_and_the_views_cost_little() -> None:
    app = App("shop", "Shop", coalesce_s=0)
    app.register("account", {"type": "context", "props": {"user": "alice"}})
    app.action("account", "navigate")(lambda to: app.focus(to))
    for name in ("cart", "orders"):
        shown = {"props": {"label": name}, "summary": "3 items", "meta": {"salience": 0.9}}
        app.view(name, summary="3 items, $127.49")(lambda shown=shown: shown)
    async with connect(app) as client:
        for open_view, closed in (("orders", "cart"), ("cart", "orders")):
            await client.invoke("/account", "navigate", to=open_view)
            account = client.tree.at("/account")
            assert account.properties == {"user": "alice"}
            assert [item.action for item in account.affordances] == ["navigate"]
            meta = client.tree.at(f"/{open_view}").meta
            assert (meta.summary, meta.salience) == ("3 items", 0.9)
            assert len(encode(client.tree.at(f"/{closed}"))) < 80


@pytest.mark.proves("scaling.overview")
async def test_an_overview_stays_while_the_detail_moves_with_the_user() -> None:
    app = App("shop", "Shop", coalesce_s=0)
    for name in ("cart", "orders"):
        items = [{"id": "i1", "items": [{"id": f"of-{name}"}]}]
        app.view(name, summary=name)(lambda items=items: {"items": items})
    app.action("/", "navigate")(lambda to: app.focus(to))
    async with Hub(wanted=WantedApp(depth=1)) as hub:
        hub.add("shop", local_dial(app))
        detail = await hub.watch("shop", "/cart", depth=-1)
        assert [node.id for node in (await detail.first(20)).walk()] == ["cart", "i1", "of-cart"]
        await hub.invoke("shop", "/", "navigate", {"to": "orders"})
        detail.close()
        detail = await hub.watch("shop", "/orders", depth=-1)
        assert [node.id for node in (await detail.first(20)).walk()][-1] == "of-orders"
        overview = hub.world.apps[0].tree
        assert overview is not None
        assert [(child.id, child.meta.focus) for child in overview.children] == [
            ("cart", None), ("orders", True),
        ]  # fmt: skip
    await app.close()


@pytest.mark.proves("scaling.max-depth", "scaling.max-nodes")
async def test_an_app_bounds_what_it_shows_at_once() -> None:
    thread = {"id": "t42", "summary": "15 replies", "items": [{"id": f"r{n}"} for n in range(15)]}
    quiet = {"id": "t1", "props": {"n": 2}, "meta": {"salience": 0.1}, "items": [{"id": "r"}]}
    for limits, shape in (
        ({"max_depth": 2}, {"id", "type", "meta"}),
        ({"max_nodes": 4}, {"id", "type", "meta", "properties"}),
    ):
        app = App("forum", "Forum", coalesce_s=0, **limits)  # type: ignore[arg-type] # as written
        app.node("threads")(lambda: {"items": [thread, quiet]})
        async with connect(app) as client:
            shown = json.loads(encode(client.tree.at("/threads/t42")))
            assert shown.keys() == shape
            assert shown["meta"] == {"summary": "15 replies", "total_children": 15}
            assert len((await client.query("/threads/t42")).children) == 15


@pytest.mark.proves("scaling.focus", "scaling.patch-navigation", "node.changed")
@pytest.mark.proves("view.registered-window", "scaling.no-resubscribe")
async def test_attention_follows_the_user() -> None:
    app = App("shop", "Shop", coalesce_s=0, mark_changed=True)
    window = {"items": [{"id": "mouse"}], "total": 142, "offset": 25}
    app.view("cart", summary="3 items")(lambda: {"props": {"total": 9}, "window": window})
    app.view("orders", summary="12 orders")(lambda: {"items": [{"id": "o1"}]})
    app.action("/", "navigate")(lambda to: app.focus(to))
    async with connect(app) as client:
        cart, orders = client.tree.at("/cart"), client.tree.at("/orders")
        assert (cart.meta.focus, cart.meta.window, cart.meta.total_children) == (True, (25, 1), 142)
        stub = json.loads(encode(orders))
        assert stub == {"id": "orders", "type": "view", "meta": {"summary": "12 orders"}}
        await client.invoke("/", "navigate", to="orders")
        assert client.tree.at("/orders/o1").id == "o1"
        assert client.tree.at("/cart").meta.focus is None
        marked = [node.id for node in client.tree.walk() if node.meta.changed]
        assert "shop" not in marked
        assert {"cart", "orders"} <= set(marked)
