"""The terminal itself: keys, questions, what is printed above the prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from io import StringIO

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sightline.cli.chat.terminal import _FRAME_S, Terminal

OURS = re.compile(r"\x1b\[[0-9;]*m")  # the only sequences that we paint with


class Recorder:
    """A driver that writes down what it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cancelled = 0
        self.busy = False
        self.waiting = ""
        self.news = asyncio.Event()

    def submit(self, text: str) -> None:
        self.lines.append(text)
        self.news.set()

    def cancel(self) -> str:
        self.cancelled += 1
        self.news.set()
        return self.waiting

    def live(self, width: int, height: int) -> StyleAndTextTuples:
        return [("", "being written\n")] if self.busy else []

    def status(self, width: int) -> StyleAndTextTuples:
        return [("", "status of the recorder")]

    def pasted(self, text: str) -> str:
        return f"[{text}]" if text == "an image" else text

    async def paste_image(self) -> str:
        return "@clipboard-1.png "

    def complete(self, text: str) -> Iterable[tuple[str, int, str]]:
        return [("/context", len(text), "draw")] if text == "/con" else []

    async def until(self, count: int) -> None:
        """Wait until so many lines are there."""
        while len(self.lines) < count:
            self.news.clear()
            await self.news.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop work until something is so; the run's time limit is the only one."""
    while not condition():
        await asyncio.sleep(0)


class Glass(StringIO):
    """What a terminal shows; like a real one it says where its cursor is when asked."""

    def __init__(self, keys: PipeInput) -> None:
        super().__init__()
        self._keys = keys

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "\x1b[6n" in text:
            self._keys.send_text("\x1b[1;1R")
        return super().write(text)


class Screen:
    """A terminal of 80 by 24 with nobody behind it, and its keys."""

    def __init__(self, keys: PipeInput) -> None:
        self.keys = keys
        self.out = Glass(keys)
        output = Vt100_Output(self.out, lambda: Size(rows=24, columns=80), term="xterm")
        # Between any two keys there is time enough, unless a test stops the clock.
        self.time, self.pause = 0, 1
        self.terminal = Terminal(input=keys, output=output, clock=self._clock)
        self._put = self.terminal.put
        self.terminal.put = self._record  # type: ignore[method-assign]  # it still prints
        self.printed = ""
        self.driver = Recorder()

    def _clock(self) -> float:
        self.time += self.pause
        return self.time

    def _record(self, text: str) -> None:
        self.printed += text
        self._put(text)

    def type(self, text: str) -> None:
        self.keys.send_text(text)


@asynccontextmanager
async def running(*, driven: bool = True) -> AsyncIterator[Screen]:
    with create_pipe_input() as keys:
        screen = Screen(keys)
        if driven:
            screen.terminal.start(screen.driver)
        task = asyncio.create_task(screen.terminal.run())
        try:
            yield screen
            screen.terminal.leave()
            await asyncio.wait_for(task, 20)
        finally:
            task.cancel()


