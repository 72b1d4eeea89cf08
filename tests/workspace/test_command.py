"""Commands: bounded in time and output, and nothing of them is left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sightline.workspace.command import HEAD, TAIL, Finished, environment, run_command
from workspace.conftest import wait_until_gone


def run(
    command: str, at: Path, timeout_s: float = 60, stop: threading.Event | None = None
) -> Finished:
    return run_command(command, at, timeout_s=timeout_s, stop=stop or threading.Event())


def test_a_command_runs_in_the_directory_and_says_how_it_ended(tmp_path: Path) -> None:
    done = run("pwd; echo problem >&2; exit 3", tmp_path)
    assert done.output == f"{tmp_path}\nproblem\n"
    assert (done.ended, done.exit_code) == ("exited", 3)


def test_it_gets_no_input(tmp_path: Path) -> None:
    assert run("cat; echo end", tmp_path).output == "end\n"


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    done = run("echo begun; exec sleep 1000", tmp_path, timeout_s=0.3)
    assert (done.ended, done.output) == ("timed out", "begun\n")
    assert done.exit_code < 0


def test_one_that_does_not_listen_is_ended_too(tmp_path: Path) -> None:
    done = run("trap '' TERM; echo $$; while :; do sleep 0.1; done", tmp_path, timeout_s=0.3)
    assert done.ended == "timed out"
    wait_until_gone(int(done.output))


def test_what_it_leaves_in_the_background_is_ended_with_it(tmp_path: Path) -> None:
    done = run("sleep 1000 & echo $!", tmp_path)
    assert done.ended == "exited"
    wait_until_gone(int(done.output))


def test_it_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert run("sleep 1000", tmp_path, stop=stop).ended == "cancelled"


def test_a_command_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    done = run("exec >&- 2>&-; sleep 0.2; exit 4", tmp_path)
    assert (done.ended, done.exit_code) == ("exited", 4)


def test_a_flood_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    done = run("echo first; yes middle | head -c 3000000; echo last", tmp_path)
    assert done.output.startswith("first\nmiddle\n")
    assert done.output.endswith("last\n")
    assert "bytes left out" in done.output
    assert len(done.output) < HEAD + TAIL + 100


def test_a_flood_without_end_is_ended(tmp_path: Path) -> None:
    done = run("yes", tmp_path, timeout_s=0.3)
    assert done.ended == "timed out"
    assert len(done.output) < HEAD + TAIL + 100


def test_colours_and_other_sequences_are_taken_out(tmp_path: Path) -> None:
    done = run(r"printf '\033[31mred\033[0m \033]0;title\007plain\033[2J'", tmp_path)
    assert done.output == "red plain"


def test_keys_are_not_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-x")
    monkeypatch.setenv("GITHUB_TOKEN", "x")
    monkeypatch.setenv("HARMLESS", "yes")
    output = run("env", tmp_path).output
    assert "sk-ant-x" not in output
    assert "GITHUB_TOKEN" not in output
    assert "HARMLESS=yes" in output
    assert environment({"A": "1"})["NO_COLOR"] == "1"
