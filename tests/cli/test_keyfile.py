"""`--key-file`: a key that wins over the others, and is nowhere but in the request's header."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.agent.models.choose import open_with_key
from sightline.agent.models.keys import Key
from sightline.cli.main import run
from sightline.cli.opening import read_key
from sightline.config import EndpointSettings, Settings
from sightline.errors import InvalidInput
from support.person import environment
from support.shell import here
from support.vendors.answers import Sends, says
from support.vendors.asking import asked, end_of
from support.vendors.server import Vendor

GIVEN = "given-canary-fedcba9876543210"


def key_file(directory: Path, content: bytes = f"{GIVEN}\n".encode(), mode: int = 0o600) -> Path:
    path = directory / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def sightline(
    directory: Path, vendor: Vendor, *arguments: str, stdin: str = "", keys: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run in a home of its own, in whose environment there is another key unless told otherwise."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    around = environment(home, vendor)
    if not keys:
        around = {name: value for name, value in around.items() if not name.endswith("_API_KEY")}
    around["SIGHTLINE_MODEL"] = "openai-chat:test"
    done = here(home, *arguments, stdin=stdin, env=around)
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def given_to(vendor: Vendor) -> list[str]:
    return [request.headers["authorization"] for request in vendor.requests]


def left_in(directory: Path, done: subprocess.CompletedProcess[str]) -> list[str]:
    """Where the key is, of all that the program wrote."""
    files = [path for path in (directory / "home").rglob("*") if path.is_file()]
    assert any(path.name == "work.db" for path in files)
    told = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    written = {str(path): path.read_bytes() for path in files}
    return [name for name, data in {**told, **written}.items() if GIVEN.encode() in data]


def test_a_key_from_a_file_wins_and_stays_with_the_endpoint(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    lines = "hi\n/model openai-responses:other\nand again\n"
    with Vendor(says("Hello.")) as vendor:
        done = sightline(tmp_path, vendor, "chat", "--key-file", str(path), stdin=lines)
    assert done.returncode == 0, done.stderr
    assert given_to(vendor) == [f"Bearer {GIVEN}"] * 2
    assert [request.path for request in vendor.requests] == [
        "/v1/chat/completions",
        "/v1/responses",
    ]
    assert left_in(tmp_path, done) == []


def test_with_a_key_from_a_file_its_endpoint_is_among_the_usable(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    for flags, usable in (((), False), (("--key-file", str(path)), True)):
        with Vendor(says("Hello.")) as vendor:
            done = sightline(
                tmp_path, vendor, "ask", *flags, "--model", "anthropic", "/model", keys=False
            )
        named = done.stdout.partition("Usable now:")[2]
        assert ("anthropic:" in named) is usable, done.stderr


def test_a_key_that_a_vendor_repeats_is_told_to_nobody(tmp_path: Path) -> None:
    body = f'{{"error": {{"message": "Incorrect API key provided: {GIVEN}"}}}}'.encode()
    with Vendor(Sends(body, status=401)) as vendor:
        done = sightline(tmp_path, vendor, "ask", "--key-file", "-", "hi", stdin=f"{GIVEN}\n")
    assert (done.returncode, given_to(vendor)) == (3, [f"Bearer {GIVEN}"])
    assert "Check the key from the key file." in done.stderr
    assert GIVEN.encode() not in vendor.requests[0].body  # stdin is no part of the question
    assert left_in(tmp_path, done) == []


@pytest.mark.parametrize("arguments", [["ask"], ["ask", "-"], ["chat"]])
def test_stdin_is_not_the_key_and_what_is_said(
    capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run([*arguments, "--key-file", "-"]) == 2
    assert "give" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "mode", "complaint"),
    [
        (GIVEN, 0o640, r"others may read it \(mode 0640\): chmod 600"),
        (GIVEN, 0o604, "others may read it"),
        ("", 0o600, "no key in it"),
        (" \n\n", 0o600, "no key in it"),
        (GIVEN * 200, 0o600, "more than 4096 bytes"),
        (f"{GIVEN}\n{GIVEN}", 0o600, "more in it than one key"),
        (f"KEY = {GIVEN}", 0o600, "more in it than one key"),
        (f"{GIVEN}é", 0o600, "plain ASCII"),
    ],
)
def test_what_is_no_key_of_ones_own_is_refused_without_showing_it(
    tmp_path: Path, content: str, mode: int, complaint: str
) -> None:
    path = key_file(tmp_path, content.encode(), mode)
    with pytest.raises(InvalidInput, match=complaint) as refused:
        read_key(str(path))
    assert str(path) in str(refused.value)
    assert GIVEN not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidInput, match=str(path)):
            read_key(str(path))


@contextmanager
def piped(content: bytes) -> Iterator[str]:
    """A file as a shell's `<(…)` makes one."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def test_a_key_may_come_through_a_pipe_and_is_stripped() -> None:
    with piped(f"  {GIVEN}\r\n".encode()) as path:
        key = read_key(path)
    assert key.reveal() == GIVEN
    assert GIVEN not in repr(key)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [("", "name it, too, with --model"), ("local", "takes no key"), ("bedrock", "takes no key")],
)
def test_a_key_is_for_an_endpoint_that_takes_one(model: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        open_with_key(Settings(model=model), {}, Key(GIVEN, "the key file"))


async def test_an_endpoint_without_a_variable_gets_the_key_too() -> None:
    with Vendor(says("Hello.")) as vendor:
        endpoints = {"work": EndpointSettings(base_url=vendor.url)}
        settings = Settings(model="work:m", endpoints=endpoints)
        model, env = open_with_key(settings, {"OPENAI_API_KEY": "x"}, Key(GIVEN, "the key file"))
        assert end_of(await asked(model, "hi")).message.text == "Hello."
        await model.close()
    assert given_to(vendor) == [f"Bearer {GIVEN}"]
    assert env == {"OPENAI_API_KEY": "x"}
