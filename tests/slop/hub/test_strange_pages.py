"""Whatever a page, another extension, another consumer or another user tries at the browser bridge:
no frame of a tab reaches them, and nothing is done there."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from sightline.errors import Unreachable
from sightline.slop.app.app import App
from sightline.slop.hub.browser import BrowserBridge
from sightline.slop.hub.gate import BridgeGate
from sightline.slop.hub.hub import Hub
from sightline.slop.transports.door import Refusal, Visitor
from sightline.slop.transports.sockets import NO_ONE, listener_owner
from support.extension import EXTENSION, Extension, extension
from support.loopback import listening
from support.stranger import AS_ROOT, NOBODY, knock_as
from support.wire import PATIENCE_S

OTHER = "moz-extension://another-extension"
PAGE = "https://board.example"
KEY = "tab-1-postmessage-0"
BRIDGE = "/slop-bridge"
EVIL = "https://evil.example"
HELLO = {"type": "hello", "provider": {"id": "evil", "name": "Evil"}}


@dataclass
class Scene:
    """A bridge with one tab, which says how often something was done in it."""

    hub: Hub
    browser: Extension
    done: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        assert self.hub.bridge is not None
        return self.hub.bridge.port

    @property
    def token(self) -> str:
        assert self.hub.bridge is not None
        return self.hub.bridge.token

    def fill(self, text: str) -> str:
        """Write what only this run knows into a header."""
        encoded = base64.urlsafe_b64encode(self.token.encode()).decode().rstrip("=")
        values = {"T": self.token, "B": encoded, "P": str(self.port), "E": EXTENSION}
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        return text


@asynccontextmanager
async def scene(path: Path) -> AsyncIterator[Scene]:
    bridge = BrowserBridge(path / "browser.json", port=0, origins=[EXTENSION, OTHER, PAGE])
    app = App("bank", "Bank")
    async with asyncio.timeout(PATIENCE_S), Hub(bridge=bridge) as hub:
        await bridge.settled()
        async with extension(bridge.port, new=True) as browser:
            made = Scene(hub, browser)
            app.node("account")(lambda: {"props": {"balance": "secret"}})
            app.action("account", "pay")(lambda: made.done.append("paid"))
            await browser.announce(KEY, app, providerId="bank")
            await hub.ready(PATIENCE_S)
            async for world in hub.changes():
                if any(one.status == "connected" for one in world.apps):
                    break
            yield made


INVOKE = {"type": "invoke", "id": "x", "path": "/account", "action": "pay"}
SUBSCRIBE = {"type": "subscribe", "id": "x"}


def frames(key: str, **more: Any) -> list[dict[str, Any]]:
    """What somebody sends who wants to read a tab and to act in it."""
    relayed = [{"type": "connect"}, SUBSCRIBE, INVOKE]
    return [
        {"type": "relay-open", "providerKey": key, **more},
        *({"type": "slop-relay", "providerKey": key, "message": one, **more} for one in relayed),
    ]


async def reads(socket: ClientConnection) -> None:
    """Wait until the page has answered the action that was asked for."""
    async for text in socket:
        if json.loads(text).get("message", {}).get("type") == "result":
            return


# Somebody who does not get in: the request line, and the headers in the place of the usual ones.
KNOWN = "Origin: <E>"
SHOWN = "Authorization: Bearer <T>"
REFUSED: list[tuple[str, list[str]]] = [
    # A page where extensions and consumers come.
    (BRIDGE, [f"Origin: {EVIL}"]),
    (BRIDGE, ["Origin: http://localhost:<P>"]),
    (BRIDGE, ["Origin: http://127.0.0.1:<P>"]),
    (BRIDGE, ["Origin: null"]),
    (BRIDGE, ["Origin: file://"]),
    (BRIDGE, ["Origin:"]),
    (BRIDGE, [f"Origin: {PAGE}"]),
    (BRIDGE, [f"Origin: {PAGE}", SHOWN]),
    (BRIDGE, [f"Origin: {EVIL}", SHOWN]),
    (BRIDGE, [f"Origin: {EVIL}", "Sec-WebSocket-Protocol: slop, slop.bearer.<B>"]),
    (BRIDGE, [f"Origin: {EVIL}", "Sec-WebSocket-Protocol: slop.bearer, <T>"]),
    (BRIDGE, ["Origin: null", SHOWN]),
    # What only looks like an extension that is known.
    (BRIDGE, [KNOWN, f"Origin: {EVIL}"]),
    (BRIDGE, [f"Origin: {EVIL}", KNOWN]),
    (BRIDGE, ["Origin: <E>.evil.example"]),
    (BRIDGE, ["Origin: <E>/"]),
    (BRIDGE, ["Origin: <E>:443"]),
    (BRIDGE, [f"Origin: <E>, {EVIL}"]),
    (BRIDGE, [f"Origin: {EVIL}#<E>"]),
    (BRIDGE, ["Origin: CHROME-EXTENSION://abcdefghijklmnopabcdefghijklmnop"]),
    (BRIDGE, ["Origin: https://abcdefghijklmnopabcdefghijklmnop"]),
    (BRIDGE, ["Origin: chrome-extension://"]),
    (BRIDGE, ["Origin: chrome-extension://unknown"]),
    (BRIDGE, ["X-Origin: <E>", f"Origin: {EVIL}"]),
    # A token that is not the token, or not shown as one.
    (BRIDGE, []),
    (BRIDGE, ["Authorization: Bearer"]),
    (BRIDGE, ["Authorization: Bearer wrong"]),
    (BRIDGE, ["Authorization: Bearer <T>x"]),
    (BRIDGE, ["Authorization: Basic <B>"]),
    (BRIDGE, ["Cookie: token=<T>"]),
    (f"{BRIDGE}?token=<T>", []),
    (BRIDGE, ["Sec-WebSocket-Protocol: slop.bearer"]),
    (BRIDGE, ["Sec-WebSocket-Protocol: <T>"]),
    (BRIDGE, [KNOWN, "Authorization: Bearer wrong"]),
    (BRIDGE, ["Origin: chrome-extension://unknown", "Authorization: Bearer wrong"]),
    # A name that was pointed at this machine.
    (BRIDGE, ["Host: evil.example", KNOWN]),
    (BRIDGE, ["Host: evil.example:<P>", KNOWN, SHOWN]),
    (BRIDGE, ["Host: localhost.evil.example:<P>", SHOWN]),
    (BRIDGE, ["Host: 127.0.0.1", SHOWN]),
    (BRIDGE, ["Host: 127.0.0.1:1", SHOWN]),
    (BRIDGE, ["Host: 127.0.0.1:<P>", "Host: evil.example", SHOWN]),
    (BRIDGE, ["Host: 0.0.0.0:<P>", SHOWN]),
    (BRIDGE, ["Host:", SHOWN]),
    ("/slop", ["Host: evil.example:<P>"]),
    # Where apps dial.
    ("/slop", [f"Origin: {EVIL}"]),
    ("/slop", [f"Origin: {EVIL}", SHOWN]),
    ("/slop", ["Origin: null"]),
    ("/slop", ["Origin: http://localhost:1"]),
    ("/slop", ["Origin: http://localhost:<P>"]),
    ("/slop", ["Origin: http://localhost"]),
    ("/slop", ["Origin: http://localhost:99999"]),
    ("/slop", ["Origin: http://localhost:<P>.evil.example"]),
    ("/slop", ["Origin: http://localhost.evil.example:<P>"]),
    ("/slop", ["Origin: http://evil.example:<P>"]),
    ("/slop", ["Origin: http://127.0.0.2:<P>"]),
    ("/slop", ["Origin: http://user@localhost:<P>"]),
    ("/slop", ["Origin: chrome-extension://unknown"]),
    ("/slop", ["Authorization: Bearer wrong"]),
    # Where nothing is.
    ("/", [KNOWN, SHOWN]),
    (f"{BRIDGE}/", [KNOWN, SHOWN]),
    (f"/{BRIDGE}", [KNOWN, SHOWN]),
    ("/SLOP-BRIDGE", [KNOWN, SHOWN]),
    ("/.well-known/slop", [KNOWN, SHOWN]),
    (f"http://127.0.0.1:<P>{BRIDGE}", [KNOWN, SHOWN]),
]  # fmt: skip


async def knock(made: Scene, target: str, headers: list[str], method: str = "GET") -> bytes:
    """Ask for a WebSocket as no browser would, say what a thief would, and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    host = [] if any(line.startswith("Host") for line in headers) else ["Host: 127.0.0.1:<P>"]
    lines = [
        f"{method} {target} HTTP/1.1", *host, *headers, "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", "",
    ]  # fmt: skip
    said = b"".join(masked(json.dumps(one).encode()) for one in [HELLO, *frames(KEY)])
    writer.write(made.fill("\r\n".join(lines)).encode() + said)
    heard = b""
    try:
        while piece := await reader.read(65536):
            heard += piece
    except ConnectionError:
        pass  # it hung up while we spoke
    writer.transport.abort()
    return heard


