"""Anthropic's SDK: Messages."""

from __future__ import annotations

import anthropic
import httpx2

from sightline.agent.models.access import Access
from sightline.agent.models.posting import Posting, timeout_of

__all__ = ["Anthropic"]


class Anthropic(Posting):
    """A connection to Anthropic's API through its SDK; sends our bytes, yields its stream."""

    errors = (anthropic.AnthropicError, httpx2.HTTPError)

    def __init__(self, access: Access) -> None:
        key = access.key.reveal() if access.key else None
        super().__init__(
            anthropic.AsyncAnthropic(
                api_key=key,
                base_url=access.base_url,
                max_retries=0,
                timeout=timeout_of(access),
            )
        )
