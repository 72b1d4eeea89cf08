"""Two users of one machine: neither stops the other, and neither reaches into the other's apps."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.discovery import directory as module
from sightline.slop.discovery.descriptor import Descriptor, Unix
from sightline.slop.discovery.directory import Directory, Discovery, announced
from sightline.slop.transports.owned import write_private
from sightline.slop.transports.sockets import Users
from sightline.slop.transports.unix import serve_unix
from support.live import LiveApp
from support.stranger import AS_ROOT, NOBODY, SOMEBODY, as_user, command_as, machine

MAIL = Descriptor("mail", "Mail", Unix("/run/mail.sock"), pid=os.getpid())

SERVE = """
async def main():
    async with App("desk", "Desk").serving() as [address], Hub(Discovery()) as hub:
        [found] = Discovery().look().descriptors
        await hub.client("desk")
        places = os.environ["SLOP_PROVIDERS"].split(":")
        tell({"found": found.address == address, "origin": str(hub.origin("desk")),
              "places": [place for place in places if os.access(f"{place}/desk.json", os.F_OK)]})
asyncio.run(main())
"""
HOMELESS = """
async def main():
    async with App("desk", "Desk").serving() as [address], Client(dial_address(address)) as client:
        tell((await client.ready()).id)
asyncio.run(main())
"""
INVOKE = """
async def main():
    told = []
    for address in {addresses!r}:
        try:
            async with Client(dial_address(address), reconnect=False) as client:
                await client.invoke("/", "delete")
                told.append("done")
        except Exception as error:
            told.append(type(error).__name__)
    tell(told)
