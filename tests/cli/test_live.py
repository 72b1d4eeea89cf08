"""`sightline apps|query|invoke|watch` against a provider that runs."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from sightline import ActionError, App
from sightline.cli.main import run as run_here
from sightline.slop.transports.link import Peer
from sightline.slop.transports.websocket import serve_websocket
from support.live import LiveApp, announced_app, command
from support.shell import PROGRAM
from support.web import served

pytestmark = pytest.mark.usefixtures("app")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[None]:
    """An app that has announced itself."""
    with announced_app(tmp_path, LiveApp()):
        yield


class Done(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


Run: TypeAlias = Callable[[str], Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line, in this process and looking for apps in the test's own directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))

    def run(line: str) -> Done:
        code = run_here(shlex.split(line))
        return Done(code, *capfd.readouterr())

    return run


def test_apps_are_listed(run: Run, tmp_path: Path) -> None:
    assert run("apps").out == f"live  Live  unix:{tmp_path}/live.sock\n"
    [line] = run("apps --json").out.splitlines()
    listed = json.loads(line)
    assert (listed["id"], listed["address"]) == ("live", f"unix:{tmp_path}/live.sock")


def test_no_apps_is_no_error_and_ignored_ones_can_be_explained(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "bad.json").write_text("{")
    monkeypatch.setenv("SLOP_PROVIDERS", str(elsewhere))
    assert run("apps") == (0, "", "no app has announced itself\n")
    assert "bad.json: not a descriptor" in run("apps --all").err


def test_a_query_writes_the_tree(run: Run) -> None:
    tree = json.loads(run("query unix:live.sock /inbox --depth 0").out)
    assert (tree["id"], tree["meta"]["total_children"]) == ("inbox", 3)
    seen = json.loads(run("query live --min-salience 0.6").out)
    assert [child["id"] for child in seen["children"]] == ["inbox"]
    window = json.loads(run("query live /inbox --window 1,1").out)
    assert [child["id"] for child in window["children"]] == ["msg-2"]
    text = run("query live /inbox --types collection --text").out
    assert text.startswith("[collection] inbox: Inbox")


def test_a_provider_can_be_started_for_one_question(run: Run) -> None:
    done = run(shlex.join(["query", f"stdio:{shlex.join(command('--stdio'))}", "--depth", "0"]))
    assert json.loads(done.out)["id"] == "app"


def test_an_invoke_writes_the_outcome(run: Run) -> None:
    done = run("""invoke live / echo --params '{"a": [1, null]}'""")
    assert json.loads(done.out) == {"status": "ok", "data": {"a": [1, None]}}
    assert json.loads(run("invoke live / count").out)["data"] == {"n": 1}


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("invoke live / fail", 5, "conflict: not now"),
        ("invoke live /inbox explode", 5, "not_found"),
        ("invoke live / echo --params '['", 2, "not a JSON object"),
        ("invoke live / echo --params '[]'", 2, "object"),
        (f"""invoke live / echo --params '{{"a": {"[" * 50_000}'""", 2, "deeper than 640"),
        ("""invoke live / echo --params '{"a": "\udcff"}'""", 2, "not a JSON object"),
        ("invoke live / hang --timeout 0.1", 4, "no answer within 0.1 s"),
        ("query live /nowhere", 2, "not_found"),
        ("query live --window x", 2, "--window"),
        ("query bank", 4, "no app 'bank'"),
        ("query unix:missing.sock", 4, "missing.sock"),
        ("query ws://127.0.0.1:1/slop", 4, "refused"),
        ("query stdio:/no/such/program", 4, "No such file"),
        ("query stdio:true", 4, "the connection is gone"),
        ("query gopher:live", 2, "not an address"),
        ("query 'stdio:\"unclosed'", 2, 'stdio:"unclosed: no closing quotation'),
        ("watch live /nowhere", 2, "not_found"),
        ("watch unix:missing.sock", 4, "missing.sock"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(run: Run, line: str, code: int, says: str) -> None:
    done = run(line)
    assert (done.code, done.out) == (code, "")
    [complaint] = done.err.splitlines()
    assert says in complaint


async def test_a_token_is_needed_where_one_is_set(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve_websocket(LiveApp().handle, token="s3cret") as url:
        asked = ["query", url, "--depth", "0"]
        assert await asyncio.to_thread(run_here, asked) == 3
        assert "401" in capfd.readouterr().err
        assert await asyncio.to_thread(run_here, [*asked, "--token", "s3cret"]) == 0
        monkeypatch.setenv("SIGHTLINE_TOKEN", "s3cret")
        assert await asyncio.to_thread(run_here, asked) == 0
        assert "s3cret" not in "".join(capfd.readouterr())


async def test_who_an_app_does_not_let_in_is_told_why(capfd: pytest.CaptureFixture[str]) -> None:
    app = App("notes", "Notes")

    @app.authenticate
    def who(peer: Peer) -> str:
        if peer.token != "s3cret":
            raise ActionError("unauthorized", "bring a token\x1b[31m")
        return "ana"

    async with served(app.asgi()) as place:
        asked = ["query", f"ws://{place}/slop"]
        assert await asyncio.to_thread(run_here, [*asked, "--token", "guess"]) == 3
        assert capfd.readouterr() == ("", "sightline: unauthorized: bring a token\u241b[31m\n")
        assert await asyncio.to_thread(run_here, [*asked, "--token", "s3cret"]) == 0
        assert json.loads(capfd.readouterr().out)["id"] == "notes"


def watching(directory: Path, *options: str, **popen: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "SLOP_PROVIDERS": str(directory), **popen.pop("env", {})}
    command = [PROGRAM, "watch", "live", *options]
    return subprocess.Popen(command, cwd=directory, env=environment, **popen)


def test_watch_writes_one_event_a_line_and_waits_for_a_provider_that_goes(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    app = LiveApp()
    with announced_app(own, app):
        watch = watching(own, "--json", "--count", "6", stdout=subprocess.PIPE)
        assert watch.stdout is not None
        events = [json.loads(watch.stdout.readline()) for _ in range(2)]
        assert (events[0]["event"], events[0]["provider"]["id"]) == ("connected", "live")
        assert (events[1]["event"], events[1]["tree"]["id"]) == ("snapshot", "app")
        app.publish(app.tree.with_property("n", 1))
        patch = json.loads(watch.stdout.readline())
        assert (patch["event"], patch["ops"]) == (
            "patch",
            [{"op": "replace", "path": "/properties/n", "value": 1}],
        )
    with announced_app(own, LiveApp(epoch="2")):
        events = [json.loads(watch.stdout.readline()) for _ in range(3)]
        assert [event["event"] for event in events] == ["disconnected", "connected", "snapshot"]
        assert watch.wait(30) == 0
    watch.stdout.close()


def read_until(terminal: int, mark: bytes) -> None:
    shown = b""
    while mark not in shown:
        assert select.select([terminal], [], [], 30)[0], shown
        shown += os.read(terminal, 4096)


def test_watch_writes_whole_trees_into_a_pipe(run: Run) -> None:
    assert run("watch live /inbox --depth 0 --count 1").out.startswith("[collection] inbox")
    [_, snapshot] = run("watch live /inbox --depth 0 --json --count 2").out.splitlines()
    assert json.loads(snapshot)["tree"]["id"] == "inbox"


@pytest.mark.parametrize(
    ("environment", "mark"),
    [({"NO_COLOR": ""}, b"\x1b[32m[root]"), ({"NO_COLOR": "1"}, b"* [root]")],
)
def test_watch_marks_what_changed_on_a_terminal(
    run: Run, tmp_path: Path, environment: dict[str, str], mark: bytes
) -> None:
    ours, theirs = pty.openpty()
    options = ("--depth", "1", "--count", "2")
    watch = watching(tmp_path, *options, stdout=theirs, env={"TERM": "xterm", **environment})
    os.close(theirs)
    read_until(ours, b"[root] app (n=0)")
    run("invoke live / count")
    read_until(ours, mark)
    assert watch.wait(30) == 0
    os.close(ours)
