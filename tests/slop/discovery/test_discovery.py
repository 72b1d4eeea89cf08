"""Descriptors: written whole, believed only after every check."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sightline.errors import InvalidInput, Unauthorized, Unreachable
from sightline.slop.discovery import directory as module
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES, Descriptor, Stdio, Unix, Ws
from sightline.slop.discovery.directory import Directory, Discovery, announced, standard_directories
from sightline.slop.hub.address import dial_address, dial_descriptor

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="takes a second user")
NOBODY = 65534

GOOD: dict[str, Any] = {
    "id": "mail",
    "name": "Mail",
    "slop_version": "0.1",
    "transport": {"type": "unix", "path": "/run/mail.sock"},
    "capabilities": ["state", "patches"],
}
MAIL = Descriptor("mail", "Mail", Unix("/run/mail.sock"), ("state", "patches"), os.getpid())


def put(directory: Path, file: str = "mail.json", /, **changes: Any) -> Path:
    path = directory / file
    path.write_text(json.dumps({**GOOD, **changes}))
    path.chmod(0o600)
    return path


def gone_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_descriptor_comes_back_as_it_was_written(tmp_path: Path) -> None:
    home = tmp_path / "slop" / "providers"
    with announced(MAIL, home) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert [item.name for item in home.iterdir()] == ["mail.json"]
        assert Discovery([home]).look().descriptors == (MAIL,)
    assert list(home.iterdir()) == []


def test_only_ones_own_descriptor_is_removed(tmp_path: Path) -> None:
    with announced(MAIL, tmp_path):
        put(tmp_path, pid=os.getppid())
    assert (tmp_path / "mail.json").exists()


@pytest.fixture
def running() -> Iterator[list[int]]:
    """The pids of two processes that run."""
    with ExitStack() as stack:  # each ends with its stdin
        words = ["cat"], ["cat"]
        yield [stack.enter_context(subprocess.Popen(w, stdin=subprocess.PIPE)).pid for w in words]


def test_an_app_that_runs_keeps_its_place_and_the_next_one_finds_another(
    tmp_path: Path, running: list[int]
) -> None:
    second, third = (replace(MAIL, pid=pid) for pid in running)
    with announced(MAIL, tmp_path) as first:
        with announced(second, tmp_path) as beside, announced(third, tmp_path):
            assert (first.name, beside.name) == ("mail.json", "mail-2.json")
            found = Discovery([tmp_path]).look()
            assert found.descriptors == (
                MAIL,
                replace(second, id="mail-2"),
                replace(third, id="mail-3"),
            )
            assert found.ignored == ()
        assert Discovery([tmp_path]).look().descriptors == (MAIL,)
    assert list(tmp_path.iterdir()) == []


def test_who_is_gone_or_is_oneself_is_replaced(tmp_path: Path) -> None:
    for pid in (gone_pid(), os.getpid()):
        put(tmp_path, pid=pid)
        with announced(MAIL, tmp_path) as path:
            assert path.name == "mail.json"
            assert Discovery([tmp_path]).look().descriptors == (MAIL,)


def test_an_id_of_any_length_can_be_told_from_another(tmp_path: Path, running: list[int]) -> None:
    long = replace(MAIL, id="m" * 128)
    with announced(long, tmp_path), announced(replace(long, pid=running[0]), tmp_path) as path:
        assert path.name == f"{'m' * 120}-2.json"


def test_unknown_fields_are_no_reason_to_ignore_an_app(tmp_path: Path) -> None:
    put(tmp_path, icon="✉", version="2.1", description="Mail for Mara")
    [found] = Discovery([tmp_path]).look().descriptors
    assert (found.version, found.description) == ("2.1", "Mail for Mara")


def test_the_first_directory_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for directory, name in ((first, "First"), (second, "Second")):
        directory.mkdir()
        put(directory, name=name)
    found = Discovery([first, second, tmp_path / "missing"]).look()
    assert [item.name for item in found.descriptors] == ["First"]
    assert found.ignored == ()


def link_to(directory: Path) -> None:
    real = put(directory.parent, "real.json")
    (directory / "mail.json").symlink_to(real)


def fifo(directory: Path) -> None:
    os.mkfifo(directory / "mail.json", 0o600)


def folder(directory: Path) -> None:
    (directory / "mail.json").mkdir()


def with_modes(file: int = 0o600, directory: int = 0o700) -> Callable[[Path], object]:
    def write(at: Path) -> None:
        put(at).chmod(file)
        at.chmod(directory)

    return write


def text(content: bytes) -> Callable[[Path], object]:
    def write(directory: Path) -> None:
        (directory / "mail.json").write_bytes(content)

    return write


def fields(**changes: Any) -> Callable[[Path], object]:
    return lambda directory: put(directory, **changes)


def without(field: str) -> Callable[[Path], object]:
    left = {name: value for name, value in GOOD.items() if name != field}
    return text(json.dumps(left).encode())


HOSTILE: list[tuple[str, Callable[[Path], object], str]] = [
    ("a symbolic link", link_to, "symbolic links"),
    ("a pipe", fifo, "regular"),
    ("a directory", folder, "regular"),
    ("a file its group can write", with_modes(0o620), "others can write to it"),
    ("a file others can write", with_modes(0o602), "others can write to it"),
    ("a directory its group can write", with_modes(directory=0o720), "write to the directory"),
    ("a directory others can write", with_modes(directory=0o702), "write to the directory"),
    ("a huge file", text(b" " * (DESCRIPTOR_BYTES + 1)), "at most"),
    ("an empty file", text(b""), "not a descriptor"),
    ("no JSON", text(b"{"), "not a descriptor"),
    ("no object", text(b"[]"), "not a descriptor"),
    ("deep nesting", text(b"[" * 60_000), "not a descriptor"),
    ("no UTF-8", text(b'{"id": "\xff"}'), "UTF-8"),
    ("UTF-16", text(json.dumps(GOOD).encode("utf-16")), ""),
    ("a lone surrogate", fields(name="\ud800"), ""),
    ("no id", without("id"), "id"),
    ("no name", without("name"), "name"),
    ("no version", without("slop_version"), "slop_version"),
    ("no transport", without("transport"), "transport"),
    ("a number for an id", fields(id=7), "id"),
    ("an id with a slash", fields(id="../mail"), "letters"),
    ("an id that hides", fields(id=".mail"), "letters"),
    ("an empty id", fields(id=""), "letters"),
    ("an id with a line break", fields(id="mail\n"), "letters"),
    ("a long id", fields(id="m" * 200), "letters"),
    ("another app's id", fields(id="bank"), "names itself"),
    ("an empty name", fields(name=""), "name"),
    ("a name that fakes a line", fields(name="Mail\nbank  Bank"), "control"),
    ("a name that moves the cursor", fields(name="\x1b[2J"), "control"),
    ("a long description", fields(description="d" * 2000), "description"),
    ("another protocol", fields(slop_version="9.0"), "speaks SLOP"),
    ("no known transport", fields(transport={"type": "tcp", "port": 1}), "tcp"),
    ("a transport that is a string", fields(transport="unix:/x"), "transport"),
    ("no socket path", fields(transport={"type": "unix"}), "path"),
    ("a relative path", fields(transport={"type": "unix", "path": "x.sock"}), "absolute"),
    ("a path upward", fields(transport={"type": "unix", "path": "/a/../x"}), "absolute"),
    ("a path with NUL", fields(transport={"type": "unix", "path": "/a\0b"}), "absolute"),
    ("a long path", fields(transport={"type": "unix", "path": "/" + "é" * 90}), "107"),
    ("a page", fields(transport={"type": "ws", "url": "http://localhost/"}), "WebSocket"),
    ("a file URL", fields(transport={"type": "ws", "url": "file:///etc/passwd"}), "WebSocket"),
    ("another machine", fields(transport={"type": "ws", "url": "ws://evil.example/"}), "machine"),
    ("a look-alike", fields(transport={"type": "ws", "url": "ws://localhost.evil/"}), "machine"),
    ("a user", fields(transport={"type": "ws", "url": "ws://localhost@evil/"}), "machine"),
    ("a password", fields(transport={"type": "ws", "url": "ws://u:p@localhost/"}), "machine"),
    ("a bad port", fields(transport={"type": "ws", "url": "ws://localhost:x/"}), "machine"),
    ("no command", fields(transport={"type": "stdio", "command": []}), "command"),
    ("a command line", fields(transport={"type": "stdio", "command": "rm -rf /"}), "command"),
    ("an empty word", fields(transport={"type": "stdio", "command": [""]}), "command"),
    ("a negative pid", fields(pid=-1), "pid"),
    ("pid zero", fields(pid=0), "pid"),
    ("a huge pid", fields(pid=2**40), "pid"),
    ("a text for a pid", fields(pid="1"), "pid"),
    ("a process that is gone", lambda at: put(at, pid=gone_pid()), "is gone"),
    ("too many capabilities", fields(capabilities=["x"] * 65), "capabilities"),
    ("a capability that is a number", fields(capabilities=[1]), "capabilities"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("bait", "reason"), [item[1:] for item in HOSTILE], ids=[item[0] for item in HOSTILE]
)
def test_what_cannot_be_trusted_is_ignored_with_a_reason(
    bait: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    directory = tmp_path / "providers"
    directory.mkdir(mode=0o700)
    bait(directory)
    found = Discovery([directory]).look()
    assert found.descriptors == ()
    [ignored] = found.ignored
    assert reason in ignored.reason


def test_a_sticky_directory_is_as_good_as_ones_own(tmp_path: Path) -> None:
    put(tmp_path)
    tmp_path.chmod(0o1777)
    assert len(Discovery([tmp_path]).look().descriptors) == 1


@AS_ROOT
def test_a_file_or_directory_of_another_user_is_ignored(tmp_path: Path) -> None:
    path = put(tmp_path)
    os.chown(path, NOBODY, NOBODY)
    [ignored] = Discovery([tmp_path]).look().ignored
    assert ignored.reason == "belongs to another user"
    os.chown(path, os.getuid(), os.getgid())
    os.chown(tmp_path, NOBODY, NOBODY)
    [ignored] = Discovery([tmp_path]).look().ignored
    assert ignored.reason == "the directory belongs to another user"
    with pytest.raises(InvalidInput, match="another user"):
        Directory(tmp_path).register(MAIL)


def test_a_crowded_directory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_FILES", 3)
    for n in range(5):
        put(tmp_path, f"app-{n}.json", id=f"app-{n}")
    found = Discovery([tmp_path]).look()
    assert len(found.descriptors) == 3
    assert "only the first 3" in found.ignored[0].reason


def test_the_environment_can_name_other_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLOP_PROVIDERS", raising=False)
    lasting, ephemeral = standard_directories()
    assert lasting == Path.home() / ".slop" / "providers"
    assert str(ephemeral) == "/tmp/slop/providers"  # noqa: S108 - the protocol's own
    monkeypatch.setenv("SLOP_PROVIDERS", "/a:/b")
    assert standard_directories() == (Path("/a"), Path("/b"))


@pytest.mark.parametrize("native", [True, False], ids=["watchfiles", "polling"])
async def test_coming_and_going_is_seen(
    native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(module, "_watchfiles", lambda: None)
    looks = Discovery([tmp_path], poll_s=0.02).watch()
    async with asyncio.timeout(20):
        assert (await anext(looks)).descriptors == ()
        with announced(MAIL, tmp_path):
            assert (await anext(looks)).descriptors == (MAIL,)
        assert (await anext(looks)).descriptors == ()
    await looks.aclose()  # type: ignore[attr-defined] # an async generator


async def test_addresses_lead_where_they_say(tmp_path: Path) -> None:
    discovery = Discovery([tmp_path])
    put(tmp_path)
    for address in ("mail", "unix:/run/none.sock", "ws://127.0.0.1:1/slop", "stdio:/no/such"):
        with pytest.raises(Unreachable):
            await dial_address(address, discovery=discovery)()
    with pytest.raises(Unreachable, match="no app 'bank'"):
        dial_address("bank", discovery=discovery)
    for wrong in ("", "tcp:1", "unix:", "stdio: ", "a/b"):
        with pytest.raises(InvalidInput, match="not an address"):
            dial_address(wrong, discovery=discovery)


async def test_a_command_that_was_found_is_not_run_without_consent(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    found = Descriptor("tool", "Tool", Stdio(("touch", str(trace))))
    with pytest.raises(Unauthorized, match="consent"):
        await dial_descriptor(found)()
    assert not trace.exists()
    link = await dial_descriptor(found, consent=True)()
    assert await link.receive() is None
    await link.close()
    assert trace.exists()


def test_an_illegal_descriptor_cannot_be_made() -> None:
    with pytest.raises(InvalidInput, match="letters"):
        Descriptor("a/b", "A", Unix("/x"))
    with pytest.raises(InvalidInput, match="machine"):
        Descriptor("a", "A", Ws("ws://evil.example/"))


def test_a_place_that_is_no_directory_is_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    [ignored] = Discovery([file]).look().ignored
    assert ignored.reason == "Not a directory"
    monkeypatch.setenv("SLOP_PROVIDERS", f"{tmp_path}/lasting:{file}/under")
    with announced(MAIL) as path:
        assert path == tmp_path / "lasting" / "mail.json"


@pytest.mark.parametrize(
    ("transport", "address"),
    [
        (Unix("/run/a.sock"), "unix:/run/a.sock"),
        (Ws("ws://localhost:1/slop"), "ws://localhost:1/slop"),
        (Stdio(("a", "--b")), "stdio:a"),
    ],
    ids=["unix", "ws", "stdio"],
)
async def test_every_descriptor_has_an_address(transport: Unix | Ws | Stdio, address: str) -> None:
    found = Descriptor("a", "A", transport)
    assert found.address == address
    with pytest.raises((Unreachable, Unauthorized)):
        await dial_descriptor(found)()
