"""Every port on loopback: who may connect, by which Host, with which secret, and for how long."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from websockets.utils import accept_key

from gateway.conftest import SECRET as GATEWAY_SECRET
from gateway.conftest import running
from sightline.adapters.mcp.client_auth import sign_in
from sightline.adapters.mcp.client_questions import PendingQuestions
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.transports.http_connection import PortConnection
from support.loopback import listening
from support.ports import PORTS, SECRET, UPGRADE, WAYS, OpenPort, gateway_port
from support.stranger import AS_ROOT, NOBODY, SOMEBODY, command_as, knock_as
from support.wire import PATIENCE_S

EACH_PORT = pytest.mark.parametrize("name", PORTS)


def status_of(answer: bytes | str) -> int:
    return int(answer.split()[1]) if answer else 0


async def knock(uid: int, host: str, at: OpenPort, request: bytes) -> int:
    return status_of(await asyncio.to_thread(knock_as, uid, host, at.port, request))


async def ask(port: int, request: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read(4096)
    writer.close()
    return status_of(answer)


@AS_ROOT
@EACH_PORT
@pytest.mark.parametrize("way", WAYS)
async def test_port_rejects_another_user_when_the_secret_is_right(
    name: str, way: str, tmp_path: Path
) -> None:
    listens, dials = WAYS[way]
    async with PORTS[name](tmp_path, "own", listens) as at:
        assert await knock(NOBODY, dials, at, at.request()) == 403
        assert await knock(os.getuid(), dials, at, at.request()) == at.status
    async with PORTS[name](tmp_path, "any", listens) as at:
        assert await knock(NOBODY, dials, at, at.request()) == at.status
        assert await knock(NOBODY, dials, at, at.request(secret="wrong")) == at.stranger


@AS_ROOT
@pytest.mark.parametrize("name", [name for name in PORTS if name != "bridge"])
async def test_port_checks_the_secret_first_when_another_user_connects(
    name: str, tmp_path: Path
) -> None:
    async with PORTS[name](tmp_path, "own", "127.0.0.1") as at:
        assert await knock(NOBODY, "127.0.0.1", at, at.request(secret="wrong")) == at.stranger
        health = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\n\r\n".encode()
        assert await knock(NOBODY, "127.0.0.1", at, health) == 200


@AS_ROOT
@pytest.mark.parametrize("resets", [False, True])
async def test_gateway_forwards_nothing_when_another_user_closes_at_once(
    resets: bool, tmp_path: Path
) -> None:
    async with gateway_port(tmp_path, "own", "127.0.0.1") as at:
        # The loop stands still until the other user is gone: the socket has no owner then.
        knock_as(NOBODY, "127.0.0.1", at.port, at.request(), reads=False, resets=resets)
        knock_as(NOBODY, "127.0.0.1", at.port, at.request(), reads=False, resets=resets)
        assert await ask(at.port, at.request()) == 200
        assert len(at.effects) == 1


@AS_ROOT
async def test_gateway_rejects_the_websocket_of_another_user(tmp_path: Path) -> None:
    async with gateway_port(tmp_path, "own", "127.0.0.1") as at:
        at = replace(at, lines=UPGRADE)
        assert await knock(NOBODY, "127.0.0.1", at, at.request()) == 403
        assert await knock(NOBODY, "127.0.0.1", at, at.request(secret="wrong")) == 404
        assert at.effects == []
        assert await ask(at.port, at.request()) == 200  # The vendor's answer to the handshake.


@AS_ROOT
async def test_sign_in_ignores_the_callback_of_another_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions = PendingQuestions(App("vault"))
    monkeypatch.setattr(questions, "ask", AsyncMock(return_value=("accept", {})))
    flow = sign_in("https://vault.example/mcp", questions, lambda: None).context
    assert flow.redirect_handler is not None
    assert flow.callback_handler is not None
    await flow.redirect_handler("https://login.example/")
    [uri] = flow.client_metadata.redirect_uris or []
    port = uri.port or 0

    def callback(code: str) -> bytes:
        return f"GET /callback?code={code}&state=s HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    answer = await asyncio.to_thread(knock_as, NOBODY, "127.0.0.1", port, callback("theirs"))
    assert answer.strip() == ""
    assert await ask(port, callback("mine")) == 200
    assert (await flow.callback_handler()).code == "mine"


async def test_port_rejects_a_misspelled_users() -> None:
    serving = App("desk").serving(port=0, unix=False, discoverable=False, users="all")  # type: ignore[arg-type] # a mistake
    with pytest.raises(InvalidInput, match="`users` is 'own' or 'any', not 'all'"):
        async with serving:
            pytest.fail("served")


@AS_ROOT
async def test_inspector_keeps_its_token_when_another_user_shows_it(tmp_path: Path) -> None:
    async with PORTS["inspector"](tmp_path, "own", "127.0.0.1") as at:
        arriving = f"GET /?token=launch HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\n\r\n".encode()
        assert await knock(NOBODY, "127.0.0.1", at, arriving) == 403
        assert at.door is not None
        assert at.door.expects("launch")
        assert await ask(at.port, arriving) == 200
        assert not at.door.expects("launch")
        assert await ask(at.port, arriving) == 401


# A server that another user than root runs, as `user_refusal` sees it from there.
_SERVE = """
async def main():
    async with App("desk", "Desk").serving(
        port=0, unix=False, discoverable=False, token="secret"
    ) as addresses:
        tell(int(addresses[0].split(":")[2].partition("/")[0]))
        await asyncio.Event().wait()
