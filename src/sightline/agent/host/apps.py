"""The apps of a host: reached by the user's settings, waited for, and told when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from sightline.config import AppSettings
from sightline.config.mcp_files import read_mcp_file
from sightline.context.ledger.paths import expanded
from sightline.errors import SightlineError
from sightline.events import AppChanged, HostEvent, Noticed
from sightline.slop.hub.hub import Hub

__all__ = ["end_task", "first_sight", "reach_configured", "tell_changes"]

FIRST_SIGHT_S: Final = 2.0


async def reach_configured(
    hub: Hub, settings: AppSettings, env: Mapping[str, str], tell: Callable[[HostEvent], None]
) -> None:
    """Reach the apps and want the MCP servers that settings name; tell which cannot be had."""
    for address in settings.connect:
        try:
            await hub.reach(address)
        except SightlineError as error:
            tell(Noticed(code="not_connected", message=f"{address}: {error}"))
    for file in settings.mcp_files:
        try:
            for entry in await asyncio.to_thread(read_mcp_file, expanded(Path(file)), env):
                hub.add_mcp(entry.target)
        except SightlineError as error:
            tell(Noticed(code="not_connected", message=f"{file}: {error}"))


async def tell_changes(hub: Hub, tell: Callable[[HostEvent], None]) -> None:
    """Tell whenever an app comes, goes or has another status, for as long as the hub is open."""
    known: dict[str, AppChanged] = {}
    async for world in hub.changes():
        now = {
            app.id: AppChanged(app=app.id, name=app.name, status=app.status, reason=app.reason)
            for app in world.apps
        }
        for app_id, change in now.items():
            if known.get(app_id) != change:
                tell(change)
        for app_id, change in known.items():
            if app_id not in now:
                tell(msgspec.structs.replace(change, status="gone", reason=""))
        known = now


async def end_task(task: asyncio.Task[None]) -> None:
    """End a task that would go on for ever."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def first_sight(hub: Hub) -> None:
    """Give apps that have just been found a moment to show themselves."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_SIGHT_S):
            async for world in hub.changes():
                if all(app.status != "awaiting" for app in world.apps):
                    return
