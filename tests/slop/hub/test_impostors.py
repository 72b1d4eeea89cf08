"""What an app says of itself in its hello is believed only where nobody could be misled by it."""

# ruff: noqa: RUF001 - ambiguous characters are what this is about

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from sightline.agent.workspace.workspace import APP_ID
from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.discovery.descriptor import Descriptor, Unix
from sightline.slop.discovery.directory import Discovery, FoundApps
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Backoff, Client, Lost
from sightline.slop.hub.hub import Hub
from sightline.slop.hub.origin import Origin
from sightline.slop.protocol.consumer import Garbled
from sightline.slop.protocol.ids import OWN_APPS, app_id_problem, app_name_problem, reads_as_own
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import serve_unix
from support.impostors import IDS, NAMES, Impostor, is_misleading, serves

HOSTILE = [
    "", " ", "wоrkspace", "work\u200bspace", "work\nspace", "\x1b[2Jworkspace", "w" * 5000,
    "\u202eecapskrow", "../workspace", "workspace\x00", "ｗｏｒｋｓｐａｃｅ", ".workspace",
]  # fmt: skip


def test_the_ids_of_our_own_apps_are_kept() -> None:
    assert APP_ID in OWN_APPS


@pytest.mark.parametrize("app_id", HOSTILE, ids=ascii)
async def test_a_hello_with_an_illegal_id_ends_the_connection(app_id: str, tmp_path: Path) -> None:
    impostor = Impostor(app_id, "Mail")
    async with serve_unix(serves(impostor), tmp_path / "a.sock") as address:
        async with Client(dial_address(address), reconnect=False) as client:
            with pytest.raises(InvalidInput, match="its hello is not believed") as refused:
                await client.ready()
            assert client.provider is None
        assert str(refused.value).isascii()
        assert len(str(refused.value)) < 800
        async with Hub() as hub:
            with pytest.raises(InvalidInput, match="an app's id must be"):
                hub.add(app_id, dial_address(address))


async def test_an_app_that_answers_in_the_place_of_another_is_let_go(tmp_path: Path) -> None:
    links: list[Link] = []

    async def dial() -> Link:
        links.append(await dial_address(answering[0])())
        return links[-1]

    async with (
        serve_unix(serves(Impostor("mail", "Mail")), tmp_path / "a.sock") as first,
        serve_unix(serves(Impostor("bank", "Mail")), tmp_path / "b.sock") as second,
    ):
        answering = [first]
        async with Client(dial, backoff=Backoff(first_s=0.0)) as client:
            lost = asyncio.Queue[Lost]()
            client.listen(lambda event: lost.put_nowait(event) if isinstance(event, Lost) else None)
            assert (await client.ready()).id == "mail"
            answering[0] = second
            await links[0].close()
            reason = (await lost.get()).reason
            while not isinstance(reason, InvalidInput):
                reason = (await lost.get()).reason
            assert str(reason) == "another app answers there: it was mail and is bank now"
            assert client.provider is not None
            assert client.provider.id == "mail"


@pytest.mark.parametrize("name", [name for _, name in NAMES[::7]], ids=ascii)
async def test_an_id_stands_for_a_name_that_cannot_be_shown(name: str, tmp_path: Path) -> None:
    heard: list[object] = []
    async with serve_unix(serves(Impostor("mail", name)), tmp_path / "a.sock") as address:
        client = Client(dial_address(address), reconnect=False)
        client.listen(heard.append)
        async with client:
            assert (await client.ready()).name == "mail"
        [told] = [event for event in heard if isinstance(event, Garbled)]
        assert "its name, for which its id stands" in told.reason
        async with Hub() as hub:
            hub.add("mail", dial_address(address), name="Mail")
            await hub.client("mail")
            assert [app.name for app in hub.world.apps] == ["mail"]


@pytest.mark.parametrize(
    "name",
    [
        "Mail",
        "Почта",
        "邮件",
        "📬 Mail",
        "👩\u200d💻 Notes",
        "❤️ Care",
        "می\u200cخواهم",
        "Mail & Co.",
    ],
)
def test_a_name_may_be_of_any_script(name: str) -> None:
    assert app_name_problem(name) is None


@pytest.mark.parametrize(
    "app_id",
    ["mail", "Mail-2", "org.example.mail", "a", "7zip", "workspaces", "my-workspace", "m" * 128],
)
def test_an_id_that_is_nobodys_else_is_legal(app_id: str) -> None:
    assert app_id_problem(app_id) is None
    assert not reads_as_own(app_id)


def test_whatever_could_be_taken_for_our_own_is_kept_or_illegal() -> None:
    for how, app_id in IDS:
        if is_misleading(app_id, longest=128):
            assert app_id_problem(app_id) or reads_as_own(app_id), how


@pytest.mark.parametrize(
    "app_id", ["workspace", "Workspace", "work-space", "w0rkspace", "workspace-2"]
)
async def test_what_reads_as_our_own_gets_no_seat(app_id: str, tmp_path: Path) -> None:
    impostor = Impostor(app_id, "Here")
    said = {
        "id": app_id, "name": "Here", "slop_version": "0.1",
        "transport": {"type": "unix", "path": str(tmp_path / "a.sock")},
    }  # fmt: skip
    note = tmp_path / f"{app_id}.json"
    note.write_text(json.dumps(said))
    note.chmod(0o600)
    with pytest.raises(InvalidInput, match="kept for an app of the host's own"):
        Descriptor(app_id, "Here", Unix("/run/a.sock"))
    async with (
        serve_unix(serves(impostor), tmp_path / "a.sock") as address,
        Hub(Discovery([tmp_path])) as hub,
    ):
        assert not hub.world.apps
        assert not hub.world.available
        with pytest.raises(InvalidInput, match="kept for an app of the host's own"):
            hub.add(app_id, dial_address(address))
        ours = App("workspace", "Here")
        ours.action("/", "read")(lambda: "ours")
        hub.add("workspace", local_dial(ours), own=True)
        assert (await hub.invoke("workspace", "/", "read")).data == "ours"
        assert hub.origin("workspace") == Origin("own", "workspace")
    assert impostor.invoked == 0


async def test_a_descriptor_cannot_end_an_app_that_was_added_by_hand() -> None:
    async with Hub(lazy=True, idle_s=0) as hub:
        hub.add("mail", local_dial(App("mail", "Mail")))
        await hub.client("mail")
        hub._take(FoundApps((Descriptor("mail", "Other", Unix("/run/other.sock")),)))
        hub._take(FoundApps())  # withdrawn: what was found is let go of, after the idle time
        for _ in range(3):
            await hub.query("mail")
        assert hub.origin("mail") == Origin("memory", "mail")
