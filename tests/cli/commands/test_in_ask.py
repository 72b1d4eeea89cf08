"""Slash commands in `sightline ask`: what is typed is one, what is piped in is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sightline.events import CommandRan, decode_event
from support.person import environment
from support.shell import here
from support.vendors.answers import says
from support.vendors.server import Vendor


def ask(
    directory: Path, vendor: Vendor, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    around = environment(directory, vendor)
    done = here(directory, "ask", *arguments, stdin=stdin, env=around)
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def test_a_command_is_run_and_no_model_asked(tmp_path: Path) -> None:
    with Vendor() as vendor:
        done = ask(tmp_path, vendor, "/mode")
        assert vendor.requests == []
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Mode ask")


def test_what_a_command_says_is_an_event_for_a_program(tmp_path: Path) -> None:
    with Vendor() as vendor:
        done = ask(tmp_path, vendor, "--json", "/mode")
    [event] = [decode_event(line) for line in done.stdout.encode().splitlines()]
    assert isinstance(event, CommandRan)
    assert event.command == "/mode"
    assert event.text.startswith("Mode ask")


def test_a_wrong_command_is_invalid_input(tmp_path: Path) -> None:
    with Vendor() as vendor:
        done = ask(tmp_path, vendor, "/context drop x")
    assert done.returncode == 2
    assert done.stderr == (
        "sightline: Invalid value for 'GID': 'x' is not a valid number; usage: /context drop GID\n"
    )


def test_what_deletes_asks_nobody_and_does_nothing_without_yes(tmp_path: Path) -> None:
    with Vendor(says("Hello.")) as vendor:
        ask(tmp_path, vendor, "hi")
        assert "Nothing was deleted" in ask(tmp_path, vendor, "-c", "/message remove 1").stdout
        done = ask(tmp_path, vendor, "-c", "--yes", "/message remove 1")
    assert "Group 1 is deleted" in done.stdout


def test_a_pipe_may_begin_with_a_slash(tmp_path: Path) -> None:
    with Vendor(says("A list of files.")) as vendor:
        done = ask(tmp_path, vendor, stdin="/etc/hosts\n/etc/passwd\n")
    assert done.stdout == "A list of files.\n"
    assert b"/etc/hosts" in vendor.requests[0].body
