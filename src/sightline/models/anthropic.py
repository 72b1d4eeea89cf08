"""Anthropic's SDK: Messages. The raw body goes through `post`, as in `models.openai`."""

from __future__ import annotations

import anthropic
import httpx2

from sightline.dialects.request import Request
from sightline.models.access import CONNECT_S, Access
from sightline.models.http import Refusal, Response, refusal_of
from sightline.models.openai import RAW

__all__ = ["Anthropic"]


class Anthropic:
    """A connection."""

    errors = (anthropic.AnthropicError, httpx2.HTTPError)

    def __init__(self, access: Access) -> None:
        self._client = anthropic.AsyncAnthropic(
            api_key=access.key.reveal() if access.key else None,
            base_url=access.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(access.read_s, connect=CONNECT_S),
        )

    async def send(self, request: Request) -> Response:
        return await self._client.post(
            request.path,
            content=request.data,
            cast_to=httpx2.Response,
            options={"headers": {**RAW, "Content-Type": "application/json", **request.headers}},
        )

    def refusal(self, error: Exception) -> Refusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._client.close()
