"""A ledger's URL: `postgresql://user@host/database?tenant=acme`.

It is libpq's, with one parameter of ours: whose rows the ledger has.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sightline.errors import InvalidInput

DEFAULT_TENANT: Final = "default"


class Address(NamedTuple):
    """Where a ledger is, whose rows it has, and how it is called where a password must not be."""

    url: str
    tenant: str
    name: str


def address_of(url: str) -> Address:
    """Read a ledger's URL."""
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True)
        user, at, host = parts.netloc.rpartition("@")
    except ValueError as error:
        raise InvalidInput(f"this is no URL of a database: {error}") from None
    tenant = dict(given).get("tenant", DEFAULT_TENANT)
    if not tenant or "\0" in tenant:
        raise InvalidInput("a tenant has a name")
    kept = [(name, value) for name, value in given if name != "tenant"]
    shown = [(name, value) for name, value in given if name not in ("password", "sslpassword")]
    return Address(
        urlunsplit(parts._replace(query=urlencode(kept))),
        tenant,
        urlunsplit(
            parts._replace(
                netloc=f"{user.partition(':')[0]}{at}{host}", query=urlencode(shown, safe="/")
            )
        ),
    )
