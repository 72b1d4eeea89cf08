"""The terminal: an input line that is always there, and a screen that scrolls above it.

Knows keys, the screen and questions, and nothing of hosts or models: a `Driver` does what
is typed. Only what the first prompt needs is imported here, because somebody is waiting for it.

*Theory of operation.* The prompt never goes away. What is finished is printed above it
(`put`) and belongs to the scrollback; what is still being written stands in the lines
directly above the input (`Driver.live`) and is drawn again as it grows. A question takes the
place of the prompt: a key answers it, or a line where one is asked for, and what was half typed
comes back afterwards.

*No answer by accident.* A key answers once the question is on the screen and nobody is in the
middle of typing; until then it belongs to what was half typed. A key that is held down answers
one question, and an Enter behind an answer sends nothing.
"""

from __future__ import annotations

import asyncio
import math
import os
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final, Protocol, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.styles import DynamicStyle, Style
from prompt_toolkit.utils import get_cwidth

from sightline.cli.chat.theme import SCREEN_STYLES, Ground, TerminalAnswer

_T = TypeVar("_T")
PROMPT: Final = "> "
_PAUSE_S: Final = 0.5  # who types the next key within it is still typing
_FRAME_S: Final = 0.05  # what changes by itself is drawn so often at most; a key at once
_ESCAPE_S: Final = 0.05  # an arrow key is one write; a person's Escape stands alone
# ECMA-48, BEL; iTerm2's OSC 9 and rxvt's OSC 777, which other terminals took over.
CALLS: Final = {
    "bell": "\a",
    "osc9": "\x1b]9;Sightline: the turn is over\a",
    "osc777": "\x1b]777;notify;Sightline;the turn is over\a",
}


class Driver(Protocol):
    """Does what is typed at a terminal. All is called in the event loop but `complete`."""

    @property
    def busy(self) -> bool:
        """Whether a turn is under way."""

    def submit(self, text: str) -> None:
        """Take a line that was entered; it may have to wait."""

    def cancel(self) -> str:
        """Stop the turn; return what was waiting, to be edited."""

    def live(self, width: int, height: int) -> StyleAndTextTuples:
        """Give what is still being written, in at most so many lines."""

    def status(self, width: int) -> StyleAndTextTuples:
        """Give the line below the prompt."""

    def pasted(self, text: str) -> str:
        """Give what stands in the line for a text that was pasted."""

    async def paste_image(self) -> str:
        """Take the image of the clipboard; give what stands for it, or nothing if there is none."""

    def complete(self, text: str) -> Iterable[tuple[str, int, str]]:
        """Say what could follow: texts, how much they replace, what they are. In a thread."""


class Question:
    """A question that is open. `answers` maps what may be typed to what it means.

    Without `answers` it is a line that is asked for. `is_shown` once it is on the screen.
    """

    def __init__(
        self, text: str, answers: Mapping[str, str], answer: asyncio.Future[str], draft: str
    ) -> None:
        self.text = text
        self.answers = answers
        self.answer = answer
        self.draft = draft
        self.is_shown = False


