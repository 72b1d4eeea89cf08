"""OpenAI's SDK: Chat Completions, Responses, and every endpoint that is compatible."""

from __future__ import annotations

from typing import Final

import httpx2
import openai

from sightline.agent.models.access import Access, address
from sightline.agent.models.posting import Posting, timeout_of

__all__ = ["OpenAI"]

# The SDK insists on a key; servers at home do not look at it.
NO_KEY: Final = "none"


class OpenAI(Posting):
    """A connection to OpenAI's API, or a compatible one, through OpenAI's SDK."""

    errors = (openai.OpenAIError, httpx2.HTTPError)

    def __init__(self, access: Access) -> None:
        self._base = access.base_url
        key = access.key.reveal() if access.key else NO_KEY
        super().__init__(
            openai.AsyncOpenAI(
                api_key=key, base_url=self._base, max_retries=0, timeout=timeout_of(access)
            )
        )

    def url(self, path: str) -> str:
        return address(self._base, path)
