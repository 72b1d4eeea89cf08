"""OpenAI's SDK: Chat Completions, Responses, and every endpoint that is compatible."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import httpx2
import openai

from sightline.models.access import Access
from sightline.models.posting import Posting, timeout_of

__all__ = ["OpenAI", "address"]

VERSIONED: Final = re.compile(r"^.*?/v\d+(?=/)")
# The SDK insists on a key; servers at home do not look at it.
NO_KEY: Final = "none"


class OpenAI(Posting):
    """A connection."""

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


def address(base_url: str, path: str) -> str:
    """Join an endpoint's path to a base, which by this SDK's custom has the version in it.

    `https://host/v1` + `/v1/chat/completions` is `https://host/v1/chat/completions`; to a
    base without a path the whole of it is added.
    """
    base = base_url.rstrip("/")
    return base + (VERSIONED.sub("", path) if urlsplit(base).path else path)
