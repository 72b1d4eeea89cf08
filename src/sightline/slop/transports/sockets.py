"""Users behind the TCP sockets of this machine, as the kernel reports them (sock_diag(7)).

Every user of the machine can connect to loopback. The kernel knows which user holds the other
end: one query with the exact addresses, without privileges. It answers on Linux only, and not
where a sandbox forbids the query. Then a port relies on its token alone, which is logged once.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import socket
import struct
from asyncio import BaseTransport
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias

from sightline.slop.transports.door import Refusal

Address: TypeAlias = tuple[Any, ...]  # Those of IPv6 have more than a host and a port.
Users: TypeAlias = Literal["own", "any"]
NO_ONE: Final = -1
REFUSAL: Final = "sightline.user_refusal"
_ANYWHERE: Final = ("0.0.0.0", 0)  # noqa: S104 - The other end of a socket that listens.
# linux/sock_diag.h, linux/netlink.h, net/tcp_states.h
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _ESTABLISHED, _LISTEN = 4, 20, 1, 10
# linux/inet_diag.h: struct nlmsghdr and inet_diag_req_v2, then what we read of inet_diag_msg.
_QUERY: Final = struct.Struct("=IHHII BBBxI 2s2s16s16sI8s")
_ANSWER: Final = struct.Struct("=4xH10x xB62xII")
_report_once: Final = functools.cache(logging.getLogger(__name__).warning)


def connection_owner(client: Address | None, server: Address | None) -> int | None:
    """Return the uid of the user that connected from `client` to `server`, a port of ours.

    NO_ONE if no process of this machine holds that end. None if the kernel has no answer.
    """
    # asyncio has no addresses for a connection that the client has already reset.
    owner = _holder(client, server, _ESTABLISHED) if client and server else NO_ONE
    # A kernel without the module for TCP finds no socket at all, not even the one that listens.
    if server and owner == NO_ONE == _holder(server, _ANYWHERE, _LISTEN):
        owner = None
    if owner is None:
        _report_once("The kernel does not report who connects: ports rely on their tokens alone")
    return owner


def listener_owner(port: int) -> int | None:
    """Return the uid of the user that listens on a port of loopback.

    None if that is unknown, or differs between IPv4 and IPv6.
    """
    holders = {_holder((host, port), _ANYWHERE, _LISTEN) for host in ("127.0.0.1", "::1")}
    uids = holders - {None, NO_ONE}
    return uids.pop() if len(uids) == 1 else None


def user_refusal(transport: BaseTransport, *, has_token: bool = True) -> Refusal | None:
    """Return why a connection to us is rejected: only this user and root may connect.

    Where the kernel has no answer, a port that `has_token` relies on it.
    """
    ends = map(transport.get_extra_info, ("peername", "sockname"))
    owner = connection_owner(*ends)
    if owner is None and not has_token:
        return Refusal(HTTPStatus.UNAUTHORIZED, "its user is unknown, and this port has no token")
    if owner is None or owner in {0, os.getuid()}:
        return None
    return Refusal(HTTPStatus.FORBIDDEN, "another user opened this connection (see users=any)")


def refusal_of(scope: Mapping[str, Any]) -> Refusal | None:
    """Return why `PortConnection` rejects the user of an ASGI request, or None."""
    return scope.get("state", {}).get(REFUSAL)  # type: ignore[no-any-return]  # ASGI's values are Any


def _holder(local: Address, remote: Address, state: int) -> int | None:
    """Return the uid of the process that holds a socket, NO_ONE, or None without an answer."""
    # The kernel treats addresses of IPv4 that IPv6 maps as those of IPv4.
    families = [socket.AF_INET6 if ":" in end[0] else socket.AF_INET for end in (local, remote)]
    here, there = map(socket.inet_pton, families, (local[0], remote[0]))
    query = _QUERY.pack(
        _QUERY.size, _SOCK_DIAG_BY_FAMILY, 1, 0, 0,
        families[0], socket.IPPROTO_TCP, 0, 0xFFFFFFFF,
        local[1].to_bytes(2), remote[1].to_bytes(2), here, there, 0, b"\xff" * 8,
    )  # fmt: skip
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.setblocking(False)  # The answer is available when send() returns.
            kernel.send(query)
            answer = kernel.recv(256).ljust(_ANSWER.size, b"\0")
    except (OSError, AttributeError):  # Only Linux has AF_NETLINK.
        return None
    kind, found, uid, inode = _ANSWER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:  # struct nlmsgerr
        return NO_ONE if answer[16:20] == struct.pack("=i", -errno.ENOENT) else None
    # A socket that its process has closed has no inode, and the uid of root.
    return uid if found == state and inode else NO_ONE
