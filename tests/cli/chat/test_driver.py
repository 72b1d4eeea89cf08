"""The chat at work: keys in, screen out, a real host between them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input

from agent.host.helpers import check_ledger, hosted, invoke, messages
from agent.host.test_delegate import OFFERED, dear, family
from agent.host.test_spending import LOOK, PRICED, costing, priced
from agent.workspace.conftest import wait_until_gone
from agent.workspace.test_sandbox import needs_sandbox
from cli.chat.test_terminal import OURS, Screen, until
from context.messages.test_attach import PNG
from sightline._amounts import dollars
from sightline.agent.host import Host
from sightline.agent.models.scripted import Cut, ScriptedModel, Stall
from sightline.cli.chat.cards import Status
from sightline.cli.chat.driver import ChatDriver
from sightline.cli.commands.runs import listed_runs
from sightline.config import AppSettings, ChatSettings, LimitSettings
from sightline.config.settings import WorkspaceSettings
from sightline.context.dialects.profiles import profile_for
from sightline.context.messages.parts import File, ToolCall
from sightline.demo.app import Desk, demo_app
from sightline.events import Noticed
from sightline.slop.app.local import local_dial
from support.terminal_attacks import ATTACKS, FORBIDDEN


class Chat:
    """Somebody at a terminal, talking to a host."""

    def __init__(self, screen: Screen, host: Host, model: ScriptedModel, desk: Desk) -> None:
        self.screen = screen
        self.host = host
        self.model = model
        self.desk = desk
        self.driver = ChatDriver(host, screen.terminal, "plain", Status(model=model.label))

    def type(self, text: str) -> None:
        self.screen.type(text)

    @property
    def shown(self) -> str:
        """Everything that was printed above the prompt, in order."""
        return self.screen.printed

    async def sees(self, *texts: str) -> None:
        """Wait until all of these were printed."""
        await until(lambda: all(text in self.shown for text in texts))

    async def is_asked(self, *texts: str, question: str = "do it?") -> None:
        """Wait for a card and for its question; what is typed before that does not answer it."""
        await self.sees(*texts)
        await until(lambda: question in self.screen.terminal.asking)

    async def rests(self) -> None:
        """Wait until nothing is going on."""
        await until(lambda: not self.driver.busy and not self.host.busy)
        await self.screen.terminal.drain()


def results(directory: Path) -> list[str]:
    """What the model was told of its calls."""
    return [result.content for message in messages(directory) for result in message.tool_results]


@asynccontextmanager
async def chatting(directory: Path, script: Any = (), **settings: Any) -> AsyncIterator[Chat]:
    desk = Desk()
    with create_pipe_input() as keys:
        async with hosted(directory, script, app=demo_app(desk), app_id="desk", **settings) as (
            host,
            model,
        ):
            chat = Chat(Screen(keys), host, model, desk)
            chat.screen.terminal.start(chat.driver)
            running = asyncio.create_task(chat.screen.terminal.run())
            working = asyncio.create_task(chat.driver.run())
            try:
                yield chat
                await chat.rests()
                chat.screen.terminal.leave()
                await running
            finally:
                for task in (working, running):
                    task.cancel()
                await asyncio.gather(working, running, return_exceptions=True)


async def test_a_file_that_a_message_names_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("buy ducks")
    async with chatting(tmp_path, ["Ducks."]) as chat:
        chat.type("what is in @notes.txt?\r")
        await chat.sees("> what is in @notes.txt?", "◦ attached notes.txt", "Ducks.")
        assert "buy ducks" not in chat.shown
    assert "buy ducks" in messages(tmp_path)[0].text


async def test_a_question_is_answered_in_markdown(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["You have **two** unread messages."]) as chat:
        chat.type("How many?\r")
        await chat.sees("> How many?", "You have two unread messages.")


async def test_going_on_with_a_session_shows_how_it_ended(tmp_path: Path) -> None:
    async with chatting(
        tmp_path, ["First.", "It is **Thursday**.\n\n### STATE\nGoal: g\n"]
    ) as chat:
        chat.type("one\r")
        await chat.sees("First.")
        chat.type("which day?\r")
        await chat.sees("It is Thursday.")
        await chat.rests()
        at = len(chat.shown)
        await chat.driver.recap()
        await chat.driver._terminal.drain()
        assert "> which day?" in chat.shown[at:]
        assert "It is Thursday." in chat.shown[at:]
        assert "First." not in chat.shown[at:]
        assert "Goal: g" not in chat.shown[at:]


async def test_the_state_block_is_not_printed_but_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["Done.\n\n### STATE\nGoal: mail\n"]) as chat:
        chat.type("go\r")
        await chat.sees("Done.", "state written; /state shows it")
        await chat.rests()
        assert "Goal: mail" not in chat.shown
        chat.type("/state\r")
        await chat.sees("Goal: mail")


async def test_an_action_waits_for_a_yes(tmp_path: Path) -> None:
    script = [invoke("c1", "/inbox/msg-104", "archive", app="desk"), "Archived."]
    async with chatting(tmp_path, script) as chat:
        chat.type("archive it\r")
        await chat.is_asked("? archive on desk/inbox/msg-104")
        assert not chat.desk.archive
        chat.type("y\r")
        await chat.sees("Archived.")
        assert [message.id for message in chat.desk.archive] == ["msg-104"]
    check_ledger(tmp_path)


async def test_an_action_of_a_task_waits_for_a_yes_that_says_which_task(tmp_path: Path) -> None:
    archive = invoke("c1", "/inbox/msg-104", "archive", app="desk")
    model = family(lambda _, results: "Archived." if results else archive, tasks=1)
    async with chatting(tmp_path, model, delegate=OFFERED) as chat:
        chat.type("go\r")
        await chat.is_asked("delegated to session 2: task 1", "for the task of session 2: task 1")
        chat.type("y")
        await chat.sees("(session 2)", "Done.")
        assert [message.id for message in chat.desk.archive] == ["msg-104"]


async def test_what_a_task_spends_stands_in_the_cost_of_its_session(tmp_path: Path) -> None:
    async with chatting(tmp_path, family(dear, tasks=2, profile=PRICED), delegate=OFFERED) as chat:
        chat.type("go\r")
        await chat.sees("Done.")
        await chat.rests()
        accounts = chat.host.ledger.accounts
        tasks = accounts.totals(2) + accounts.totals(3)
        spent = dollars((accounts.totals(1) + tasks).cost_usd)
        assert tasks.requests == 4
        assert spent in str(chat.driver.status(100))
        chat.type("/cost\r")
        await chat.sees("tasks handed on", dollars(tasks.cost_usd), "this session", spent)


async def test_more_money_is_asked_for_before_it_is_spent(tmp_path: Path) -> None:
    model = priced(costing(3, LOOK), "Done.", costing(3, LOOK))
    async with chatting(tmp_path, model, limits=LimitSettings(turn_usd=3)) as chat:
        chat.type("go\r")
        await chat.is_asked("? $3 of $3 (limits.turn_usd)", question="go on, up to $6?")
        chat.type("y")
        await chat.sees("Done.")
        chat.type("again\r")
        await chat.is_asked(question="go on, up to $6?")
        chat.type("n")
        await chat.sees("! $3 of $3 (limits.turn_usd) spent in this turn")
        await chat.rests()
        assert len(chat.model.requests) == 3


async def test_a_no_is_told_to_the_model_and_nothing_is_done(tmp_path: Path) -> None:
    script = [invoke("c1", "/inbox/msg-104", "archive", app="desk"), "As you wish."]
    async with chatting(tmp_path, script) as chat:
        chat.type("archive it\r")
        await chat.is_asked("? archive on desk/inbox/msg-104")
        chat.type("n")
        await chat.is_asked(question="why not?")
        chat.type("I still need it\r")
        await chat.sees("As you wish.")
        assert not chat.desk.archive
    refused = "error: not run (the user did not approve it: I still need it)"
    assert results(tmp_path) == [refused]


async def test_parameters_are_changed_shown_again_and_told_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/launch/standup/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    script = [invoke("c1", "/", "search", app="desk", query="launch"), "Found."]
    async with chatting(tmp_path, script) as chat:
        chat.type("search\r")
        await chat.is_asked('query: "launch"')
        chat.type("e")
        await chat.is_asked('query: "launch" → "standup"', 'query: "standup"')
        editor.write_text("#!/bin/sh\nsed -i 's/query/wrong/' \"$1\"\n")
        chat.type("e")
        await chat.is_asked("✗ search: /: ")
        chat.type("y")
        await chat.sees("Found.")
    told = 'The user changed the parameters before it ran: to {"query":"standup"}.\n'
    assert results(tmp_path)[0].startswith(told)


async def test_an_edit_is_shown_as_a_diff_done_and_taken_back_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pond").mkdir()
    monkeypatch.chdir(tmp_path / "pond")
    notes = tmp_path / "pond" / "notes.txt"
    notes.write_text("ducks swim\n")
    params = {"path": "notes.txt", "old": "swim", "new": "fly"}
    script = [invoke("c1", "/", "edit", app="workspace", **params), "They fly."]
    async with chatting(tmp_path, script, apps=AppSettings(discover=False)) as chat:
        chat.type("go\r")
        await chat.is_asked("? edit on workspace", "    │ -ducks swim\n    │ +ducks fly\n")
        assert notes.read_text() == "ducks swim\n"
        chat.type("y")
        await chat.sees("  └ changed:\n    │ --- a/notes.txt\n", "They fly.")
        await chat.rests()
        assert notes.read_text() == "ducks fly\n"
        chat.type("/undo\r")
        await chat.is_asked("Files: notes.txt", question="Bring these files back, too?")
        chat.type("y")
        await chat.sees("Files back as before: notes.txt")
        assert notes.read_text() == "ducks swim\n"


async def test_a_plan_is_refused_changed_in_words_edited_and_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/Archive/Flag/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    plan = "### PLAN\n\nArchive the mail."
    async with chatting(tmp_path, [plan, plan, plan, "Flagged."]) as chat:
        chat.type("/plan tidy up\r")
        await chat.is_asked("Archive the mail.", question="carry out this plan?")
        chat.type("n")
        await chat.is_asked(question="what should be different?")
        chat.type("\r")
        await chat.sees("not carried out")
        assert "plan" in status_of(chat)
        chat.type("once more\r")
        await chat.is_asked(question="carry out this plan?")
        chat.type("n")
        await chat.is_asked(question="what should be different?")
        chat.type("only the newest\r")
        await chat.is_asked("> only the newest", question="carry out this plan?")
        chat.type("e")
        await chat.sees("◦ mode ask", "> I changed your plan.", "  Flag the mail.", "Flagged.")
        assert "ask" in status_of(chat)
    check_ledger(tmp_path)


async def test_anything_but_an_answer_is_no_answer(tmp_path: Path) -> None:
    script = [invoke("c1", "/inbox/msg-104", "archive", app="desk"), "Fine."]
    async with chatting(tmp_path, script) as chat:
        chat.type("archive it\r")
        await chat.is_asked("? archive on desk/inbox/msg-104")
        chat.type("huh?\rn")
        await chat.is_asked(question="why not?")
        chat.type("\r")
        await chat.sees("Fine.")
        assert not chat.desk.archive


async def test_always_is_remembered_for_the_next_call(tmp_path: Path) -> None:
    script = [
        invoke("c1", "/", "search", app="desk", query="launch"), "One.",
        invoke("c2", "/", "search", app="desk", query="launch"), "Two.",
    ]  # fmt: skip
    async with chatting(tmp_path, script) as chat:
        chat.type("first\r")
        await chat.is_asked("? search on desk")
        chat.type("a")
        # The rule is printed before it is accepted.
        await chat.is_asked("2 approve search on / of desk (this process)", question="which rule?")
        assert not chat.host.rules
        chat.type("2")
        await chat.sees("One.")
        await chat.rests()
        chat.type("again\r")
        await chat.sees("Two.")
        await chat.rests()
        chat.type("/rules\r")
        await chat.sees("1  approve search on / of desk", "(this session)")
        chat.type("/rules remove 1\r")
        await chat.sees("Removed: approve search")
        assert not chat.host.rules


async def test_a_card_says_where_the_app_comes_from_and_v_shows_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", f"cp -t {tmp_path}")
    body = "x" * 5000 + " and the end"
    script = [invoke("c1", "/inbox/msg-104", "reply", app="desk", body=body), "Kept."]
    async with chatting(tmp_path, script) as chat:
        chat.type("reply\r")
        await chat.is_asked("app: ", "from ", "4,414 more characters, [v] shows all")
        assert "and the end" not in chat.shown
        chat.type("v")
        await until((tmp_path / "output.txt").exists)
        await chat.is_asked()
        chat.type("n")
        await chat.is_asked(question="why not?")
        chat.type("\r")
        await chat.sees("Kept.")
    whole = (tmp_path / "output.txt").read_text().replace("\n    │ ", "")
    assert f'body: "{body}"' in whole


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Escape", "Ctrl-C"])
async def test_a_turn_is_stopped_by_a_key(tmp_path: Path, key: str) -> None:
    async with chatting(tmp_path, [Stall("I was about to"), "Better."]) as chat:
        chat.type("go\r")
        await until(lambda: bool(chat.driver.live(80, 5)))
        chat.type(key)
        await chat.sees("■ stopped")
        await chat.rests()
        chat.type("again\r")
        await chat.sees("Better.")
    check_ledger(tmp_path)


async def test_a_key_stops_the_reading_of_files_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sightline.cli.pdf._READER", ("sleep", "1000"))
    (tmp_path / "endless.pdf").write_bytes(b"%PDF-1.7")
    async with chatting(tmp_path, ["Ducks."]) as chat:
        chat.type("what is in @endless.pdf?\r")
        await until(lambda: "reading files" in str(chat.driver.status(80)))
        chat.type("\x1b")
        await chat.sees("■ stopped")
        await chat.rests()
        assert not chat.model.requests


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Escape", "Ctrl-C"])
async def test_a_command_is_followed_while_it_runs_and_stopped_by_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "sleep 1000 & echo $! > pid; echo one; echo '\033]0;two\007two'; wait"
    script = [invoke("c1", "/", "run", app="workspace", command=command)]
    settings = {"apps": AppSettings(discover=False), "workspace": WorkspaceSettings(sandbox="off")}
    async with chatting(tmp_path, script, **settings) as chat:
        chat.type("go\r")
        await chat.is_asked("? run on workspace")
        chat.type("y\r")
        await until(lambda: live_of(chat).endswith("    one\n    two\n"))
        assert live_of(chat).startswith("run-1  running for ")
        assert "waiting for a command" in status_of(chat)
        assert "1 running" in status_of(chat)
        chat.type("/runs\r")
        await chat.sees("> /runs", "    two")
        chat.type(key)
        await chat.sees("stopped by the user after", "■ stopped")
        wait_until_gone(int((tmp_path / "pid").read_text()))
        await until(lambda: "running" not in status_of(chat) + live_of(chat))
    check_ledger(tmp_path)


async def test_a_command_that_goes_on_is_named_when_the_turn_stops_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = [invoke("c1", "/", "run", app="workspace", command="echo hi; sleep 1000"), Stall("So")]
    settings = {"apps": AppSettings(discover=False), "workspace": WorkspaceSettings(wait_s=0.01)}
    async with chatting(tmp_path, script, **settings) as chat:
        chat.type("go\r")
        await chat.is_asked("? run on workspace")
        chat.type("y\r")
        await until(lambda: "So" in live_of(chat))
        chat.type("\x1b")
        await chat.sees("■ stopped", "◦ run-1 goes on: /runs stop run-1 ends it")
        # `/runs run-1` shows what there is, and does not wait for a shell that hardly began.
        await until(lambda: [run.latest for run in listed_runs(chat.host.world)] == ["hi"])
        chat.type("/runs run-1\r")
        await chat.sees("hi\n")
        chat.type("/runs stop 1\r")
        await chat.sees("run-1 stopped by the user after")
        chat.type("/runs stop\r")
        await chat.sees("Nothing runs.")
        chat.type("/runs\r")
        await chat.sees("run-1  stopped, -15  echo hi; sleep 1000")


@pytest.mark.parametrize("wakes", [0, 1])
async def test_the_model_is_woken_by_a_command_that_ends_after_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wakes: int
) -> None:
    monkeypatch.chdir(tmp_path)
    gate = "while [ ! -e gate ]; do sleep 0.02; done; exit 3"
    run = invoke("c1", "/", "run", app="workspace", command=gate)
    chosen = WorkspaceSettings(wait_s=0.01, wakes=wakes, sandbox="off")
    script = [run, "It runs.", "It failed.", "Again."]
    async with chatting(
        tmp_path, script, apps=AppSettings(discover=False), workspace=chosen
    ) as chat:
        chat.type("go\r")
        await chat.is_asked("? run on workspace")
        chat.type("y\r")
        await chat.sees("It runs.")
        await chat.rests()
        await until(lambda: "1 running" in status_of(chat))
        (tmp_path / "gate").touch()
        await until(lambda: "running" not in status_of(chat))
        if wakes:
            await chat.sees("◦ run-1: the model is told, and goes on", "It failed.")
            [message] = [one.text for one in messages(tmp_path) if "has ended" in one.text]
            assert message.startswith("run-1 has ended: exited, 3. The user has said nothing")
        else:
            chat.type("/runs\r")
            await chat.sees("run-1  exited, 3")
        await chat.rests()
        assert len(chat.model.requests) == 2 + wakes


async def test_chat_asks_the_user_when_the_model_repeats_one_call(tmp_path: Path) -> None:
    look = ToolCall("c", "describe_db", {})
    async with chatting(tmp_path, [look] * 24) as chat:
        chat.type("go\r")
        await chat.is_asked("? describe_db", "asked because: the model made the same call 5 times")
        chat.type("y")
        await until(lambda: len(chat.model.requests) == 11)
        await chat.is_asked("? describe_db")
        chat.type("n")
        await until(lambda: "why not?" in chat.screen.terminal.asking)
        chat.type("\r")
        await chat.sees("! the model made the same call 5 times in this turn, with the same result")
        await chat.rests()
    assert len(results(tmp_path)) == 11


@needs_sandbox
async def test_a_key_gives_a_command_the_network_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = invoke("c1", "/", "run", app="workspace", command="echo there")
    async with chatting(tmp_path, [run, "Fetched."], apps=AppSettings(discover=False)) as chat:
        chat.type("go\r")
        await chat.is_asked("? run on workspace", question="[o]nce with network:")
        chat.type("o")
        await chat.sees("Fetched.")
    assert results(tmp_path)[0].startswith("The user changed the parameters before it ran: to {")


async def test_a_line_for_the_shell_runs_without_the_model_which_sees_what_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("OF_MINE", "duck")
    async with chatting(tmp_path, ["I see.", "And again."]) as chat:
        chat.type('!echo "a $OF_MINE"; exit 3\r')
        await chat.sees("a duck", "◦ exit code 3 after")
        chat.type("!!echo for you\r")
        await chat.sees("for you\n", "exit code 0", "the model gets it with your next message")
        assert not chat.model.requests
        chat.type("look\r")
        await chat.sees("I see.")
        chat.type("!!\r!\rgo on\r")
        await chat.sees("And again.", "!COMMAND runs a command")
    first, _, second, _ = (message.text for message in messages(tmp_path))
    assert first.startswith("look\n\n")
    assert "$ echo for you\nfor you\n[exit code 0" in first
    assert "a duck" not in first
    assert second.startswith("go on\n\n")
    assert "$ echo for you\n" in second


async def test_a_line_for_the_shell_is_followed_and_stopped_by_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with chatting(tmp_path) as chat:
        chat.type("!echo $$ > pid; echo begun; exec sleep 1000\r")
        await until(lambda: live_of(chat) == "begun\n")
        assert "waiting for a command" in status_of(chat)
        chat.type("\x1b")
        await chat.sees("■ stopped")
        await until(lambda: "waiting" not in status_of(chat))
        wait_until_gone(int((tmp_path / "pid").read_text()))


def live_of(chat: Chat) -> str:
    return "".join(text for _, text, *_ in chat.driver.live(80, 8))


async def test_stopping_while_asked_refuses_and_ends_the_turn(tmp_path: Path) -> None:
    script = [invoke("c1", "/inbox/msg-104", "archive", app="desk")]
    async with chatting(tmp_path, script) as chat:
        chat.type("archive it\r")
        await chat.is_asked("? archive on desk/inbox/msg-104")
        chat.type("\x03")
        await chat.sees("  not run: cancelled by the user", "■ stopped")
        await chat.rests()
        assert not chat.desk.archive
    check_ledger(tmp_path)


async def test_what_is_typed_meanwhile_waits_its_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def first(_: object) -> str:
        await gate.wait()
        return "First answer."

    async with chatting(tmp_path, [first, "Second answer."]) as chat:
        chat.type("one\r")
        await until(lambda: chat.driver.busy)
        chat.type("two\r")
        await until(lambda: "+1" in status_of(chat))
        gate.set()
        await chat.sees("First answer.", "Second answer.")
        await chat.rests()
        assert [m.text for m in messages(tmp_path) if m.role == "user"] == ["one", "two"]


def status_of(chat: Chat) -> str:
    return "".join(text for _, text, *_ in chat.driver.status(200))


async def test_a_command_that_only_looks_does_not_wait(tmp_path: Path) -> None:
    async with chatting(tmp_path, [Stall("thinking")]) as chat:
        chat.type("go\r")
        await until(lambda: chat.driver.busy)
        chat.type("/mode\r")
        await chat.sees("Mode ask")
        assert chat.driver.busy
        chat.type("\x03")
        await chat.sees("■ stopped")


async def test_a_command_that_changes_things_waits(tmp_path: Path) -> None:
    async with chatting(tmp_path, [Stall("thinking")]) as chat:
        chat.type("go\r")
        await until(lambda: chat.driver.busy)
        chat.type("/undo\r")
        await until(lambda: "+1" in status_of(chat))
        chat.type("\x03")
        await chat.rests()
        # It came back to be edited; nothing was undone by surprise.
        assert chat.screen.terminal._session.default_buffer.text == "/undo"


async def test_a_wrong_command_is_one_line(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.type("/context drop\r")
        await chat.sees("✗ Missing argument 'GID'; usage: /context drop GID")
        assert not chat.model.requests


async def test_a_turn_that_fails_says_why_and_the_chat_goes_on(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:  # the script is empty: every request fails
        chat.type("hi\r")
        await chat.sees("✗ the script has no answer")
        await chat.rests()
        chat.model.add("Now I can.")
        chat.type("again\r")
        await chat.sees("Now I can.")


async def test_an_answer_that_broke_off_is_kept_and_told(tmp_path: Path) -> None:
    async with chatting(tmp_path, [Cut("Half of")] * 8) as chat:
        chat.type("hi\r")
        await chat.sees("Half of", "broke off")


async def test_what_is_peculiar_about_a_model_is_told_once(tmp_path: Path) -> None:
    profile = profile_for("local", "smollm2-135m-instruct")
    model = ScriptedModel(["One.", "Two."], profile=profile)
    async with chatting(tmp_path, model) as chat:
        chat.type("first\r")
        await chat.sees("One.", "cannot call tools")
        await chat.rests()
        chat.type("second\r")
        await chat.sees("Two.")
        await chat.rests()
        assert chat.shown.count("cannot call tools") == 1


async def test_a_question_before_deleting(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["Hello."]) as chat:
        chat.type("hi\r")
        await chat.sees("Hello.")
        await chat.rests()
        chat.type("/message remove 1\r")
        await chat.is_asked(question="Delete group 1")
        chat.type("y")
        await chat.sees("Group 1 is deleted.")


async def test_a_command_that_takes_long_can_be_stopped(tmp_path: Path) -> None:
    async with chatting(tmp_path, ["Hello.", Stall("### STATE")]) as chat:
        chat.type("hi\r")
        await chat.sees("Hello.")
        await chat.rests()
        chat.type("/context rebuild\r")
        await until(lambda: len(chat.model.requests) == 2)
        chat.type("\x03")
        await chat.sees("■ stopped")
        await chat.rests()
        chat.type("/mode\r")
        await chat.sees("Mode ask")


async def test_a_long_paragraph_is_followed_to_its_end(tmp_path: Path) -> None:
    async with chatting(tmp_path, [Stall("word " * 200 + "and so on")]) as chat:
        chat.type("go\r")

        def live() -> str:
            return "".join(text for _, text, *_ in chat.driver.live(40, 5))

        await until(lambda: "and so on" in live().replace("\n", ""))
        assert live().count("\n") == 5
        assert max(map(len, live().splitlines())) < 40
        chat.type("\x03")
        await chat.sees("■ stopped")


async def test_the_status_names_the_model_that_was_chosen(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        other = ScriptedModel(profile=profile_for("openai-chat", "another"))
        await chat.host.use_model(other)
        chat.type("/mode\r")
        await chat.sees("Mode ask")
        await chat.rests()
        assert other.label in status_of(chat)


async def test_quit_leaves(tmp_path: Path) -> None:
    async with chatting(tmp_path) as chat:
        chat.type("/quit\r")
        await until(lambda: chat.screen.terminal._ending is not None)


async def test_nothing_from_a_model_or_an_app_reaches_the_screen_as_it_is(tmp_path: Path) -> None:
    script: list[Any] = []
    for name, attack in ATTACKS.items():
        text = attack.encode("utf-8", "replace").decode()
        script.append(invoke(f"c{len(script)}", "/", "search", app="desk", query=text))
        script.append(f"{text}\n\n`{text}`\n\nend of {name}")
    async with chatting(tmp_path, script) as chat:
        for name in ATTACKS:
            chat.type("go\r")
            await chat.is_asked("? search on desk")
            chat.type("y\r")
            await chat.sees(f"end of {name}")
            await chat.rests()
            assert not FORBIDDEN.intersection(OURS.sub("", chat.shown)), name


async def test_completion_knows_commands_apps_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "one.txt").touch()
    async with chatting(tmp_path, ["Hello."]) as chat:

        def complete(text: str) -> set[str]:
            return {found for found, *_ in chat.driver.complete(text)}

        assert complete("/context d") == {"context drop"}
        assert {"context show", "context window", "context drop"} <= complete("/context ")
        assert complete("/tree de") == {"desk"}
        assert complete("/tree desk/inbox/msg-10") == {
            f"desk/inbox/msg-10{n}" for n in (1, 2, 3, 4)
        }
        assert complete("/invoke desk/inbox/msg-104 re") == {"reply"}
        assert complete("/mode p") == {"plan"}
        assert complete("/model local") <= {"local:smollm2-135m-instruct"}
        assert complete("/export no") == {"notes.txt"}
        assert complete("look at @no") == {"notes.txt"}
        assert complete("look at @my") == {'"my notes/'}
        assert complete('look at @"my notes/o') == {'my notes/one.txt"'}
        assert complete("look at desk/cal") == {"desk/calendar"}
        assert complete("and/or nothing") == set()
        chat.type("hi\r")
        await chat.sees("Hello.")
        await chat.rests()
        assert complete("/context drop ") == {"1"}
        assert complete("/why hist") == {"history"}


async def test_a_notice_waits_for_the_end_of_the_answer(tmp_path: Path) -> None:
    async with chatting(tmp_path, [Stall("One paragraph.\n\nAnd half of ano")]) as chat:
        chat.type("go\r")
        await chat.sees("One paragraph.")
        chat.driver.note(Noticed(code="x", message="something happened"))
        await chat.screen.terminal.drain()
        assert "something happened" not in chat.shown
        chat.type("\x1b")
        await chat.sees("something happened")
        answer = chat.shown.index("And half of ano")
        assert answer < chat.shown.index("something happened")
        await chat.rests()
        chat.driver.note(Noticed(code="x", message="at once"))
        assert "at once" in chat.shown


async def test_the_status_says_who_is_waited_for(tmp_path: Path) -> None:
    send = invoke("c1", "/inbox/msg-104", "archive", app="desk")
    async with chatting(tmp_path, [send, "Done."]) as chat:
        chat.type("archive it\r")
        await chat.is_asked("archive on desk")
        assert "waiting for you" in shown_status(chat)
        assert "thinking" not in shown_status(chat)
        chat.type("y")
        await chat.sees("Done.")
        await chat.rests()
        assert "waiting for you" not in shown_status(chat)


def shown_status(chat: Chat) -> str:
    return "".join(fragment[1] for fragment in chat.driver.status(200))


@pytest.mark.parametrize(
    ("after_s", "notify", "sequence"),
    [
        (0.000001, "bell", "\a"),
        (0.000001, "osc9", "\x1b]9;Sightline: the turn is over\a"),
        (0.000001, "osc777", "\x1b]777;notify;Sightline;the turn is over\a"),
        (0, "bell", ""),
        (3600, "bell", ""),
    ],
)
async def test_the_end_of_a_long_turn_calls_whoever_looked_away(
    tmp_path: Path, after_s: float, notify: Any, sequence: str
) -> None:
    chosen = ChatSettings(notify=notify, notify_after_s=after_s)
    async with chatting(tmp_path, ["Done."], chat=chosen) as chat:
        chat.type("go\r")
        await chat.sees("Done.")
        await chat.rests()
        assert sequence in chat.screen.out.getvalue()
        assert ("\a" in chat.screen.out.getvalue()) == bool(sequence)


async def test_a_pasted_image_goes_with_the_message_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    shot = tmp_path / "a shot.png"
    shot.write_bytes(PNG)
    script = ScriptedModel(["A duck."], profile=profile_for("anthropic"))
    async with chatting(tmp_path, script) as chat:
        chat.type(f"\x1b[200~{shot}\x1b[201~what is it?\r")
        await chat.sees("◦ attached", "A duck.")
    [message, *_] = messages(tmp_path)
    assert message.text == f'@"{shot}" what is it?'
    assert [part.mime for part in message.parts if isinstance(part, File)] == ["image/png"]


async def test_the_image_of_the_clipboard_is_pasted_by_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = tmp_path / "xclip"
    (tmp_path / "held").write_bytes(PNG)
    reader.write_text(f"#!/bin/sh\ncat {tmp_path}/held\n")
    reader.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    script = ScriptedModel(["A duck."], profile=profile_for("anthropic"))
    async with chatting(tmp_path, script) as chat:
        chat.type("\x16")
        await until(lambda: "@clipboard-1.png" in chat.screen.terminal._session.default_buffer.text)
        chat.type("?\r")
        await chat.sees("◦ attached clipboard-1.png", "A duck.")
        (tmp_path / "held").write_text("")
        chat.type("\x16")
        await chat.sees("there is no image on the clipboard")


async def test_a_server_is_answered_or_refused_at_the_terminal(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    from adapters.test_mcp_client import APP, as_server, running

    calls = [invoke(f"c{turn}", "/tools/echo", "call", app=APP) for turn in (1, 2)]
    patient = LimitSettings(invoke_s=600)
    async with (
        running("asks", long_s=600) as (server, _),
        chatting(tmp_path, [calls[0], "Hello.", calls[1], "Well."], limits=patient) as chat,
    ):
        chat.host.hub.add(APP, as_server(local_dial(server.app)))
        await chat.host.hub.ready()
        chat.type("greet me\r")
        await chat.is_asked(f"? call on {APP}/tools/echo")
        chat.type("y")
        await chat.is_asked(f"? {APP} asks you", "it says: question 0", question="answer it?")
        assert "waiting for you" in str(chat.driver.status(80))
        chat.type("y")
        await chat.is_asked(question="name:")
        chat.type("Ada\r")
        await chat.sees("Hello.")
        chat.type("and again\r")
        await chat.is_asked()
        chat.type("y")
        await chat.is_asked(question="answer it?")
        chat.type("n")
        await chat.sees("Well.")
    heard = [json.loads(content.removeprefix("Done.\n"))["text"] for content in results(tmp_path)]
    assert heard == ['[["accept"], {"name": "Ada"}]', '[["decline"], null]']


async def test_a_changed_instruction_is_asked_about_before_the_next_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here, rules = AppSettings(discover=False), tmp_path / "AGENTS.md"
    rules.write_text("Write tests.\n")
    async with chatting(tmp_path, ["One.", "Two."], apps=here) as chat:
        chat.host.follow(True)
        chat.type("first\r")
        await chat.sees("One.")
        await chat.rests()
        rules.write_text("Never write tests.\n")
        chat.type("second\r")
        await chat.is_asked("+Never write tests.", question="follow them")
        chat.type("y")
        await chat.sees("Two.")
        await chat.rests()
    first, second = (request.data.decode() for request in chat.model.requests)
    assert "Never write tests." not in first
    assert "Never write tests." in second