class Terminal:
    """One terminal. `run` returns when the user leaves, or raises what `leave` was given."""

    def __init__(
        self,
        *,
        history: History | None = None,
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's word for it
        output: Output | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._typed_at = -math.inf
        self._answered_at = -math.inf
        self._answer_key = ""
        # Of the word that the last answer is short for, behind its key: what was typed, what not.
        self._spelled: list[KeyPress] = []
        self._unspelled = ""
        self.driver: Driver | None = None
        self._question: Question | None = None
        self._asking = asyncio.Lock()
        self._printed: list[str] = []
        self._printer: asyncio.Task[None] | None = None
        self._waiting: list[str] = []
        self._ending: BaseException | None = None
        self._frame: asyncio.TimerHandle | None = None
        self._frame_at = -math.inf
        self._drawn: tuple[int, StyleAndTextTuples] = (-1, [])
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            multiline=True,
            erase_when_done=True,
            history=ThreadedHistory(history or InMemoryHistory()),
            completer=_Completer(self),
            complete_in_thread=True,
            reserve_space_for_menu=5,
            complete_while_typing=Condition(lambda: self._text.startswith("/")),
            enable_open_in_editor=True,
            key_bindings=self._keys(),
            style=DynamicStyle(lambda: self._style),
            include_default_pygments_style=False,
            input=input,
            output=output,
        )
        self.answered = TerminalAnswer()
        self.use_ground("dark")
        self.shown = asyncio.Event()  # the prompt is on the screen
        app = self._session.app
        app.after_render += lambda _: self._rendered()
        self._session.default_buffer.on_text_insert += lambda _: self._typed()
        # Not behind whatever else there is to do: keys are what invalidates it, and `redraw`.
        app.max_render_postpone_time = None
        app.ttimeoutlen = _ESCAPE_S
        app.timeoutlen = 0.3

    def use_ground(self, ground: Ground) -> None:
        """Draw from now on what can be read on a light ground, or on a dark one."""
        self._style = Style.from_dict(SCREEN_STYLES[ground])

    def hear(self, answer: TerminalAnswer) -> None:
        """Take what the terminal answered before; what was typed meanwhile is typed now."""
        self.answered = answer
        parser = getattr(self._session.app.input, "vt100_parser", None)
        if answer.typed and parser is not None:
            parser.feed(answer.typed.decode(errors="replace"))

    def call(self, sequence: str) -> None:
        """Ring the bell, or show a notification: one of our own sequences, which moves nothing."""
        self._session.app.output.write_raw(sequence)
        self._session.app.output.flush()

    @property
    def width(self) -> int:
        return self._session.app.output.get_size().columns

    @property
    def height(self) -> int:
        return self._session.app.output.get_size().rows

    async def run(self) -> None:
        """Prompt until the user leaves; raise what ended it otherwise."""
        while self._ending is None:
            try:
                # An interrupt from outside ends us as any program on asyncio; the library's own way
                # imports `ctypes` before the prompt is there.
                text = await self._session.prompt_async(
                    pre_run=self._exit, set_exception_handler=False, handle_sigint=False
                )
            except EOFError:
                break
            self._entered(text)
        await self.drain()
        if self._ending is not None and not isinstance(self._ending, EOFError):
            raise self._ending

    def start(self, driver: Driver) -> None:
        """Give the terminal who does the work; what was typed meanwhile is handed over."""
        self.driver = driver
        for text in self._waiting:
            driver.submit(text)
        self._waiting.clear()
        self.redraw()

    def leave(self, error: BaseException | None = None) -> None:
        """End the prompt; with an error, `run` raises it."""
        self._ending = error or EOFError()
        self._exit()

    def put(self, text: str) -> None:
        """Print painted text above the prompt, in order; `drain` waits until it is there."""
        self._printed.append(text)
        if self._printer is None:
            self._printer = asyncio.create_task(self._print())

    async def drain(self) -> None:
        """Wait until everything is printed."""
        while self._printer is not None:
            await self._printer

    def redraw(self) -> None:
        """Draw prompt, live text and status again soon, together with what else changes by then."""
        if self._frame is None:
            loop = asyncio.get_running_loop()
            self._frame = loop.call_at(self._frame_at + _FRAME_S, self._draw_frame, loop)

    def _draw_frame(self, loop: asyncio.AbstractEventLoop) -> None:
        self._frame, self._frame_at = None, loop.time()
        self._session.app.invalidate()

    @property
    def has_question(self) -> bool:
        """Whether somebody is asked, on the screen already or with what is drawn next."""
        return self._question is not None

    @property
    def asking(self) -> str:
        """The question that is on the screen and waits; empty if there is none."""
        question = self._question
        if question is None or not question.is_shown or question.answer.done():
            return ""
        return question.text

    async def ask(self, text: str, answers: Mapping[str, str], begun: str = "") -> str:
        """Ask a question and wait for the key of an answer; empty if the user turned away.

        Without `answers` a line is asked for, which has `begun` already. One question at a time:
        others wait.
        """
        async with self._asking:
            await self.drain()
            buffer = self._session.default_buffer
            future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._question = question = Question(text, answers, future, buffer.text)
            buffer.reset()
            buffer.text = begun
            buffer.cursor_position = len(begun)
            self.redraw()
            try:
                return await future
            finally:
                self._close(question)

    def _close(self, question: Question, answer: str = "") -> None:
        """Answer a question and give the prompt back at once: the next key is not for it."""
        if self._question is not question:
            return
        if not question.answer.done():
            question.answer.set_result(answer)
        self._question = None
        buffer = self._session.default_buffer
        buffer.text = question.draft
        buffer.cursor_position = len(buffer.text)
        self.redraw()

    async def outside(self, work: Callable[[], _T]) -> _T:
        """Run something that needs the whole terminal, in a thread."""
        await self.drain()
        async with in_terminal():
            return await asyncio.to_thread(work)

    def _rendered(self) -> None:
        """Note that all is drawn, for whatever reason: what was to be drawn soon is there."""
        self.shown.set()
        self._frame_at = asyncio.get_running_loop().time()
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None
        if self._question is not None:
            self._question.is_shown = True

    def _typed(self) -> None:
        self._typed_at, self._answered_at = self._clock(), -math.inf

    def _exit(self) -> None:
        future = self._session.app.future
        if self._ending is not None and future is not None and not future.done():
            self._session.app.exit(exception=EOFError)

    async def _print(self) -> None:
        while self._printed:
            text, self._printed = "".join(self._printed), []
            async with in_terminal():
                self._session.app.output.write_raw(text)
                self._session.app.output.flush()
        self._printer = None

    def _entered(self, text: str) -> None:
        if not text.strip():
            return
        if self.driver is None:
            self._waiting.append(text)
        else:
            self.driver.submit(text)

    def _message(self) -> StyleAndTextTuples:
        if self._question is not None:
            return [("class:ask", _fitted(self._question.text, self.width))]
        if self.driver is None:
            return [("", PROMPT)]
        # Asked for some ten times while one screen is drawn.
        drawing = self._session.app.render_counter
        if self._drawn[0] != drawing:
            self._drawn = drawing, self.driver.live(self.width, max(3, self.height // 3))
        return [*self._drawn[1], ("", PROMPT)]

    def _toolbar(self) -> StyleAndTextTuples:
        if self.driver is None:
            return [("class:dim", "starting…")]
        return self.driver.status(self.width - 1)

    @property
    def _text(self) -> str:
        return self._session.default_buffer.text

    def _is_busy(self) -> bool:
        return self.driver is not None and self.driver.busy

    async def _paste_image(self, driver: Driver) -> None:
        if name := await driver.paste_image():
            self._session.default_buffer.insert_text(name)

    def _key(self, question: Question, key: str) -> None:
        """Take a key while there is a question: an answer, or more of what was half typed."""
        now = self._clock()
        if not question.is_shown or now - self._typed_at < _PAUSE_S:
            question.draft += key
            self._typed_at = now
            return
        held_down = key == self._answer_key and now - self._answered_at < _PAUSE_S
        if held_down:
            self._answered_at = now
        elif (meaning := question.answers.get(key.lower())) is not None:
            self._answer_key, self._answered_at = key, now
            words = [word for word, other in question.answers.items() if other == meaning]
            self._spelled, self._unspelled = [], max(words, key=len).removeprefix(key.lower())
            self._close(question, meaning)

    def _has_just_answered(self) -> bool:
        return self._clock() - self._answered_at < _PAUSE_S

    def _cancel(self) -> None:
        if self._question is not None:
            self._close(self._question)
        if self.driver is not None:
            waiting = self.driver.cancel()
            buffer = self._session.default_buffer
            if waiting and not buffer.text:
                buffer.text = waiting
                buffer.cursor_position = len(waiting)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        busy = Condition(self._is_busy)
        asking = Condition(lambda: self._question is not None)
        choosing = Condition(lambda: self._question is not None and bool(self._question.answers))
        spelling = Condition(
            lambda: bool(self._spelled or self._unspelled) and self._has_just_answered()
        )
        empty = Condition(lambda: not self._text)

        @keys.add("enter", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if self._has_just_answered():
                return
            self._typed_at = -math.inf
            if buffer.complete_state is not None and buffer.complete_state.current_completion:
                buffer.complete_state = None
            elif buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.newline(copy_margin=False)
            else:
                buffer.validate_and_handle()

        @keys.add("enter", filter=asking)
        def _(event: KeyPressEvent) -> None:
            question = self._question
            if self._spelled and self._has_just_answered():
                return
            if question is not None and not question.answers and self.asking:
                self._close(question, event.current_buffer.text)

        @keys.add(Keys.Any, filter=choosing)
        def _(event: KeyPressEvent) -> None:
            if self._question is not None and event.data.isprintable():
                self._key(self._question, event.data)

        # Who answers with the whole word, and Enter, means no more by it.
        @keys.add(Keys.Any, filter=spelling)
        def _(event: KeyPressEvent) -> None:
            self._spelled += event.key_sequence
            if self._unspelled and event.data.lower() == self._unspelled[0]:
                self._unspelled = self._unspelled[1:]
                self._answered_at = self._clock()
            else:
                typed, self._spelled, self._unspelled = self._spelled, [], ""
                event.app.key_processor.feed_multiple(typed, first=True)

        @keys.add(Keys.BracketedPaste, filter=choosing)
        def _(event: KeyPressEvent) -> None:
            if self._question is not None:
                self._question.draft += event.data

        @keys.add(Keys.BracketedPaste, filter=~choosing)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self.driver.pasted(text) if self.driver else text)

        @keys.add("c-v", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            if self.driver is not None:
                event.app.create_background_task(self._paste_image(self.driver))

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        # With something typed, Escape may be the first half of Alt-Enter: wait and see.
        @keys.add("escape", filter=(busy & empty) | asking, eager=True)
        @keys.add("escape", filter=busy & ~empty)
        def _(_: KeyPressEvent) -> None:
            self._cancel()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if self._is_busy() or self._question is not None:
                self._cancel()
            else:
                event.current_buffer.reset()

        # A colour that is typed or pasted raw (`ESC [31m`) has the shape of a mouse report, which
        # prompt_toolkit would take apart as one. We ask for no reports: whatever looks so is none.
        @keys.add(Keys.Vt100MouseEvent)
        def _(_: KeyPressEvent) -> None:
            pass

        @keys.add("c-d", filter=empty)
        def _(_: KeyPressEvent) -> None:
            self.leave()

        return keys


class UserHistory(History):
    """What this user typed in all sessions, in a file of their own; in memory if that cannot be.

    The file is looked for when it is first wanted, which is after the prompt is there.
    """

    def load_history_strings(self) -> Iterable[str]:
        return self._home.load_history_strings()

    def store_string(self, string: str) -> None:
        self._home.store_string(string)

    @cached_property
    def _home(self) -> History:
        from sightline.cli.history import history_path

        path = history_path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            return InMemoryHistory()
        return FileHistory(path)


def _fitted(question: str, width: int) -> str:
    """Break a question into lines, of which the last leaves room for an answer.

    What stands before the input is drawn as part of it, and not at all where it is too wide.
    """
    has_wide = get_cwidth(question) != len(question)  # a letter may take two columns
    lines = textwrap.wrap(question, max(10, width - 2) // (1 + has_wide)) or [""]
    is_narrow = get_cwidth(lines[-1]) < width - 2
    return "\n".join(lines) + (" " if is_narrow else "\n")


class _Completer(Completer):
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        driver = self._terminal.driver
        if driver is not None:
            for text, replaces, about in driver.complete(document.text_before_cursor):
                yield Completion(text, -replaces, display_meta=about[:60])
