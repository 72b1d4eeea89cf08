"""The apps of a host: reached by the user's settings, waited for, and told when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from platformdirs import user_state_path

from sightline.config import AppSettings, Settings
from sightline.config.mcp_files import read_mcp_file
from sightline.context.ledger.paths import expanded
from sightline.errors import SightlineError
from sightline.events import AppChanged, HostEvent, Noticed
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.hub import Hub

FIRST_SIGHT_S: Final = 2.0
_BRIDGE_S: Final = 5.0


def hub_of(settings: Settings, **options: Any) -> Hub:
    """Make the hub that the settings describe; `options` are more of its own."""
    bridge = None
    if settings.apps.bridge:
        from sightline.slop.hub.browser import BrowserBridge

        path = user_state_path("sightline", appauthor=False) / "browser.json"
        wants = settings.bridge
        bridge = BrowserBridge(path, port=wants.port, origins=wants.origins, open=wants.open)
    found = Discovery(brokers=settings.apps.brokers) if settings.apps.discover else None
    return Hub(found, silent_s=settings.apps.silent_s, bridge=bridge, **options)


async def tell_bridge(hub: Hub, tell: Callable[[HostEvent], None]) -> None:
    """Tell where pages can come, while no extension is known, or why they cannot."""
    bridge = hub.bridge
    if bridge is None:
        return
    try:
        async with asyncio.timeout(_BRIDGE_S):
            await bridge.settled()
    except (SightlineError, TimeoutError) as error:
        problem = str(error) or "it takes long to open"
        tell(Noticed(code="browser_bridge", message=f"no pages of a browser: {problem}"))
    else:
        if not bridge.is_paired:
            message = f"pages can come to 127.0.0.1:{bridge.port}; an extension is paired with"
            message += f" the token in {bridge.path}"
            tell(Noticed(code="browser_bridge", message=message))


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
