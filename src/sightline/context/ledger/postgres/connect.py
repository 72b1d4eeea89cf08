"""Connect to PostgreSQL, and name what can go wrong: every error leaves as one of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader

from sightline.context.ledger.paths import Address
from sightline.context.ledger.postgres.calls import LedgerConnection
from sightline.errors import (
    InvalidInput,
    LedgerDamaged,
    LedgerUnavailable,
    LedgerUnusable,
    SessionBusy,
)

_CONNECT_S: Final = 10
# What functions of ours raise (postgres.steps).
OUT_OF_DATE: Final = "SL001"
LEASE_LOST: Final = "SL002"
# It warns of a pipeline that ends with an error, which we raise; unless somebody listens to it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
DAMAGE: Final = (
    errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.DataCorrupted,
    errors.IndexCorrupted, UnicodeDecodeError,
)  # fmt: skip


class _AnyInteger(Int8Dumper):
    """A number of no declared type: the server takes it for what its context wants."""

    oid = 0


class _Whole(NumericBinaryLoader):
    """A sum of integers, which PostgreSQL counts in decimals, as the integer that it is."""

    def load(self, data: Buffer) -> Decimal:
        return int(super().load(data))  # type: ignore[return-value]


def connect(address: Address) -> LedgerConnection:
    """Open a connection that a pooler of transactions may stand behind: it keeps nothing there."""
    connection = LedgerConnection.connect(
        address.url,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=_CONNECT_S,
        application_name="sightline",
    )
    for kind in (int, bool):
        connection.adapters.register_dumper(kind, _AnyInteger)
    connection.adapters.register_loader("numeric", _Whole)
    return connection


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise what PostgreSQL raises as an error of ours, in one sentence."""
    try:
        yield
    except DAMAGE as error:
        raise LedgerDamaged([f"{name}: {_sentence(error)}"]) from error
    except errors.NumericValueOutOfRange as error:
        raise InvalidInput("a number of more than 64 bits names nothing in a ledger") from error
    except (psycopg.DataError, UnicodeEncodeError) as error:
        raise InvalidInput(f"a text that a ledger cannot have: {_sentence(error)}") from error
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise LedgerUnusable(f"{name} cannot be written: {_sentence(error)}") from error
    except psycopg.Error as error:
        if error.sqlstate == LEASE_LOST:
            raise SessionBusy(f"{name}: {_sentence(error)}") from error
        raise LedgerUnavailable(f"{name}: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    return str(error).partition("\n")[0].strip() or type(error).__name__
