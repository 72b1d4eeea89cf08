"""`sightline tail`, `tools` and `bridge`: what goes in, what comes out, and mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from sightline.context.projection.moment import parse_moment
from sightline.context.projection.tail import render_tail
from sightline.context.projection.tools import fixed_tools
from sightline.demo import demo_tree
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.world import AppState, AvailableApp, World
from support.shell import PROGRAM, Run

AT = "2026-04-28T10:30:00Z"
DEMO = encode(demo_tree()).decode()
APP = f'{{"id":"desk","name":"Desk","tree":{DEMO}}}'
INPUT = f'{{"apps":[{APP}],"available":[{{"id":"notes","name":"Notes"}}]}}'
WORLD = World((AppState("desk", "Desk", tree=demo_tree()),), (AvailableApp("notes", "Notes"),))


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_tail_writes_the_blocks(sightline: Run, form: str) -> None:
    done = sightline("tail", "--at", AT, "--format", form, stdin=INPUT)
    assert done.returncode == 0
    assert done.stderr == b""
    expected = render_tail(WORLD, parse_moment(AT), form).text  # type: ignore[arg-type]  # one of three
    assert done.stdout.decode() == expected + "\n"


def test_tail_reads_a_file_and_says_now_by_default(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "world.json").write_text(INPUT)
    first = sightline("tail", "world.json").stdout.decode().split("\n")[0]
    moment = first.removeprefix('<slop-apps-available generated_at="').removesuffix('">')
    assert parse_moment(moment).microsecond == 0


def test_tail_within_a_budget_lists_what_it_left_out(sightline: Run) -> None:
    done = sightline("tail", "--at", AT, "--budget", "250", stdin=INPUT)
    assert done.returncode == 0
    assert len(done.stdout) // 4 < 300
    assert b"desk /: 2 nodes cut (budget)\n" in done.stderr or b"(budget)" in done.stderr
    tiny = sightline("tail", "--budget", "5", stdin=INPUT)
    assert (tiny.returncode, tiny.stdout) == (6, b"")
    assert b"more than 5" in tiny.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["--at", "noon"], INPUT, "not an RFC 3339 timestamp"),
        (["--format", "xml"], INPUT, "'xml' is not one of"),
        ([], "{", "stdin: line 1, column 2"),
        ([], '{"apps":[{"id":"a","tree":{"id":"a"}}]}', "stdin: apps[0]: /"),
        (["nowhere.json"], "", "nowhere.json: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    sightline: Run, arguments: list[str], stdin: str, message: str
) -> None:
    done = sightline("tail", *arguments, stdin=stdin)
    assert done.returncode == 2
    assert done.stdout == b""
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_tools_are_fixed_unless_asked(sightline: Run) -> None:
    answer = json.loads(sightline("tools").stdout)
    assert answer == {"tools": json.loads(fixed_tools().tools_json()), "resolve": {}}


def test_dynamic_tools_come_with_their_map(sightline: Run) -> None:
    answer = json.loads(sightline("tools", "--style", "dynamic", stdin=DEMO).stdout)
    assert answer["resolve"]["msg_104__reply"] == {"path": "/inbox/msg-104", "action": "reply"}
    assert set(answer["resolve"]) == {tool["name"] for tool in answer["tools"]}
    named = json.loads(
        sightline("tools", "--style", "dynamic", "--app", "my desk", stdin=DEMO).stdout
    )
    assert named["resolve"]["my_desk__inbox__compose"] == {
        "app": "my desk", "path": "/inbox", "action": "compose",
    }  # fmt: skip
    grouped = json.loads(
        sightline("tools", "--style", "dynamic", "--group-from", "2", stdin=DEMO).stdout
    )
    assert grouped["resolve"]["inbox__archive"]["paths"][0] == "/inbox/msg-104"


def test_tools_refuse_what_is_no_tree(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"id":"a"}')
    for style in ("fixed", "dynamic"):
        done = sightline("tools", "--style", style, "bad.json")
        assert done.returncode == 2
        assert b"bad.json: /" in done.stderr


def test_a_bridge_is_written_and_read(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "world.json").write_text(INPUT)
    written = sightline(
        "bridge", "--file", "t", "--from", "world.json", "--once", "--pid", str(os.getpid())
    )
    assert (written.stdout, written.returncode) == (b"t\n", 0)
    read = sightline("bridge", "--file", "t", "--read")
    assert read.stdout.startswith(b"<slop-apps-available ")
    assert read.stdout.endswith(b"</slop-state>\n")


def test_a_bridge_whose_writer_is_gone_gives_nothing_and_says_why(
    sightline: Run, tmp_path: Path
) -> None:
    (tmp_path / "world.json").write_text(INPUT)
    command = [PROGRAM, "bridge", "--file", "t", "--from", "world.json", "--once"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    read = sightline("bridge", "--file", "t", "--read")
    assert (read.stdout, read.returncode) == (b"", 0)
    assert b"is gone" in read.stderr


def test_a_running_bridge_stops_when_told_and_takes_its_file_along(tmp_path: Path) -> None:
    (tmp_path / "world.json").write_text(INPUT)
    command = [PROGRAM, "bridge", "--file", "t", "--from", "world.json", "--window", "0.3"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == b"sightline: writing t; Ctrl-C stops\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert not (tmp_path / "t").exists()
