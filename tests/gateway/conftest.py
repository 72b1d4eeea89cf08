"""A gateway on loopback, as it is run, with somebody who looks at what passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest

from sightline.cli.inspect import listen
from sightline.gateway.observer import Passing
from sightline.gateway.proxy import Gateway, server_of
from sightline.gateway.tail import LiveTail

SECRET = "an-unguessable-part"


@dataclass
class Running:
    """A gateway that runs: its address, a client that knows it, and what passed."""

    port: int
    client: httpx2.AsyncClient
    passed: asyncio.Queue[Passing] = field(default_factory=asyncio.Queue)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/{SECRET}"


Start = Callable[..., AbstractAsyncContextManager[Running]]


@asynccontextmanager
async def running(
    upstreams: Mapping[str, str], tail: LiveTail | None = None
) -> AsyncIterator[Running]:
    """Run a gateway for as long as a block takes."""
    listening = listen(0)
    port = listening.getsockname()[1]
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:
        found = Running(port, client)
        application = Gateway(SECRET, port, upstreams, found.passed.put_nowait, tail)
        server = server_of(application)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield found
        finally:
            server.should_exit = True
            await serving
            await application.close()


@pytest.fixture
def gateway() -> Start:
    return running
