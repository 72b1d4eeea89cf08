"""The installed program as a person runs it: in a pseudo-terminal and in a pipe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from sightline._distribution import installer
from sightline.context.ledger import Ledger
from support.person import Person, environment
from support.shell import PROGRAM
from support.terminal_attacks import ATTACKS
from support.vendors.answers import Call, Says, says
from support.vendors.server import Vendor

ARCHIVE = Call(
    "slop_invoke", {"app": "desk", "path": "/inbox/msg-104", "action": "archive", "params": {}}
)


def test_a_conversation_from_prompt_to_goodbye(tmp_path: Path, people: list[Person]) -> None:
    """And what was typed is remembered, for this user alone."""
    with Vendor(says("You have **two** unread messages.")) as vendor:
        person = Person(tmp_path, vendor, "chat", "--demo")
        people.append(person)
        person.sees("/help lists commands")
        person.types(
            "\x1b[31mHow many are unread?\x1b[0m\r"
        )  # copied from somewhere, with its colour
        person.sees("unread messages.")
        person.sees("ollama:test")  # the status line
        assert person.leaves() == 0
    assert "Traceback" not in person.seen
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        said = [entry.message.text for entry in ledger.messages(1)]
    assert said == ["How many are unread?", "You have **two** unread messages."]
    assert b"msg-104" in vendor.requests[0].body  # the model saw the demo
    [history] = tmp_path.rglob("history")
    assert "How many are unread?" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_an_action_is_asked_for_and_the_next_request_shows_what_it_did(
    tmp_path: Path, people: list[Person]
) -> None:
    with Vendor(Says(calls=(ARCHIVE,)), says("Archived.")) as vendor:
        person = Person(tmp_path, vendor, "chat", "--demo")
        people.append(person)
        person.sees("/help lists commands")
        person.types("archive the launch mail\r")
        person.sees("on desk/inbox/msg-104")
        person.sees("do it?")
        person.types("y")
        person.sees("Archived.")
        assert person.leaves() == 0
    state = vendor.requests[1].body.rpartition(b"<slop-state")[2]
    assert b"37 messages" in state
    assert b"msg-104" not in state


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Escape", "Ctrl-C"])
def test_a_key_stops_the_turn_and_the_chat_goes_on(
    tmp_path: Path, people: list[Person], key: str
) -> None:
    with Vendor(says("Onwards and onwards", stall=3), says("As you like.")) as vendor:
        person = Person(tmp_path, vendor, "chat")
        people.append(person)
        person.sees("/help lists commands")
        person.types("talk\r")
        person.sees("Onwards")  # one word: a screen may get a line in parts
        person.types(key)
        person.sees("stopped")
        person.types("now?\r")
        person.sees("As you like.")
        assert person.leaves() == 0


def test_a_command_is_seen_as_it_runs_and_a_key_ends_it(
    tmp_path: Path, people: list[Person]
) -> None:
    """In the sandbox, where there is one: what it starts has no number that is known here."""
    command = "echo ten-lines-done; sleep 1000 & wait"
    call = {"app": "workspace", "path": "/", "action": "run", "params": {"command": command}}
    with Vendor(Says(calls=(Call("slop_invoke", call),)), says("As you like.")) as vendor:
        person = Person(tmp_path, vendor, "chat")
        people.append(person)
        person.sees("/help lists commands")
        person.types("test it\r")
        person.sees("do it?")
        person.types("y\r")
        person.sees("running for")
        person.sees("    ten-lines-done")
        person.types("\x1b")
        person.sees("stopped by the user after")
        person.sees("■ stopped")
        person.types("!echo $((6 * 7))-of-mine\r")
        person.sees("42-of-mine")
        person.types("and now?\r")
        person.sees("As you like.")
        assert person.leaves() == 0
    assert b"stopped by the user after" in vendor.requests[1].body
    assert b"ten-lines-done" in vendor.requests[1].body
    assert b"42-of-mine" not in vendor.requests[1].body


def test_what_was_said_can_be_continued(tmp_path: Path, people: list[Person]) -> None:
    with Vendor(says("Your name is noted.")) as vendor:
        person = Person(tmp_path, vendor, "chat")
        people.append(person)
        person.sees("/help lists commands")
        person.types("I am Ada\r")
        person.sees("noted.")
        assert person.leaves() == 0
        vendor.add(says("You are Ada."))
        again = Person(tmp_path, vendor, "chat", "-c")
        people.append(again)
        again.sees(", 1 group. ")
        again.types("Who am I?\r")
        again.sees("You are Ada.")
        assert again.leaves() == 0
    assert b"I am Ada" in vendor.requests[1].body


def test_no_sequence_of_a_models_text_reaches_the_terminal(
    tmp_path: Path, people: list[Person]
) -> None:
    attacks = [ATTACKS[name] for name in ("clear screen", "hyperlink", "clipboard", "title")]
    answers = [says(f"{attack} end{number}") for number, attack in enumerate(attacks)]
    with Vendor(*answers) as vendor:
        person = Person(tmp_path, vendor, "chat")
        people.append(person)
        person.sees("/help lists commands")
        for number, attack in enumerate(attacks):
            start = len(person.seen)
            person.types("go\r")
            person.sees(f"end{number}")
            assert attack not in person.seen[start:]
            assert "\x1b]" not in person.seen[start:]
            assert "␛" in person.seen[start:]
        assert person.leaves() == 0


def test_no_colour_is_no_colour(tmp_path: Path, people: list[Person]) -> None:
    with Vendor(says("**Bold** and `code`.")) as vendor:
        person = Person(tmp_path, vendor, "chat", NO_COLOR="1")
        people.append(person)
        person.sees("/help lists commands")
        person.types("go\r")
        person.sees("code")
        person.leaves()
    colours = [code for code in re.findall(r"\x1b\[([0-9;]*)m", person.seen)
               if any(part[:1] in "349" and len(part) > 1 for part in code.split(";"))]  # fmt: skip
    assert colours == []


def test_a_narrow_terminal_can_be_used(tmp_path: Path, people: list[Person]) -> None:
    call = {"app": "demo", "path": "/inbox/msg-104", "action": "reply", "params": {"body": "Yes."}}
    with Vendor(Says(calls=(Call("slop_invoke", call),)), says("Short answer.")) as vendor:
        person = Person(tmp_path, vendor, "chat", "--demo", size=(20, 40))
        people.append(person)
        person.sees("/help lists")
        person.types("/context\r")
        person.sees("reserve")
        person.types("hi\r")
        person.sees("do it?")  # a question that is wider than the terminal
        person.sees("all:")
        person.types("y")
        person.sees("Short answer.")
        assert person.leaves() == 0


def test_a_dumb_terminal_gets_lines(tmp_path: Path, people: list[Person]) -> None:
    with Vendor(says("Plain answer.")) as vendor:
        person = Person(tmp_path, vendor, "chat", TERM="dumb")
        people.append(person)
        person.sees("> ")
        person.types("hi\r")
        person.sees("Plain answer.")
        assert person.leaves() == 0
        assert "\x1b" not in person.seen


def test_no_model_is_one_line_and_an_exit_code(tmp_path: Path, people: list[Person]) -> None:
    with Vendor() as vendor:
        person = Person(tmp_path, vendor, "chat", "--model", "anthropic", ANTHROPIC_API_KEY="")
        people.append(person)
        person.sees("ANTHROPIC_API_KEY")
        assert person.ends() == 3


def test_long_output_opens_in_the_pager(tmp_path: Path, people: list[Person]) -> None:
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\ncp "$1" paged.txt; echo paged it\n')
    pager.chmod(0o755)
    with Vendor() as vendor:
        person = Person(tmp_path, vendor, "chat", "--demo", PAGER=str(pager))
        people.append(person)
        person.sees("/help lists commands")
        person.types("/context show\r")
        person.sees("paged it")
        assert person.leaves() == 0
    assert "══ boundary" in (tmp_path / "paged.txt").read_text()


def test_without_arguments_the_chat_opens_and_the_editor_writes_the_message(
    tmp_path: Path, people: list[Person]
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "written in\\nan editor" > "$1"\n')
    editor.chmod(0o755)
    with Vendor(says("Got it.")) as vendor:
        person = Person(tmp_path, vendor, EDITOR=str(editor))
        people.append(person)
        person.sees("/help lists commands")
        person.types("/editor\r")
        person.sees("Got it.")
        assert person.leaves() == 0
    assert b"written in\\nan editor" in vendor.requests[0].body


def test_a_pipe_is_answered_line_by_line(tmp_path: Path) -> None:
    with Vendor(says("First."), says("Second.")) as vendor:
        done = subprocess.run(
            [PROGRAM, "chat", "--demo"], input="one\n/mode plan\ntwo\n", text=True,
            capture_output=True, timeout=60, check=False,
            cwd=tmp_path, env=environment(tmp_path, vendor),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "First."
    assert done.stdout.splitlines()[-1] == "Second."
    assert b"msg-104" in vendor.requests[0].body


def test_a_pipe_needs_neither_of_the_terminals_packages(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['rich'] = sys.modules['prompt_toolkit'] = None; "
    with Vendor(says("Fine.")) as vendor:
        done = subprocess.run(
            [sys.executable, "-c", f"{blocked}from sightline.cli import main; main(['chat'])"],
            input="hi\n", text=True, capture_output=True, timeout=60, check=False,
            cwd=tmp_path, env=environment(tmp_path, vendor),
        )  # fmt: skip
    assert (done.stdout, done.returncode) == ("Fine.\n", 0), done.stderr


def test_a_terminal_without_them_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['prompt_toolkit'] = None; "
    with Vendor() as vendor:
        child = pexpect.spawn(
            sys.executable, ["-c", f"{blocked}from sightline.cli import main; main(['chat'])"],
            encoding="utf-8", timeout=60, cwd=str(tmp_path), env=environment(tmp_path, vendor),
        )  # fmt: skip
        child.expect_exact(installer())
        child.expect_exact("[chat]'")
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 2


def test_the_root_imports_none_of_the_large_packages() -> None:
    large = ["rich", "prompt_toolkit", "openai", "anthropic", "google.genai", "boto3", "apsw",
             "websockets", "xllamacpp", "asyncio"]  # fmt: skip
    code = f"import sys, sightline.cli.main; print([m for m in {large} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_prompt_waits_for_none_of_what_comes_behind_it() -> None:
    behind = ["rich", "apsw", "websockets", "msgspec", "dataclasses", "json", "pathlib",
              "sightline.agent.host", "sightline.context.ledger",
              "sightline.cli.commands.registry"]  # fmt: skip
    code = (  # Python 3.14's own asyncio has data classes
        "import sys, asyncio; had = set(sys.modules); "
        "import sightline.cli.chat.main, sightline.cli.chat.terminal; "
        f"print([m for m in {behind} if m in sys.modules and m not in had])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
