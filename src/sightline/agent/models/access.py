"""How a model is reached: where, with which key, under which profile."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from sightline.agent.models.keys import Key
from sightline.config.settings import ReplySettings
from sightline.context.dialects.profile import Profile

CONNECT_S: Final = 10.0
# Limits for the body of a vendor's error, which may have no end.
REFUSAL_BYTES: Final = 64 * 1024
REFUSAL_S: Final = 10.0
LIMITS: Final = ReplySettings()
VERSIONED: Final = re.compile(r"^.*?/v\d+(?=/)")


class Access(msgspec.Struct, frozen=True):
    """How one model is reached. `base_url` is empty where the SDK knows it by itself.

    `remedy` completes "refused: …" for the user: which variable holds the key.
    """

    label: str
    profile: Profile
    base_url: str = ""
    key: Key | None = None
    remedy: str = ""
    limits: ReplySettings = LIMITS
    region: str = ""

    @property
    def location(self) -> str:
        """Its host and port, for messages; the endpoint's name where only the SDK knows them."""
        return location_of(self.base_url) or self.profile.endpoint


def location_of(url: str) -> str:
    """Return the host and port of an address, without the password that may be in it."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""


def public_url(url: str) -> str:
    """Return an address without what may be secret in it: user, password, query, fragment."""
    parts = urlsplit(url)
    # RFC 3986 §3.2.1: userinfo stands before the last @.
    netloc = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{netloc}{parts.path}" if netloc else ""


def address(base_url: str, path: str) -> str:
    """Join an endpoint's path to a base, which by OpenAI's custom has the version in it.

    `https://host/v1` + `/v1/chat/completions` is `https://host/v1/chat/completions`; to a
    base without a path the whole of it is added.
    """
    base = base_url.rstrip("/")
    return base + (VERSIONED.sub("", path) if urlsplit(base).path else path)
