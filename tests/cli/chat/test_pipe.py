"""The chat without a screen: lines in, answers out, and an exit code that says what happened."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import hosted, invoke, messages
from agent.host.test_spending import LOOK, costing, priced
from sightline.agent.models.scripted import Cut, Stall
from sightline.cli.chat.pipe import MAX_LINE, PipeChat, lines_of
from sightline.config import AppSettings, LimitSettings
from sightline.demo.app import Desk, demo_app
from sightline.errors import TooLarge, Unauthorized
from support.terminal_attacks import ATTACKS, FORBIDDEN

ARCHIVE = invoke("c1", "/inbox/msg-104", "archive", app="desk")


class Pipe:
    """A chat over three texts."""

    def __init__(self) -> None:
        self.out = StringIO()
        self.err = StringIO()
        self.desk = Desk()
        self.code = 0

    async def takes(self, directory: Path, script: Any, *lines: str,
                    yes: bool = False, answers: list[str] | None = None,
                    **settings: Any) -> None:  # fmt: skip
        async def ask(question: str) -> str:
            self.out.write(question)
            return answers.pop(0) if answers else ""

        app = demo_app(self.desk)
        async with hosted(directory, script, app=app, app_id="desk", **settings) as (host, _):
            chat = PipeChat(host, self.out, self.err, yes=yes, ask=None if answers is None else ask)
            for line in lines:
                if not await chat.take(line):
                    break
            self.code = chat.exit_code


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


async def test_each_line_is_answered_on_stdout(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, ["One.", "Two."], "first", "", "second")
    assert pipe.out.getvalue() == "One.\nTwo.\n"
    assert pipe.err.getvalue() == ""
    assert pipe.code == 0


async def test_a_file_that_a_line_names_goes_with_it(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("buy ducks")
    await pipe.takes(tmp_path, ["Ducks."], "what is in @./gone.txt?", "and in @notes.txt?")
    assert pipe.out.getvalue() == "Ducks.\n"
    assert pipe.err.getvalue().splitlines() == [
        "✗ cannot attach ./gone.txt: there is no such file", "◦ attached notes.txt",
    ]  # fmt: skip
    assert pipe.code == 2
    [asked, _] = messages(tmp_path)
    assert "buy ducks" in asked.text


async def test_the_state_block_stays_out_of_the_answer(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, ["Done.\n\n### STATE\nGoal: x"], "go")
    assert pipe.out.getvalue() == "Done.\n"


async def test_commands_work_and_quit_ends(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, [], "/mode plan", "/quit", "never said")
    assert pipe.out.getvalue().startswith("Mode plan")
    assert pipe.code == 0


async def test_a_plan_waits_for_its_line(pipe: Pipe, tmp_path: Path) -> None:
    script: list[object] = ["### PLAN\nArchive it.", "### PLAN\nOpen it.", "Done."]
    await pipe.takes(tmp_path, script, "/plan tidy up", "no, another", "/plan accept")
    assert pipe.out.getvalue().endswith("Open it.\nMode ask: the model asks before it does "
                                        "anything in an app.\nDone.\n")  # fmt: skip
    assert messages(tmp_path)[-2].text == "I accept your plan. Carry it out."


async def test_somebody_at_a_plain_terminal_is_asked_about_a_plan(
    pipe: Pipe, tmp_path: Path
) -> None:
    script: list[object] = ["### PLAN\nArchive it.", "### PLAN\nArchive it.", "Done."]
    await pipe.takes(tmp_path, script, "/plan tidy up", "again", answers=["n", "y"])
    assert "/plan accept does it after all" in pipe.err.getvalue()
    assert pipe.out.getvalue().endswith("carry out this plan? [y]es [n]o: Done.\n")


async def test_a_wrong_command_is_an_error_and_the_next_line_is_taken(
    pipe: Pipe, tmp_path: Path
) -> None:
    await pipe.takes(tmp_path, ["Hello."], "/nonsense", "hi")
    assert "there is no command /nonsense" in pipe.err.getvalue()
    assert pipe.out.getvalue() == "Hello.\n"
    assert pipe.code == 2


async def test_without_anybody_to_ask_an_action_is_refused_and_the_code_is_7(
    pipe: Pipe, tmp_path: Path
) -> None:
    await pipe.takes(tmp_path, [ARCHIVE, "I may not."], "archive it")
    assert not pipe.desk.archive
    assert "nobody was there to approve it" in pipe.err.getvalue()
    assert pipe.out.getvalue() == "I may not.\n"
    assert pipe.code == 7


@pytest.mark.parametrize(("answers", "code"), [(None, 6), (["n"], 6), (["y"], 0)])
async def test_a_limit_in_money_is_lifted_by_somebody_and_not_in_advance(
    pipe: Pipe, tmp_path: Path, answers: list[str] | None, code: int
) -> None:
    limits = LimitSettings(turn_usd=3)
    script = priced(costing(3, LOOK), "Done.")
    await pipe.takes(tmp_path, script, "go", yes=True, answers=answers, limits=limits)
    assert pipe.code == code
    assert ("Done." in pipe.out.getvalue()) is (code == 0)
    assert "$3 of $3 (limits.turn_usd) spent in this turn" in pipe.err.getvalue()


@pytest.mark.parametrize("answers", [None, ["y"]])
async def test_pipe_with_yes_ends_the_turn_when_the_model_repeats_one_call(
    pipe: Pipe, tmp_path: Path, answers: list[str] | None
) -> None:
    look = invoke("c", "/", "search", app="desk", query="ducks")
    await pipe.takes(tmp_path, [look] * 24, "go", yes=True, answers=answers)
    assert pipe.code == 6
    assert pipe.out.getvalue() == ""
    assert "the model made the same call 5 times in this turn" in pipe.err.getvalue()
    assert pipe.err.getvalue().count("? search on desk") == 5


async def test_pipe_asks_the_user_when_the_model_repeats_one_call(
    pipe: Pipe, tmp_path: Path
) -> None:
    look = invoke("c", "/", "search", app="desk", query="ducks")
    answers = [*["y"] * 6, "n"]
    await pipe.takes(tmp_path, [*[look] * 7, "Done."], "go", answers=answers)
    assert (pipe.code, answers, pipe.out.getvalue()[-6:]) == (0, [], "Done.\n")
    told = "asked because: the model made the same call 5 times"
    assert pipe.err.getvalue().count(told) == 1
    answers = [*["y"] * 5, "n"]
    await pipe.takes(tmp_path, [look] * 24, "go", answers=answers)
    assert (pipe.code, answers) == (6, [])


async def test_yes_approves_in_advance(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, [ARCHIVE, "Done."], "archive it", yes=True)
    assert [message.id for message in pipe.desk.archive] == ["msg-104"]
    assert pipe.code == 0


@pytest.mark.parametrize(
    ("answers", "archived"),
    [("y", 1), ("n", 0), ("", 0), ("what? y", 1), ("always 1", 1), ("a none y", 1), ("a n n", 0)],
)
async def test_a_terminal_that_can_only_print_still_asks(
    pipe: Pipe, tmp_path: Path, answers: str, archived: int
) -> None:
    typed = answers.split(" ")
    await pipe.takes(tmp_path, [ARCHIVE, "Well."], "archive it", answers=typed)
    assert "do it?" in pipe.out.getvalue()
    assert len(pipe.desk.archive) == archived
    assert pipe.code == 0


async def test_a_failure_has_its_own_exit_code(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, [Unauthorized("no key"), "Back."], "one", "two")
    assert pipe.code == 3
    assert pipe.out.getvalue() == "Back.\n"


async def test_what_broke_off_is_told(pipe: Pipe, tmp_path: Path) -> None:
    await pipe.takes(tmp_path, [Cut("Half")] * 8, "go")
    assert "broke off" in pipe.err.getvalue()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_a_pipe_may_lead_to_a_terminal(pipe: Pipe, tmp_path: Path, attack: str) -> None:
    said = attack.encode("utf-8", "replace").decode()
    await pipe.takes(
        tmp_path, [invoke("c", "/", "search", app="desk", query=said), f"x{said}x"], "go", yes=True
    )
    assert not FORBIDDEN.intersection(pipe.out.getvalue() + pipe.err.getvalue())


async def test_an_interrupt_stops_the_turn_and_without_one_the_program(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Stall("on and on")]) as (host, model):
        chat = PipeChat(host, StringIO(), StringIO())
        with pytest.raises(KeyboardInterrupt):
            chat.interrupt()
        task = asyncio.create_task(chat.take("go"))
        while not model.requests:
            await asyncio.sleep(0)
        chat.interrupt()
        assert await task
        assert chat.exit_code == 130


async def test_an_interrupt_while_files_are_read_stops_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sightline.cli.pdf._READER", ("sleep", "1000"))
    (tmp_path / "endless.pdf").write_bytes(b"%PDF-1.7")
    async with hosted(tmp_path, ["Ducks."]) as (host, model):
        chat = PipeChat(host, StringIO(), StringIO())
        task = asyncio.create_task(chat.take("what is in @endless.pdf?"))
        await asyncio.sleep(0)
        with pytest.raises(KeyboardInterrupt):
            chat.interrupt()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert not model.requests


async def read(data: bytes, tmp_path: Path, kind: str) -> list[str]:
    if kind == "file":
        (tmp_path / "lines").write_bytes(data)
        descriptor = os.open(tmp_path / "lines", os.O_RDONLY)
    else:
        descriptor, end = os.pipe()
        os.write(end, data)
        os.close(end)
    try:
        return [line async for line in lines_of(descriptor)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_lines_come_from_pipes_and_files(kind: str, tmp_path: Path) -> None:
    assert await read("é\r\ntwo\n\nlast".encode(), tmp_path, kind) == ["é", "two", "", "last"]
    assert await read(b"\xff\n", tmp_path, kind) == ["\ufffd"]
    assert await read(b"", tmp_path, kind) == []


async def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="1,048,576 bytes"):
        await read(b"x" * (MAX_LINE + 1), tmp_path, "file")


async def test_a_changed_instruction_is_asked_about_before_the_next_message(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here, rules = AppSettings(discover=False), tmp_path / "AGENTS.md"
    rules.write_text("Write tests.\n")
    await pipe.takes(tmp_path, ["One."], "first", answers=["y"], apps=here)
    assert "has instructions for the model" in pipe.err.getvalue()
    rules.write_text("Never write tests.\n")
    await pipe.takes(tmp_path, ["Two.", "Three."], "second", "third", answers=["y"], apps=here)
    asked = pipe.err.getvalue().partition("has changed instructions for the model")[2]
    assert "-Write tests." in asked
    assert "+Never write tests." in asked
    assert pipe.out.getvalue().endswith("Two.\nThree.\n")
