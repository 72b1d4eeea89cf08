"""Work that outlasts its invoke: accepted at once, shown while it runs, gone some time after.

    @app.action("reports", "export", estimate="async")
    async def export(month: str) -> None:
        async with app.task() as task:          # the caller now has `accepted` and a taskId
            for done, page in enumerate(pages):
                await write(page)
                task.report(done / len(pages), f"page {done}")

While the block runs, `/tasks/{taskId}` is a `status` node with its progress and a
`cancel` action. What ends the block decides how it is shown: the end of the block,
an error or a cancellation. Only the session that asked sees the task.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from sightline.errors import ActionError
from sightline.slop.app.action import Action
from sightline.slop.app.registry import Registry
from sightline.slop.protocol.tree import Node

Clock: TypeAlias = Callable[[], datetime]
Status: TypeAlias = Literal["pending", "running", "done", "failed", "cancelled"]

_UNEXPECTED: Final = "failed unexpectedly"


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


@dataclass(eq=False, repr=False)
class Task:
    """One piece of work; enter it to start, leave it to end."""

    _tasks: Tasks
    _action: str
    _params: dict[str, Any]
    session: Hashable
    _on_start: Callable[[str], None]
    id: str = field(default_factory=lambda: f"task-{secrets.token_hex(4)}")
    status: Status = "pending"
    ended_at: datetime | None = None
    _progress: float | None = None
    _message: str | None = None
    _worker: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self._started_at = self._tasks.clock()

    def report(self, progress: float | None = None, message: str | None = None) -> None:
        """Show how far it is (0 to 1) and what it does. From any thread."""
        if progress is not None:
            self._progress = min(max(progress, 0.0), 1.0)
        if message is not None:
            self._message = message
        self._tasks.show(self)

    def cancel(self) -> None:
        """Ask it to stop; it ends as `cancelled` unless it ends otherwise first."""
        if self._worker is not None and self.ended_at is None:
            self._worker.cancel()

    async def __aenter__(self) -> Task:
        self._worker = asyncio.current_task()
        self.status = "running"
        self._tasks.add(self)
        self._on_start(self.id)
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.status, self._progress = "done", 1.0
        elif isinstance(error, asyncio.CancelledError):
            self.status = "cancelled"
        else:
            self.status = "failed"
            self._message = error.message if isinstance(error, ActionError) else _UNEXPECTED
        self.ended_at = self._tasks.clock()
        self._tasks.end(self)

    def node(self) -> Node:
        """What is shown of it."""
        # SLOP, async actions: a status node under /tasks.
        properties: dict[str, Any] = {"action": self._action, "status": self.status}
        if self._progress is not None:
            properties["progress"] = round(self._progress, 4)
        if self._message is not None:
            properties["message"] = self._message
        properties["started_at"] = self._started_at.isoformat().replace("+00:00", "Z")
        properties["params"] = self._params
        failed = self.status == "failed"
        meta: dict[str, Any] = {"salience": 1 if failed else 0.8}
        if failed:
            meta["urgency"] = "high"
        offered: dict[str, Any] = {}
        if self.ended_at is None:
            offered["affordances"] = [{"action": "cancel", "description": "Stop this task"}]
        return Node.of(self.id, "status", properties=properties, meta=meta, **offered)


@dataclass(eq=False, repr=False)
class Tasks:
    """The tasks of an app, running or lately ended."""

    _registry: Registry
    _changed: Callable[[], None]
    clock: Clock
    _linger_s: float
    _tasks: dict[str, Task] = field(default_factory=dict)

    def add(self, task: Task) -> None:
        """Show a task that starts."""
        self._tasks[task.id] = task
        self.show(task)

    def show(self, task: Task) -> None:
        """Show a task as it is now."""
        if task.id in self._tasks:
            ids = ("tasks", task.id)
            self._registry.put_extra(ids, task.node(), lambda session: session == task.session)
            self._changed()

    def end(self, task: Task) -> None:
        """Show how a task ended, for a while."""
        self.show(task)
        self._forget_later()

    def forget_ended(self) -> None:
        """Take away what ended long enough ago, or by a clock that was set back since."""
        now = self.clock()
        limit = now - timedelta(seconds=self._linger_s)
        gone = [
            task
            for task in self._tasks.values()
            if task.ended_at is not None and not limit < task.ended_at <= now
        ]
        for task in gone:
            del self._tasks[task.id]
            self._registry.put_extra(("tasks", task.id), None, lambda _: True)
        if gone:
            self._changed()

    def action_at(self, ids: tuple[str, ...], name: str) -> Action | None:
        """The action of a task's node."""
        task = self._tasks.get(ids[1]) if len(ids) == 2 and ids[0] == "tasks" else None
        if task is None or name != "cancel":
            return None

        async def cancel() -> None:
            task.cancel()

        return Action.of("cancel", cancel, "/tasks", refreshes=())

    def _forget_later(self) -> None:
        loop = asyncio.get_running_loop()

        def forget() -> None:
            self.forget_ended()
            if any(task.ended_at is not None for task in self._tasks.values()):
                loop.call_later(max(self._linger_s, 1.0), forget)

        loop.call_later(self._linger_s, forget)
