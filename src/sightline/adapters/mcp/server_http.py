"""The MCP server over HTTP, for this machine: nobody gets in without the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.slop.transports.door import Door, Visitor

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sightline.adapters.mcp.server import AppsServer

__all__ = ["PATH", "guarded_app"]

PATH = "/mcp"


def guarded_app(apps: AppsServer, token: str) -> ASGIApp:
    """Make the ASGI app: the protocol at `/mcp`, behind a door that checks Host, Origin, token.

    A browser's page is refused, whatever it knows: a program has no Origin.
    """
    door = Door.of(None, (), token)
    inside = apps.protocol.streamable_http_app(streamable_http_path=PATH)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            pairs = (
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in scope["headers"]
            )
            refusal = door.refusal(Visitor.of(pairs))
            if refusal is not None:
                await _refuse(send, refusal.status.value, refusal.reason)
                return
        await inside(scope, receive, send)

    return app


async def _refuse(send: Send, status: int, reason: str) -> None:
    headers: list[tuple[bytes, bytes]] = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": reason.encode()})
