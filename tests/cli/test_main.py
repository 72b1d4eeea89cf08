"""The root command: help, version, exit codes, and no traceback ever."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from sightline._distribution import __version__
from sightline.cli import EXIT_CODES
from sightline.cli.main import COMMANDS, cli, run
from sightline.errors import SightlineError
from support.shell import PROGRAM, Run


def test_help_lists_every_command_and_every_exit_code(sightline: Run) -> None:
    text = sightline("--help").stdout.decode()
    for name, (_, summary) in COMMANDS.items():
        assert name in text
        assert summary in text
    for code, meaning in EXIT_CODES.items():
        assert f"{code}  {meaning}" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    assert isinstance(getattr(import_module(module), attribute), click.Command)


def test_version_is_the_package_version(sightline: Run) -> None:
    assert sightline("--version").stdout.decode() == f"sightline, version {__version__}\n"


def test_an_unknown_command_is_a_usage_error(sightline: Run) -> None:
    done = sightline("dance")
    assert done.returncode == 2
    assert done.stderr.decode() == "sightline: No such command 'dance'. (see 'sightline --help')\n"


def test_an_unknown_option_says_where_to_look(sightline: Run) -> None:
    done = sightline("tree", "format", "--sideways")
    assert done.returncode == 2
    assert done.stderr.decode().endswith("(see 'sightline tree format --help')\n")


def test_an_error_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("so\nsorry")

    monkeypatch.setattr(cli, "main", broken)
    assert run([]) == 1
    assert capsys.readouterr().err == (
        "sightline: unexpected ZeroDivisionError: so sorry (SIGHTLINE_DEBUG=1 shows where)\n"
    )


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "main", broken)
    monkeypatch.setenv("SIGHTLINE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run([])


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, click.exceptions.Abort])
def test_an_interruption_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    def stopped(**_: object) -> None:
        raise interruption

    monkeypatch.setattr(cli, "main", stopped)
    assert run([]) == 130


def test_an_interruption_while_the_program_is_loaded_is_no_traceback() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from sightline.cli import main"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    wide = b'{"id":"r","type":"t","children":[' + b",".join(
        b'{"id":"n%d","type":"t"}' % i for i in range(20_000)
    ) + b"]}"  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", f"'{PROGRAM}' tree format | head -n 1; echo ${{PIPESTATUS[0]}}"],
        input=wide,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == b"[t] r\n0\n"
    assert done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
@pytest.mark.parametrize("command", ["--help", "tree format"])
def test_a_full_disk_is_one_line_and_an_exit_code(command: str) -> None:
    wide = b'{"id":"r","type":"t","properties":{"text":"%s"}}' % (b"x" * 20_000)
    done = subprocess.run(
        ["bash", "-c", f"exec '{PROGRAM}' {command} > /dev/full"],
        input=wide,
        capture_output=True,
        timeout=60,
        check=False,
    )
    line = b"sightline: the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (9, line)


@pytest.mark.parametrize(
    ("command", "code"),
    [("tree check", 0), ("tokens", 0), ("ledger path", 0), ("tree check nowhere", 2)],
)
@pytest.mark.parametrize("without", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_changes_no_exit_code(
    command: str, code: int, without: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f"exec '{PROGRAM}' {command} {without}"],
        input=b'{"id":"r","type":"t"}',
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"unexpected" not in done.stderr
    assert done.returncode == (2 if command == "tree check" and "<&-" in without else code)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
@pytest.mark.parametrize(
    ("command", "code"), [("tokens", 0), ("tree check nowhere", 2), ("tokens > /dev/full", 9)]
)
def test_what_cannot_be_said_on_stderr_changes_no_exit_code(command: str, code: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f"exec '{PROGRAM}' {command} 2> /dev/full"],
        input=b"text",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code


def test_every_error_has_a_code_of_its_own_and_a_documented_exit() -> None:
    found: list[type[SightlineError]] = [SightlineError]
    for error in found:
        found.extend(error.__subclasses__())
    codes = [error.code for error in found]
    assert len(set(codes)) == len(codes)
    assert {error.exit_code for error in found} <= set(EXIT_CODES)
