"""OpenAI's SDK: Chat Completions, Responses, and every endpoint that is compatible.

`post` with `content` is its documented way to send a body as it is; the raw-response header
is what `with_streaming_response` sets, and leaves the body to us.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import httpx2
import openai

from sightline.dialects.request import Request
from sightline.models.access import CONNECT_S, Access
from sightline.models.http import Refusal, Response, refusal_of

__all__ = ["OpenAI", "address"]

RAW: Final = {"X-Stainless-Raw-Response": "stream", "Accept": "text/event-stream"}
VERSIONED: Final = re.compile(r"^.*?/v\d+(?=/)")
# The SDK insists on a key; servers at home do not look at it.
NO_KEY: Final = "none"


class OpenAI:
    """A connection."""

    errors = (openai.OpenAIError, httpx2.HTTPError)

    def __init__(self, access: Access) -> None:
        timeout = httpx2.Timeout(access.read_s, connect=CONNECT_S)
        self._base = access.base_url
        self._client = openai.AsyncOpenAI(
            api_key=access.key.reveal() if access.key else NO_KEY,
            base_url=self._base,
            max_retries=0,
            timeout=timeout,
        )

    async def send(self, request: Request) -> Response:
        return await self._client.post(
            address(self._base, request.path),
            content=request.data,
            cast_to=httpx2.Response,
            options={"headers": {**RAW, "Content-Type": "application/json", **request.headers}},
        )

    def refusal(self, error: Exception) -> Refusal | None:
        return refusal_of(error)

    async def close(self) -> None:
        await self._client.close()


def address(base_url: str, path: str) -> str:
    """Join an endpoint's path to a base, which by this SDK's custom has the version in it.

    `https://host/v1` + `/v1/chat/completions` is `https://host/v1/chat/completions`; to a
    base without a path the whole of it is added.
    """
    base = base_url.rstrip("/")
    return base + (VERSIONED.sub("", path) if urlsplit(base).path else path)
