"""Ollama's own API."""

from __future__ import annotations

from sightline.agent.models.access import Access
from sightline.agent.models.posting import Posting


class Ollama(Posting):
    """A connection to an Ollama server's chat API."""

    def __init__(self, access: Access) -> None:
        bearer = {"Authorization": f"Bearer {access.key.reveal()}"} if access.key else {}
        super().__init__(access, bearer, redirects=True)
