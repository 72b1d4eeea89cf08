"""A chat without a screen: the host is opened, each line is answered, then the next.

For a pipe, and for terminals that can do nothing but print. Answers go to stdout and
everything else to stderr. Where nobody can be asked, an action that needs a yes is refused,
the model is told so, and the exit code says it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Final

from sightline.agent.host import Host
from sightline.cli.approval import (
    Ask,
    Consent,
    LineAsker,
    answer_plan,
    approval_card,
    ask_to_follow,
    consent_to,
    unasked,
)
from sightline.cli.ask import exit_code_of
from sightline.cli.attach import Attached, attach
from sightline.cli.chat.cards import card, error_line
from sightline.cli.chat.main import ChatOptions
from sightline.cli.clean import clean
from sightline.cli.commands import registry
from sightline.cli.commands.command import Leave
from sightline.cli.commands.console import Line, PlainConsole, line_of, text_of
from sightline.cli.opening import opened_host
from sightline.cli.out import Outlet, Writable, forget_typed, notice
from sightline.config import load
from sightline.context.messages.state import strip_state
from sightline.errors import ApprovalNeeded, NotFound, SightlineError, TimedOut, TooLarge
from sightline.events import AppChanged, ApprovalAsked, RequestBuilt, SpendingAsked, TurnEnded
from sightline.slop.hub.hub import Hub

DEMO_S: Final = 10.0
MAX_LINE: Final = 1024 * 1024
_WIDTH: Final = 100
_CHUNK: Final = 64 * 1024


async def without_screen(options: ChatOptions) -> int:
    """Answer the lines of stdin; return the exit code."""
    descriptor = sys.stdin.fileno()
    lines = lines_of(descriptor)
    prompt = "> " if os.isatty(descriptor) else ""

    async def ask(question: str) -> str:
        forget_typed()
        return await _next(lines, question) or ""

    async with opened(options) as (host, refused):
        notice(*refused)
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
        demo: Iterable[str] = ()
        if options.demo:
            # Imported when it is wanted: to serve an app takes more than to see one.
            from sightline.demo.app import demo_app

            demo = await stack.enter_async_context(demo_app().serving())
        opening = opened_host(
            loaded.settings, options.key, resume=options.resume or None, latest=options.latest,
            connect=options.connect,
        )  # fmt: skip
        host = await stack.enter_async_context(opening)
        for address in demo:
            await _until_seen(host.hub, await host.connect(address))
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


class PipeChat:
    """A chat that answers line by line. `exit_code` is that of the first line that failed, or 0."""

    def __init__(
        self, host: Host, out: Writable, err: Writable, *, ask: Ask | None = None, yes: bool = False
    ) -> None:
        self._host = host
        host.asks_about_loops = ask is not None and not yes
        self._out = out
        self._err = err
        self._asker = None if ask is None else LineAsker(err, ask, width=_WIDTH)
        self._yes = yes
        plain = PlainConsole(out, width=_WIDTH, yes=yes)
        self._console = plain if ask is None else LineAsker(out, ask, width=_WIDTH)
        self._answers: set[asyncio.Task[None]] = set()
        self._turning = False
        self._warned: set[str] = set()
        self.exit_code = 0

    async def take(self, line: str) -> bool:
        """Do what a line says; return False when it says to leave."""
        if not line.strip():
            return True
        message: str | None = registry.message_of(line)
        try:
            if registry.is_command(line):
                message = await registry.run(line, self._host, self._console)
            while message:
                if self._asker is not None:
                    await ask_to_follow(self._host, self._asker)
                await self._turn(message)
                if self._asker is None:
                    break
                message = await answer_plan(self._host, self._asker)
        except Leave:
            return False
        except SightlineError as error:
            self._tell([error_line(str(error))])
            self._failed(error.exit_code)
        return True

    def interrupt(self) -> None:
        """Stop the turn; without one, the whole program."""
        if not self._turning:
            raise KeyboardInterrupt
        self._host.cancel()

    async def _turn(self, text: str) -> None:
        attached = await attach(text, self._host)
        self._tell([line_of(f"◦ attached {name}") for name in attached.names])
        self._turning = True
        try:
            await self._follow(text, attached)
        finally:
            self._turning = False

    async def _follow(self, text: str, attached: Attached) -> None:
        needed = False
        async for event in self._host.ask(attached.behind(text), attached.files):
            if isinstance(event, ApprovalAsked):
                agreed = self._yes and not event.is_question
                needed = needed or (self._asker is None and not agreed)
                # Where nobody can ask to see more, all of it is shown.
                self._tell(approval_card(event, _WIDTH, whole=self._asker is None or self._yes))
                self._begin(self._approve(event))
            elif not isinstance(event, AppChanged):
                self._tell(card(event, _WIDTH))
            if isinstance(event, SpendingAsked):
                self._begin(self._spend_more(event))
            if isinstance(event, RequestBuilt):
                self._warn(event.warnings)
            elif isinstance(event, TurnEnded):
                if event.text:
                    self._out.write(f"{clean(strip_state(event.text)).strip()}\n")
                # A limit leaves an answer, if not all of it.
                if not needed and not (event.outcome == "limit" and event.text):
                    self._failed(exit_code_of(event))
        if needed:
            raise ApprovalNeeded("nobody was there to approve it; --yes approves in advance")

    def _begin(self, answering: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(answering)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _spend_more(self, event: SpendingAsked) -> None:
        # A limit that `--yes` lifts would be none.
        agreed = self._asker is not None and await self._console.ask(event.question)
        with suppress(NotFound):  # the turn may have ended meanwhile
            self._host.spend_more(agreed)

    async def _approve(self, event: ApprovalAsked) -> None:
        given = Consent(self._yes and not event.is_question)
        if self._asker is not None and not given.approved:
            given = await consent_to(event, self._asker, self._host.hub)
        with suppress(NotFound):  # the turn may have ended meanwhile
            self._host.answer(event.call_id, *given)

    def _warn(self, warnings: Iterable[str]) -> None:
        """Tell what is peculiar about a request once; it will be so in the next one, too."""
        new = [warning for warning in warnings if warning not in self._warned]
        self._warned.update(new)
        self._tell([line_of(f"◦ {warning}") for warning in new])

    def _tell(self, lines: list[Line]) -> None:
        for line in lines:
            self._err.write(f"{text_of(line).rstrip()}\n")

    def _failed(self, code: int) -> None:
        self.exit_code = self.exit_code or code


async def lines_of(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a pipe, a terminal or a file, without their ends.

    Raises TooLarge for a line over the limit. Bytes that are no text become signs for that.
    """
    rest = b""
    while chunk := await _read(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield _text(line)
        if len(rest) > MAX_LINE:
            raise TooLarge(f"a line of more than {MAX_LINE:,} bytes")
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


async def _read(descriptor: int) -> bytes:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a file on a disk: it is always ready, and cannot be waited for
        return await asyncio.to_thread(os.read, descriptor, _CHUNK)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    # What is ready does not block: there are bytes, or the end.
    return os.read(descriptor, _CHUNK)
