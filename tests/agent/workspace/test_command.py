"""Commands: bounded in time and output, and nothing of them is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.workspace.conftest import wait_until_gone
from sightline.agent.models.keys import Key
from sightline.agent.workspace.command import HEAD, TAIL, Finished, leader, passed, run_command


def run(
    command: str, at: Path, timeout_s: float = 60, stop: threading.Event | None = None
) -> Finished:
    return run_command(
        command, at, timeout_s=timeout_s, stop=stop or threading.Event(), env=passed(os.environ)
    )


def test_a_command_runs_in_the_directory_and_says_how_it_ended(tmp_path: Path) -> None:
    done = run("pwd; echo problem >&2; exit 3", tmp_path)
    assert done.output == f"{tmp_path}\nproblem\n"
    assert (done.ended, done.exit_code) == ("exited", 3)


def test_it_gets_no_input(tmp_path: Path) -> None:
    assert run("cat; echo end", tmp_path).output == "end\n"


def timed_out(command: str, where: Path) -> Finished:
    """What a command that says something and does not end has said when its time was over."""
    done = run(command, where, timeout_s=0.3)
    # A busy machine may not even have started it.
    return done if done.output else run(command, where, timeout_s=30)


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    done = timed_out("echo begun; exec sleep 1000", tmp_path)
    assert (done.ended, done.output) == ("timed out", "begun\n")
    assert done.exit_code < 0


def test_one_that_does_not_listen_is_ended_too(tmp_path: Path) -> None:
    done = timed_out("trap '' TERM; echo $$; while :; do sleep 0.1; done", tmp_path)
    assert done.ended == "timed out"
    wait_until_gone(int(done.output))


def test_what_it_leaves_in_the_background_is_ended_with_it(tmp_path: Path) -> None:
    done = run("sleep 1000 & echo $!", tmp_path)
    assert done.ended == "exited"
    wait_until_gone(int(done.output))


def test_it_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert run("sleep 1000", tmp_path, stop=stop).ended == "stopped"


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
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "WORK_KEY", "DATABASE_URL", "ANYTHING"):
        monkeypatch.setenv(name, "not-for-commands")
    monkeypatch.setenv("LC_TIME", "C")
    output = run("env", tmp_path).output
    assert "not-for-commands" not in output
    assert "LC_TIME=C\n" in output
    assert "NO_COLOR=1\n" in output
    assert f"PATH={os.environ['PATH']}\n" in output


def test_a_known_key_is_blanked_in_what_a_command_says(tmp_path: Path) -> None:
    key = Key("correct horse battery", "a test")
    (tmp_path / "notes").write_text(f"{key.reveal()} staple\n")
    assert run("cat notes", tmp_path).output == "[redacted:known-key] staple\n"
    cut = HEAD - 12
    (tmp_path / "long").write_text("-" * cut + key.reveal() + "+" * 3 * TAIL)
    assert "correct" not in run("cat long", tmp_path).output


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands us what left its group")
@pytest.mark.parametrize(
    "leaving",
    [
        "setsid $BODY &",
        "setsid setsid $BODY &",
        "(trap '' TERM HUP; setsid $BODY &)",
        "nohup setsid sh -c '$BODY & $BODY' >/dev/null 2>&1 &",
    ],
)
@pytest.mark.parametrize("end", ["exit 3", "exec sleep 1000", "kill -9 $$"])
def test_what_leaves_its_group_is_ended_with_the_command(
    tmp_path: Path, leaving: str, end: str
) -> None:
    (tmp_path / "body").write_text("touch up\nexec sleep 1000\n")
    mark = f"MARK={tmp_path}"  # every descendant has it in its environment
    begin = f"export {mark} BODY='sh body'\n{leaving}\nwhile [ ! -e up ]; do :; done"
    done = run(f"{begin}\n{end}", tmp_path, timeout_s=3)
    assert done.exit_code in {3, -9, -15}
    assert not _marked(mark)


def _marked(mark: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in place.read_bytes():
                found.append(place.parent.name)
    return found


# Has the command's process tell the reaper to stop before it leads a group of its own.
_STOPPED_EARLY = """
import os, runpy, signal, sys
setsid, reaper = os.setsid, os.getpid()
def stopped_early():
    os.kill(reaper, signal.SIGTERM)
    while os.getppid() == reaper and signal.SIGTERM not in signal.sigpending():
        pass
    setsid()
os.setsid = stopped_early
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a command has a reaper on Linux alone")
def test_one_that_is_stopped_before_it_has_a_group_is_ended() -> None:
    command = [sys.executable, "-c", _STOPPED_EARLY, leader()[-1], "/bin/sh", "-c", ":"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


def test_a_signal_is_told_as_one(tmp_path: Path) -> None:
    assert run("kill -SEGV $$", tmp_path).exit_code == -signal.SIGSEGV
    assert run("exec definitely-not-there", tmp_path).exit_code == 127
