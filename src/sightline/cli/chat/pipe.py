"""A chat without a screen: each line is answered, then the next.

For a pipe, and for terminals that can do nothing but print. Answers go to stdout and
everything else to stderr. Where nobody can be asked, an action that needs a yes is refused,
the model is told so, and the exit code says it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from sightline.agent.host import Host
from sightline.cli.approval import Ask, Consent, LineAsker, approval_card, consent_to
from sightline.cli.ask import exit_code_of
from sightline.cli.attach import Attached, attach
from sightline.cli.chat.cards import card, error_line
from sightline.cli.clean import clean
from sightline.cli.commands import registry
from sightline.cli.commands.command import Leave
from sightline.cli.commands.console import PlainConsole
from sightline.cli.commands.lines import Line, line_of, text_of
from sightline.cli.out import Writable
from sightline.cli.planning import answer_plan
from sightline.context.messages.state import strip_state
from sightline.errors import ApprovalNeeded, NotFound, SightlineError, TooLarge
from sightline.events import AppChanged, ApprovalAsked, RequestBuilt, SpendingAsked, TurnEnded

MAX_LINE: Final = 1024 * 1024
_WIDTH: Final = 100
_CHUNK: Final = 64 * 1024


class PipeChat:
    """A chat that answers line by line. `exit_code` is that of the first line that failed, or 0."""

    def __init__(
        self,
        host: Host,
        out: Writable,
        err: Writable,
        *,
        ask: Ask | None = None,
        yes: bool = False,
    ) -> None:
        self._host = host
        self._out = out
        self._err = err
        self._ask = ask
        self._yes = yes
        self._console = _AskingConsole(out, ask, yes=yes)
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
                await self._turn(message)
                message = None if self._ask is None else await self._answer_plan(self._ask)
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
                needed = needed or (self._ask is None and not agreed)
                # Where nobody can ask to see more, all of it is shown.
                self._tell(approval_card(event, _WIDTH, whole=self._ask is None or self._yes))
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
                    self._out.flush()
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
        agreed = self._ask is not None and await self._console.ask(event.question)
        with suppress(NotFound):  # the turn may have ended meanwhile
            self._host.spend_more(agreed)

    async def _approve(self, event: ApprovalAsked) -> None:
        given = Consent(self._yes and not event.is_question)
        if self._ask is not None and not given.approved:
            given = await consent_to(
                event, LineAsker(self._err, self._ask, width=_WIDTH), self._host.hub
            )
        with suppress(NotFound):  # the turn may have ended meanwhile
            self._host.answer(event.call_id, *given)

    async def _answer_plan(self, ask: Ask) -> str | None:
        return await answer_plan(self._host, LineAsker(self._err, ask, width=_WIDTH))

    def _warn(self, warnings: Iterable[str]) -> None:
        """Tell what is peculiar about a request once; it will be so in the next one, too."""
        new = [warning for warning in warnings if warning not in self._warned]
        self._warned.update(new)
        self._tell([line_of(f"◦ {warning}") for warning in new])

    def _tell(self, lines: list[Line]) -> None:
        for line in lines:
            self._err.write(f"{text_of(line).rstrip()}\n")
        self._err.flush()

    def _failed(self, code: int) -> None:
        self.exit_code = self.exit_code or code


class _AskingConsole(PlainConsole):
    """A plain console that can ask, where there is somebody."""

    def __init__(self, out: Writable, ask: Ask | None, *, yes: bool) -> None:
        super().__init__(out, width=_WIDTH, yes=yes)
        self._question = ask

    async def ask(self, question: str) -> bool:
        if self._question is None:
            return await super().ask(question)
        return (await self._question(f"{clean(question)} [y/n] ")).strip().lower() in ("y", "yes")


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
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _resolve, ready)
    except PermissionError:  # a file on a disk: it is always ready, and cannot be waited for
        return await asyncio.to_thread(os.read, descriptor, _CHUNK)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    # What is ready does not block: there are bytes, or the end.
    return os.read(descriptor, _CHUNK)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
