"""Loopback: a plain server whose connections end before the test does, and a port for another."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

LONGEST_S = 30


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port for a program that will listen there, and perhaps again: nobody else is given it.

    It is bound, which Linux allows once more to whoever says SO_REUSEADDR, as servers do. While
    nobody listens who calls is refused, and cannot come to be connected with itself.
    """
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        if sys.platform != "linux":
            place.close()
        yield port


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Serve every connection with a coroutine; gives the port.

    A connection that outlives the test would be the warning of another one.
    """
    serving: set[asyncio.Task[None] | None] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        ended = asyncio.gather(*filter(None, serving), return_exceptions=True)
        await asyncio.wait_for(ended, LONGEST_S)
