"""Standard streams: for a program that another one starts.

The provider writes to descriptor 3 and reads from 4 where its parent gave it both, else
it uses stdout and stdin; then whatever else it prints goes to stderr, for one stray line
on stdout would break the conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Final

from msgspec.structs import replace

import sightline.slop.transports.link as links
from sightline.errors import InvalidInput, Unreachable
from sightline.slop.transports.background import end_child, finish
from sightline.slop.transports.lines import LineLink

_OUT_FD: Final = 3
_IN_FD: Final = 4
_GRACE_S: Final = 2.0


async def serve_stdio(handler: links.Handler, *, max_bytes: int = links.PROVIDER_BYTES) -> None:
    """Serve the program that started this one, until it goes."""
    with _own_streams() as (source, sink):
        reader, writer = await _open(source, sink)
        await links.serve_link(handler, LineLink(reader, writer, links.Peer("stdio"), max_bytes))


async def spawn_stdio(
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    peer: links.Peer | None = None,
) -> SpawnedLink:
    """Start a provider and talk to it; closing the link ends it. Raises Unreachable.

    The command is run without a shell. What the provider writes to stderr goes to ours. `env`
    are its variables, where they are not ours, and `peer` says who it is if not the command.
    """
    argv = words_of(command) if isinstance(command, str) else list(command)
    if not argv:
        raise InvalidInput("stdio: there is no command to run")
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, env=env)
    except OSError as error:
        raise Unreachable(f"stdio:{argv[0]}: {links.why(error)}") from error
    peer = peer or links.Peer("stdio", shlex.join(argv))
    return SpawnedLink(process, replace(peer, pid=process.pid))


def words_of(command: str) -> list[str]:
    """Split a command as a shell does. Raises InvalidInput for a quote that is left open."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"stdio:{command}: {str(error).lower()}") from error


class SpawnedLink(LineLink):
    """A link to a process of our own, which ends with it."""

    def __init__(self, process: asyncio.subprocess.Process, peer: links.Peer) -> None:
        if process.stdout is None or process.stdin is None:
            raise InvalidInput("a spawned provider needs pipes")
        super().__init__(process.stdout, process.stdin, peer, links.CONSUMER_BYTES)
        self._process = process

    async def close(self, _reason: str = "") -> None:
        """End the link and the process: ask first, then insist. A cancelled caller waits, too."""
        await finish(self._end())

    async def _end(self) -> None:
        await super().close()
        insist = (self._process.terminate, self._process.kill)
        await end_child(self._process, *((_GRACE_S, call) for call in insist))


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Give the two ends to use, and keep stdout clean while they are in use."""
    if _is_pipe(_OUT_FD, os.O_WRONLY) and _is_pipe(_IN_FD, os.O_RDONLY):
        with os.fdopen(_IN_FD, "rb") as source, os.fdopen(_OUT_FD, "wb") as sink:
            yield source, sink
        return
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as sink:
        sys.stdout.flush()
        os.dup2(2, 1)
        try:
            yield source, sink
        finally:
            sys.stdout.flush()
            with contextlib.suppress(ValueError):  # the loop has closed it
                os.dup2(sink.fileno(), 1)


def _is_pipe(fd: int, mode: int) -> bool:
    """Tell whether the parent gave us this end; the event loop's own files are not pipes.

    The direction counts: the job server of make hands down 3 and 4 the other way round.
    """
    try:
        kind = os.fstat(fd).st_mode
        access = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        return False
    if stat.S_ISSOCK(kind):
        return access == os.O_RDWR
    return stat.S_ISFIFO(kind) and access == mode


async def _open(
    source: IO[bytes], sink: IO[bytes]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sink
        )
    except ValueError as error:
        raise InvalidInput(f"cannot serve stdio: {error}") from error
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
