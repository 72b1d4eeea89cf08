"""Connections to the inspector's server that wait for nobody.

    a request is here, whole, within `request_s` of its connection or its first byte
    what was written is read within `write_s`
    at most `connections` are open; who waits longest makes room for who comes

Anybody on this machine can connect. Whoever sends half a request, reads nothing of an
answer, or opens more connections than a browser needs, is let go; those who are being
answered are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

BACKLOG: Final = 64
_INCOMPLETE: Final = frozenset({h11.IDLE, h11.SEND_BODY})


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a connection is waited for, and how many there are."""

    request_s: float = 10.0
    write_s: float = 30.0
    connections: int = 64


def server_of(application: Any, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    """Make a server for an application that keeps to the limits."""
    protocol = type("Connection", (_Connection,), {"limits": limits or ConnectionLimits()})
    config = uvicorn.Config(
        application,
        http=protocol,
        ws="none",  # what is upgraded would leave the limits
        backlog=BACKLOG,
        log_level="error",  # a stranger's nonsense is no line on the user's terminal
        log_config=None,  # the program says how logs are written
        access_log=False,  # it would keep the token
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


class _Clock:
    """Calls something when its time is up, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._running: asyncio.TimerHandle | None = None

    def start(self, act: Callable[[], None]) -> None:
        """Begin to count, or go on counting."""
        if self._running is None:
            self._running = self._loop.call_later(self._seconds, act)

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None


class _Connection(H11Protocol):
    """One connection, with a clock for its request and one for what it was sent."""

    limits: ClassVar[ConnectionLimits]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._request_clock = _Clock(self.loop, self.limits.request_s)
        self._write_clock = _Clock(self.loop, self.limits.write_s)
        # So we hear of every byte that waits to be read, also when we are closing already.
        transport.set_write_buffer_limits(high=0)
        self._watch_request()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_clock.start(self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_clock.stop()

    def shutdown(self) -> None:
        """End with the server. What is being streamed is cut off: news have no end of their own."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._request_clock.stop()
        self._write_clock.stop()

    def _watch_request(self) -> None:
        """Run the clock while a request is incomplete; more bytes do not set it back."""
        if self.conn.their_state in _INCOMPLETE:
            self._request_clock.start(self.transport.abort)
        else:
            self._request_clock.stop()

    def _waits(self) -> bool:
        """Tell whether nothing is being answered here. Before a request there is no cycle."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, _Connection) and other is not self and other._waits()
        ]
        oldest = min(waiting, key=lambda other: other._since, default=self)
        oldest.transport.abort()
