"""An app that lives where its host lives: connected in memory, by the same protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sightline.slop.app.app import App
from sightline.slop.transports.link import Link
from sightline.slop.transports.memory import memory_pair


def local_dial(app: App) -> Callable[[], Awaitable[Link]]:
    """Make what a hub dials to reach an app in this process: `hub.add(id, local_dial(app))`."""
    serving: set[asyncio.Task[None]] = set()

    async def dial() -> Link:
        ours, theirs = memory_pair()
        task = asyncio.create_task(app.handle(theirs))
        serving.add(task)  # the loop itself keeps no tasks alive
        task.add_done_callback(serving.discard)
        return ours

    return dial
