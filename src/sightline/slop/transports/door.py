"""Who gets in over HTTP, decided from what a request says before it is answered. Pure.

A browser connects to loopback from any page and sends its cookies along, so a request
must name a `Host` that is ours (which stops names that were pointed at this machine) and,
if it has an `Origin`, one that is listed; a program that is not a browser has none. Both
lists are exact. A token travels as `Authorization: Bearer …` or, from a page that cannot
set headers, as the subprotocol `slop.bearer.` + base64url(token) beside `slop`, or as the deployed
browser extension has it, as a subprotocol behind the label `slop.bearer`; never in the URL, which
ends up in logs.

Every server that speaks HTTP asks the same door and gets the same answer: 403 for the
name and the page, 401 for the token. What it then sends of a page is `packed`.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import msgspec

from sightline.errors import InvalidInput
from sightline.slop.transports.link import Peer

SUBPROTOCOL: Final = "slop"
# SLOP, transport: a browser offers this label and the token; the answer names the label alone.
LABEL: Final = "slop.bearer"
_BEARER: Final = f"{LABEL}."
# A name or an address of version 4, or one of version 6 in brackets; then perhaps a port.
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:]+))(?::[0-9]+)?")

# RFC 9110 §12.5.3: a coding with the weight 0 is not acceptable.
_TAKES_GZIP: Final = re.compile(r"(?:^|,)\s*gzip\s*(?:$|,|;\s*q=(?!0(?:\.0*)?\s*(?:$|,)))", re.I)


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not let in: a status for its program, a reason for its author."""

    status: HTTPStatus
    reason: str


class Visitor(msgspec.Struct, frozen=True):
    """What a request says about who makes it: header names in lower case, with their values."""

    headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]]) -> Visitor:
        """Take headers as they came, repeated ones included."""
        return cls(tuple((name.lower(), value) for name, value in headers))

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for header, value in self.headers if header == name]

    @property
    def subprotocols(self) -> list[str]:
        """The WebSocket subprotocols that the client offers."""
        # RFC 6455 §11.3.4: the header may be repeated, and each may hold a list.
        offered = ",".join(self.values("sec-websocket-protocol")).split(",")
        return [name.strip() for name in offered if name.strip()]

    @property
    def token(self) -> str | None:
        """The token that is shown, by header or by subprotocol."""
        for value in self.values("authorization"):
            scheme, _, token = value.partition(" ")
            # RFC 6750 §2.1: `Authorization: Bearer`; RFC 9110 §11.1: a scheme in any case.
            if scheme.lower() == "bearer":
                return token.strip()
        for name in self.subprotocols:
            if name.startswith(_BEARER):
                text = name.removeprefix(_BEARER)
                with contextlib.suppress(ValueError):
                    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        others = [name for name in self.subprotocols if name not in {LABEL, SUBPROTOCOL}]
        return others[0] if LABEL in self.subprotocols and others else None

    def peer(self, transport: str, address: tuple[str, int] | None) -> Peer:
        """What an app is told of this visitor."""
        where = f"{address[0]}:{address[1]}" if address else ""
        joined: dict[str, str] = {}
        # RFC 9110 §5.3: a repeated field is one, its values joined by commas.
        for name, value in self.headers:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return Peer(transport, where, token=self.token, headers=joined)


class Door(msgspec.Struct, frozen=True):
    """The hosts, origins and token by which an HTTP request is let in.

    `hosts` None is every loopback name, at any port.
    """

    hosts: frozenset[str] | None
    origins: frozenset[str]
    token: str | None

    @classmethod
    def of(
        cls,
        hosts: Iterable[str] | None,
        origins: Iterable[str],
        token: str | None,
        *,
        has_hook: bool = False,
    ) -> Door:
        """Read the settings. Raises InvalidInput where strangers would get in.

        Names beyond loopback take a token, or (`has_hook`) an app that asks who comes.
        """
        if token == "":
            raise InvalidInput("a token must not be empty: leave it out to have none")
        named = None if hosts is None else frozenset(host.lower() for host in hosts)
        far = sorted(host for host in named or () if not is_loopback(host))
        if far and token is None and not has_hook:
            raise InvalidInput(f"{far[0]!r} is open to other machines: that takes a token")
        return cls(named, frozenset(origins), token)

    def refusal(self, visitor: Visitor, *, asks_token: bool = True) -> Refusal | None:
        """Say why a visitor is not let in, or None if it is."""
        hosts = visitor.values("host")
        # RFC 9112 §3.2: a request has exactly one Host.
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):
            return Refusal(HTTPStatus.FORBIDDEN, "this Host is not allowed")
        # RFC 6455 §10.2: a server for some sites only checks the Origin.
        if any(origin not in self.origins for origin in visitor.values("origin")):
            return Refusal(HTTPStatus.FORBIDDEN, "this Origin is not allowed")
        token = self.token if asks_token else None
        if token is not None and not is_same_secret(visitor.token or "", token):
            return Refusal(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        return None

    def _is_ours(self, host: str) -> bool:
        return is_loopback(host) if self.hosts is None else host in self.hosts


def is_same_secret(shown: str, secret: str) -> bool:
    """Return True if two texts are equal, in a time that does not depend on where they differ."""
    # Bytes of a header that are not ASCII arrive as lone surrogates.
    both = (text.encode(errors="surrogatepass") for text in (shown, secret))
    return hmac.compare_digest(*both)


def loopback_hosts(port: int) -> list[str]:
    """Return the values of the `Host` header that name a port of loopback."""
    return [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]


def packed(visitor: Visitor, path: str, body: bytes) -> tuple[bytes, dict[str, str]]:
    """What to send of a page, JSON or a script, and the headers that say what it is.

    A script goes by gzip to whoever says that it reads that.
    """
    if not path.endswith(".js"):
        return body, {"Content-Type": "application/json"}
    headers = {"Content-Type": "text/javascript", "Vary": "Accept-Encoding"}
    if not _TAKES_GZIP.search(",".join(visitor.values("accept-encoding"))):
        return body, headers
    return _gzipped(body), {**headers, "Content-Encoding": "gzip"}


@lru_cache(maxsize=4)
def _gzipped(body: bytes) -> bytes:
    import gzip  # for those who serve scripts

    return gzip.compress(body, 9, mtime=0)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host name or address, with a port or without."""
    named = _HOST.fullmatch(host)
    name = host if named is None else named["six"] or named["name"]
    if name.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # Interpreters before 3.13 do not see through an IPv4 address in an IPv6 one.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
