"""Google's SDK: Gemini, by key.

Its public methods write the body themselves. The client beneath them takes bytes as they
are (`HttpRequest.data`), adds key and address, and gives the response back unread; it is
not part of the documented surface, which is why everything we use of it is in `send` and `hold`.
"""

from __future__ import annotations

from typing import Final, cast

import httpx2
import msgspec
from google import genai
from google.genai import errors, types

from sightline.agent.models.access import Access
from sightline.agent.models.connected import Response, VendorRefusal, refusal_of
from sightline.agent.models.posting import timeout_of
from sightline.context.dialects.request import Request

__all__ = ["Gemini"]

VERSION: Final = "v1beta"


class Gemini:
    """A connection to Google's Gemini API; given an HTTP client, the SDK does not seek aiohttp."""

    errors = (errors.APIError, httpx2.HTTPError)

    def __init__(self, access: Access) -> None:
        self._silence_s = access.limits.silence_s
        self._http = httpx2.AsyncClient(timeout=timeout_of(access))
        options = types.HttpOptions(
            base_url=access.base_url, api_version=VERSION, httpx_async_client=self._http
        )
        self._client = genai.Client(
            api_key=access.key.reveal() if access.key else None,
            vertexai=False,
            http_options=options,
        )

    async def send(self, request: Request) -> Response:
        api = self._client._api_client
        path = request.path.removeprefix(f"/{VERSION}/")
        prepared = api._build_request("post", path, {}, {"headers": request.headers})
        prepared.data = request.data
        # Without one of its own the SDK would put none in place of the client's.
        prepared.timeout = self._silence_s
        response = await api._async_request_once(prepared, stream=True, implicit_retry=False)
        return cast("Response", response.response_stream)

    async def hold(self, body: bytes) -> str:
        """Create a named resource; return its name."""
        api = self._client._api_client
        prepared = api._build_request("post", "cachedContents", {}, None)
        prepared.data = body
        prepared.timeout = self._silence_s
        response = await api._async_request_once(prepared, stream=False, implicit_retry=False)
        return str(msgspec.json.decode(response.response_stream[0])["name"])

    async def extend(self, name: str, ttl_s: int) -> None:
        """Keep a named resource so long from now."""
        await self._client.aio.caches.update(name=name, config={"ttl": f"{ttl_s}s"})

    async def release(self, name: str) -> None:
        """Delete a named resource."""
        await self._client.aio.caches.delete(name=name)

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._http.aclose()
