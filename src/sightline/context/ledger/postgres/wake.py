"""Hear that something changed: PostgreSQL's NOTIFY, which wakes who watches and says nothing more.

Nothing depends on it. Whoever watches looks now and then without being woken, because behind a
pooler of transactions nobody is, and a host may die between a change and its word. One that
writes on and on says so a few times a second; so whoever was woken looks for a while.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import psycopg

from sightline.context.ledger.paths import Address
from sightline.context.ledger.postgres.connect import connect

EVERY_S: Final = 0.25  # between two words of one host
_AWAKE_S: Final = 1.0
_LOOK_S: Final = 5.0
# NOTIFY makes a transaction one that is written down; nobody has to wait for that.
_TELL: Final = b"SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')"


def tell(connection: psycopg.Connection[Any], tenant: str) -> None:
    """Wake who watches a tenant's ledger, and do not wait for it."""
    connection.pgconn.send_query_params(_TELL, [_channel(tenant).encode()])
    connection.pgconn.flush()


class Listener:
    """A connection of its own that hears of changes in one tenant's ledger."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None
        self._awake = self._due = 0.0  # until and from when to look, whatever was heard

    def heard(self, now: float) -> bool:
        """Tell whether to look for a change at this moment of a clock that does not go back."""
        try:
            if self._connection is None:
                self._connection = connect(self._address)
                self._connection.execute(f"LISTEN {_channel(self._address.tenant)}")
                self._awake = now + _AWAKE_S
            if any(self._connection.notifies(timeout=0)):
                self._awake = now + _AWAKE_S
        except psycopg.Error:
            self.close()
            return True  # who looks finds out what is wrong
        if now < self._awake:
            return True
        is_due = now >= self._due
        if is_due:
            self._due = now + _LOOK_S
        return is_due

    def close(self) -> None:
        """Hear nothing more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _channel(tenant: str) -> str:
    return f"sightline_{sha256(tenant.encode()).hexdigest()[:32]}"
