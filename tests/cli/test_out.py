"""Every text to a terminal goes through one door, whichever command prints it."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline.cli
from agent.host.helpers import hosted, turn
from sightline import ActionError, App
from sightline.agent.workspace.command import _plain
from sightline.cli import out
from sightline.cli.clean import clean_json, harmless
from sightline.cli.main import run
from sightline.slop.protocol.jsontext import escape_controls
from support.shell import at_terminal, here, screen
from support.terminal_attacks import ATTACKS, FORBIDDEN

CONTROLS = frozenset({chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\t", "\n"})
EVIL = "".join(ATTACKS.values()).replace("\0", "").encode(errors="ignore").decode()
ROOT = Path(sightline.cli.__file__).parent
# What is printed, the screen of the chat, the question to its terminal, and a program in a pipe.
DOORS = {"out.py", "chat/terminal.py", "chat/theme.py", "pdf.py"}


def writes_around(tree: ast.AST) -> list[str]:
    """Find what writes to stdout or stderr, or could say something to a terminal."""
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            found.append(f"print, line {node.lineno}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in {
                "click.echo", "click.secho", "click.confirm", "click.prompt", "click.style",
                "click.echo_via_pager", "click.progressbar", "click.get_text_stream",
                "click.get_binary_stream", "sys.__stdout__", "sys.__stderr__", "os.write",
                "warnings.warn",
            }:  # fmt: skip
                found.append(f"{name}, line {node.lineno}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\x1b" in node.value:
            found.append(f"an escape sequence, line {node.lineno}")
    return found + streams_passed_on(tree)


def streams_passed_on(tree: ast.AST) -> list[str]:
    """Find every use of sys.stdout and sys.stderr but to ask what they are."""
    asked = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("isatty", "encoding", "fileno")
    }
    return [
        f"sys.{node.attr}, line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("stdout", "stderr")
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        and id(node) not in asked
    ]


def test_no_command_writes_around_the_door() -> None:
    around = {
        str(file.relative_to(ROOT)): found
        for file in sorted(ROOT.rglob("*.py"))
        if str(file.relative_to(ROOT)) not in DOORS
        if (found := writes_around(ast.parse(file.read_text())))
    }
    assert around == {}


@pytest.mark.parametrize(
    "line",
    [
        "print('x')",
        "click.echo('x')",
        "sys.stdout.write('x')",
        "sys.stderr.buffer.write(b'x')",
        "f(sys.stdout)",
        "x = '\\x1b[2J'",
        "click.confirm('x')",
    ],
)
def test_the_search_sees_what_writes_around(line: str) -> None:
    assert writes_around(ast.parse(line))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(ANY_JSON)
def test_json_says_the_same_without_a_control(value: Any) -> None:
    data = msgspec.json.encode(value)
    escaped = escape_controls(data).decode()
    assert not CONTROLS.intersection(escaped)
    shown = clean_json(escaped)
    assert not FORBIDDEN.intersection(shown)
    assert json.loads(escaped) == json.loads(shown) == value


def test_json_between_whose_tokens_a_carriage_return_stands_stays_json() -> None:
    assert escape_controls(b'{"a":\r\n"\xc2\x9b\x7f"}') == b'{"a": \n"\\u009b\\u007f"}'


@given(st.text())
def test_harmless_text_has_no_control_and_is_harmless_once(text: str) -> None:
    assert not CONTROLS.intersection(harmless(text))
    assert harmless(harmless(text)) == harmless(text)


@given(st.text(st.sampled_from("\x1b\x9b\x9d\x9c\x07[]0;31mHm\\P x")))
def test_no_sequence_comes_together_from_what_is_left_of_others(text: str) -> None:
    plain = _plain(text.encode())
    assert not {"\x1b", "\x9b", "\x9d"}.intersection(plain)
    assert _plain(plain.encode()) == plain


def test_a_sequence_around_a_sequence_is_gone_with_it() -> None:
    assert _plain(b"a\x1b\x1b[0m[31mb") == "a[31mb"
    assert _plain("a\x9b31mb\x9d0;title\x9cc".encode()) == "abc"


def hostile() -> App:
    """An app that puts an attack wherever an app can put text."""
    app = App("hostile", "Hostile")

    @app.node("/notes")
    def notes() -> dict[str, Any]:
        about = {"label": EVIL, EVIL: EVIL, "list": [EVIL]}
        return {"type": "item", "props": about, "summary": EVIL}

    @app.action("/notes", "read")
    def read() -> dict[str, str]:
        return {EVIL: EVIL}

    @app.action("/notes", "fail")
    def fail() -> None:
        raise ActionError("failed", EVIL)

    return app


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    async with hostile().serving(port=None, unix=str(tmp_path / "app.sock")) as (at,):
        yield at


@pytest.fixture
async def db(tmp_path: Path) -> str:
    async with hosted(tmp_path, [f"Said {EVIL}"]) as (host, _):
        await turn(host, f"hello {EVIL}")
    return str(tmp_path / "work.db")


def printed(args: list[str], *, terminal: bool) -> str:
    """Run a command with stdout and stderr in a pipe, or at a terminal."""
    command = [sys.executable, "-m", "sightline", *args]
    env = {**os.environ, "NO_COLOR": "1"}
    if not terminal:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=env)
        return (done.stdout + done.stderr).decode()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = screen(ours)
    process.wait(timeout=60)
    return shown


def printed_here(args: list[str], *, terminal: bool) -> str:
    """Run a command that connects to nobody in this process, to the same ends."""
    env = {**os.environ, "NO_COLOR": "1"}
    if not terminal:
        done = here(Path.cwd(), *args, env=env)
        return (done.stdout + done.stderr).decode()
    return at_terminal(lambda: run(args), env)


def check(args: list[str], text: str, *, terminal: bool) -> None:
    assert any(sign in text for sign in ("\\u009b", "\ufffd")), f"{args} had no attack in it"
    forbidden = FORBIDDEN if terminal else CONTROLS
    assert not forbidden.intersection(text), (args, terminal, text)


@pytest.mark.parametrize(
    "args",
    [
        ["query"],
        ["query", "--text"],
        ["invoke", "/notes", "read"],
        ["invoke", "/notes", "fail"],
        ["invoke", "/notes", EVIL],
        ["watch", "--count", "1"],
        ["watch", "--count", "2", "--json"],
    ],
    ids=lambda args: " ".join(args)[:24],
)
async def test_nothing_of_an_app_controls_a_terminal(address: str, args: list[str]) -> None:
    for terminal in (False, True):
        command = [args[0], address, *args[1:]]
        text = await asyncio.to_thread(printed, command, terminal=terminal)
        if args[0] == "watch" and terminal:
            text = text.replace("\x1b[H\x1b[2J\x1b[3J", "")
        check(command, text, terminal=terminal)


@pytest.mark.parametrize(
    "args",
    [
        ["ledger", "query", "SELECT * FROM messages"],
        ["ledger", "query", "SELECT '\x9b', char(155), char(27) AS \"\x9d\""],
        ["ledger", "query", 'SELECT * FROM "\x9b"'],
        ["ledger", "export", "1"],
        ["context", "--turn", "1"],
        ["context", "--turn", "1", "--json"],
        ["inspect", "--export", "1", "--output", "-"],
    ],
    ids=lambda args: " ".join(args)[:24],
)
def test_nothing_that_was_said_controls_a_terminal(db: str, args: list[str]) -> None:
    for terminal in (False, True):
        text = printed_here([*args, "--db", db], terminal=terminal)
        check(args, text, terminal=terminal)


def test_the_bytes_of_a_request_are_given_as_they_are_but_not_to_a_terminal(db: str) -> None:
    raw = ["context", "--turn", "1", "--raw", "--db", db]
    sent = printed_here(raw, terminal=False)
    assert "\x9b" in sent
    shown = printed_here(raw, terminal=True)
    assert not FORBIDDEN.intersection(shown)
    assert json.loads(re.sub(r"\n", "", shown)) == json.loads(sent)


def test_long_work_is_told_at_a_terminal_on_a_line_that_goes_and_nowhere_else(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def work() -> None:
        with out.Progress("lines read", after_s=0) as progress:
            assert list(progress.over([b"a", b"b"])) == [b"a", b"b"]
            progress(2_000, 3_000)

    work()
    assert capfd.readouterr() == ("", "")
    shown = at_terminal(work, dict(os.environ))
    assert shown.startswith("\r\x1b[Klines read: 1")
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("told", "args"),
    [
        (["messages verified"], ["ledger", "verify", "--db", "DB"]),
        (["copied", "messages of the copy verified"], ["ledger", "backup", "NEW", "--db", "DB"]),
        (["messages copied", "messages of the copy verified"], ["ledger", "copy", "DB", "NEW"]),
        (["lines written"], ["ledger", "export", "1", "--db", "DB", "--output", "NEW"]),
        (["lines read"], ["ledger", "import", "TALK", "--db", "NEW"]),
        (["sessions forgotten"], ["ledger", "prune", "--max-size", "1kB", "--yes", "--db", "COPY"]),
        (["turns read"], ["inspect", "--export", "1", "--db", "DB", "--output", "NEW"]),
        (["files read"], ["gateway", "--db", "NEW", "import", "TALK"]),
    ],
    ids=lambda value: " ".join(value[:3]) if value[0] in ("ledger", "inspect", "gateway") else "",
)
def test_what_may_take_long_says_what_it_does_and_how_far_it_is_at_a_terminal_alone(
    told: list[str], args: list[str], db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out.Progress.__init__, "__kwdefaults__", {"after_s": 0.0})
    talk = tmp_path / "talk.jsonl"
    printed_here(["ledger", "export", "1", "--db", db, "--output", str(talk)], terminal=False)

    def words(new: str) -> list[str]:
        copy = shutil.copy(db, tmp_path / f"copy of {new}")
        named = {"DB": db, "TALK": str(talk), "NEW": str(tmp_path / new), "COPY": str(copy)}
        return [named.get(word, word) for word in args]

    shown = printed_here(words("first"), terminal=True)
    for what in told:
        assert re.search(rf"\r\x1b\[K{what}: \d", shown), shown
    assert "\x1b" not in printed_here(words("second"), terminal=False)


def test_an_export_into_a_file_is_told_at_the_terminal_and_one_into_a_program_is_not(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out.Progress.__init__, "__kwdefaults__", {"after_s": 0.0})
    export = ["ledger", "export", "1", "--db", db]
    target = tmp_path / "talk.jsonl"
    read, write = os.pipe()
    with os.fdopen(write, "wb") as program, target.open("wb") as file:
        for stdout, told in ((file, True), (program, False)):
            shown = at_terminal(lambda: run(export), {}, stdout)
            assert ("lines written: 1" in shown) is told
    with os.fdopen(read, "rb") as reader:
        assert reader.read() == target.read_bytes()


@pytest.mark.parametrize("write", [out.say, out.tell, out.notice, out.Outlet().write])
def test_what_is_for_people_is_clean_wherever_it_goes(
    write: Callable[[str], object], capfd: pytest.CaptureFixture[str]
) -> None:
    write("\ud800".join(ATTACKS.values()))
    shown = capfd.readouterr()
    assert shown.out or shown.err
    assert not FORBIDDEN.intersection(shown.out + shown.err)


def test_what_is_logged_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler(stream := io.StringIO())
    monkeypatch.setattr(logging, "lastResort", handler)
    out.clean_logs()
    handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, "%s", ("\x9b31m",), None))
    assert stream.getvalue() == "\ufffd31m\n"
