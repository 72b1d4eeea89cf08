"""A real web server on loopback, for as long as a block runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[str]:
    """Run an ASGI application on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with served_on(application, listening) as place:
            yield place


@asynccontextmanager
async def served_on(application: Any, listening: socket.socket) -> AsyncIterator[str]:
    """Run an ASGI application on a socket that listens."""
    config = uvicorn.Config(
        application, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
