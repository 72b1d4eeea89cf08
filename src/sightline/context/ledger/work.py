"""What is under way: who runs a turn, the reply that is not stored yet, calls without results.

Working state, not record: it changes many times in a turn, no seal covers it, and it is
written without waiting for the disk (`Store.work`). It survives the death of its program,
which is what it is for; after a power cut the last of it may be missing, and then a turn
that was under way is closed by what the messages tell. What vendors' counts have taught
the estimates is kept in the same way.

Text passes the ledger's gate here as everywhere: no tail, no key, not half of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from sightline.context.ledger.gate import Gate
from sightline.context.ledger.store import Store
from sightline.context.ledger.transaction import fetch
from sightline.context.tokens.estimate import Calibration, Calibrations

__all__ = ["CallState", "OpenWork", "Work"]

CallState: TypeAlias = Literal["asked", "running"]


class OpenWork(msgspec.Struct, frozen=True):
    """What a session had under way: words of a reply that is not stored, calls by their state."""

    group_id: int = 0
    after_seq: int = -1
    strategy: str = ""
    text: str = ""
    reasoning: str = ""
    calls: dict[str, CallState] = {}


class Work:
    """The working state of a ledger's sessions."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    @property
    def path(self) -> Path:
        """The ledger's file; owners' locks are beside it."""
        return self._store.path

    # Who runs a turn.

    def owner(self, session_id: int) -> str:
        """Name who runs a turn in a session; empty if nobody does."""
        with self._store.read() as connection:
            rows = fetch(connection, "SELECT owner FROM owners WHERE session_id = ?", (session_id,))
        return str(rows[0][0]) if rows else ""

    def claim(self, session_id: int, owner: str, *, instead_of: str) -> bool:
        """Name who runs a turn, if it is still as the caller believes; say whether it was."""
        with self._store.work() as connection:
            rows = fetch(connection, "SELECT owner FROM owners WHERE session_id = ?", (session_id,))
            if (rows[0][0] if rows else "") != instead_of:
                return False
            connection.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (session_id, owner))
        return True

    def release(self, session_id: int, owner: str) -> None:
        """Note that nothing is under way, and that nobody runs a turn any more."""
        with self._store.work() as connection:
            for table in ("open_replies", "open_calls"):
                connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
            connection.execute(
                "DELETE FROM owners WHERE session_id = ? AND owner = ?", (session_id, owner)
            )

    # How far it is.

    def begin_reply(self, session_id: int, group_id: int, after_seq: int, strategy: str) -> None:
        """Note that a reply may come behind the message with this seq; `append` takes it away."""
        with self._store.work() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO open_replies VALUES (?, ?, ?, ?, '', '')",
                (session_id, group_id, after_seq, strategy),
            )

    def note_words(self, session_id: int, text: str, reasoning: str) -> None:
        """Note the words of the reply so far."""
        words = self._gate.beginning(text), self._gate.beginning(reasoning)
        with self._store.work() as connection:
            connection.execute(
                "UPDATE open_replies SET text = ?, reasoning = ? WHERE session_id = ?",
                (*words, session_id),
            )

    def note_call(self, session_id: int, group_id: int, call_id: str, state: CallState) -> None:
        """Note how far a call is."""
        call_id = self._gate.beginning(call_id, whole=True)
        with self._store.work() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO open_calls VALUES (?, ?, ?, ?)",
                (session_id, group_id, call_id, state),
            )

    def open(self, session_id: int) -> OpenWork:
        """Tell what was under way when somebody last wrote here."""
        with self._store.read() as connection:
            replies = fetch(
                connection,
                "SELECT group_id, after_seq, strategy, text, reasoning FROM open_replies "
                "WHERE session_id = ?",
                (session_id,),
            )
            calls = fetch(
                connection, "SELECT call_id, state FROM open_calls WHERE session_id = ?",
                (session_id,),
            )  # fmt: skip
        found = OpenWork(*replies[0]) if replies else OpenWork()
        return msgspec.structs.replace(found, calls=dict(calls))

    def settle(self, session_id: int) -> None:
        """Note that nothing is under way; writes only if something was."""
        if self.open(session_id) == OpenWork():
            return
        with self._store.work() as connection:
            for table in ("open_replies", "open_calls"):
                connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))

    # How vendors count.

    def calibrations(self) -> Calibrations:
        """Read what was learnt; what cannot be read was not learnt."""
        with self._store.read() as connection:
            rows = fetch(connection, "SELECT model, body FROM calibrations")
        return Calibrations({model: own for model, body in rows if (own := _learnt(body))})

    def learn(self, learnt: Calibrations) -> None:
        """Keep what was learnt, if it is another thing than what is kept; others keep theirs."""
        known = self.calibrations().models
        news = {
            self._gate.line(model, "a model's name"): msgspec.json.encode(own).decode()
            for model, own in learnt.models.items()
            if known.get(model) != own
        }
        if news:
            with self._store.work() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO calibrations VALUES (?, ?)", news.items()
                )


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_calibrations: Final = msgspec.json.Decoder(Calibration)


def _learnt(body: str) -> Calibration | None:
    try:
        return _calibrations.decode(body)
    except msgspec.DecodeError:
        return None