def masked(text: bytes) -> bytes:
    """A text frame of a client (RFC 6455 §5.2), with a mask that changes nothing."""
    size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2)
    return b"\x81" + size + bytes(4) + text


async def test_nobody_gets_in_who_should_not(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        before = len(made.browser.heard)
        for target, headers in REFUSED:
            heard = await knock(made, target, headers)
            status = int(heard.split()[1])
            assert 400 <= status < 500, (target, headers, heard)
            assert b"secret" not in heard
            assert made.token.encode() not in heard
        for method in ("POST", "OPTIONS", "CONNECT"):
            assert not (await knock(made, BRIDGE, [f"Origin: {EVIL}"], method)).startswith(
                b"HTTP/1.1 101"
            )
        assert len(REFUSED) >= 40
        assert made.done == []
        assert len(made.browser.heard) == before
        assert [app.id for app in made.hub.world.apps] == ["web-bank"]
        # The same tries do succeed for whom they may.
        url = made.fill(f"ws://127.0.0.1:<P>{BRIDGE}")
        shown = {"Authorization": f"Bearer {made.token}"}
        async with connect(url, additional_headers=shown, proxy=None) as socket:
            for frame in frames(KEY):
                await socket.send(json.dumps(frame))
            await reads(socket)
        assert made.done == ["paid"]


async def test_an_extension_has_no_part_in_the_tabs_of_another(tmp_path: Path) -> None:
    async with scene(tmp_path) as made, extension(made.port, OTHER) as other:
        answer = {"type": "snapshot", "id": "x", "version": 9, "seq": 0, "tree": {}}
        for frame in (
            *frames(KEY),
            *frames(KEY, channel="c1"),
            {"type": "slop-relay", "providerKey": KEY, "message": answer},
            {"type": "slop-relay", "providerKey": KEY, "message": answer, "channel": "c1"},
            {"type": "relay-close", "providerKey": KEY, "channel": "c1"},
            {"type": "provider-unavailable", "providerKey": KEY},
            {"type": "provider-unavailable", "providerKey": KEY, "reason": "asleep"},
        ):
            await other.socket.send(json.dumps(frame))
        # A key of the same name is another tab, and all that was said before it was read before.
        await other.announce(KEY, App("bank", "Bank"), providerId="bank")
        async for world in made.hub.changes():
            if (twin := world.app("web-bank-2")) is not None and twin.status == "connected":
                break
        app = made.hub.world.app("web-bank")
        assert app is not None
        assert (app.status, app.version, made.done) == ("connected", 1, [])
        assert str(made.hub.origin("web-bank")) == f"page: {EXTENSION} tab 7"
        await made.hub.invoke("web-bank", "/account", "pay")
        assert made.done == ["paid"]
        assert "secret" not in json.dumps(other.heard)


async def test_a_consumer_has_what_it_opened_and_nothing_else(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        url = made.fill(f"ws://127.0.0.1:<P>{BRIDGE}")
        shown = {"Authorization": f"Bearer {made.token}"}
        await made.browser.announce("mine", App("mine", "Mine", props={"n": 1}))
        async with connect(url, additional_headers=shown, proxy=None) as socket:
            for frame in (
                *frames(KEY)[1:],  # without having opened it
                *({**one, "channel": "c1"} for one in frames(KEY)[1:]),
                *frames("unknown"),
                {"type": "relay-close", "providerKey": KEY, "channel": "c1"},
                {"type": "provider-unavailable", "providerKey": KEY},
                {"type": "provider-available", "providerKey": KEY, "provider": {"id": "evil"}},
                {"type": "provider-available", "providerKey": "evil", "provider": {"id": "evil"}},
                {"type": "nonsense", "providerKey": KEY},
                {"type": "slop-relay", "providerKey": ["a", "list"], "message": {}},
                ["not", "a", "frame"],
                *frames("mine"),
            ):
                await socket.send(json.dumps(frame))
            heard = []
            async for text in socket:
                heard.append(json.loads(text))
                if heard[-1].get("message", {}).get("type") == "result":
                    break
        assert {one["providerKey"] for one in heard if one["type"] == "slop-relay"} == {"mine"}
        assert made.done == []
        assert "evil" not in json.dumps(made.hub.world.apps, default=str)
        bank = made.hub.world.app("web-bank")
        assert bank is not None
        assert bank.status == "connected"


async def test_who_sends_too_much_that_it_may_not_is_let_go(tmp_path: Path) -> None:
    async with scene(tmp_path) as made, extension(made.port, OTHER) as other:
        for _ in range(120):
            await other.socket.send('{"type":"slop-relay","providerKey":"k","message":1}')
        await other.socket.wait_closed()
        assert "faulty" in (other.socket.close_reason or "")
        await other.end()
        assert made.browser.socket.close_code is None


async def test_a_page_that_a_program_of_ours_serves_here_may_dial(tmp_path: Path) -> None:
    async with scene(tmp_path) as made, listening(silent) as port:
        url = made.fill("ws://127.0.0.1:<P>/slop")
        for origin in (f"http://localhost:{port}", f"https://127.0.0.1:{port}", PAGE):
            async with connect(url, origin=Origin(origin), proxy=None):
                pass
        assert listener_owner(port) == os.getuid()
    assert listener_owner(port) is None


@AS_ROOT
async def test_bridge_rejects_another_user_with_every_secret(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        for lines in ([KNOWN, SHOWN], [SHOWN]):
            text = made.fill("\r\n".join([
                f"GET {BRIDGE} HTTP/1.1", "Host: 127.0.0.1:<P>", *lines, "Upgrade: websocket",
                "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", "",
            ]))  # fmt: skip
            told = await asyncio.to_thread(
                knock_as, NOBODY, "127.0.0.1", made.port, text.encode()
            )  # fmt: skip
            assert told.startswith("HTTP/1.1 403")


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


CASES: list[tuple[str, dict[str, str], bool, str]] = [
    (BRIDGE, {"origin": EXTENSION}, False, "401"),  # agreed to, and nobody knows whose it is
    (BRIDGE, {"origin": EXTENSION}, True, "extension"),
    (BRIDGE, {"origin": EXTENSION, "authorization": "Bearer t"}, False, "extension"),
    (BRIDGE, {"origin": "moz-extension://new"}, True, "403"),
    (BRIDGE, {"origin": "moz-extension://new", "authorization": "Bearer t"}, False, "extension"),
    (BRIDGE, {}, True, "401"),
    (BRIDGE, {"authorization": "Bearer t"}, False, "consumer"),
    ("/slop", {}, False, "401"),
    ("/slop", {}, True, "app"),
    ("/slop", {"authorization": "Bearer t"}, False, "app"),
    ("/slop", {"origin": PAGE}, False, "401"),
    ("/slop", {"origin": PAGE}, True, "app"),
    ("/slop", {"origin": EVIL}, True, "403"),
]


@pytest.mark.parametrize(("path", "headers", "is_open", "expected"), CASES)
@pytest.mark.parametrize("owner", [None, 1001, NO_ONE])
def test_gate_needs_a_token_or_open_when_the_connection_is_not_known_to_be_the_users(
    path: str, headers: dict[str, str], is_open: bool, expected: str, owner: int | None
) -> None:
    gate = BridgeGate("t", 1000, frozenset({PAGE}), {EXTENSION}, is_open=is_open)
    visitor = Visitor.of([("Host", "localhost:9339"), *headers.items()])

    def verdict() -> str:
        found = gate.judge(path, 9339, visitor, owner, lambda _: None)
        return str(found.status.value) if isinstance(found, Refusal) else found

    if owner is not None:
        assert verdict() == "403"
        gate.admits_others = True
    assert verdict() == expected


@pytest.mark.parametrize("owner", [0, 1000])
def test_gate_admits_this_user_and_root_without_a_token(owner: int) -> None:
    gate = BridgeGate("t", 1000)
    visitor = Visitor.of([("Host", "localhost:9339")])
    assert gate.judge("/slop", 9339, visitor, owner, lambda _: None) == "app"


_SERVE = """
import encodings.idna, os, socket
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
with socket.create_server(("127.0.0.1", 0)) as one:
    print(one.getsockname()[1], flush=True)
    one.accept()[0].recv(1000)
    print("came", flush=True)
"""


@AS_ROOT
async def test_another_users_bridge_is_not_told_the_token(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", _SERVE.format(uid=NOBODY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        port = int(await asyncio.to_thread(serving.stdout.readline))
        async with asyncio.timeout(PATIENCE_S):
            bridge = BrowserBridge(tmp_path / "browser.json", port=port)
            async with Hub(bridge=bridge):
                with pytest.raises(Unreachable, match=f"not known to be you .user {NOBODY}"):
                    await bridge.settled()
        serving.kill()
        assert serving.stdout.read() == ""
