"""Open the host that a chat was asked for, and answer lines with it where there is no screen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from sightline.agent.host import Host
from sightline.cli.approval import LineAsker
from sightline.cli.ask import latest_session
from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.pipe import PipeChat, lines_of
from sightline.cli.guidance import ask_to_follow, unasked
from sightline.cli.keyfile import keyed
from sightline.cli.out import Outlet, forget_typed, notice
from sightline.config import load
from sightline.context.ledger.paths import user_path
from sightline.errors import TimedOut
from sightline.slop.hub.hub import Hub

if TYPE_CHECKING:
    from sightline.slop.app.app import App


DEMO_S: Final = 10.0


async def without_screen(options: ChatOptions) -> int:
    """Answer the lines of stdin; return the exit code."""
    descriptor = sys.stdin.fileno()
    lines = lines_of(descriptor)
    prompt = "> " if os.isatty(descriptor) else ""

    async def ask(question: str) -> str:
        forget_typed()
        return await _next(lines, question) or ""

    async with opened(options) as (host, refused):
        for ignored in refused:
            notice(ignored)
        asker = ask if prompt else None
        if asker is not None:
            console = LineAsker(Outlet(), asker, width=get_terminal_size().columns)
            await ask_to_follow(host, console)
        elif missing := unasked(host):
            notice(missing)
        chat = PipeChat(host, Outlet(), Outlet(err=True), ask=asker, yes=options.yes)
        if prompt:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupt)
        while (line := await _next(lines, prompt)) is not None and await chat.take(line):
            pass
    return chat.exit_code


async def _next(lines: AsyncIterator[str], prompt: str) -> str | None:
    Outlet().write(prompt)
    return await anext(lines, None)


@asynccontextmanager
async def opened(options: ChatOptions) -> AsyncIterator[tuple[Host, tuple[str, ...]]]:
    """Open the host that the options ask for, with the demo app beside it if they do.

    Yields it with what of the directory's own settings was not listened to.
    """
    loaded = await asyncio.to_thread(load, None, os.environ, _flags(options))
    async with AsyncExitStack() as stack:
        # Imported when it is wanted: to serve an app takes more than to see one.
        at = ""
        app: App | None = import_module("sightline.demo.app").demo_app() if options.demo else None
        if app is not None:
            (at,) = await stack.enter_async_context(app.serving())
        model, env = await stack.enter_async_context(keyed(loaded.settings, options.key))
        opening = Host.open(
            loaded.settings, model=model, env=env, session=options.resume or None,
            project=str(Path.cwd()), user_ledger=user_path(),
        )  # fmt: skip
        host = await stack.enter_async_context(opening)
        if options.latest:
            await host.switch(await asyncio.to_thread(latest_session, host.ledger, host.session))
        for address in options.connect:
            await host.connect(address)
        if app is not None:
            await _until_seen(host.hub, await host.connect(at))
        yield host, loaded.refused


def _flags(options: ChatOptions) -> dict[str, object]:
    path = None if options.ledger is None else str(Path(options.ledger))
    return {
        "model": options.model,
        "mode": options.mode,
        "ledger.path": path,
        # The demo is for a first look, perhaps by a tiny model: one app is enough to look at.
        "apps.workspace": False if options.demo else None,
        "apps.discover": False if options.demo else None,
        "apps.connect": () if options.demo else None,
    }


async def _until_seen(hub: Hub, app_id: str) -> None:
    """Wait until an app has shown its state, so that the first question is not too early."""
    try:
        async with asyncio.timeout(DEMO_S):
            async for world in hub.changes():
                app = world.app(app_id)
                if app is not None and app.status == "connected" and app.tree is not None:
                    return
    except TimeoutError:
        raise TimedOut(f"{app_id} has shown nothing for {DEMO_S:.0f} s") from None
