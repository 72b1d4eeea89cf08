"""The deployed peer's consumer sees and uses our app as it does its own kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from slop_ai import SlopConsumer
from slop_ai.transports.ws_client import WebSocketClientTransport

from sightline.slop.app.app import App
from support.web import served


def todos() -> tuple[App, list[dict[str, Any]]]:
    app = App("todos", "Todos", coalesce_s=0)
    items: list[dict[str, Any]] = [{"id": "t1", "title": "Buy milk", "done": False}]

    @app.node("list")
    def shown() -> dict[str, Any]:
        return {
            "type": "collection",
            "props": {"count": len(items)},
            "items": [
                {"id": item["id"], "props": {"title": item["title"], "done": item["done"]}}
                for item in items
            ],
        }

    @app.action("list", "add")
    def add(title: str) -> dict[str, str]:
        items.append({"id": f"t{len(items) + 1}", "title": title, "done": False})
        return {"id": items[-1]["id"]}

    @app.action("list/{key}", "toggle")
    def toggle(key: str) -> None:
        for item in items:
            if item["id"] == key:
                item["done"] = not item["done"]

    return app, items


@asynccontextmanager
async def peer_of(app: App) -> AsyncIterator[Any]:
    async with served(app.asgi()) as at:
        consumer = SlopConsumer(WebSocketClientTransport(f"ws://{at}/slop"), timeout=10)
        hello = await consumer.connect()
        assert hello["provider"]["id"] == app.info.id
        yield consumer
        await consumer._connection.close()


async def changed(consumer: Any, subscription: str, condition: Any) -> None:
    """Wait for the patch after which something holds of the peer's mirror."""
    happened = asyncio.Event()
    consumer.on_patch(lambda *_: happened.set())
    while not condition(consumer.get_tree(subscription)):
        await happened.wait()
        happened.clear()


async def test_it_subscribes_at_several_depths_and_queries() -> None:
    app, _ = todos()
    async with peer_of(app) as consumer:
        full = await consumer.subscribe("/", depth=-1)
        flat = await consumer.subscribe("/", depth=1)
        part = await consumer.subscribe("/list", depth=1)
        assert full["snapshot"].children[0].children[0].properties["title"] == "Buy milk"
        assert flat["snapshot"].children[0].children is None
        assert flat["snapshot"].children[0].meta.total_children == 1
        assert part["snapshot"].children[0].id == "t1"
        assert (await consumer.query("/list/t1", depth=0)).properties["done"] is False


async def test_it_invokes_and_its_mirror_follows() -> None:
    app, _ = todos()
    async with peer_of(app) as consumer:
        own = (await consumer.subscribe("/", depth=-1))["id"]
        result = await consumer.invoke("/list", "add", {"title": "Call Ana"})
        assert (result["status"], result["data"]) == ("ok", {"id": "t2"})
        # Our patches come before the result, so the mirror is there already.
        [collection] = consumer.get_tree(own).children
        assert [child.id for child in collection.children] == ["t1", "t2"]
        await consumer.invoke("/list/t2", "toggle")
        assert consumer.get_tree(own).children[0].children[1].properties["done"] is True
        refused = await consumer.invoke("/list", "add", {"title": 7})
        assert refused["error"]["code"] == "invalid_params"
        gone = await consumer.invoke("/list/t9", "toggle")
        assert gone["error"]["code"] == "not_found"


async def test_its_mirror_follows_what_the_app_does_by_itself() -> None:
    app, items = todos()
    async with peer_of(app) as consumer:
        own = (await consumer.subscribe("/", depth=-1))["id"]
        items.insert(0, {"id": "t0", "title": "First", "done": True})
        app.refresh()
        await changed(
            consumer, own, lambda tree: [c.id for c in tree.children[0].children] == ["t0", "t1"]
        )
        items.clear()
        app.refresh()
        await changed(consumer, own, lambda tree: not tree.children[0].children)


async def test_it_starts_a_task_and_sees_its_progress() -> None:
    app, _ = todos()
    go_on = asyncio.Event()

    @app.action("list", "export", estimate="async")
    async def export() -> None:
        async with app.task() as task:
            task.report(0.5, "half")
            await go_on.wait()

    async with peer_of(app) as consumer:
        own = (await consumer.subscribe("/", depth=-1))["id"]
        result = await consumer.invoke("/list", "export")
        assert result["status"] == "accepted"

        def task_of(tree: Any) -> Any:
            [tasks] = [child for child in tree.children if child.id == "tasks"]
            return tasks.children[0]

        assert task_of(consumer.get_tree(own)).id == result["data"]["taskId"]
        assert task_of(consumer.get_tree(own)).properties["progress"] == 0.5
        go_on.set()
        await changed(consumer, own, lambda tree: task_of(tree).properties["status"] == "done")