asyncio.run(main())
"""


def nothing(_: Path) -> None:
    pass


def made(*modes: int, owner: int = 0) -> Callable[[Path], None]:
    """`slop` and `slop/providers` as somebody made them who came first."""

    def make(shared: Path) -> None:
        for path, mode in zip(
            (shared / "slop", shared / "slop" / "providers"), modes, strict=False
        ):
            path.mkdir()
            os.chown(path, owner, owner)
            path.chmod(mode)

    return make


def link(shared: Path) -> None:
    (shared / "slop").symlink_to(shared.parent)
    os.lchown(shared / "slop", SOMEBODY, SOMEBODY)


def file(shared: Path) -> None:
    (shared / "slop").write_text("")


FIRST: list[tuple[str, Callable[[Path], None]]] = [
    ("nobody was there", nothing),
    ("root, for itself", made(0o700, 0o700)),
    ("root, as mkdir does", made(0o755, 0o755)),
    ("root, sticky", made(0o1777, 0o1777)),
    ("root, for all", made(0o777, 0o777)),
    ("another user, for itself", made(0o700, 0o700, owner=SOMEBODY)),
    ("another user, as mkdir does", made(0o755, 0o755, owner=SOMEBODY)),
    ("another user, as bait", made(0o777, 0o777, owner=SOMEBODY)),
    ("another user, only the first part", made(0o777, owner=SOMEBODY)),
    ("another user, a link", link),
    ("another user, a file", file),
]  # fmt: skip


@AS_ROOT
@pytest.mark.parametrize("first", [item[1] for item in FIRST], ids=[item[0] for item in FIRST])
def test_an_app_is_served_and_found_whoever_has_the_shared_directory(
    first: Callable[[Path], None],
) -> None:
    with machine() as (shared, homes):
        first(shared)
        lasting = homes[NOBODY] / ".slop" / "providers"
        directories = f"{lasting}:{shared}/slop/providers"
        told = as_user(NOBODY, SERVE, SLOP_PROVIDERS=directories, HOME=str(homes[NOBODY]))
        assert told["found"]
        assert told["origin"].endswith(f"(user {NOBODY})")
        [place] = told["places"]
        held = Path(place).stat()
        mine = held.st_uid == NOBODY and not held.st_mode & 0o022
        sticky = held.st_uid == 0 and bool(held.st_mode & stat.S_ISVTX)
        assert mine or sticky


@AS_ROOT
def test_the_demo_runs_for_the_second_user_too() -> None:
    with machine() as (shared, homes):
        made(0o755, 0o755)(shared)
        there = {
            "SLOP_PROVIDERS": f"{homes[NOBODY]}/.slop/providers:{shared}/slop/providers",
            "HOME": str(homes[NOBODY]),
        }
        command = command_as(NOBODY, "sys.exit(run(['demo']))", **there)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
            assert demo.stdout is not None
            assert demo.stdout.readline().startswith(b"unix:/")
            look = "tell([item.id for item in Discovery().look().descriptors])"
            assert as_user(NOBODY, look, **there) == ["desk"]
            assert as_user(SOMEBODY, look, **there) == []
            demo.send_signal(signal.SIGINT)


@AS_ROOT
def test_a_user_without_a_home_serves_as_well() -> None:
    with machine() as (shared, _):
        made(0o755, 0o755)(shared)
        directories = f"/nonexistent/.slop/providers:{shared}/slop/providers"
        assert as_user(NOBODY, HOMELESS, SLOP_PROVIDERS=directories) == "desk"


@AS_ROOT
async def test_another_user_cannot_act_in_an_app(tmp_path: Path) -> None:
    app, deleted = App("mail", "Mail"), []
    app.action("/", "delete", dangerous=True)(lambda: deleted.append("all"))
    with machine() as (shared, _):
        place = shared / "mine" / "mail.sock"
        choices: tuple[Users, ...] = ("own", "any")
        for users in choices:
            serving = app.serving(port=0, unix=place, directory=tmp_path, users=users)
            async with serving as addresses:
                code = INVOKE.format(addresses=list(addresses))
                told = await asyncio.to_thread(as_user, NOBODY, code)
                assert (told, deleted) == (["Unreachable", "Unauthorized"], [])
                token = repr(addresses.token)
                code = code.replace("(address)", f"(address, token={token})")  # what it cannot know
                told = await asyncio.to_thread(as_user, NOBODY, code)
                done = ["Unauthorized", []] if users == "own" else ["done", ["all"]]
                assert (told[0], told[1], deleted) == ("Unreachable", *done)


def lay(kind: str, shared: Path, target: Path) -> Path:
    """Put a link where a directory of descriptors is looked for, as another user could."""
    where = shared / "slop" if kind == "parent" else shared / "slop" / "providers"
    if kind == "child":
        made(0o1777)(shared)
    where.symlink_to(target.parent if kind == "parent" else target)
    os.lchown(where, NOBODY, NOBODY)
    return shared / "slop" / "providers"


@AS_ROOT
@pytest.mark.parametrize("kind", ["parent", "child"])
async def test_a_link_of_another_user_is_not_followed(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "providers"
    with announced(MAIL, target), machine() as (shared, _):
        place = lay(kind, shared, target)
        found = Discovery([place]).look()
        assert found.descriptors == ()
        assert "symbolic link that another user controls" in found.ignored[0].reason
        with pytest.raises(InvalidInput, match="symbolic link"):
            Directory(place).register(Descriptor("new", "New", MAIL.transport))
        Directory(place).unregister(MAIL)
        with pytest.raises(InvalidInput, match="symbolic link"):
            async with serve_unix(LiveApp().handle, place / "a.sock"):
                pytest.fail("served where another user chose")
        assert [path.name for path in target.iterdir()] == ["mail.json"]


def test_ones_own_link_and_one_of_the_system_are_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (tmp_path / "link").symlink_to("real")
    with announced(MAIL, tmp_path / "link" / "providers") as path:
        assert path == tmp_path / "link" / "providers" / "mail.json"
        assert [item.name for item in (real / "providers").iterdir()] == ["mail.json"]
        assert Discovery([tmp_path / "link" / "providers"]).look().descriptors == (MAIL,)


def test_links_that_lead_nowhere_or_round_and_round_are_no_directory(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "gone").symlink_to("nothing/there")
    [ignored] = Discovery([tmp_path / "a", tmp_path / "gone"]).look().ignored
    assert "symbolic links" in ignored.reason


def test_a_link_where_others_can_swap_it_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    with announced(MAIL, real):
        (tmp_path / "link").symlink_to(real)
        tmp_path.chmod(0o777)
        [ignored] = Discovery([tmp_path / "link"]).look().ignored
        assert "symbolic link" in ignored.reason
        tmp_path.chmod(0o700)


def test_a_directory_swapped_after_the_check_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, bait, moved = tmp_path / "providers", tmp_path / "bait", tmp_path / "moved"
    bait.mkdir()
    write = write_private

    def swap(directory: int, name: str, data: bytes) -> None:
        place.rename(moved)
        place.symlink_to(bait)
        write(directory, name, data)

    monkeypatch.setattr(module, "write_private", swap)
    Directory(place).register(MAIL)
    assert list(bait.iterdir()) == []
    assert [path.name for path in moved.iterdir()] == ["mail.json"]


def test_a_file_with_a_second_name_does_not_count(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    place.mkdir()
    with announced(MAIL, elsewhere) as path:
        (place / "mail.json").hardlink_to(path)
        [ignored] = Discovery([place]).look().ignored
        assert ignored.reason == "has another name (a hard link)"


def test_what_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        Directory(tmp_path).register(MAIL)
    assert list(tmp_path.iterdir()) == []
