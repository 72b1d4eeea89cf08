"""Ollama's own API, over the HTTP client that the vendors' SDKs use.

Not over the package `ollama`: its methods build every body from their own types, in an order
of their own, and it has no way to send bytes. There is no authentication and no address to
find that it would do for us.
"""

from __future__ import annotations

import httpx2

from sightline.agent.models.access import Access
from sightline.agent.models.connected import Response, VendorRefusal, refusal_of
from sightline.agent.models.posting import timeout_of
from sightline.context.dialects.request import Request

__all__ = ["Ollama"]


class Ollama:
    """A connection to an Ollama server's chat API, over plain HTTP."""

    errors = (httpx2.HTTPError,)

    def __init__(self, access: Access) -> None:
        self._base = access.base_url.rstrip("/")
        bearer = {"Authorization": f"Bearer {access.key.reveal()}"} if access.key else {}
        self._client = httpx2.AsyncClient(
            headers={"Content-Type": "application/json", **bearer},
            timeout=timeout_of(access),
        )

    async def send(self, request: Request) -> Response:
        post = self._client.build_request(
            "POST", self._base + request.path, content=request.data, headers=request.headers
        )
        response = await self._client.send(post, stream=True)
        if response.is_error:
            await response.aread()
            response.raise_for_status()
        return response

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._client.aclose()
