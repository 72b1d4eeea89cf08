"""Post bytes over HTTP, where a vendor knows us by one header.

Not through the vendors' SDKs: we write the bodies, and of an SDK nothing is left then but this,
for half a second to a second and a half of importing (`benchmarks.startup`). They use the
same HTTP client, so proxies, certificates and timeouts are as with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from sightline.agent.models.access import CONNECT_S, Access
from sightline.agent.models.connected import Response, VendorRefusal, refusal_of
from sightline.context.dialects.request import Request


class Posting:
    """A connection to an API; sends our bytes, yields its stream.

    A vendor's subclass gives the headers that say who we are. A redirect is followed only where
    the client takes the key out of a request to somebody else.
    """

    errors = (httpx2.HTTPError,)

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
        """Send a body; give the answer unread. Raises HTTPStatusError for one that is none."""
        post = self._client.build_request(method, self.url(path), content=data, headers=headers)
        response = await self._client.send(post, stream=True)
        if not response.is_success:
            await response.aread()
            response.raise_for_status()
        return response

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._client.aclose()
