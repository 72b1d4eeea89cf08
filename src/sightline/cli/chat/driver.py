"""What the terminal drives: lines become commands and turns, events become what is seen.

One line is worked on at a time; what is entered meanwhile waits its turn, except commands
that only look. A turn that is stopped hands what was waiting back to be edited, so that
nothing is said to a model by surprise.
"""

from __future__ import annotations

import asyncio
import gc
import os
import textwrap
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from prompt_toolkit.formatted_text import StyleAndTextTuples

import sightline.cli.chat.outside as outside
import sightline.events as events
from sightline.agent.host import Host
from sightline.cli.approval import answer_plan, ask_to_follow, consent_to
from sightline.cli.attach import attach
from sightline.cli.chat.blocks import Blocks
from sightline.cli.chat.cards import Status, after, card, error_line, status_line, user_card
from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.paint import Colors, paint_lines, paint_markdown
from sightline.cli.chat.pipe import opened
from sightline.cli.chat.terminal import CALLS, Terminal
from sightline.cli.chat.theme import ground_of
from sightline.cli.clean import clean
from sightline.cli.commands import registry
from sightline.cli.commands.command import Leave
from sightline.cli.commands.console import Line, cut, line_of, text_of
from sightline.cli.commands.insight import spent_in
from sightline.cli.commands.offers import Sources
from sightline.cli.commands.runs import ListedRun, ended_unseen, listed_runs, run_lines
from sightline.cli.out import counted
from sightline.context.messages.state import strip_states
from sightline.context.messages.window import Window
from sightline.errors import InvalidInput, NotFound, SightlineError

_T = TypeVar("_T")
_YES_NO: Final = {"y": "yes", "yes": "yes", "n": "", "no": ""}
_COMMAND_LINES: Final = 6
_TICK_S: Final = 1.0
_RECAP_LINES: Final = 40
_GARBAGE: Final = 10_000
_GO_ON: Final = (
    "{runs}. The user has said nothing: this is told because you may be waiting for it. `wait` on "
    "its node gives its output. Go on with what it was for."
)


