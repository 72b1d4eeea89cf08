"""`sightline gateway`: a program led through it, its output and exit code untouched."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from gateway.test_transcripts import Claude
from sightline import App
from sightline.cli.gateway import _Screen, chosen
from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput
from sightline.gateway.observer import Passed
from support.loopback import reserved_port
from support.shell import PROGRAM, Run
from support.vendors.answers import Ignores, says
from support.vendors.server import Vendor

ASKS = """
import json, os, sys, urllib.request
body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": sys.argv[1]}]}
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
    {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())
assert "SIGHTLINE_GATEWAY" not in os.environ, "a hook would leave the state of apps to a gateway"
sys.exit(3)
"""


def test_a_program_is_led_through_and_nothing_of_it_is_changed(
    tmp_path: Path, sightline: Run
) -> None:
    db = str(tmp_path / "l.db")
    with Vendor(says("hello there")) as vendor:
        environment = {**os.environ, **vendor.environment()}
        agent = [sys.executable, "-c", ASKS, "what is it?"]
        done = subprocess.run(
            [PROGRAM, "gateway", "--db", db, "--json", "--", *agent],
            env=environment, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 3
        assert b"event: message_start" in done.stdout
        [line] = done.stderr.splitlines()
        said = json.loads(line)
        assert said["model"] == "claude-opus-5-5"
        assert said["usage"]["input_tokens"] == 100
        [request] = vendor.requests
        assert json.loads(request.body)["messages"][0]["content"] == "what is it?"
    told = sightline("gateway", "--db", db, "report")
    assert b"80 reused" in told.stdout
    assert b"no two answered requests to compare" in told.stdout
    assert vendor.environment()["ANTHROPIC_API_KEY"].encode() not in Path(db).read_bytes()
    exported = sightline("ledger", "export", "1", "--db", db)
    assert b"what a gateway recorded is not in it: 1 exchanges" in exported.stderr
    assert b"exchange" not in exported.stdout


def test_single_requests_are_one_row_of_the_report(tmp_path: Path, sightline: Run) -> None:
    db = str(tmp_path / "l.db")
    rules = "Classify what is sent to you.\n" + "Be exact and brief. " * 900
    asks = (
        "import json, os, urllib.request\n"
        "for n in range(4):\n"
        f"    text = f'It is 10:00:{{n:02}}.\\n' + {rules!r}\n"
        "    block = {'type': 'text', 'text': text, 'cache_control': {'type': 'ephemeral'}}\n"
        "    body = {'model': 'claude-opus-5-5', 'system': [block],\n"
        "            'messages': [{'role': 'user', 'content': f'text {n}'}]}\n"
        "    url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
        "    urllib.request.urlopen(url, json.dumps(body).encode()).read()\n"
    )
    used = Usage(4_500, 1, 0, 4_500)
    with Vendor(*[says("yes", usage=used)] * 4) as vendor:
        subprocess.run(
            [PROGRAM, "gateway", "--db", db, "--", sys.executable, "-c", asks], check=True,
            env={**os.environ, **vendor.environment()}, timeout=60, capture_output=True,
        )  # fmt: skip
    lines = sightline("gateway", "--db", db, "report").stdout.decode().splitlines()
    assert lines[0] == "4 single requests"
    assert "in 3: a date or a time stands in the prefix" in lines[-1]
    losses = [
        json.loads(line).get("loss")
        for line in sightline("gateway", "report", "--db", db, "--json").stdout.splitlines()
    ]
    assert losses[0] is None
    assert {(one["path"], one["detail"]) for one in losses[1:]} == {
        ("system[0]", "between conversations")
    }


def test_a_transcript_is_imported_and_reported(tmp_path: Path, sightline: Run) -> None:
    talk = Claude()
    talk.turn(0, 20_000)
    talk.turn(0, 20_500, after=400)
    path, db = str(talk.write(tmp_path)), str(tmp_path / "l.db")
    done = sightline("gateway", "--db", db, "import", path)
    assert done.returncode == 0
    assert done.stdout.startswith(b"1 file: 2 requests new, 0 known already\n")
    assert b"in 1: the cache's lifetime ran out" in done.stdout
    again = sightline("gateway", "import", path, "--json", "--db", db)
    found = json.loads(again.stdout)
    assert found == {"files": 1, "new": 0, "known": 2, "sessions": [], "skipped": {}}
    told = sightline("gateway", "--db", db, "report")
    assert b"lost 20,000 tokens" in told.stdout
    assert b"are unknown" in told.stdout
    lines = sightline("gateway", "report", "--db", db, "--json").stdout.splitlines()
    assert [json.loads(line)["bytes"] for line in lines] == [None, None]
    page = sightline("gateway", "--db", db, "report", "--html", str(tmp_path / "r.html"))
    assert page.stdout.decode().strip() == str(tmp_path / "r.html")
    shown = (tmp_path / "r.html").read_text()
    assert "What is it?" in shown
    assert "the cache&#x27;s lifetime ran out (6 min since the last request)" in shown
    assert "are unknown" in shown
    assert sightline("gateway", "--db", db, "import", "/no/such/file").returncode == 2


async def test_with_a_tail_the_state_of_apps_is_in_the_request_and_the_hook_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("board", "Board")
    app.node("job")(lambda: {"type": "item", "props": {"state": "step 7"}})
    hook = [PROGRAM, "mcp", "hook"]
    told = json.dumps({"session_id": "s", "hook_event_name": "UserPromptSubmit"}).encode()
    lines = [
        "import subprocess, sys",
        f"done = subprocess.run({hook!r}, input={told!r}, capture_output=True)",
        "assert (done.returncode, done.stdout) == (0, b''), done",
        ASKS.replace('SIGHTLINE_GATEWAY" not in', 'SIGHTLINE_GATEWAY" in').replace(
            '"messages"', '"tools": [{"name": "t"}], "messages"'
        ),
    ]
    apps = tmp_path / "apps"
    apps.mkdir(mode=0o700)
    monkeypatch.setenv("SLOP_PROVIDERS", str(apps))
    async with app.serving(unix=apps / "board.sock"):
        with Vendor(says("hello there")) as vendor:
            environment = {**os.environ, **vendor.environment()}
            done = await asyncio.to_thread(
                subprocess.run,
                [PROGRAM, "gateway", "--db", str(tmp_path / "l.db"), "--tail", "whole", "--",
                 sys.executable, "-c", "\n".join(lines), "what is it?"],
                env=environment, capture_output=True, check=False, timeout=60,
            )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert b"state of" in done.stderr
    asked, state = json.loads(vendor.requests[0].body)["messages"]
    assert asked == {"role": "user", "content": "what is it?"}
    assert "step 7" in state["content"][0]["text"]
    assert b"step 7" not in (tmp_path / "l.db").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_that_was_on_its_way_is_kept_when_the_gateway_is_ended(
    tmp_path: Path, sightline: Run, number: signal.Signals
) -> None:
    db = str(tmp_path / "l.db")
    with Vendor(Ignores()) as vendor:
        environment = {**os.environ, **vendor.environment()}
        with subprocess.Popen(
            [PROGRAM, "gateway", "--db", db], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            address = server.stdout.readline().strip().partition("=")[2]
            asking = subprocess.Popen(
                [sys.executable, "-c", ASKS, "hm?"],
                env={**environment, "ANTHROPIC_BASE_URL": address}, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            assert vendor.arrived.wait(60)
            server.send_signal(number)
            _, said = server.communicate(timeout=60)
            asking.wait(60)
        assert server.returncode == 0
        assert "1 request, 1 failed or cut off" in said
    assert b"cut off" in sightline("gateway", "--db", db, "report").stdout


def test_a_killed_gateway_keeps_all_that_it_told_of_and_is_found_again(tmp_path: Path) -> None:
    db, body = tmp_path / "l.db", json.dumps({"model": "m", "messages": []}).encode()
    with reserved_port() as port, Vendor(says("hello there")) as vendor:
        command = [PROGRAM, "gateway", "--db", str(db), "--json", "--port", str(port)]
        environment = {**os.environ, **vendor.environment(), "XDG_STATE_HOME": str(tmp_path)}
        told: list[dict[str, Any]] = []

        def start() -> tuple[subprocess.Popen[str], str]:
            server = subprocess.Popen(
                command, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(3)]
            return server, lines[0].strip().partition("=")[2]

        def ask() -> None:
            reply = httpx2.post(f"{address}/v1/messages", content=body, timeout=60)
            assert b"message_stop" in reply.content

        def line() -> dict[str, Any]:
            assert server.stderr is not None
            return cast(dict[str, Any], json.loads(server.stderr.readline()))

        server, address = start()
        with server:
            ask()
            told.append(line())
            unlimited = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, -1))  # a full disk
            ask()
            assert "not kept" in line()["trouble"]
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
            ask()
            told.append(line())
            vendor.add(Ignores())
            vendor.arrived.clear()
            with ThreadPoolExecutor() as pool:
                asking = pool.submit(ask)
                assert vendor.arrived.wait(60)
                server.kill()
                server.wait()
                assert isinstance(asking.exception(), httpx2.RemoteProtocolError | httpx2.ReadError)
        with pytest.raises(httpx2.ConnectError):
            ask()
        vendor.add(says("hello again"))
        server, again = start()
        with server:
            assert again == address
            ask()
            told.append(line())
            server.terminate()
    with Ledger(db, mode="read") as ledger:
        found = [ledger.exchanges.list(session.id) for session in ledger.sessions.recent()]
    # Single requests without a history are a session each.
    kept = sorted(exchange.id for exchanges in found for exchange in exchanges)
    assert kept == [line["exchange"] for line in told]
    [secret] = (tmp_path / "sightline").glob("gateway-*")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text() in address


def test_a_ledger_that_cannot_be_opened_stops_no_traffic(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Vendor(says("hello there")) as vendor:
        done = subprocess.run(
            [PROGRAM, "gateway", "--db", str(tmp_path / "file" / "l.db"), "--",
             sys.executable, "-c", ASKS, "hm?"],
            env={**os.environ, **vendor.environment()}, capture_output=True, check=False,
            timeout=60,
        )  # fmt: skip
    assert done.returncode == 3
    assert b"event: message_stop" in done.stdout
    assert b"nothing is recorded" in done.stderr


def test_a_program_that_is_not_there_is_said(sightline: Run) -> None:
    done = sightline("gateway", "--record", "off", "--", "no-such-program-here")
    assert done.returncode == 2
    assert b"no-such-program-here" in done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_no_key_that_a_vendor_repeats_is_shown(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    key = "sk-ant-api03-" + "xY7" * 30
    passed = Passed("", "anthropic", "m", 401, 1, 1, 1, error=f"no such key: {key}")
    _Screen(as_json=as_json, held=False).show(passed)
    shown = capsys.readouterr().err
    assert "no such key" in shown
    assert key not in shown


def test_what_went_wrong_is_said_once_where_a_program_had_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = _Screen(as_json=False, held=True)
    for _ in range(2):
        screen.show(Passed("", "anthropic", "m", 200, 1, 1, 1, trouble="not kept: full"))
    assert capsys.readouterr().err == ""
    screen.end()
    assert capsys.readouterr().err.count("not kept: full") == 1


def test_where_requests_go_is_said_or_as_the_environment_has_it() -> None:
    found = chosen(["openai=http://127.0.0.1:9/v2"], {"ANTHROPIC_BASE_URL": "http://there/"})
    assert found["openai"] == "http://127.0.0.1:9/v2"
    assert found["anthropic"] == "http://there"
    assert found["gemini"].startswith("https://")
    assert chosen(["http://127.0.0.1:9"], {})["openai"] == "http://127.0.0.1:9/v1"
    assert chosen([], {"OPENAI_BASE_URL": "http://a/b/"})["openai"] == "http://a/b"
    nowhere = ("http://", "http://[::1", "http://a:b", "http://a\r\nb: c", "https://a/?key=b")
    for wrong in ("nowhere=http://x", "file:///etc", *nowhere):
        with pytest.raises(InvalidInput):
            chosen([wrong], {})


@pytest.mark.parametrize("end", ["/v1", "/v1beta/openai"])
def test_an_address_that_does_not_end_as_usual_is_kept_as_it_is(end: str) -> None:
    asks = """
import os, urllib.error, urllib.request
with contextlib.suppress(urllib.error.HTTPError):
    urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models")
"""
    with Vendor() as vendor:
        environment = {**os.environ, "OPENAI_BASE_URL": vendor.url + end}
        agent = [sys.executable, "-c", f"import contextlib{asks}"]
        command = [PROGRAM, "gateway", "--record", "off", "--", *agent]
        subprocess.run(command, env=environment, check=True, timeout=60, stderr=subprocess.DEVNULL)
        assert [request.path for request in vendor.requests] == [f"{end}/models"]


def test_without_a_recorded_session_the_report_says_so(sightline: Run, tmp_path: Path) -> None:
    sightline("ledger", "--help")
    done = sightline("gateway", "--db", str(tmp_path / "none.db"), "report")
    assert done.returncode == 2
