"""Where a ledger is, if nobody says otherwise, and the wire file beside it.

The URL of one in a database, `postgresql://user@host/database?tenant=acme`, is libpq's, with one
parameter of ours: whose rows the ledger has.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from platformdirs import user_data_path, user_state_path

from sightline.errors import InvalidInput

# A path that begins with a scheme; `C:/` has one letter, and `Path` leaves one slash of two.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)")
_DATABASE: Final = re.compile(r"(postgres(?:ql)?):/(?:/)?(.*)")

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
    names = [name for name, _ in given]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InvalidInput(f"the URL of a database has {repeated[0][:80]!r} more than once")
    tenant = dict(given).get("tenant", DEFAULT_TENANT)
    if not tenant or "\0" in tenant:
        raise InvalidInput("a tenant has a name")
    kept = [(name, value) for name, value in given if name != "tenant"]
    shown = [(name, value) for name, value in given if name not in ("password", "sslpassword")]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    name = parts._replace(netloc=netloc, query=urlencode(shown, safe="/"))
    return Address(urlunsplit(parts._replace(query=urlencode(kept))), tenant, urlunsplit(name))


def default_path() -> Path:
    """Give `SIGHTLINE_LEDGER` if it is set, else the user's own ledger for this platform."""
    chosen = os.environ.get("SIGHTLINE_LEDGER")
    return expanded(chosen) if chosen else user_path()


def expanded(path: str | os.PathLike[str]) -> Path:
    """Replace `~` by the home directory.

    The URL of a database stays as it is. Raises InvalidInput for a user that is not here, and
    for the URL of a database that there is no engine for.
    """
    if database_url(path) is not None:
        return Path(path)
    if url := _URL.match(os.fspath(path)):
        raise InvalidInput(
            f"{os.fspath(path)}: a ledger is a file or postgresql://…; "
            f"there is no engine for {url[0]}//…"
        )
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(f"{os.fspath(path)}: that home directory is not known here") from None


def database_url(path: str | os.PathLike[str]) -> str | None:
    """Give the URL of a database, if a path is one; a `Path` has lost one slash of two."""
    found = _DATABASE.match(os.fspath(path))
    return None if found is None else f"{found[1]}://{found[2]}"


def user_path() -> Path:
    """Give the user's own ledger for this platform, whichever one is in use."""
    return user_data_path("sightline", appauthor=False) / "ledger.db"


def own_ledgers_path() -> Path:
    """Return the file with the ids of the user's own ledgers."""
    return user_state_path("sightline", appauthor=False) / "ledgers"


def checkpoints_path() -> Path:
    """Give the directory in which it is kept what sessions did to files."""
    return user_path().with_name("checkpoints")


def journal_path(ledger_path: Path) -> Path:
    """Say where the wire file of a ledger is: `X.db` → `X.wire.db`."""
    return ledger_path.with_name(f"{ledger_path.stem}.wire.db")
