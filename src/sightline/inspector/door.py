"""Who may talk to the inspector: whoever was handed a token, from a page of its own.

    GET /?token=…   a token that is waited for: spent, and answered with the cookie and the way in
    /ROOM/…         the cookie; a Host that is ours; an Origin, if any, that is ours
    /healthz, /readyz   the same without the cookie
    anything but GET and HEAD: an Origin that is ours, and a JSON body

A page elsewhere cannot read the token, cannot make a browser send the cookie, and is
recognised by its Origin if it tries. A name rebound to loopback is recognised by its
Host. A frame around us is refused by the policy sent with every answer.

Browsers send a cookie to every port of its host (RFC 6265, 8.5), to a server of another
user of this machine too; but only below its path, so the page has an unguessable one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from sightline.slop.transports.door import Refusal, is_same_secret, loopback_hosts

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
    # W3C Content Security Policy Level 3, with Trusted Types.
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


def _nothing() -> None:
    """Do nothing when a token is spent."""


@dataclass(slots=True)
class PageDoor:
    """Who is let in to one launch: its secrets, the tokens still to be spent, its names."""

    secret: str
    room: str  # the first part of every address but the one with a token
    port: int
    _tokens: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(loopback_hosts(self.port))

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    def expect(self, token: str, spent: Callable[[], None] = _nothing) -> None:
        """Wait for a token, once; `spent` is called when it came."""
        self._tokens[token] = spent

    def expects(self, token: str) -> bool:
        """Return True if a token can be exchanged."""
        return any(is_same_secret(token, known) for known in self._tokens)

    def exchanges(self, token: str) -> bool:
        """Return True if a token can be exchanged. After this call it cannot."""
        found = [known for known in self._tokens if is_same_secret(token, known)]
        for known in found:
            self._tokens.pop(known)()
        return bool(found)

    def stranger(
        self, method: str, headers: Mapping[str, str], *, arriving: bool = False
    ) -> Refusal | None:
        """Refuse what cannot come from a page of ours, whatever it knows.

        Who is `arriving` with a token comes from a file or from another program, which a
        browser calls another site.
        """
        if headers.get("host", "").lower() not in self.hosts:
            # RFC 9110 §15.5.20: misdirected request.
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, "this Host is not ours")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return Refusal(HTTPStatus.FORBIDDEN, "this Origin is not ours")
        if arriving and "prefetch" in headers.get("sec-purpose", headers.get("purpose", "")):
            return Refusal(HTTPStatus.FORBIDDEN, "a prefetch does not spend a token")
        # W3C Fetch Metadata Request Headers: Sec-Fetch-Site.
        if not arriving and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return Refusal(HTTPStatus.FORBIDDEN, "asked for by another site")
        if method not in SAFE:
            if origin is None:
                return Refusal(HTTPStatus.FORBIDDEN, "a change must name its Origin")
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change must be JSON")
        return None

    def inside(self, path: str) -> str | None:
        """Return an address as seen from our room; None if it is not in it."""
        room, slash, rest = path.removeprefix("/").partition("/")
        return f"/{rest}" if slash and is_same_secret(room, self.room) else None

    def admits(self, cookie: str | None) -> bool:
        """Tell whether a request shows the cookie that a token was exchanged for."""
        return cookie is not None and is_same_secret(cookie, self.secret)
