"""An app that lives where its host lives: connected in memory, by the same protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sightline.slop.app.app import App
from sightline.slop.transports.background import Background
from sightline.slop.transports.link import Link
from sightline.slop.transports.memory import memory_pair


def local_dial(app: App) -> Callable[[], Awaitable[Link]]:
    """Make what a hub dials to reach an app in this process: `hub.add(id, local_dial(app))`."""
    serving = Background()

    async def dial() -> Link:
        ours, theirs = memory_pair()
        serving.start(app.handle(theirs))
        return ours

    return dial
