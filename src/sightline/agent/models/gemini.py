"""Google's API: Gemini, by key."""

from __future__ import annotations

from typing import Final

import msgspec

from sightline.agent.models.access import Access
from sightline.agent.models.posting import Posting

VERSION: Final = "/v1beta"


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
        response = await self._sent(method, f"{VERSION}/{path}", data)
        return await response.aread()
