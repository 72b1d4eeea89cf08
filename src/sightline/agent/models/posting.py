"""Post bytes over HTTP to the vendors that know us by one header.

Not through the vendors' SDKs: we write the bodies, and of an SDK nothing is left then but this,
for half a second to a second and a half of importing (`benchmarks.startup`). They use the
same HTTP client, so proxies, certificates and timeouts are as with them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import httpx2
import msgspec

from sightline.agent.models.access import CONNECT_S, REFUSAL_BYTES, REFUSAL_S, Access, address
from sightline.agent.models.connected import Response, VendorRefusal
from sightline.context.dialects.request import Request

# OpenAI, API reference, authentication: who has several says by these which one is billed. The
# variables are those that its SDK reads.
_BILLED: Final = {
    "OpenAI-Organization": "OPENAI_ORG_ID",
    "OpenAI-Project": "OPENAI_PROJECT_ID",
}
_GEMINI: Final = "/v1beta"


class _Refused(Exception):
    """A vendor answered with an error. The arguments are those of a VendorRefusal."""


class Posting:
    """A connection to an API; sends our bytes, yields its stream.

    A vendor's subclass gives the headers that say who we are. A redirect is followed only where
    the client takes the key out of a request to somebody else.
    """

    errors = (httpx2.HTTPError, _Refused)

    def __init__(
        self, access: Access, headers: Mapping[str, str], *, redirects: bool = False
    ) -> None:
        self._base = access.base_url.rstrip("/")
        self._client = httpx2.AsyncClient(
            headers={"Content-Type": "application/json", "User-Agent": "sightline", **headers},
            # Long for the words of a reply, short for a connection.
            timeout=httpx2.Timeout(access.limits.silence_s, connect=CONNECT_S),
            follow_redirects=redirects,
        )

    def url(self, path: str) -> str:
        """Give the address of a path of the API."""
        return self._base + path

    async def send(self, request: Request) -> Response:
        return await self._sent("post", request.path, request.data, request.headers)

    async def _sent(
        self, method: str, path: str, data: bytes, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Send a body and return the answer, unread. Raises _Refused for an error."""
        post = self._client.build_request(method, self.url(path), content=data, headers=headers)
        response = await self._client.send(post, stream=True)
        if not response.is_success:
            body = b""
            with suppress(TimeoutError, httpx2.HTTPError):  # the status is known
                async with asyncio.timeout(REFUSAL_S):
                    body = await anext(response.aiter_bytes(REFUSAL_BYTES), b"")
            await response.aclose()
            raise _Refused(response.status_code, response.headers, body)
        return response

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return VendorRefusal(*error.args) if isinstance(error, _Refused) else None

    async def close(self) -> None:
        await self._client.aclose()


class Anthropic(Posting):
    """A connection to Anthropic's API."""

    def __init__(self, access: Access) -> None:
        # Anthropic, API overview, authentication; the version is in the request's own headers.
        key = {"x-api-key": access.key.reveal()} if access.key else {}
        super().__init__(access, {"Accept": "text/event-stream", **key})


class OpenAI(Posting):
    """A connection to OpenAI's API, or a compatible one."""

    def __init__(self, access: Access) -> None:
        headers = {name: os.environ[key] for name, key in _BILLED.items() if os.environ.get(key)}
        if access.key:  # servers at home want none
            headers["Authorization"] = f"Bearer {access.key.reveal()}"
        super().__init__(access, {"Accept": "text/event-stream", **headers}, redirects=True)

    def url(self, path: str) -> str:
        return address(self._base, path)


class Gemini(Posting):
    """A connection to Google's Gemini API, with the resources that it holds by name."""

    def __init__(self, access: Access) -> None:
        # Gemini API, using API keys: the header, so that no address has the key in it.
        key = {"x-goog-api-key": access.key.reveal()} if access.key else {}
        super().__init__(access, key)

    async def hold(self, body: bytes) -> str:
        """Create a named resource; return its name."""
        return str(msgspec.json.decode(await self._whole("post", "cachedContents", body))["name"])

    async def extend(self, name: str, ttl_s: int) -> None:
        """Keep a named resource so long from now."""
        await self._whole("patch", name, msgspec.json.encode({"ttl": f"{ttl_s}s"}))

    async def release(self, name: str) -> None:
        """Delete a named resource."""
        await self._whole("delete", name, b"")

    async def _whole(self, method: str, path: str, data: bytes) -> bytes:
        response = await self._sent(method, f"{_GEMINI}/{path}", data)
        return await response.aread()


class Ollama(Posting):
    """A connection to an Ollama server's chat API."""

    def __init__(self, access: Access) -> None:
        bearer = {"Authorization": f"Bearer {access.key.reveal()}"} if access.key else {}
        super().__init__(access, bearer, redirects=True)
