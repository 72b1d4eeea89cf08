"""Put a host behind a terminal: its driver, its status, and what happens between turns."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from sightline.agent.host import Host
from sightline.cli.chat.driver import ChatDriver
from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.opening import opened
from sightline.cli.chat.paint import Colors
from sightline.cli.chat.status import Status
from sightline.cli.chat.terminal import Terminal
from sightline.events import AppChanged, Noticed

__all__ = ["on_screen"]

_NANO: Final = 1_000_000_000


async def on_screen(terminal: Terminal, options: ChatOptions) -> None:
    """Drive a terminal until it ends. Raises what keeps the model from being used."""
    colors: Colors = "none" if os.environ.get("NO_COLOR") else "full"
    async with opened(options) as (host, refused):
        driver = ChatDriver(host, terminal, colors, await _status(host))
        watching = asyncio.create_task(_watch(host, driver))
        try:
            driver.greet()
            for line in refused:
                driver.note(Noticed(code="config", message=line))
            terminal.start(driver)
            await driver.run()
        finally:
            watching.cancel()


async def _status(host: Host) -> Status:
    model = await host.model()
    session_id = host.session.id
    totals = await asyncio.to_thread(host.ledger.accounts.totals, session_id)
    return Status(
        model=model.label,
        mode=host.mode,
        cost_usd=totals.cost_nanousd / _NANO,
        unpriced=bool(totals.unpriced),
        apps=tuple(app.id for app in host.world.apps if app.status == "connected"),
    )


async def _watch(host: Host, driver: ChatDriver) -> None:
    async for event in host.events():
        if isinstance(event, AppChanged) or (isinstance(event, Noticed) and not driver.busy):
            driver.note(event)