asyncio.run(main())
"""


@AS_ROOT
def test_port_of_a_plain_user_accepts_that_user_and_root_alone() -> None:
    command = command_as(NOBODY, _SERVE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        port = int(serving.stdout.readline())
        head = OpenPort(
            port, 101, 401, "/slop", ("Authorization: Bearer secret", *UPGRADE)
        ).request()
        users = (NOBODY, 0, SOMEBODY)
        statuses = [status_of(knock_as(uid, "127.0.0.1", port, head)) for uid in users]
        serving.terminate()
    assert statuses == [101, 101, 403]


@EACH_PORT
async def test_port_rejects_a_loopback_host_when_its_port_is_wrong(
    name: str, tmp_path: Path
) -> None:
    async with PORTS[name](tmp_path, "own", "127.0.0.1") as at:
        for host in ("127.0.0.1:1", "localhost:1", "[::1]:1", "127.0.0.1", "evil.example"):
            assert await ask(at.port, at.request(host=host)) in {403, 421}, host
        assert await ask(at.port, at.request(host=f"localhost:{at.port}")) == at.status


@EACH_PORT
@pytest.mark.parametrize("secret", ["ключ", "s\xe9cret", "\U0001f511", SECRET + "é"])
async def test_port_answers_as_to_a_stranger_when_a_token_is_not_ascii(
    name: str, secret: str, tmp_path: Path
) -> None:
    async with PORTS[name](tmp_path, "own", "127.0.0.1") as at:
        statuses = {at.stranger, 400} if name == "gateway" else {at.stranger}  # h11: no URL
        assert await ask(at.port, at.request(secret=secret)) in statuses
        shown = ("Sec-WebSocket-Protocol: slop.bearer, " + secret,)
        if at.status == 101:
            bare = OpenPort(at.port, 101, 401, at.path, (*at.lines[1:], *shown))
            assert await ask(at.port, bare.request()) == at.stranger


# Half of a request: nothing, some of the head, the head and some of the body.
def halves(at: OpenPort) -> list[bytes]:
    whole = at.request(secret="wrong")
    posted = (
        b"POST /wrong HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 9\r\n\r\nhalf" % at.port
    )
    return [b"", b"G", whole[: len(whole) // 3], posted]


async def closed(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(4096):
            pass
    except ConnectionError:
        pass


async def test_every_port_closes_half_open_connections_without_a_token(tmp_path: Path) -> None:
    """Five seconds after they were opened, ten at the inspector."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        lines = []
        for name in PORTS:
            at = await stack.enter_async_context(PORTS[name](tmp_path, "own", "127.0.0.1"))
            for half in halves(at) * 10:
                reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
                stack.callback(writer.close)
                writer.write(half)
                lines.append(closed(reader))
        await asyncio.gather(*lines)


async def test_gateway_closes_the_connection_of_a_request_without_the_secret(
    tmp_path: Path,
) -> None:
    """Bytes of its body would otherwise keep the connection open."""
    async with gateway_port(tmp_path, "own", "127.0.0.1") as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(halves(at)[-1])
        answer = await reader.readuntil(b"\r\n\r\n")
        assert status_of(answer) == 404
        assert b"\r\nconnection: close\r\n" in answer
        await closed(reader)
        writer.close()


