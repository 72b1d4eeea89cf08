"""Open a host for a chat, and put it behind a terminal or a pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from sightline.cli.chat.driver import ChatDriver
from sightline.cli.chat.host import ChatHost
from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.paint import Colors
from sightline.cli.chat.pipe import PipeChat
from sightline.cli.chat.stdin import lines_of
from sightline.cli.chat.terminal import Terminal
from sightline.config.load import load
from sightline.demo.app import demo_app
from sightline.host import Host

__all__ = ["on_screen", "opened", "without_screen"]

DEMO: Final = "desk"
DEMO_S: Final = 10.0
_NANO: Final = 1_000_000_000


async def on_screen(terminal: Terminal, options: ChatOptions) -> None:
    """Drive a terminal until it ends."""
    colors: Colors = "none" if os.environ.get("NO_COLOR") else "full"
    async with opened(options) as host:
        driver = ChatDriver(host, terminal, colors, await _status(host))
        terminal.start(driver)
        driver.greet()
        async with asyncio.TaskGroup() as group:
            group.create_task(_watch(host, driver))
            group.create_task(driver.run())


async def without_screen(options: ChatOptions) -> int:
    """Answer the lines of stdin; return the exit code."""
    descriptor = sys.stdin.fileno()
    lines = lines_of(descriptor)
    has_user = os.isatty(descriptor)

    async def ask(question: str) -> str:
        print(question, end="", flush=True)  # noqa: T201 - a terminal that can do no more
        return await anext(lines, "")

    async with opened(options) as host:
        chat = PipeChat(
            host, sys.stdout, sys.stderr, ask=ask if has_user else None, yes=options.yes
        )
        if has_user:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupt)
        prompt = "> " if has_user else ""
        while (line := await _next(lines, prompt)) is not None and await chat.take(line):
            pass
    return chat.exit_code


async def _next(lines: AsyncIterator[str], prompt: str) -> str | None:
    if prompt:
        print(prompt, end="", flush=True)  # noqa: T201 - a terminal that can do no more
    return await anext(lines, None)


@asynccontextmanager
async def opened(options: ChatOptions) -> AsyncIterator[ChatHost]:
    """Open the host that the options ask for, with the demo app beside it if they do."""
    flags = {
        "model": options.model,
        "mode": options.mode,
        "ledger.path": None if options.ledger is None else str(options.ledger),
    }
    loaded = await asyncio.to_thread(load, None, os.environ, flags)
    async with AsyncExitStack() as stack:
        if options.demo:
            await stack.enter_async_context(demo_app().serving(port=None))
        host = await stack.enter_async_context(Host.open(loaded.settings))
        for address in options.connect:
            await host.connect(address)
        yield host
