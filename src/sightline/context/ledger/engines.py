"""Which engine keeps a ledger: what its path or URL says."""

from __future__ import annotations

import os
from collections.abc import Callable

from sightline.context.ledger.paths import database_url
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.store import Store
from sightline.errors import MissingExtra


def engine_for(path: str | os.PathLike[str]) -> Callable[..., Store]:
    """Give the engine of a ledger. Raise `MissingExtra` where its package is not installed."""
    if database_url(path) is None:
        return SqliteStore
    try:
        # Imported here: only who has such a ledger needs the package.
        from sightline.context.ledger.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        from sightline._distribution import install

        raise MissingExtra(
            f"a ledger in PostgreSQL needs {error.name}: {install('postgres')}"
        ) from error
    return PostgresStore
