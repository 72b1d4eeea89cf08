"""A network that can be cut: a proxy on loopback that, when told to, carries nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress


class Partition:
    """Passes everything on until it is cut: then bytes are swallowed and nobody is told."""

    def __init__(self) -> None:
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        """Carry nothing, on connections that are there and on new ones."""
        self._open.clear()

    def heal(self) -> None:
        """Carry what comes from now on; connections that lost something end."""
        self._open.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            while data := await reader.read(65_536):
                if not self._open.is_set():
                    await self._open.wait()
                    break
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def partition(port: int) -> AsyncIterator[Partition]:
    """A proxy before a port of this machine's."""
    proxy = Partition()
    carrying: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            with closing(far_writer):
                await asyncio.gather(
                    proxy._carry(reader, far_writer), proxy._carry(far_reader, writer)
                )

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(reader, writer))
        carrying.add(task)
        task.add_done_callback(carrying.discard)
        task.add_done_callback(lambda _: writer.close())  # it may be ended before it has begun

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.heal()
        for task in list(carrying):
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