async def test_a_line_is_handed_to_the_driver() -> None:
    async with running() as screen:
        screen.type("hello\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["hello"]


async def test_an_empty_line_is_nothing() -> None:
    async with running() as screen:
        screen.type("\r  \rhello\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["hello"]


@pytest.mark.parametrize("newline", ["\x1b\r", "\\\r"], ids=["Alt-Enter", "backslash"])
async def test_a_message_may_have_several_lines(newline: str) -> None:
    async with running() as screen:
        screen.type(f"one{newline}two\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["one\ntwo"]


async def test_a_paste_is_one_message_whatever_it_holds() -> None:
    async with running() as screen:
        screen.type("\x1b[200~first\nsecond\n\x1b[201~third\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["first\nsecond\nthird"]


@pytest.mark.parametrize(
    "sequence", ["\x1b[31m", "\x1b[0;1m", "\x1b[1;2;3;4m", "\x1b[<;M", "\x1b[Mabc"]
)
async def test_a_raw_sequence_on_the_input_line_is_nothing(sequence: str) -> None:
    wrong: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    async with running() as screen:
        screen.type(f"{sequence}hello\r")
        await until(lambda: bool(wrong or screen.driver.lines))
        assert (wrong, screen.driver.lines) == ([], ["hello"])


async def test_what_changes_by_itself_is_drawn_together_and_a_key_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as screen:
        await screen.terminal.shown.wait()
        app, loop = screen.terminal._session.app, asyncio.get_running_loop()
        drawings: list[float] = []
        with monkeypatch.context() as patch:
            patch.setattr(app, "invalidate", lambda: drawings.append(loop.time()))
            began = loop.time()
            for _ in range(100):
                screen.terminal.redraw()
                await asyncio.sleep(0)
        assert len(drawings) <= 2 + (loop.time() - began) / _FRAME_S
        screen.terminal._frame_at = loop.time() + 3_600  # nothing else is drawn
        drawn = app.render_counter
        screen.type("x")
        await until(lambda: app.render_counter > drawn)
        assert screen.terminal._session.default_buffer.text == "x"


async def test_what_is_typed_before_the_driver_is_there_is_not_lost() -> None:
    async with running(driven=False) as screen:
        screen.type("early\r")
        screen.type("late\r")
        await until(lambda: len(screen.terminal._waiting) == 2)
        screen.terminal.start(screen.driver)
        assert screen.driver.lines == ["early", "late"]


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Escape", "Ctrl-C"])
async def test_a_turn_can_be_stopped(key: str) -> None:
    async with running() as screen:
        screen.driver.busy = True
        screen.type(key)
        await screen.driver.news.wait()
        assert screen.driver.cancelled == 1


async def test_what_was_waiting_comes_back_to_be_edited() -> None:
    async with running() as screen:
        screen.driver.busy = True
        screen.driver.waiting = "and another thing"
        screen.type("\x03")
        await screen.driver.news.wait()
        screen.type(", later\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["and another thing, later"]


async def test_ctrl_c_empties_the_line_when_nothing_is_going_on() -> None:
    async with running() as screen:
        screen.type("oops\x03better\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["better"]
        assert screen.driver.cancelled == 0


async def test_ctrl_d_leaves_but_not_with_something_typed() -> None:
    async with running() as screen:
        screen.type("x\x04y\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["xy"]
        screen.type("\x04")
        await until(lambda: screen.terminal._ending is not None)


async def test_a_question_takes_only_its_answers_and_gives_the_draft_back() -> None:
    async with running() as screen:
        screen.type("half a mess")
        await until(lambda: screen.terminal._session.default_buffer.text == "half a mess")
        asked = asyncio.create_task(screen.terminal.ask("do it?", {"y": "yes", "n": ""}))
        await until(lambda: bool(screen.terminal.asking))
        screen.type("perhaps\r\x1b[200~y\x1b[201~Y")
        assert await asked == "yes"
        screen.type("age\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["half a messyage"]  # what was pasted is no answer


async def test_who_is_typing_does_not_answer_by_it() -> None:
    async with running() as screen:
        terminal = screen.terminal
        screen.type("half")
        await until(lambda: terminal._session.default_buffer.text == "half")
        screen.pause = 0
        asked = asyncio.create_task(terminal.ask("do it?", {"y": "yes", "n": ""}))
        await until(lambda: bool(terminal.asking))
        screen.type("y")
        await until(lambda: getattr(terminal._question, "draft", "") == "halfy")
        assert not asked.done()
        screen.pause = 1
        screen.type("y")
        assert await asked == "yes"


async def test_a_key_that_comes_before_the_question_is_drawn_does_not_answer_it() -> None:
    async with running() as screen:
        terminal = screen.terminal
        asked = asyncio.create_task(terminal.ask("do it?", {"y": "yes", "n": ""}))
        await until(lambda: terminal._question is not None)
        question = terminal._question
        assert question is not None
        question.is_shown = False
        terminal._key(question, "y")
        assert not question.answer.done()
        assert question.draft == "y"
        await until(lambda: bool(terminal.asking))
        screen.type("n")
        assert await asked == ""


async def test_a_key_that_is_held_down_answers_one_question_and_its_enter_sends_nothing() -> None:
    async with running() as screen:
        terminal = screen.terminal
        screen.type("a draft")
        await until(lambda: terminal._session.default_buffer.text == "a draft")
        first = asyncio.create_task(terminal.ask("first?", {"y": "yes"}))
        await until(lambda: bool(terminal.asking))
        screen.time, screen.pause = screen.time + 1, 0
        screen.type("y")
        assert await first == "yes"
        second = asyncio.create_task(terminal.ask("second?", {"y": "yes", "1": "one"}))
        await until(lambda: terminal.asking == "second?")
        screen.type("yy1\r")
        assert await second == "one"
        await until(lambda: terminal._session.default_buffer.text == "a draft")
        screen.pause = 1
        screen.type("!\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["a draft!"]


@pytest.mark.parametrize(
    ("answers", "typed", "answer"),
    [({"y": "yes"}, "yhello\r", "yes"), ({}, "because\rhello\r", "because")],
)
async def test_what_is_typed_behind_an_answer_is_said_next(
    answers: dict[str, str], typed: str, answer: str
) -> None:
    async with running() as screen:
        asked = asyncio.create_task(screen.terminal.ask("do it?", answers))
        await until(lambda: bool(screen.terminal.asking))
        screen.type(typed)  # in one go, as a slow line hands it over
        assert await asked == answer
        await screen.driver.until(1)
        assert screen.driver.lines == ["hello"]


@pytest.mark.parametrize(
    ("typed", "line"),
    [("yes\r", ""), ("YES\r", ""), ("y\r", ""), ("yesterday", "esterday"), ("yellow", "ellow")],
)
async def test_the_rest_of_a_word_that_answers_is_not_said(typed: str, line: str) -> None:
    async with running() as screen:
        terminal = screen.terminal
        asked = asyncio.create_task(terminal.ask("do it?", {"y": "yes", "yes": "yes", "n": ""}))
        await until(lambda: bool(terminal.asking))
        screen.time, screen.pause = screen.time + 1, 0
        screen.type(typed)
        assert await asked == "yes"
        screen.time += 1
        screen.type("!")
        await until(lambda: terminal._text.endswith("!"))
        assert terminal._text == f"{line}!"
        assert screen.driver.lines == []


async def test_a_no_in_full_gives_no_reason() -> None:
    async with running() as screen:
        terminal = screen.terminal
        asked = asyncio.create_task(terminal.ask("do it?", {"n": "no", "no": "no"}))
        await until(lambda: bool(terminal.asking))
        screen.time, screen.pause = screen.time + 1, 0
        screen.type("n")
        assert await asked == "no"
        why = asyncio.create_task(terminal.ask("why not?", {}))
        await until(lambda: bool(terminal.asking))
        screen.type("o\r")
        await until(lambda: terminal._spelled != [])
        screen.time += 1
        screen.type("not now\r")
        assert await why == "not now"


async def test_a_line_is_asked_for_where_a_key_will_not_do() -> None:
    async with running() as screen:
        asked = asyncio.create_task(screen.terminal.ask("why not?", {}, "it is "))
        await until(lambda: bool(screen.terminal.asking))
        screen.type("my yard\r")
        assert await asked == "it is my yard"
        assert screen.driver.lines == []


async def test_a_question_in_wide_letters_is_shown_to_its_end() -> None:
    async with running() as screen:
        asked = asyncio.create_task(screen.terminal.ask("\u4f60\u597d" * 30 + "\u5417:", {}))
        await until(lambda: "\u5417:" in screen.out.getvalue())  # 122 columns of 80
        screen.type("yes\r")
        assert await asked == "yes"


async def test_turning_away_from_a_question_is_no_answer() -> None:
    async with running() as screen:
        asked = asyncio.create_task(screen.terminal.ask("do it?", {"y": "yes", "n": ""}))
        await until(lambda: screen.terminal._question is not None)
        screen.type("\x1b")
        assert await asked == ""


async def test_who_turns_away_from_a_question_has_what_was_waiting_to_edit() -> None:
    async with running() as screen:
        screen.driver.waiting = "and then this"
        asked = asyncio.create_task(screen.terminal.ask("do it?", {"y": "yes", "n": ""}))
        await until(lambda: bool(screen.terminal.asking))
        screen.type("\x1b")
        assert await asked == ""
        assert screen.terminal._session.default_buffer.text == "and then this"


async def test_questions_come_one_after_the_other() -> None:
    async with running() as screen:
        terminal = screen.terminal
        first = asyncio.create_task(terminal.ask("first?", {"1": "one"}))
        second = asyncio.create_task(terminal.ask("second?", {"2": "two"}))
        await until(lambda: bool(terminal.asking))
        screen.type("21")
        assert await first == "one"
        await until(lambda: terminal.asking == "second?")
        screen.type("2")
        assert await second == "two"


async def test_what_is_put_is_printed_in_order() -> None:
    async with running() as screen:
        for number in range(5):
            screen.terminal.put(f"line {number}\n")
        await screen.terminal.drain()
        text = screen.out.getvalue()
        assert [text.index(f"line {number}") for number in range(5)] == sorted(
            text.index(f"line {number}") for number in range(5)
        )


async def test_the_status_is_always_there() -> None:
    async with running() as screen:
        await until(lambda: "status of the recorder" in screen.out.getvalue())


async def test_what_is_drawn_with_a_question_knows_of_it() -> None:
    async with running() as screen:
        await until(lambda: "status of the recorder" in screen.out.getvalue())
        drawn: list[bool] = []

        def status(width: int) -> StyleAndTextTuples:  # noqa: ARG001 - as drivers are called
            drawn.append(screen.terminal.has_question)
            return []

        screen.driver.status = status  # type: ignore[method-assign]  # to see what it is drawn by
        asking = asyncio.create_task(screen.terminal.ask("sure?", {"y": "yes"}))
        await until(lambda: bool(screen.terminal.asking))
        assert drawn[-1]
        screen.type("y")
        assert await asking == "yes"
        assert not screen.terminal.has_question


async def test_commands_are_completed() -> None:
    async with running() as screen:
        buffer = screen.terminal._session.default_buffer
        screen.type("/con")
        # They are offered while one types.
        await until(lambda: bool((state := buffer.complete_state) and state.completions))
        screen.type("\t")
        await until(lambda: buffer.text == "/context")
        screen.type("\r")
        await until(lambda: buffer.complete_state is None)  # the first Enter takes the completion
        screen.type("\r")
        await screen.driver.until(1)
        assert screen.driver.lines == ["/context"]


async def test_an_error_that_ends_it_is_raised() -> None:
    with create_pipe_input() as keys:
        screen = Screen(keys)
        task = asyncio.create_task(screen.terminal.run())
        screen.terminal.leave(ValueError("no model"))
        with pytest.raises(ValueError, match="no model"):
            await asyncio.wait_for(task, 20)
