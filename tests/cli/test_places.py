"""Files that cannot be looked for, and directories that are gone: told in a line, with a code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from sightline.agent.models.keys import know_secrets
from sightline.context.messages.redact import redact
from support.shell import PROGRAM, here

LONG = "a" * 300  # no file system here takes such a name, and every look for it fails

NAMED = [
    ({}, "ledger verify --db {}/l.db"),
    ({}, "ledger verify --since {}"),
    ({}, "ledger copy {} copy.db"),
    ({}, "ledger query --db {} x"),
    ({}, "ask hi --model local:{}.gguf"),
    ({"SIGHTLINE_LEDGER": "{}"}, "context"),
    ({"XDG_CONFIG_HOME": "{}"}, "config show"),
    ({"XDG_CONFIG_HOME": "{}"}, "doctor"),
]


@pytest.mark.parametrize(("env", "command"), NAMED)
def test_a_file_that_cannot_be_looked_for_is_a_mistake_of_whoever_named_it(
    env: dict[str, str], command: str, tmp_path: Path
) -> None:
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    given = {name: value.format(tmp_path / LONG) for name, value in env.items()}
    done = here(tmp_path, *command.format(tmp_path / LONG).split(), env=home | given)
    assert done.returncode == 2, done.stderr
    assert b"unexpected" not in done.stderr


def test_an_examination_goes_on_where_a_directory_cannot_be_looked_into(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / LONG), "PATH": "/usr/bin:/bin"}
    done = here(tmp_path, "doctor", env=env)
    assert done.stderr == b""
    assert b"terminal" in done.stdout


@pytest.mark.parametrize("command", ["ask hi", "chat", "gateway -- true"])
def test_a_directory_that_is_gone_is_told(command: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["bash", "-c", f"cd '{gone}' && rmdir '{gone}' && exec '{PROGRAM}' {command}"],
        capture_output=True, timeout=60, check=False,
        env={"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert b"sightline: the current directory: No such file or directory" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/mcp", b"the current directory: No such file or directory"),
        ("look at @it", b"the current directory: No such file or directory"),
        ("hello", b"ollama:none: "),
    ],
)
def test_a_directory_that_goes_away_does_not_end_the_chat(
    line: str, told: bytes, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with subprocess.Popen(
        [PROGRAM, "chat", "--model", "ollama:none"], cwd=gone, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, bufsize=0,
    ) as chat:  # fmt: skip
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write(b"/mode\n")
        assert chat.stdout.read(1)  # the directory was opened
        gone.rmdir()
        chat.stdin.write(f"{line}\n/mode plan\n".encode())
        said, errors = chat.communicate(timeout=60)
    assert b"plan" in said
    assert told in errors
    assert b"unexpected" not in errors


def test_a_secret_that_looks_like_a_path_is_a_secret_whatever_its_length() -> None:
    know_secrets({"SOME_API_KEY": f"/{LONG}"})
    assert LONG not in redact(f"it says /{LONG}")
