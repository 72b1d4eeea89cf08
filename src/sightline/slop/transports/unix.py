"""Unix sockets: for programs of one user on one machine.

Only the user whose app it is gets in. The socket has mode 0600; its directory is made
with mode 0700 where it does not exist, and must otherwise belong to the user and be
writable by nobody else (a sticky directory such as /tmp will do where it is one's own), with no
other user's link on the way to it; both sides ask the kernel who the other is.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import sightline.slop.transports.link as links
from sightline.errors import InvalidInput, Unauthorized, Unreachable
from sightline.slop.transports.background import Background
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.owned import open_owned

_ROOT: Final = 0
_CREDENTIALS: Final = struct.Struct("3i")
_BACKLOG: Final = 128


@contextlib.asynccontextmanager
async def serve_unix(handler: links.Handler, path: str | Path) -> AsyncIterator[str]:
    """Serve a Unix socket while the block runs; gives its address, `unix:/path`.

    Raises InvalidInput where the socket would not be safe or somebody serves it already.
    The socket is gone when the block ends, and so are all its links.
    """
    path = Path(path).absolute()
    running = Background()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _peer(writer.get_extra_info("socket"), str(path))
        if not _is_trusted(peer):
            writer.transport.abort()
            return
        running.start(
            links.serve_link(handler, LineLink(reader, writer, peer, links.PROVIDER_BYTES))
        )

    listener = _bind(path)
    socket_stat = path.lstat()
    try:
        server = await asyncio.start_unix_server(accept, sock=listener)
        try:
            yield f"unix:{path}"
        finally:
            server.close()
            await running.stop()
            await server.wait_closed()
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            # Not if another server has taken the place since.
            if path.lstat().st_ino == socket_stat.st_ino:
                path.unlink()


async def connect_unix(path: str | Path) -> LineLink:
    """Connect to a Unix socket. Raises Unreachable, or Unauthorized if a stranger serves it."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(path))
    except OSError as error:
        raise Unreachable(f"unix:{path}: {links.why(error)}") from error
    peer = _peer(writer.get_extra_info("socket"), str(path))
    if not _is_trusted(peer):
        writer.transport.abort()
        raise Unauthorized(f"unix:{path}: served by another user (uid {peer.uid})")
    return LineLink(reader, writer, peer, links.CONSUMER_BYTES)


def _bind(path: Path) -> socket.socket:
    _check_directory(path)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mask holds for the whole process, for a moment in which nothing else runs here; a
    # chmod after the bind would leave the socket open to all until then.
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise InvalidInput(f"cannot serve unix:{path}: {links.why(error)}") from error
    finally:
        os.umask(mask)
    return listener


def _check_directory(path: Path) -> None:
    directory = path.parent
    try:
        with open_owned(directory, create=True) as handle:
            is_own = os.fstat(handle).st_uid == os.getuid()
    except OSError as error:
        raise InvalidInput(f"cannot serve unix:{path}: {links.why(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"cannot serve unix:{path}: {directory}: {error}") from None
    if not is_own:
        raise InvalidInput(f"cannot serve unix:{path}: {directory} belongs to another user")


def _remove_stale(path: Path) -> None:
    """Make room where a socket is left over from a server that is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise InvalidInput(f"cannot serve unix:{path}: something else is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A server that is alive but busy must not make us wait: a full backlog is EAGAIN.
        probe.setblocking(False)
        answer = probe.connect_ex(str(path))
    if answer != errno.ECONNREFUSED:
        raise InvalidInput(f"cannot serve unix:{path}: somebody serves it already")
    path.unlink()


def _peer(sock: socket.socket, address: str) -> links.Peer:
    """Ask the kernel who is at the other end, where it can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return links.Peer("unix", address)
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return links.Peer("unix", address, uid=uid, pid=pid)


def _is_trusted(peer: links.Peer) -> bool:
    return peer.uid in {None, os.getuid(), _ROOT}