@pytest.mark.parametrize("dialled", ["ws://", "http://"])
async def test_gateway_keeps_a_connection_when_its_request_had_the_secret(
    dialled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PortConnection, "request_s", 0.05)
    arrived = asyncio.Event()

    async def vendor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        if dialled == "ws://":
            key = re.search(rb"sec-websocket-key: *(\S+)", head, re.IGNORECASE)
            assert key is not None
            accept = accept_key(key[1].decode()).encode()
            writer.write(
                b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            await reader.read(1)
            writer.write(b"\x81\x05hello")
        else:
            await reader.readexactly(8)
            body = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
            writer.write(body)
        await writer.drain()

    async with listening(vendor) as port, running({"x": f"http://127.0.0.1:{port}"}) as run:
        upgrade = "\r\n".join((*UPGRADE, "", ""))
        head = f"POST /{GATEWAY_SECRET}/x/y HTTP/1.1\r\nHost: 127.0.0.1:{run.port}\r\n"
        body = "Content-Length: 8\r\n\r\nhalf"
        asked = head.replace("POST", "GET") + upgrade if dialled == "ws://" else head + body
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(asked[:9].encode())
        assert await ask(run.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == 421
        writer.write(asked[9:].encode())
        async with asyncio.timeout(PATIENCE_S):
            await arrived.wait()
            idle, other = await asyncio.open_connection("127.0.0.1", run.port)
            await closed(idle)  # The deadline of the first connection has passed, too.
            writer.write(b"\x81\x80\0\0\0\0" if dialled == "ws://" else b"half")
            assert b"hello" in await reader.readuntil(b"hello")
        writer.close()
        other.close()


async def test_port_closes_when_bytes_of_a_request_arrive_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PortConnection, "request_s", 0.05)
    async with running({}) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(b"GET / HTTP/1.1\r\n")
        over = asyncio.create_task(closed(reader))
        async with asyncio.timeout(PATIENCE_S):
            while not over.done():
                writer.write(b"X-More: 1\r\n")
                await asyncio.wait({over}, timeout=0.01)
        writer.close()


# The commands that open a port.


@contextmanager
def command(directory: Path, *words: str) -> Iterator[str]:
    """Run a command until the block ends. Yields its output up to the address of its port."""
    environment = {
        **os.environ, "SLOP_PROVIDERS": str(directory / "apps"), "HOME": str(directory),
        "XDG_STATE_HOME": str(directory / "state"), "SIGHTLINE_LEDGER": str(directory / "work.db"),
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "sightline", *words], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    ) as running_command:  # fmt: skip
        assert running_command.stdout is not None
        output = ""
        while not ADDRESS.search(output):
            line = running_command.stdout.readline()
            assert line, output
            output += line
        try:
            yield output
        finally:
            running_command.terminate()


ADDRESS = re.compile(r"(?:ws|http)://127\.0\.0\.1:(\d+)(/[^\s'\"]*)")
# For each command, its words, the end of the path that is asked for, and the status of the answer.
COMMANDS = {
    "gateway": ("gateway --record off --upstream http://127.0.0.1:{vendor}", "/models", 502),
    "inspect": ("inspect --no-open", "", 200),
    "mcp": ("mcp --http --token t0ken", "", 406),
    "demo": ("demo --ws 0", "", 101),
    "relay": ("relay unix:{socket} --port 0 --port-token t0ken", "", 101),
}


@AS_ROOT
@pytest.mark.parametrize("name", COMMANDS)
async def test_command_accepts_another_user_with_users_any_alone(name: str, tmp_path: Path) -> None:
    words, rest, status = COMMANDS[name]
    Ledger(tmp_path / "work.db").close()

    def statuses_of(vendor: int) -> list[int]:
        statuses = []
        text = words.format(vendor=vendor, socket=tmp_path / "desk.sock")
        for users in ([], ["--users", "any"]):
            with command(tmp_path, *text.split(), *users) as output:
                found = ADDRESS.search(output)
                assert found is not None
                made = re.search(r"token: (\S+)", output)
                shown = f"Authorization: Bearer {made[1] if made else 't0ken'}"
                lines = () if name == "gateway" else (shown, *UPGRADE)
                at = OpenPort(int(found[1]), status, 0, found[2] + rest, lines)
                statuses.append(status_of(knock_as(NOBODY, "127.0.0.1", at.port, at.request())))
        return statuses

    app = App("desk", "Desk")
    with socket.socket() as vendor:  # Bound, and nobody listens there: the gateway answers 502.
        vendor.bind(("127.0.0.1", 0))
        async with app.serving(unix=tmp_path / "desk.sock", discoverable=False):
            port = vendor.getsockname()[1]
            assert await asyncio.to_thread(statuses_of, port) == [403, status]


async def test_mcp_command_closes_400_half_open_connections_without_a_token(
    tmp_path: Path,
) -> None:
    with command(tmp_path, "mcp", "--http", "--token", SECRET) as output:
        found = ADDRESS.search(output)
        assert found is not None
        async with PORTS["mcp"](tmp_path, "own", "127.0.0.1") as here:
            at = replace(here, port=int(found[1]))
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
            ends = []
            for half in halves(at) * 100:
                reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
                stack.callback(writer.close)
                writer.write(half)
                ends.append(closed(reader))
            assert len(ends) == 400
            await asyncio.gather(*ends)
        assert await ask(at.port, at.request()) == 200
        assert await ask(at.port, at.request(host="127.0.0.1:1")) == 403
