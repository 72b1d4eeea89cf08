"""Trees over a broker: right, or known not to be, whatever happens on the way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InvalidInput, Unauthorized, Unreachable
from sightline.slop.app.app import App
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.hub import Hub
from sightline.slop.transports.nats import Assembler, Broker, _pieces, _Socket
from sightline.slop.transports.nats_link import connect_nats
from sightline.slop.transports.nats_url import NatsUrl
from support import nats
from support.loopback import listening
from support.on_broker import TROUBLES, VIEWS, Trouble, on_broker, until
from support.share import WHOLE
from support.shell import Run

pytestmark = pytest.mark.skipif(bool(nats.lacks()), reason=nats.lacks())
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl")


def test_pieces_of_two_messages_are_not_put_together() -> None:
    assembler = Assembler(1_000)
    first, second = (list(_pieces(message, 2)) for message in (b"aabb", b"ccdd"))
    assert assembler.take(first[0]) is None
    with pytest.raises(ValueError, match="missing"):
        assembler.take(second[1])


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(1, 9), st.data())
def test_a_message_arrives_whole_or_not_at_all(
    messages: list[bytes], most: int, data: st.DataObject
) -> None:
    sent = [piece for message in messages for piece in _pieces(message, most)]
    kept = data.draw(st.lists(st.sampled_from(range(len(sent))), max_size=2 * len(sent)))
    whole, broken = Assembler(1_000), Assembler(1_000)
    assert [found for piece in sent if (found := whole.take(piece)) is not None] == messages
    for at in sorted(kept):
        with contextlib.suppress(ValueError):
            assert broken.take(sent[at]) in {None, *messages}


def test_of_a_message_over_the_limit_one_byte_more_than_it_is_kept() -> None:
    assembler = Assembler(10)
    found = [assembler.take(piece) for piece in _pieces(b"x" * 35, 4)]
    assert found[-1] == b"x" * 11
    assert found[:-1] == [None] * 8
    with pytest.raises(ValueError, match="not a piece"):
        assembler.take(b"hello")


async def test_every_mirror_of_every_view_follows_late_ones_too() -> None:
    async with on_broker(seed=1) as world:
        for wanted in VIEWS * 2:
            world.mirror(**wanted)
            world.change(5)
            await asyncio.sleep(0)
        await world.settled()
        for _ in range(500 if WHOLE else 60):
            world.change()
            await asyncio.sleep(0)
        late = world.mirror()
        await world.settled()
        # Those of one view in one process have one tree.
        assert late.tree is not None
        assert late.tree == world.watches[0][0].tree


async def test_a_mirror_says_that_it_is_not_right_and_is_right_again() -> None:
    async def one(trouble: Trouble) -> None:
        async with on_broker(seed=2) as world:
            for wanted in VIEWS * 2:
                world.mirror(**wanted)
            await world.settled()
            await world.trouble(trouble)
            await world.settled()

    await asyncio.gather(*map(one, TROUBLES))  # each waits for seconds, and does little


async def test_a_view_is_published_once_and_asked_for_once_by_all_mirrors_of_a_process() -> None:
    seen: Counter[str] = Counter()

    def note(subject: str, _: str, payload: bytes | None) -> None:
        kind = (payload or b"").partition(b'"type":"')[2].partition(b'"')[0].decode()
        seen[f"{subject.split('.')[-2]} {kind}"] += 1

    async with on_broker(seed=3) as world:
        monitor = Broker(NatsUrl.read(world.broker.url))
        await monitor.connect()
        await monitor.hear("slop.>", note)
        for _ in range(20):
            world.mirror()
        await world.settled()
        await monitor.settle()  # it hears on a connection of its own, perhaps after the mirrors
        assert seen["ask subscribe"] == 1
        world.change()
        await world.settled()
        await monitor.settle()
        assert seen["view patch"] == 1
        # A gap: somebody else's change, of which nobody has the one before.
        [feed] = {feed for watch, _ in world.watches for feed in _feeds(world.clients[0])}
        gap = b'{"type":"patch","subscription":"v","version":99,"seq":9,"base":98,"ops":[]}'
        await monitor.say(feed, gap)
        await until(lambda: seen["ask subscribe"] > 1)
        await world.settled()
        await monitor.settle()
        assert seen["ask subscribe"] == 2
        await monitor.close()


def _feeds(client: Client) -> list[str]:
    return [feed.subject for feed in client._link.subscriptions.values()]  # type: ignore[union-attr]


async def test_what_a_stranger_publishes_harms_no_mirror() -> None:
    rng = random.Random(4)
    async with on_broker(seed=4) as world:
        for _ in range(3):
            world.mirror()
        await world.settled()
        [subject] = _feeds(world.clients[0])
        inbox = world.clients[0]._link._room._inbox  # type: ignore[union-attr]
        stranger = Broker(NatsUrl.read(world.broker.url))
        await stranger.connect()
        lies = [
            b"",
            b"{",
            b'{"type":"patch","subscription":"v"}',
            b'{"type":"patch","subscription":"v","version":1e9,"seq":1,"base":0,"ops":[]}',
            b'{"type":"patch","subscription":"v","version":99999,"seq":1,"base":0,"ops":[{}]}',
            b'{"type":"patch","subscription":"v","version":99999,"seq":1,"base":0,"ops":[1',
            b'{"type":"snapshot","id":"v","version":99999,"tree":{"id":""}}',
            b'{"type":"error","error":{"code":"internal","message":"\xff"}}',
            b'{"type":"beat","version":999999999999}',
            b"[" * 3_000,
            rng.randbytes(300),
        ]
        ends = (subject, f"{inbox}.l1", f"{inbox}.f2", f"{inbox}.hello", "slop.live.hello")
        for lie in lies:
            for end in ends:
                await stranger.say(end, lie, "slop.live.hello")
                await stranger._connection.publish(end, lie)
            world.change()
        await stranger.close()
        await world.trouble("killed")
        await world.settled()


async def test_who_does_not_read_is_let_go_and_everybody_else_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sightline.slop.transports.nats_link._UNREAD", 20)
    async with on_broker(seed=5) as world:
        watch = world.mirror()
        stuck = await connect_nats(world.address)
        await stuck.send([b'{"type":"subscribe","id":"s"}'])
        await world.settled()
        for at in range(30):
            world.app.publish(world.app.tree.with_property("n", at))
            await world.settled()
        assert stuck._closed
        assert await stuck.receive() is None
        assert watch.is_current
        await stuck.close()


async def test_a_tree_larger_than_the_brokers_limit_passes_in_pieces() -> None:
    async with on_broker(6, "max_payload: 4096") as world:
        world.app.publish(world.app.tree.with_property("text", "x" * 100_000))
        world.mirror()
        await world.settled()
        world.app.publish(world.app.tree.with_property("text", "y" * 100_000))
        await world.settled()
        outcome = await world.clients[0].invoke("/", "echo", {"text": "z" * 50_000})
        assert outcome.data == {"text": "z" * 50_000}


async def test_what_is_asked_while_the_broker_is_away_fails_and_the_mirror_comes_back() -> None:
    async with on_broker(seed=8) as world:
        world.mirror()
        await world.settled()
        waiting = asyncio.create_task(world.clients[0].invoke("/", "hang"))
        await world.clients[0].query("/")
        world.broker.kill()
        with pytest.raises(Unreachable):
            await waiting
        await until(lambda: not world.watches[0][0].is_current)
        world.broker.start()
        await world.settled()


def test_the_command_line_takes_the_address(sightline: Run) -> None:
    app, ready, over = App("board", "Board"), threading.Event(), threading.Event()
    app.node("list")(lambda: {"type": "group", "props": {"n": 1}})
    app.action("list", "add")(lambda: "added")

    async def serve(url: str) -> None:
        async with app.serving(unix=False, nats=url):
            ready.set()
            await asyncio.to_thread(over.wait)

    with nats.server() as broker:
        serving = threading.Thread(target=lambda: asyncio.run(serve(broker.url)))
        serving.start()
        try:
            assert ready.wait(30)
            address = f"{broker.url}/board"
            assert b'"n":1' in sightline("query", address, "/list").stdout
            assert b"added" in sightline("invoke", address, "/list", "add").stdout
            assert (
                b'"event":"snapshot"'
                in sightline("watch", address, "--json", "--count", "2").stdout
            )
            lost = sightline("query", f"{broker.url}/nobody")
            assert lost.returncode == 4
            assert b"there is no app 'nobody'" in lost.stderr
        finally:
            over.set()
            serving.join()


async def test_a_result_comes_after_the_changes_that_it_reports() -> None:
    async with on_broker(seed=7) as world:
        watch = world.mirror()
        await world.settled()
        for n in range(1, 20):
            await world.clients[0].invoke("/", "set", {"key": "n", "value": n})
            assert watch.tree is not None
            assert watch.tree.properties["n"] == n


async def test_the_broker_decides_who_gets_in_and_no_secret_is_shown() -> None:
    with nats.server('authorization { user: ana, password: "s/cret" }') as broker:
        at = f"127.0.0.1:{broker.port}"
        good = f"nats://ana:s%2Fcret@{at}"
        with pytest.raises(InvalidInput, match="does not let us in") as refused:
            async with App("x").serving(unix=False, nats=f"nats://ana:guess@{at}"):
                pass
        assert "guess" not in str(refused.value)
        async with App("live", "Live").serving(unix=False, nats=good) as addresses:
            assert addresses == (f"nats://{at}/live",)
            link = await connect_nats(f"{good}/live")
            assert b"hello" in (await link.receive() or b"")
            assert link.peer.address == f"nats://{at}/live"
            await link.close()
            with pytest.raises(Unauthorized):
                await connect_nats(f"nats://{at}/live")
            with pytest.raises(Unreachable, match="there is no app 'nobody'"):
                await connect_nats(f"{good}/nobody")
    with pytest.raises(Unreachable, match="refused"):
        await connect_nats(f"{good}/live")


@needs_openssl
async def test_credentials_of_a_file_over_real_encryption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ana.creds"
    with nats.server(nats.encrypted(tmp_path), nats.with_credentials(file)) as broker:
        at = f"nats+tls://127.0.0.1:{broker.port}"
        with pytest.raises(Unreachable, match="certificate is not believed"):
            await connect_nats(f"{at}/live?creds={file}")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        with pytest.raises(Unauthorized):
            await connect_nats(f"{at}/live")
        with pytest.raises(InvalidInput, match=r"other\.creds: No such file"):
            await connect_nats(f"{at}/live?creds={tmp_path / 'other.creds'}")
        async with App("live", "Live").serving(unix=False, nats=f"{at}?creds={file}") as addresses:
            assert addresses == (f"{at}/live",)
            link = await connect_nats(f"{at}/live?creds={file}")
            assert b"hello" in (await link.receive() or b"")
            await link.close()
    assert caplog.messages == []


@needs_openssl
async def test_an_encrypted_broker_that_comes_back_is_connected_to_again_and_one_away_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nats.server(nats.encrypted(tmp_path)) as broker:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        at = f"nats+tls://127.0.0.1:{broker.port}"
        async with App("live", "Live").serving(unix=False, nats=at):
            client = Client(dial_address(f"{at}/live"))
            watch = client.subscribe()
            client.start()
            for _ in range(2):
                await until(lambda: watch.is_current)
                broker.kill()
                await until(lambda: not watch.is_current)
                broker.start()
            await until(lambda: watch.is_current)
            broker.kill()
            await until(lambda: not watch.is_current)
            await client.close()


@needs_openssl
async def test_an_encrypted_broker_that_is_away_is_let_go_before_it_has_heard_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nats.server(nats.encrypted(tmp_path)) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        broker = Broker(NatsUrl.read(f"nats+tls://127.0.0.1:{server.port}"))
        await broker.connect()
        server.kill()
        await until(lambda: not broker.is_up.is_set())
        await broker.hear("slop.here", lambda *_: None)
        await broker.close()
        assert broker._connection.is_closed


async def test_a_broker_that_complains_is_connected_to_again() -> None:
    async with on_broker(seed=9) as world:
        world.mirror()
        await world.settled()
        room = world.clients[0]._link._room  # type: ignore[union-attr]
        await room.broker._connection._process_err("'authentication timeout'")
        world.change()
        await world.settled()


async def test_no_secret_goes_to_a_broker_that_says_it_cannot_encrypt() -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","auth_required":true,"max_payload":1048576}\r\n')
        heard.append(await reader.read())

    async with listening(serve) as port:
        with pytest.raises(Unreachable, match="no encryption"):
            await connect_nats(f"nats+tls://ana:secret@127.0.0.1:{port}/live")
    assert heard == [b""]


async def test_an_interruption_ends_a_connecting_socket_whenever_it_comes() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(serve) as port:
        for steps in range(25):
            socket = _Socket()  # type: ignore[no-untyped-call]
            uri = urlparse(f"nats://127.0.0.1:{port}")
            connecting = asyncio.ensure_future(socket.connect(uri, 1024, 60))
            for _ in range(steps):
                await asyncio.sleep(0)
            interrupted = connecting.cancel()
            await asyncio.wait([connecting])
            assert connecting.cancelled() == interrupted
            socket.close()


async def test_an_interruption_ends_a_connection_to_a_broker_whenever_it_comes() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"one","max_payload":1048576}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")

    async with listening(serve) as port:
        steps, interrupted = 0, True
        while interrupted:
            broker = Broker(NatsUrl.read(f"nats://127.0.0.1:{port}/live"))
            connecting = asyncio.ensure_future(broker.connect())
            for _ in range(steps):
                await asyncio.sleep(0)
            interrupted = connecting.cancel()
            await asyncio.wait([connecting])
            if not interrupted:
                await broker.close()
            writer = broker._connection._writer
            assert writer is None or writer.is_closing(), steps
            steps += 1
    assert steps > 5


@pytest.mark.parametrize(
    "address",
    ["nats://", "nats:live", "nats://h/a/b", "nats://h:x/a", "nats://h/a?b=c", "nats://[h/a",
     "nats://ana:secret@broker.example/a", "nats://secret@broker.example/a", "nats://h/a#secret",
     "nats+tls://h/a?creds=/secret/evil&creds=/secret/acme"],
)  # fmt: skip
def test_what_is_no_address_of_an_app_is_refused_without_its_secret(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NatsUrl.read(address)
    assert "secret" not in str(refused.value)


def test_an_address_is_what_it_was_read_from() -> None:
    for address in (
        "nats://127.0.0.1:4222/mail",
        "nats+tls://ana:s%2Fcret@broker.example:4222/mail",
        "nats+tls://token@broker.example:4222/",
        "nats+tls://[2001:db8::1]:4223/mail?creds=/run/ana.creds",
    ):
        read = NatsUrl.read(address)
        assert read.whole == address
        assert NatsUrl.read(read.shown).server == read.server
        assert "cret" not in repr(read)


async def test_a_hub_finds_the_apps_on_a_broker(tmp_path: Path) -> None:
    with nats.server() as broker:
        discovery = Discovery([tmp_path], brokers=[broker.url], poll_s=0.05)
        served = App("board", "Board").serving(unix=False, nats=broker.url)
        async with Hub(discovery) as hub, served:
            await until(lambda: any(app.tree is not None for app in hub.world.apps))
            [found] = hub.world.apps
            assert (found.id, found.name, found.status) == ("board", "Board", "connected")
            assert str(hub.origin("board")) == f"nats://127.0.0.1:{broker.port}/board"
