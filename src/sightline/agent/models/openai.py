"""OpenAI's APIs: Chat Completions, Responses, and every endpoint that is compatible."""

from __future__ import annotations

import os
from typing import Final

from sightline.agent.models.access import Access, address
from sightline.agent.models.posting import Posting

# OpenAI, API reference, authentication: who has several says by these which one is billed. The
# variables are those that its SDK reads.
_BILLED: Final = {
    "OpenAI-Organization": "OPENAI_ORG_ID",
    "OpenAI-Project": "OPENAI_PROJECT_ID",
}


class OpenAI(Posting):
    """A connection to OpenAI's API, or a compatible one."""

    def __init__(self, access: Access) -> None:
        headers = {name: os.environ[key] for name, key in _BILLED.items() if os.environ.get(key)}
        if access.key:  # servers at home want none
            headers["Authorization"] = f"Bearer {access.key.reveal()}"
        super().__init__(access, {"Accept": "text/event-stream", **headers}, redirects=True)

    def url(self, path: str) -> str:
        return address(self._base, path)
