"""An app is found by the web site that it runs on, and a site leads to nothing but itself."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from sightline.cli.main import run as run_here
from sightline.errors import InvalidInput, SightlineError, TimedOut, Unauthorized, Unreachable
from sightline.slop.app.app import App
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub import address as address_module
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.transports.link import Peer
from sightline.slop.transports.websocket import WebSocketLink
from support.web import served

LIMIT_S = 60


async def seen(address: str, token: str | None = None, apps: Path | None = None) -> str:
    """Connect once, and tell who answered."""
    discovery = Discovery([] if apps is None else [apps])
    dial = dial_address(address, token=token, discovery=discovery)
    async with asyncio.timeout(LIMIT_S), Client(dial, reconnect=False) as client:
        return (await client.ready()).id


async def test_an_apps_port_says_where_it_is_and_never_its_token(tmp_path: Path) -> None:
    app = App("mail", "Mail", description="Letters")
    async with app.serving(port=0, unix=False, directory=tmp_path) as served_at:
        [url] = served_at
        site = url.removesuffix("/slop").replace("ws://", "http://")
        status, head, body = await page(site, "/.well-known/slop")
        assert status == 200
        assert b"content-type: application/json" in head.lower()
        told = json.loads(body)
        assert (told["id"], told["transport"]) == ("mail", {"type": "ws", "url": url})
        assert told["description"] == "Letters"
        assert served_at.token is not None
        assert served_at.token.encode() not in head + body
        # A page of another name, one of a browser, and anything else stay behind the door.
        assert (await page(site, "/.well-known/slop", "Host: evil.example"))[0] == 403
        assert (await page(site, "/.well-known/slop", "Origin: https://x.example"))[0] == 403
        assert (await page(site, "/slop"))[0] == 401
        with pytest.raises(Unauthorized):
            await seen(site)
        assert await seen(site, served_at.token) == "mail"
        assert await seen(site, apps=tmp_path) == "mail"  # the note has the token


async def test_a_mounted_app_is_found_below_its_path() -> None:
    mounted = Starlette(routes=[Mount("/agents", App("mail", "Mail").asgi())])
    async with served(mounted) as place:
        assert await seen(f"http://{place}/agents") == "mail"
        with pytest.raises(Unreachable, match="status 404"):
            await seen(f"http://{place}")


@pytest.mark.parametrize("elsewhere", [404, 200])
async def test_a_page_names_its_app_where_the_site_describes_none(elsewhere: int) -> None:
    app = App("board", "Board")

    async def page(request: HttpRequest) -> HTMLResponse:
        if request.url.path != "/today":
            return HTMLResponse("<html>nothing here", elsewhere)
        text = f'<meta name="slop" content="ws://{request.url.netloc}/slop">'
        return HTMLResponse(text + "x" * 200_000 if request.url.query == "long=1" else text)

    async def slop(socket: WebSocket) -> None:
        await app.asgi()(socket.scope, socket.receive, socket.send)

    site = Starlette(
        routes=[WebSocketRoute("/slop", slop), Route("/{path:path}", page)],
    )
    async with served(site) as place:
        assert await seen(f"http://{place}/today") == "board"
        assert await seen(f"http://{place}/today?long=1") == "board"
        with pytest.raises(SightlineError, match=r"status 404|does not describe an app"):
            await seen(f"http://{place}/tomorrow")


async def test_the_command_line_reads_it(capfd: pytest.CaptureFixture[str]) -> None:
    app = App("mail", "Mail", props={"unread": 3})
    async with app.serving(port=0, unix=False, open=True, discoverable=False) as [url]:
        site = url.removesuffix("/slop").replace("ws://", "http://")
        code = await asyncio.to_thread(run_here, ["query", site, "--text"])
    assert (code, capfd.readouterr().out) == (0, "[root] mail: Mail (unread=3)\n")


async def page(site: str, path: str, header: str = "") -> tuple[int, bytes, bytes]:
    """Ask for a page as any program may; a header of one's own replaces the usual one."""
    place = site.removeprefix("http://")
    host, _, port = place.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    heads = [header] if header.startswith("Host") else [f"Host: {place}", header]
    lines = [f"GET {path} HTTP/1.1", *filter(None, heads), "Connection: close", "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), head, body


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that answers every request in its own way."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await answer(writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def saying(*lines: str, body: str = "") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", body]).encode())

    return answer


async def refusal(answer: Answer) -> SightlineError:
    async with answering(answer) as place:
        with pytest.raises(SightlineError) as caught:
            await seen(f"http://{place}")
    return caught.value


async def test_a_site_that_sends_us_on_is_not_followed() -> None:
    visited: list[str] = []

    async def trap(_: asyncio.StreamWriter) -> None:
        visited.append("trap")

    async with answering(trap) as elsewhere:
        moved = saying(
            "HTTP/1.1 302 Found", f"Location: http://{elsewhere}/.well-known/slop",
            "Content-Length: 0",
        )  # fmt: skip
        assert "status 302" in str(await refusal(moved))
        pointed = json.dumps({"transport": {"type": "ws", "url": f"ws://{elsewhere}/slop"}})
        error = await refusal(saying("HTTP/1.1 200 OK", body=pointed))
        assert isinstance(error, InvalidInput)
        assert "points to another place" in str(error)
    assert visited == []


async def test_a_site_that_says_too_much_nothing_or_rubbish_is_left() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" " * 65_536)
            await writer.drain()

    assert "at most 65536 bytes" in str(await refusal(endless))
    assert isinstance(await refusal(saying("HTTP/1.1 200 OK", body="hello")), InvalidInput)
    assert isinstance(await refusal(saying("SSH-2.0-x")), Unreachable)
    assert isinstance(await refusal(saying("HTTP/1.1 500 No")), Unreachable)


async def test_a_site_that_drips_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_module, "ANSWER_S", 0.2)
    gone = asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    assert isinstance(await refusal(drip), TimedOut)
    async with asyncio.timeout(LIMIT_S):
        await gone.wait()


async def test_an_encrypted_site_is_believed_by_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    app = App("mail", "Mail")

    def describe(socket: ServerConnection, request: Request) -> Response | None:
        if request.path == "/slop":
            return None
        where = {"type": "ws", "url": f"ws://{request.headers['Host']}/slop"}
        return socket.respond(200, json.dumps({"transport": where}))

    async def talk(socket: ServerConnection) -> None:
        await app.handle(WebSocketLink(socket, Peer("ws")))

    async with serve(talk, "127.0.0.1", 0, ssl=tls, process_request=describe) as server:
        site = f"https://127.0.0.1:{_port(server)}"
        for address in (site, f"{site.replace('https', 'wss')}/slop"):
            with pytest.raises(Unreachable, match="its certificate is not believed"):
                await seen(address)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await seen(site) == "mail"


def _port(server: Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


def _certificate(directory: Path) -> Path:
    """A certificate of our own for this machine, with its key, good for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = directory / "own.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    path.write_bytes(secret + signed.public_bytes(pem))
    return path
