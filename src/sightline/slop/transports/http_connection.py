"""HTTP servers at ports of loopback: a deadline for each request, and one query for the user.

Anybody on this machine can connect. A connection closes if a request is incomplete `request_s`
after the connection was made or its first byte came. Further bytes do not extend the deadline.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sightline.slop.transports.sockets import REFUSAL, Users, user_refusal


class PortConnection(H11Protocol):
    """One connection of a uvicorn server. `incomplete` are the client's states with a deadline."""

    users: ClassVar[Users] = "own"
    request_s: ClassVar[float] = 5.0
    incomplete: ClassVar[frozenset[object]] = frozenset({h11.IDLE, h11.SEND_BODY})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.users != "any":
            self.app_state = {**self.app_state, REFUSAL: user_refusal(transport)}
        self._deadline = self.loop.call_later(self.request_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in self.incomplete:
            self._deadline.cancel()
        elif self._deadline.cancelled():
            self._deadline = self.loop.call_later(self.request_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._deadline.cancel()


def port_server(
    application: Any, users: Users, connection: type[PortConnection], **settings: Any
) -> uvicorn.Server:
    """Return a server whose port accepts `users`. It logs no request. `settings` are uvicorn's."""
    config = uvicorn.Config(
        application, http=type("Connection", (connection,), {"users": users}), log_config=None,
        access_log=False, server_header=False, timeout_graceful_shutdown=1, **settings,
    )  # fmt: skip
    return uvicorn.Server(config)
