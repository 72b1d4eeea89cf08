"""Work that outlasts its invoke: accepted at once, shown while it runs, gone some time after."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.tasks import Task
from sightline.slop.protocol.tree import Node
from sightline.testing import Client, FixedClock, connect


class Exports:
    """An app with one long action, which goes on when it is told to."""

    def __init__(self, **options: Any) -> None:
        self.clock = FixedClock()
        self.go_on = asyncio.Event()
        self.fails_with: Exception | None = None
        self.app = App("exports", "Exports", coalesce_s=0, clock=self.clock, **options)
        self.app.action("/", "export", estimate="async")(self.export)

    async def export(self, month: str) -> None:
        async with self.app.task() as task:
            task.report(0.25, f"reading {month}")
            await self.go_on.wait()
            if self.fails_with is not None:
                raise self.fails_with


async def begun(client: Client) -> str:
    result = await client.result("/", "export", {"month": "may"})
    assert result.status == "accepted"
    assert isinstance(result.data, msgspec.Raw)
    task_id: str = msgspec.json.decode(result.data)["taskId"]
    return task_id


def shown(client: Client, task_id: str) -> Node:
    return client.tree.at(f"/tasks/{task_id}")


async def test_a_task_is_accepted_and_shown_while_it_runs() -> None:
    exports = Exports()
    async with connect(exports.app) as client:
        task_id = await begun(client)
        node = shown(client, task_id)
        assert node.type == "status"
        assert node.properties == {
            "action": "export", "status": "running", "progress": 0.25,
            "message": "reading may", "started_at": "2026-01-01T00:00:00Z",
            "params": {"month": "may"},
        }  # fmt: skip
        assert node.meta.salience == 0.8
        assert [item.action for item in node.affordances] == ["cancel"]
        exports.go_on.set()
        await client.until(lambda: shown(client, task_id).properties["status"] == "done")
        assert shown(client, task_id).affordances == ()


async def test_a_task_leaves_some_time_after_it_ended() -> None:
    exports = Exports(task_linger_s=60)
    async with connect(exports.app) as client:
        task_id = await begun(client)
        exports.go_on.set()
        await client.until(lambda: shown(client, task_id).properties["status"] == "done")
        exports.clock.advance(59)
        exports.app.refresh()
        assert (await client.query("/tasks")).child(task_id) is not None
        exports.clock.advance(1)
        exports.app.refresh()
        await client.until(lambda: client.tree.child("tasks") is None)


async def test_a_task_leaves_by_itself_where_nobody_refreshes() -> None:
    exports = Exports(task_linger_s=0)
    async with connect(exports.app) as client:
        await begun(client)
        exports.go_on.set()
        await client.until(lambda: client.tree.child("tasks") is None)


async def test_a_task_can_be_cancelled() -> None:
    exports = Exports()
    async with connect(exports.app) as client:
        task_id = await begun(client)
        await client.invoke(f"/tasks/{task_id}", "cancel")
        await client.until(lambda: shown(client, task_id).properties["status"] == "cancelled")


@pytest.mark.parametrize(
    ("error", "message"),
    [(ActionError("conflict", "no such month"), "no such month"),
     (ValueError("secret"), "failed unexpectedly")],
)  # fmt: skip
async def test_a_task_that_fails_says_so_without_telling_secrets(
    error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    exports = Exports()
    exports.fails_with = error
    async with connect(exports.app) as client:
        task_id = await begun(client)
        exports.go_on.set()
        await client.until(lambda: shown(client, task_id).properties["status"] == "failed")
        node = shown(client, task_id)
        assert node.properties["message"] == message
        assert (node.meta.salience, node.meta.urgency) == (1, "high")
    assert ("secret" in caplog.text) == isinstance(error, ValueError)


async def test_an_ended_task_leaves_though_the_clock_was_set_back() -> None:
    exports = Exports(task_linger_s=60)
    async with connect(exports.app) as client:
        task_id = await begun(client)
        exports.go_on.set()
        await client.until(lambda: shown(client, task_id).properties["status"] == "done")
        exports.clock.advance(-3600)
        exports.app.refresh()
        await client.until(lambda: client.tree.child("tasks") is None)


async def test_a_task_goes_on_when_its_caller_leaves() -> None:
    exports = Exports()
    async with connect(exports.app) as client:
        task_id = await begun(client)
    exports.go_on.set()
    async with connect(exports.app) as client:
        await client.until(lambda: shown(client, task_id).properties["status"] == "done")


async def test_only_the_session_that_asked_sees_its_task() -> None:
    exports = Exports()
    exports.app.authenticate(lambda peer: peer.token)
    async with (
        connect(exports.app, token="ana") as ana,
        connect(exports.app, token="bob") as bob,
    ):
        task_id = await begun(ana)
        assert (await bob.query()).child("tasks") is None
        with pytest.raises(ActionError, match="has no child 'tasks'"):
            await bob.invoke(f"/tasks/{task_id}", "cancel")
        exports.go_on.set()


async def test_work_of_the_apps_own_can_be_shown_too() -> None:
    app = App("a", "A", coalesce_s=0)
    async with connect(app) as client:
        async with app.task("sync", {"n": 1}) as task:
            assert isinstance(task, Task)
            await client.until(lambda: client.tree.child("tasks") is not None)
        ended: str = task.status
        assert ended == "done"
    with pytest.raises(InvalidInput, match="must be given a name"):
        app.task()


async def test_closing_the_app_cancels_its_tasks() -> None:
    exports = Exports()
    async with connect(exports.app) as client:
        task_id = await begun(client)
        await exports.app.close()
        await client.until(lambda: shown(client, task_id).properties["status"] == "cancelled")
