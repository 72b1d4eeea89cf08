"""A request as a command that sends it again, to where it went and with no key in it.

Where it went is what the settings say of the endpoint in the model's label. Of an endpoint
that nobody knows any more the reader has to say it: what was sent to one's own server is
never offered to a vendor.
"""

from __future__ import annotations

import re
import shlex
from typing import Final
from urllib.parse import urlsplit

from sightline.agent.models.access import address
from sightline.agent.models.choose import Reach
from sightline.agent.models.vendors import VENDORS, Sdk
from sightline.context.dialects.request import Request

__all__ = ["curl"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Anthropic Messages API, Gemini API: a header for the key. The others: RFC 6750 §2.1.
_KEYS: Final[dict[Sdk, str]] = {"anthropic": "x-api-key: ", "gemini": "x-goog-api-key: "}
_BEARER: Final = "Authorization: Bearer "
_BEDROCK: Final = '"https://bedrock-runtime.$AWS_REGION.amazonaws.com"'


def curl(request: Request, endpoint: str, reach: Reach | None) -> str:
    """Write a request as a `curl` command, with variables for what is the reader's to know."""
    vendor = VENDORS.get(request.profile.endpoint)
    sdk: Sdk = "openai" if vendor is None else vendor.sdk
    notes: list[str] = []
    if reach is None:
        notes.append(f"the settings have no endpoint {endpoint!r}: set BASE_URL and API_KEY")
    if sdk == "bedrock":
        notes.append("AWS wants a signature, which this command lacks: it is refused as it stands")
    elif sdk == "local":
        notes.append("the embedded model has no address: this is for a server with its weights")
    lines = [
        f"curl {_url(request, sdk, reach)}",
        "-H 'Content-Type: application/json'",
        *_auth(sdk, reach),
        *(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in request.headers.items()),
        f"--data-raw {shlex.quote(request.data.decode())}",
    ]
    return "\n".join([*(f"# {note}" for note in notes), " \\\n  ".join(lines)])


def _url(request: Request, sdk: Sdk, reach: Reach | None) -> str:
    base = "" if reach is None else reach.base_url
    parts = urlsplit(base)
    if parts.netloc and "@" not in parts.netloc and not parts.query:
        whole = address(base, request.path) if sdk == "openai" else base.rstrip("/") + request.path
        return shlex.quote(whole)
    unknown = _BEDROCK if sdk == "bedrock" and reach is not None and not base else '"$BASE_URL"'
    return unknown + shlex.quote(request.path)


def _auth(sdk: Sdk, reach: Reach | None) -> list[str]:
    if sdk in ("bedrock", "local") or (reach is not None and not reach.key_variable):
        return []
    named = "" if reach is None else reach.key_variable
    variable = named if _VARIABLE.fullmatch(named) else "API_KEY"
    return [f'-H "{_KEYS.get(sdk, _BEARER)}${variable}"']
