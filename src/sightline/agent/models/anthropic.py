"""Anthropic's API: Messages."""

from __future__ import annotations

from sightline.agent.models.access import Access
from sightline.agent.models.posting import Posting


class Anthropic(Posting):
    """A connection to Anthropic's API."""

    def __init__(self, access: Access) -> None:
        # Anthropic, API overview, authentication; the version is in the request's own headers.
        key = {"x-api-key": access.key.reveal()} if access.key else {}
        super().__init__(access, {"Accept": "text/event-stream", **key})
