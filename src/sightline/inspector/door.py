"""Who may talk to the inspector: whoever was given the address, from a page of its own.

    GET /?token=…   the launch token, once exchanged for a cookie that no other site can send
    any other       the cookie; a Host that is ours; an Origin, if any, that is ours
    anything but GET and HEAD: an Origin that is ours, and a JSON body

A page elsewhere cannot read the token, cannot make a browser send the cookie, and is
recognised by its Origin if it tries. A name rebound to loopback is recognised by its
Host. A frame around us is refused by the policy sent with every answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["COOKIE", "HEADERS", "Door", "Refusal", "policy"]

COOKIE: Final = "sightline"
SAFE: Final = frozenset({"GET", "HEAD"})

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def policy(*script_hashes: str) -> str:
    """Write the content security policy: our own files, the scripts named, and nothing else."""
    scripts = " ".join(["'self'", *(f"'{digest}'" for digest in script_hashes)])
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Door:
    """The secrets of one launch, and the names under which we are reached."""

    token: str
    secret: str
    port: int

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    def exchanges(self, token: str) -> bool:
        """Tell whether this is the launch token."""
        return _same(token, self.token)

    def stranger(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Refuse what cannot come from a page of ours, whatever it knows."""
        if headers.get("host", "").lower() not in self.hosts:
            return Refusal(421, "this Host is not ours")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return Refusal(403, "this Origin is not ours")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return Refusal(403, "asked for by another site")
        if method not in SAFE:
            if origin is None:
                return Refusal(403, "a change must name its Origin")
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return Refusal(415, "a change must be JSON")
        return None

    def admits(self, cookie: str | None) -> bool:
        """Tell whether a request shows the cookie that the token was exchanged for."""
        return cookie is not None and _same(cookie, self.secret)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())
