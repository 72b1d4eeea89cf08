"""The kernel reports which user holds the other end of a connection."""

from __future__ import annotations

import os
import platform
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sightline.slop.transports import sockets
from sightline.slop.transports.sockets import NO_ONE, connection_owner, listener_owner
from support.stranger import AS_ROOT, NOBODY
from support.wire import PATIENCE_S

# Where a server listens, the address that a client dials, and the host that the server sees.
WAYS = {
    "IPv4": ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
    "IPv6": ("::1", "::1", "::1"),
    "mapped by the client": ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"),
    "mapped by the server": ("::", "127.0.0.1", "::ffff:127.0.0.1"),
    "mapped by both": ("::", "::ffff:127.0.0.1", "::ffff:127.0.0.1"),
}
EACH_WAY = pytest.mark.parametrize(("listens", "dials", "seen"), WAYS.values(), ids=list(WAYS))

_DIAL = """
import encodings.idna, os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
with socket.create_connection(({host!r}, {port})):
    print(flush=True)
    sys.stdin.read()
"""
_LISTEN = """
import encodings.idna, os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
with socket.create_server(({host!r}, {port})) as one:
    print(one.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def server(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")


@contextmanager
def other_user(code: str, host: str, port: int) -> Iterator[str]:
    """Run code as another user until the block ends. Yields its first line."""
    code = code.format(uid=NOBODY, host=host, port=port)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        yield running.stdout.readline()
        running.communicate(timeout=PATIENCE_S)


@EACH_WAY
def test_owner_is_this_user_when_this_process_connects(listens: str, dials: str, seen: str) -> None:
    with server(listens) as at, socket.create_connection((dials, at.getsockname()[1])):
        end, client = at.accept()
        with end:
            assert client[0] == seen
            assert connection_owner(client, end.getsockname()) == os.getuid()


@AS_ROOT
@EACH_WAY
def test_owner_is_the_other_user_when_another_process_connects(
    listens: str, dials: str, seen: str
) -> None:
    with server(listens) as at, other_user(_DIAL, dials, at.getsockname()[1]):
        end, client = at.accept()
        with end:
            assert client[0] == seen
            assert connection_owner(client, end.getsockname()) == NOBODY


@EACH_WAY
@pytest.mark.parametrize("ending", ["close", "reset"])
def test_owner_is_no_one_when_the_client_has_closed(
    listens: str, dials: str, seen: str, ending: str
) -> None:
    """The kernel shows such a socket as root's."""
    with server(listens) as at:
        port = at.getsockname()[1]
        with socket.create_connection((dials, port)) as line:
            end, client = at.accept()
            line.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if ending == "reset":
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with end:
            assert client[0] == seen
            assert connection_owner(client, end.getsockname()) == NO_ONE


def test_owner_is_no_one_when_a_server_listens_at_the_address_of_a_client_that_is_gone() -> None:
    with server("127.0.0.1") as at:
        with socket.create_connection(at.getsockname()) as line:
            end, client = at.accept()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with end, socket.create_server(client):
            assert listener_owner(client[1]) == os.getuid()
            assert connection_owner(client, end.getsockname()) == NO_ONE


def test_owner_is_no_one_when_the_connection_has_no_addresses() -> None:
    with server("127.0.0.1") as at:
        assert connection_owner(None, at.getsockname()) == NO_ONE
        assert connection_owner(None, None) == NO_ONE
        assert connection_owner(("127.0.0.1", 1), at.getsockname()) == NO_ONE


def test_owner_is_unknown_once_in_the_log_when_the_kernel_finds_no_socket_at_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As in a kernel without the module for TCP: not even the port that listens is found."""
    sockets._report_once.cache_clear()
    with server("127.0.0.1") as at:
        gone = at.getsockname()
    for _ in range(2):
        assert connection_owner(("127.0.0.1", 1), gone) is None
    assert [record.getMessage() for record in caplog.records] == [
        "The kernel does not report who connects: ports rely on their tokens alone"
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104 - a test
def test_listener_is_this_user_when_this_process_listens(host: str) -> None:
    with server(host) as at:
        port = at.getsockname()[1]
        assert listener_owner(port) == os.getuid()
    assert listener_owner(port) is None


@AS_ROOT
def test_listener_is_the_other_user_when_another_process_listens() -> None:
    with other_user(_LISTEN, "127.0.0.1", 0) as line:
        port = int(line)
        assert listener_owner(port) == NOBODY
        with socket.socket(socket.AF_INET6) as both:  # As a second user could, for `localhost`.
            both.bind(("::1", port))
            both.listen()
            assert listener_owner(port) is None


# A process whose sandbox forbids the query (seccomp(2)): socket(AF_NETLINK, …) fails.
_FORBID = """
import asyncio, ctypes, struct, sys
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from sightline.slop.app.app import App
from sightline.slop.transports.websocket import serve_websocket

steps = struct.pack("HBBI" * 6,
    0x20, 0, 0, 0,             # load the number of the call
    0x15, 0, 3, {number},      # not socket(): allow
    0x20, 0, 0, 16,            # load its first argument
    0x15, 0, 1, 16,            # not AF_NETLINK: allow
    0x06, 0, 0, 0x00050001,    # EPERM
    0x06, 0, 0, 0x7fff0000)    # allow
program = struct.pack("HxxxxxxP", 6, ctypes.addressof(kept := ctypes.create_string_buffer(steps)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()

async def status_of(url, token=None):
    headers = {{}} if token is None else {{"Authorization": "Bearer " + token}}
    try:
        async with connect(url, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as error:
        return error.response.status_code

async def nothing(link):
    await link.receive()

async def main():
    served = App("desk", "Desk").serving(port=0, unix=False, discoverable=False, token="secret")
    async with served as [url]:
        print([await status_of(url, token) for token in ("secret", "wrong", None)])
    async with serve_websocket(nothing) as url:
        print(await status_of(url))
    async with serve_websocket(nothing, users="any") as url:
        print(await status_of(url))

asyncio.run(main())
"""
_SOCKET_CALL = {"x86_64": 41, "aarch64": 198}


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _SOCKET_CALL,
    reason="takes Linux's seccomp, and the number of a system call",
)
def test_port_needs_its_token_and_reports_that_once_when_the_query_is_forbidden() -> None:
    code = _FORBID.format(number=_SOCKET_CALL[platform.machine()])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[101, 401, 401]", "401", "101"], done.stderr
    assert len(re.findall("rely on their tokens alone", done.stderr)) == 1
