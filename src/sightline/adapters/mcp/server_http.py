"""The MCP server over HTTP, for this machine: nobody gets in without the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.slop.transports.door import Door, Visitor
from sightline.slop.transports.health import WORDS, health_status

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sightline.adapters.mcp.server import AppsServer


PATH = "/mcp"


def guarded_app(apps: AppsServer, token: str) -> ASGIApp:
    """Make the ASGI app: the protocol at `/mcp`, behind a door that checks Host, Origin, token.

    A browser's page is refused, whatever it knows: a program has no Origin. Whether the server
    lives is told without a token.
    """
    door = Door.of(None, (), token)
    inside = apps.protocol.streamable_http_app(streamable_http_path=PATH)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            pairs = (
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in scope["headers"]
            )
            status = health_status(scope["path"], is_ready=lambda: True)
            refusal = door.refusal(Visitor.of(pairs), asks_token=status is None)
            if status is not None and refusal is None:
                await _answer(send, status, WORDS[status])
                return
            if refusal is not None:
                await _answer(send, refusal.status, refusal.reason.encode())
                return
        await inside(scope, receive, send)

    return app


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers: list[tuple[bytes, bytes]] = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    start = {"type": "http.response.start", "status": int(status), "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
