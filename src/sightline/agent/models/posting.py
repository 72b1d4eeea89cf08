"""Post bytes through an SDK of the family that OpenAI's and Anthropic's belong to.

`post` with `content` is their documented way to send a body as it is; the raw-response header
is what `with_streaming_response` sets, and leaves the answer's body to us.
"""

from __future__ import annotations

from typing import Any, Final

import httpx2

from sightline.agent.models.access import CONNECT_S, Access
from sightline.agent.models.connected import Response, VendorRefusal, refusal_of
from sightline.context.dialects.request import Request

__all__ = ["Posting", "timeout_of"]

HEADERS: Final = {
    "X-Stainless-Raw-Response": "stream",
    "Accept": "text/event-stream",
    "Content-Type": "application/json",
}


class Posting:
    """A connection through such an SDK; a vendor's subclass gives the client and its errors."""

    errors: tuple[type[Exception], ...]

    def __init__(self, client: Any) -> None:
        self._client = client

    def url(self, path: str) -> str:
        """Give the address of a path of the API; the client knows its base."""
        return path

    async def send(self, request: Request) -> Response:
        response: Response = await self._client.post(
            self.url(request.path),
            content=request.data,
            cast_to=httpx2.Response,
            options={"headers": {**HEADERS, **request.headers}},
        )
        return response

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._client.close()


def timeout_of(access: Access) -> httpx2.Timeout:
    """Give a client's timeouts: long for the words of a reply, short for a connection."""
    return httpx2.Timeout(access.limits.silence_s, connect=CONNECT_S)
