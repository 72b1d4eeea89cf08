"""How a model is reached: where, with which key, under which profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sightline.dialects.profile import Profile
from sightline.models.keys import Key

__all__ = ["CONNECT_S", "READ_S", "Access"]

CONNECT_S: Final = 10.0
# Reasoning models are silent for minutes before their first word.
READ_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Access:
    """Everything a client needs. `base_url` is empty where the SDK knows it by itself.

    `remedy` completes "refused: …" for the user: which variable holds the key.
    """

    label: str
    profile: Profile
    base_url: str = ""
    key: Key | None = None
    remedy: str = ""
    read_s: float = READ_S
    region: str = ""

    @property
    def place(self) -> str:
        """The host, for messages; an address may have a password in it."""
        url = urlsplit(self.base_url)
        port = f":{url.port}" if url.port else ""
        return f"{url.hostname}{port}" if url.hostname else self.profile.endpoint