class ChatDriver:
    """Drives one host from one terminal; `run` works until it is cancelled."""

    def __init__(self, host: Host, terminal: Terminal, colors: Colors, status: Status) -> None:
        self._host = host
        host.asks_about_loops = True
        self._terminal = terminal
        self._colors: Colors = colors
        self._status = status
        self._lines: deque[str] = deque()
        self._wake = asyncio.Event()
        self._blocks = Blocks()
        self._reasoning = ""
        self._answering = False
        self._held: list[Line] = []
        self._pasted: dict[str, bytes] = {}
        self._turning = False
        self._commanding: asyncio.Task[Any] | None = None
        self._warned: set[str] = set()
        self._aside: set[asyncio.Task[None]] = set()
        self._open: dict[str, asyncio.Task[None]] = {}
        self.console = TerminalConsole(terminal, self.paint)
        self._running: list[ListedRun] = []
        self._shell = outside.UserShell()
        self._something_runs = asyncio.Event()
        self._sources = Sources(host)
        self._woken_by: set[str] = set()
        self._wakes = 0  # since the user said something

    @property
    def busy(self) -> bool:
        return self._turning or self._commanding is not None

    def is_aside(self, event: events.HostEvent) -> bool:
        """Tell whether something that happened is to be shown though no turn tells of it."""
        if isinstance(event, events.Noticed):
            return not self.busy
        if isinstance(event, events.ApprovalAnswered):
            return not self._turning and event.call_id in self._open
        if isinstance(event, events.ApprovalAsked):
            asked_before = self._turning or event.call_id in self._open
            return not asked_before and event in self._host.questions.open
        return isinstance(event, events.AppChanged)

    def submit(self, text: str) -> None:
        """Take a line: at once if it only looks, else when it is its turn."""
        if self.busy and _only_looks(text):
            task = asyncio.create_task(self._look(text))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)
        else:
            self._lines.append(text)
            self._wake.set()
        self._terminal.redraw()

    def cancel(self) -> str:
        """Stop the turn; give back what was waiting."""
        if self._turning:
            self._host.cancel()
        if self._commanding is not None:
            self._commanding.cancel()
        waiting, self._lines = "\n".join(self._lines), deque()
        return waiting

    async def run(self) -> None:
        """Work on the entered lines in their order, for ever."""
        self._aside.add(asyncio.create_task(self._follow_commands()))
        self._aside.add(asyncio.create_task(self._tick()))
        try:
            while True:
                while not self._lines:
                    if message := self._of_ended_runs():
                        await self._converse(message)
                        continue
                    self._wake.clear()
                    await self._wake.wait()
                self._wakes = 0
                await self._take(self._lines.popleft())
        finally:
            for task in (*self._aside, *self._open.values()):
                task.cancel()

    async def _follow_commands(self) -> None:
        async for world in self._host.hub.changes():
            before = self._running
            self._running = [run for run in listed_runs(world) if run.is_running]
            if self._running or before:
                (self._something_runs.set if self._running else self._something_runs.clear)()
                self._wake.set()
                self._terminal.redraw()

    def _of_ended_runs(self) -> str:
        """Write what wakes the model: commands of its own that ended after its turn."""
        last, most = self._host.last, self._host.settings.workspace.wakes
        ended = [] if last is None else ended_unseen(self._host.world, last.world)
        new = [run for run in ended if run.id not in self._woken_by]
        if not new or self._wakes >= most:
            return ""
        self._wakes += 1
        self._woken_by.update(run.id for run in new)
        names = ", ".join(run.id for run in new)
        self.paint([line_of(f"◦ {names}: the model is told, and goes on", "dim")])
        return _GO_ON.format(runs="; ".join(f"{run.id} has ended: {run.state}" for run in new))

    async def _tick(self) -> None:
        """Draw the age of what runs, which grows while it says nothing."""
        while True:
            await self._something_runs.wait()
            self._terminal.redraw()
            await asyncio.sleep(_TICK_S)
            if not self._running and self._commanding is None:
                self._something_runs.clear()

    def greet(self) -> None:
        """Say which session this is."""
        session = self._host.session
        size = f", {counted(session.groups, 'group')}" if session.groups else ""
        number = f"session {session.id}"
        name = "" if session.name == number else f", {session.name}"
        self.paint([line_of(f"{number}{name}{size}. /help lists commands.", "dim")])

    async def recap(self) -> None:
        """Show how the conversation ended that is gone on with."""
        session_id = self._host.session.id
        last = await asyncio.to_thread(self._host.ledger.window, session_id, Window(1))
        for entry in strip_states(list(last)):
            text = entry.message.text.strip("\n")
            if entry.role == "user" and text:
                self.paint(user_card(_ended(text, _RECAP_LINES // 4)))
            elif entry.role == "assistant":
                self._put_block(_ended(text, _RECAP_LINES))

    def note(self, event: events.HostEvent) -> None:
        """Take in something that happened outside a turn."""
        self._status = after(self._status, event)
        draw = self.paint if isinstance(event, events.ApprovalAsked) else self._draw_or_hold
        draw(card(event, self._terminal.width))
        self._follow_approval(event)

    def _follow_approval(self, event: events.HostEvent) -> None:
        """Ask what is to be asked, and ask it no more once it is answered."""
        if isinstance(event, events.ApprovalAsked):
            self._open[event.call_id] = asyncio.create_task(self._approve(event))
        elif isinstance(event, events.ApprovalAnswered) and event.call_id in self._open:
            self._open.pop(event.call_id).cancel()

    def live(self, width: int, height: int) -> StyleAndTextTuples:
        """Show the end of what is being written."""
        text = clean(self._blocks.rest).expandtabs(4).strip("\n")
        if not text and (shell := self._shell.live.strip("\n")):
            text, height = clean(shell).expandtabs(4), min(height, _COMMAND_LINES)
        if not text and self._reasoning:
            text = clean(self._reasoning).expandtabs(4).strip("\n")
            height = min(height, 3)
        room = max(10, width - 1)
        if not text:
            return self._live_commands(room, min(height, _COMMAND_LINES))
        # Only the end can be seen: no need to wrap all of a long paragraph for it.
        lines = [
            piece
            for line in text[-height * room :].split("\n")
            for piece in textwrap.wrap(line, room, drop_whitespace=False) or [""]
        ]
        return [("class:dim", "".join(f"{cut(line, room)}\n" for line in lines[-height:]))]

    def _live_commands(self, room: int, height: int) -> StyleAndTextTuples:
        """Show the end of what the commands say that the turn waits for."""
        awaited = [run for run in self._running if run.is_awaited]
        lines = [text_of(line) for run in awaited for line in run_lines(run, room, height - 1)]
        return [("class:dim", "".join(f"{cut(line, room)}\n" for line in lines))] if lines else []

    def status(self, width: int) -> StyleAndTextTuples:
        """Draw the status line."""
        runs = len(self._running)
        busy = self._status.busy
        if self._open or self._terminal.has_question:
            busy = "waiting for you"
        elif self._shell.is_running or (busy and any(run.is_awaited for run in self._running)):
            busy = "waiting for a command"
        queued = len(self._lines)
        status = replace(self._status, queued=queued, mode=self._host.mode, runs=runs, busy=busy)
        return [(f"class:{style}", text) for style, text in status_line(status, width)]

    def pasted(self, text: str) -> str:
        """Have the path of an image stand for the image, wherever it is; other text for itself."""
        if (image := outside.pasted_image(text)) is None:
            return text
        name, self._pasted[image[0]] = image
        return f'@"{name}" '

    async def paste_image(self) -> str:
        """Take the image of the clipboard under a name of its own."""
        try:
            data = await asyncio.to_thread(outside.clipboard_image)
        except SightlineError as error:
            self._draw_or_hold([error_line(str(error))])
            return ""
        name = f"clipboard-{len(self._pasted) + 1}.png"
        self._pasted[name] = data
        return f"@{name} "

    def complete(self, text: str) -> Iterable[tuple[str, int, str]]:
        """Say what could follow the text before the cursor."""
        return registry.complete(text, self._sources)

    def paint(self, lines: Iterable[Line]) -> None:
        """Put lines on the screen."""
        if painted := paint_lines(lines, self._terminal.width, self._colors):
            self._terminal.put(painted)

    async def _take(self, line: str) -> None:
        self.paint(user_card(line))
        message: str | None = registry.message_of(line)
        if outside.is_shell_line(line):
            message = await self._stoppable(self._run_in_shell(line))
        elif registry.is_command(line):
            message = await self._stoppable(self._command(line))
            self._status = replace(self._status, model=(await self._host.model()).label)
        if message:
            await ask_to_follow(self._host, self.console)
            await self._converse(message)

    async def _converse(self, message: str | None) -> None:
        """Run a turn, and those that follow from answering its plan."""
        while message:
            await self._turn(message)
            if message := await answer_plan(self._host, self.console, writes=True):
                self.paint(user_card(message))

    async def _stoppable(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Run what a key can stop, as it can a turn; None if it did."""
        self._commanding = task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()  # where it is we that are cancelled
            self._commanding = None
        if task.cancelled():
            self.paint([line_of("■ stopped", "warn")])
            return None
        return task.result()

    async def _run_in_shell(self, line: str) -> None:
        self._something_runs.set()
        try:
            text, ending = await self._shell.run(line)
        except SightlineError as error:
            self.paint([error_line(str(error))])
        else:
            if text.strip():
                self.console.write(text.rstrip("\n"))
            self.paint([line_of(f"◦ {ending}", "dim")])

    async def _look(self, line: str) -> None:
        self.paint(user_card(line))
        if message := await self._command(line):
            self.submit(message)

    async def _command(self, line: str) -> str | None:
        try:
            return await registry.run(line, self._host, self.console, chat=True)
        except Leave:
            self._terminal.leave()
        except SightlineError as error:
            self.paint([error_line(str(error))])
        return None

    async def _turn(self, text: str) -> None:
        self._turning = True
        began = asyncio.get_running_loop().time()
        self._status = replace(self._status, busy="reading files" if "@" in text else "")
        self._terminal.redraw()
        handed_on = False
        try:
            attached = await self._stoppable(attach(text, self._host, self._pasted))
            if attached is None:
                return
            self.paint([line_of(f"◦ attached {name}", "dim") for name in attached.names])
            words = "\n\n".join((attached.behind(text), *self._shell.take()))
            async for event in self._host.ask(words, attached.files):
                self._show(event)
                handed_on |= isinstance(event, events.Noticed) and event.code == "delegate"
            if handed_on:
                self._status = replace(self._status, **await _spent(self._host))
        except SightlineError as error:
            self.paint([error_line(str(error))])
        finally:
            self._turning = False
            self._status = replace(self._status, busy="")
            self._finish_reply()
            waiting = {event.call_id for event in self._host.questions.open}
            for call_id in self._open.keys() - waiting:  # a server's question outlasts the turn
                self._open.pop(call_id).cancel()
            await self._terminal.drain()
            self._terminal.redraw()
            self._call_user(asyncio.get_running_loop().time() - began)

    def _call_user(self, seconds: float) -> None:
        """Call whoever looked away from a turn that took long."""
        chat = self._host.settings.chat
        if 0 < chat.notify_after_s <= seconds:
            self._terminal.call(CALLS[chat.notify])

    def _show(self, event: events.HostEvent) -> None:
        self._status = after(self._status, event)
        match event:
            case events.TextDelta(text=text):
                self._reasoning = ""
                self._answering = True
                for block in self._blocks.feed(text):
                    self._put_block(block)
            case events.ReasoningDelta(text=text):
                self._reasoning = (self._reasoning + text)[-2000:]
            case events.RequestBuilt(warnings=warnings):
                self._warn(warnings)
            case events.ReplyEnded() | events.TurnEnded():
                self._finish_reply()
            case _:
                pass
        if isinstance(event, events.Noticed):
            self._draw_or_hold(card(event, self._terminal.width))
        elif not isinstance(event, events.AppChanged):  # told by whoever watches, between turns too
            self.paint(card(event, self._terminal.width))
        if isinstance(event, events.TurnEnded) and event.outcome == "cancelled":
            for run in self._running:
                if not run.is_awaited:
                    self.paint([line_of(f"◦ {run.id} goes on: /runs stop {run.id} ends it", "dim")])
        self._follow_approval(event)
        if isinstance(event, events.SpendingAsked):
            self._open[event.question] = asyncio.create_task(self._spend_more(event))
        self._terminal.redraw()

    def _warn(self, warnings: Iterable[str]) -> None:
        """Tell what is peculiar about a request once; it will be so in the next one, too."""
        new = [warning for warning in warnings if warning not in self._warned]
        self._warned.update(new)
        self.paint([line_of(f"◦ {warning}", "dim") for warning in new])

    def _finish_reply(self) -> None:
        ending = self._blocks.finish()
        self._reasoning = ""
        self._put_block(ending.text)
        if ending.state:
            self.paint([(("dim", "◦ state written; /state shows it"),)])
        self._answering = False
        held, self._held = self._held, []
        self.paint(held)

    def _draw_or_hold(self, lines: Sequence[Line]) -> None:
        """Draw a notice; while an answer is being written, behind its end."""
        if self._answering:
            self._held += lines
        else:
            self.paint(lines)

    def _put_block(self, block: str) -> None:
        if block.strip():
            painted = paint_markdown(block, self._terminal.width, self._colors)
            self._terminal.put(painted.strip("\n") + "\n\n")

    async def _approve(self, event: events.ApprovalAsked) -> None:
        while True:
            given = await consent_to(event, self.console, self._host.hub, writes=True)
            try:
                with suppress(NotFound):  # the turn may have ended meanwhile
                    self._host.answer(event.call_id, *given)
            except InvalidInput as error:
                self.paint([error_line(str(error))])
                continue
            self._open.pop(event.call_id, None)
            return

    async def _spend_more(self, event: events.SpendingAsked) -> None:
        agreed = await self.console.ask(event.question)
        with suppress(NotFound):  # the turn may have ended meanwhile
            self._host.spend_more(agreed)
        self._open.pop(event.question, None)


class TerminalConsole:
    """Where slash commands write and ask, in a terminal."""

    def __init__(self, terminal: Terminal, paint: Callable[[Iterable[Line]], None]) -> None:
        self._terminal = terminal
        self._paint = paint

    @property
    def width(self) -> int:
        return self._terminal.width

    def write(self, text: str) -> None:
        self._paint([(("", line),) for line in clean(text).split("\n")])

    def draw(self, lines: Iterable[Line]) -> None:
        self._paint(lines)

    async def page(self, text: str) -> None:
        text = clean(text)
        command = outside.pager_command(os.environ)
        if command is None or text.count("\n") < self._terminal.height - 4:
            self.write(text)
            return
        with suppress(SightlineError):  # a pager that cannot be started
            if await self._terminal.outside(lambda: outside.page_text(text, command, os.environ)):
                return
        self.write(text)

    async def ask(self, question: str) -> bool:
        return bool(await self.choose(f"{clean(question)} [y/n]", _YES_NO))

    async def choose(self, question: str, answers: Mapping[str, str]) -> str:
        return await self._terminal.ask(question, answers)

    async def enter(self, question: str, begun: str = "") -> str:
        return await self._terminal.ask(question, {}, begun)

    async def edit(self, text: str, suffix: str = ".md") -> str | None:
        return await self._terminal.outside(lambda: outside.edit_text(text, os.environ, suffix))


def _ended(text: str, most: int) -> str:
    """Leave of a long text its last lines."""
    lines = text.split("\n")
    return text if len(lines) <= most else "\n".join(["…", *lines[-most:]])


def _only_looks(line: str) -> bool:
    if not registry.is_command(line):
        return False
    try:
        command, _ = registry.find(line)
    except SightlineError:
        return True  # an error can be told at once
    return not command.idle


async def on_screen(terminal: Terminal, options: ChatOptions) -> None:
    """Drive a terminal until it ends. Raises what keeps the model from being used."""
    async with opened(options) as (host, refused):
        ground = ground_of(host.settings.chat.theme, terminal.answered.ground, os.environ)
        colors: Colors = "light" if ground == "light" else "full"
        if os.environ.get("NO_COLOR"):
            colors = "none"
        else:
            terminal.use_ground(ground)
        # What is loaded stays. Of what comes, little is looked through at a time: keys wait for it.
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        driver = ChatDriver(host, terminal, colors, await _status(host))
        watching = asyncio.create_task(_watch(host, driver))
        try:
            driver.greet()
            await driver.recap()
            for line in refused:
                driver.note(events.Noticed(code="config", message=line))
            terminal.start(driver)
            await ask_to_follow(host, driver.console)
            await driver.run()
        finally:
            watching.cancel()


async def _status(host: Host) -> Status:
    model = await host.model()
    return Status(
        model=model.label,
        mode=host.mode,
        **await _spent(host),
        apps=tuple(app.id for app in host.world.apps if app.status == "connected"),
    )


async def _spent(host: Host) -> dict[str, Any]:
    """What the status line says of money: what this session spent, and the tasks of it."""
    session, tasks = await asyncio.to_thread(spent_in, host.ledger, host.session.id)
    spent = session + tasks
    return {"cost_usd": spent.cost_usd if spent.requests else None, "unpriced": spent.unpriced}


async def _watch(host: Host, driver: ChatDriver) -> None:
    async for event in host.events():
        if driver.is_aside(event):
            driver.note(event)
