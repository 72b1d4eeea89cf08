"""What a wire file held that is needed to go on, taken into the ledger once.

Up to format 4 of the ledger its wire file beside it (format 1) named the owners of
sessions and kept replies and calls that were open, folds, strategies' states and
calibrations. The step to format 5 brings them here, in its own transaction. A wire file
that cannot be read has nothing: it could always be deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from sightline.context.ledger.paths import journal_path
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import Value
from sightline.context.ledger.sqlite.rows import SqliteWriter, fetch
from sightline.context.ledger.transaction import Transaction
from sightline.context.ledger.writer import leave
from sightline.context.messages.gate import Gate
from sightline.context.tokens.estimate import Calibrations
from sightline.errors import InvalidInput

FORMAT: Final = 5
_WIRE_FORMAT: Final = 1
_FOLD: Final = "fold "


def take_over(connection: apsw.Connection, ledger: Path, now: str, reached: int) -> None:
    """Take over what the wire file of a ledger knows; once, at the step to format 5."""
    wire = journal_path(ledger)
    if reached != FORMAT or not wire.is_file():
        return
    if not fetch(connection, "SELECT 1 FROM ledger"):
        return  # a ledger that is only being made has no past
    try:
        rows = _read(wire)
    except (apsw.Error, UnicodeDecodeError):
        return
    if rows:
        changing = SqliteWriter(connection)
        _Taking(Transaction(changing, now)).take(rows)
        changing.finish()


def _read(wire: Path) -> dict[str, list[tuple[Any, ...]]]:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    source = apsw.Connection(f"{wire.absolute().as_uri()}?mode=ro", flags=flags)
    try:
        source.set_busy_timeout(10_000)
        if fetch(source, "PRAGMA user_version") != [(_WIRE_FORMAT,)]:
            return {}
        tables = ("owners", "partials", "calls", "strategy_states", "notes")
        return {table: fetch(source, f"SELECT * FROM {table}") for table in tables}
    finally:
        source.close()


class _Taking:
    """Rows of a wire file on their way into a ledger; of sessions that are there."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._gate = Gate()
        self._sessions = {number for (number,) in tx.db.fetch("SELECT id FROM sessions")}
        self._groups = set(
            tx.db.fetch("SELECT session_id, id FROM groups WHERE status IN ('live', 'dropped')")
        )

    def take(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        """Take everything, and seal what is sealed."""
        takers: dict[str, Callable[..., None]] = {
            "owners": self._owner,
            "partials": self._reply,
            "calls": self._call,
            "strategy_states": self._strategy_state,
            "notes": self._note,
        }
        for table, taken in takers.items():
            for row in rows[table]:
                try:
                    taken(*row)
                except (InvalidInput, ValueError, TypeError, msgspec.MsgspecError):
                    continue  # not what a host wrote
        self._tx.finish()

    def _put(self, table: str, *values: Value) -> None:
        self._tx.db.insert(table, dict(zip(TABLES[table].names, values, strict=True)))

    def _owner(self, session_id: int, owner: str) -> None:
        if session_id in self._sessions:
            self._put("owners", session_id, owner)

    def _reply(
        self, session_id: int, group: int, after: int, strategy: str, text: str, thoughts: str
    ) -> None:
        if (session_id, group) in self._groups:
            words = [self._gate.beginning(part, whole=True) for part in (text, thoughts)]
            self._put("open_replies", session_id, group, after, strategy, *words)

    def _call(self, session_id: int, group: int, call_id: str, state: str) -> None:
        if (session_id, group) in self._groups:
            call_id = self._gate.beginning(call_id, whole=True)
            self._put("open_calls", session_id, group, call_id, state)

    def _strategy_state(self, session_id: int, group: int, state: bytes) -> None:
        if (session_id, group) in self._groups:
            value = msgspec.json.decode(state, type=dict[str, Any])
            body = self._gate.json(value, "a strategy's state", self._gate.limits.strategy_state)
            leave(self._tx, self._tx.session(session_id), "strategy_states", group, body)

    def _note(self, name: str, value: bytes) -> None:
        if name == "calibrations":
            for model, calibration in Calibrations.decode(value).models.items():
                name = self._gate.line(model, "a model's name")
                self._put("calibrations", name, msgspec.json.encode(calibration).decode())
        elif name.startswith(_FOLD):
            session_id = int(name.removeprefix(_FOLD))
            if session_id in self._sessions:
                self._tx.session(session_id)["first_group"] = int(value)
