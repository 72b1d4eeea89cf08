"""Many apps, one world: who is there, what they show, and what is not state any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.workspace.conftest import wait_until_gone
from sightline.errors import InvalidInput, Unreachable
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.discovery.descriptor import Descriptor, Stdio, Unix
from sightline.slop.discovery.directory import Discovery, announced
from sightline.slop.hub.client import Backoff
from sightline.slop.hub.hub import Hub, WantedApp
from sightline.slop.protocol.world import World
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import serve_unix
from support.live import LiveApp

SOON = Backoff(first_s=0.001, max_s=0.05)
START = datetime(2026, 1, 1, tzinfo=UTC)


@contextlib.asynccontextmanager
async def running(directory: Path, app: LiveApp) -> AsyncIterator[None]:
    """An app that has announced itself."""
    own = app.provider.info.id
    path = directory / f"{own}.sock"
    descriptor = Descriptor(own, "Announced", Unix(str(path)), pid=os.getpid())
    async with serve_unix(app.handle, path):
        with announced(descriptor, directory):
            yield


async def until(hub: Hub, holds: Callable[[World], bool]) -> World:
    async with asyncio.timeout(20):
        async for world in hub.changes():
            if holds(world):
                return world
    raise AssertionError("the hub has ended")


def shows(app_id: str, status: str) -> Callable[[World], bool]:
    def holds(world: World) -> bool:
        app = world.app(app_id)
        return app is not None and app.status == status

    return holds


def available(hub: Hub) -> list[str]:
    return [item.id for item in hub.world.available]


def hub_over(directory: Path, **options: object) -> Hub:
    return Hub(
        Discovery([directory], poll_s=0.02),
        backoff=SOON,
        clock=lambda: START,
        **options,  # type: ignore[arg-type] # test input
    )


async def test_apps_come_change_and_go(tmp_path: Path) -> None:
    mail, notes = LiveApp(app_id="mail"), LiveApp(app_id="notes")
    async with hub_over(tmp_path) as hub:
        assert hub.world.apps == ()
        async with running(tmp_path, mail):
            world = await until(hub, shows("mail", "connected"))
            app = world.app("mail")
            assert app is not None
            assert (app.name, app.tree, app.last_seen) == ("Live", mail.tree, None)
            async with running(tmp_path, notes):
                both = await until(hub, shows("notes", "connected"))
                assert [item.id for item in both.apps] == ["mail", "notes"]
                await hub.invoke("notes", "/", "count")
                counted = await until(hub, lambda world: world is not both)
                assert counted.app("mail") is both.app("mail")
                assert (await hub.query("notes", depth=0)).id == "app"
        lost = (await until(hub, shows("mail", "disconnected"))).app("mail")
        assert lost is not None
        assert lost.tree == mail.tree
        assert lost.last_seen == "2026-01-01T00:00:00Z"
        assert lost.reason
        async with running(tmp_path, LiveApp(app_id="mail", epoch="2")):
            await until(hub, shows("mail", "connected"))
    assert [world async for world in hub.changes()] == [hub.world]


async def test_a_world_never_changes(tmp_path: Path) -> None:
    async with running(tmp_path, LiveApp(app_id="mail")), hub_over(tmp_path) as hub:
        before = await until(hub, shows("mail", "connected"))
        shown = before.app("mail")
        await hub.invoke("mail", "/", "count")
        after = await until(hub, lambda world: world is not before)
        assert before.app("mail") is shown
        assert after.app("mail") != shown


async def test_a_lazy_hub_connects_when_asked_and_lets_go_when_idle(tmp_path: Path) -> None:
    lazy = hub_over(tmp_path, lazy=True, idle_s=3600)
    async with running(tmp_path, LiveApp(app_id="mail")), lazy as hub:
        assert hub.world.apps == ()
        assert available(hub) == ["mail"]
        assert (await hub.query("mail", depth=0)).id == "app"
        assert available(hub) == []
        hub._idle_s = 0.05
        await hub.client("mail")
        await until(hub, lambda world: not world.apps)
        assert available(hub) == ["mail"]


def office() -> App:
    app = App("office", "Office", coalesce_s=0)
    for name in ("inbox", "desk"):
        pen = {"id": "pen", "items": [{"id": "ink", "props": {"of": name}}]}
        app.view(name, summary=f"the {name}")(lambda pen=pen: {"items": [pen]})
    app.action("/", "navigate")(lambda to: app.focus(to))
    return app


async def test_an_overview_and_a_detail_of_one_app_share_its_connection() -> None:
    dials = 0
    app = office()

    async def dial() -> Link:
        nonlocal dials
        dials += 1
        return await local_dial(app)()

    async with asyncio.timeout(20), Hub(wanted=WantedApp(depth=1), backoff=SOON) as hub:
        hub.add("office", dial)
        detail = await hub.watch("office", "/inbox", depth=-1)
        assert (await detail.first(20)).at("/pen/ink").properties == {"of": "inbox"}
        world = await until(hub, shows("office", "connected"))
        overview = world.apps[0].tree
        assert overview is not None
        assert [child.children for child in overview.children] == [(), ()]
        await hub.invoke("office", "/", "navigate", {"to": "desk"})
        # The old view is a stub now, and the overview says so without another subscription.
        assert detail.tree is not None
        assert (detail.tree.children, detail.tree.meta.summary) == ((), "the inbox")
        detail.close()
        other = await hub.watch("office", "/desk", depth=-1)
        assert (await other.first(20)).at("/pen/ink").properties == {"of": "desk"}
        moved = (await until(hub, lambda world: world.apps[0].tree is not overview)).apps[0].tree
        assert moved is not None
        assert [child.meta.focus for child in moved.children] == [None, True]
        assert dials == 1
        with pytest.raises(Unreachable):
            await hub.watch("nobody")
    await app.close()


async def test_a_lazy_hub_keeps_what_is_watched(tmp_path: Path) -> None:
    lazy = hub_over(tmp_path, lazy=True, idle_s=3600)
    async with running(tmp_path, LiveApp(app_id="mail")), lazy as hub:
        watch = await hub.watch("mail", "/inbox")
        await watch.first(20)
        seat = hub._seats["mail"]
        for _ in range(3):  # its time is up, and up again
            hub._expire("mail", seat)
            assert hub._seats.get("mail") is seat
        watch.close()
        hub._expire("mail", seat)
        await until(hub, lambda world: not world.apps)


async def test_a_lazy_hub_does_not_let_go_of_who_is_asked_something(tmp_path: Path) -> None:
    lazy = hub_over(tmp_path, lazy=True, idle_s=3600)
    async with running(tmp_path, LiveApp(app_id="mail")), lazy as hub:
        asked = asyncio.create_task(hub.invoke("mail", "/", "hang"))
        while "mail" not in hub._seats:
            await asyncio.sleep(0)
        seat = hub._seats["mail"]
        hub._expire("mail", seat)  # while it is being connected
        await until(hub, shows("mail", "connected"))
        while not seat.client._waiting:
            await asyncio.sleep(0)
        hub._expire("mail", seat)  # while it is being asked
        assert hub._seats.get("mail") is seat
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        hub._expire("mail", seat)
        await until(hub, lambda world: not world.apps)


async def test_a_command_waits_for_consent(tmp_path: Path) -> None:
    tool = Descriptor("tool", "Tool", Stdio(("/no/such/program",)))
    with announced(tool, tmp_path):
        async with hub_over(tmp_path) as hub:
            assert available(hub) == ["tool"]
            assert hub.world.available[0].transport == "stdio"
        async with hub_over(tmp_path, consent=lambda _: True) as hub:
            world = await until(hub, shows("tool", "disconnected"))
            assert "No such file" in world.apps[0].reason


HELLO = (
    '{"type":"hello","provider":{"id":"mail","name":"Mail","slop_version":"0.1","capabilities":[]}}'
)


async def test_a_command_is_started_once_and_ends_with_whoever_is_not_let_in(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "app.sh").write_text(f"echo $$ >> {pids}\necho '{HELLO}'\nexec cat >/dev/null\n")
    address = f"stdio:sh {tmp_path / 'app.sh'}"
    async with Hub.connect(address, within_s=0) as hub:
        assert str(hub.origin("mail")) == f"command: sh {tmp_path / 'app.sh'}"
        assert len(pids.read_text().split()) == 1
    with pytest.raises(InvalidInput, match="connected already"):
        async with Hub.connect(address, address):
            pass
    with pytest.raises(Unreachable):
        async with Hub.connect(address, f"unix:{tmp_path / 'nobody.sock'}"):
            pass
    for pid in pids.read_text().split():
        wait_until_gone(int(pid))


async def test_an_app_can_be_added_and_removed_by_hand() -> None:
    async def dial() -> object:
        raise Unreachable("nobody home")

    async with Hub(backoff=SOON) as hub:
        hub.add("mail", dial, name="Mail")  # type: ignore[arg-type] # never links
        world = await until(hub, shows("mail", "disconnected"))
        assert (world.apps[0].name, world.apps[0].reason) == ("Mail", "nobody home")
        with pytest.raises(Unreachable):
            await hub.query("mail")
        await hub.remove("mail")
        assert hub.world.apps == ()
        with pytest.raises(Unreachable, match="no app 'mail'"):
            await hub.client("mail")


async def test_an_app_that_withdrew_and_is_gone_leaves_the_world_in_the_end(tmp_path: Path) -> None:
    async with hub_over(tmp_path, idle_s=0.05) as hub:
        async with running(tmp_path, LiveApp(app_id="mail")):
            await until(hub, shows("mail", "connected"))
        await until(hub, lambda world: not world.apps)
