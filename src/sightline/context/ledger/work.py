"""What is under way: who runs a turn, the reply that is not stored yet, calls without results.

Working state, not record: it changes many times in a turn, no seal covers it, and it is
written without waiting for the disk (`Store.work`). It survives the death of its program,
which is what it is for; after a power cut the last of it may be missing, and then a turn
that was under way is closed by what the messages tell. What vendors' counts have taught
the estimates is kept in the same way, and whose instructions the user lets a model follow.

Text passes the gate here as everywhere: no tail, no key, not half of one.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from sightline.context.ledger.rows import Row, RowReader, RowWriter, first
from sightline.context.ledger.store import Store
from sightline.context.messages.gate import Gate
from sightline.context.tokens.estimate import Calibration, Calibrations

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
        self.store = store  # which knows who lives
        self._gate = gate

    # Who runs a turn.

    def owner(self, session_id: int) -> str:
        """Name who runs a turn in a session; empty if nobody does."""
        with self.store.read() as db:
            return _owner(db, session_id)

    def claim(self, session_id: int, owner: str, *, instead_of: str) -> bool:
        """Name who runs a turn, if it is still as the caller believes; say whether it was."""
        with self.store.work() as db:
            db.lock_session(session_id)
            if _owner(db, session_id) != instead_of:
                return False
            db.put("owners", {"session_id": session_id, "owner": owner})
        return True

    def release(self, session_id: int, owner: str) -> None:
        """Note that nothing is under way, and that nobody runs a turn any more."""
        with self.store.work() as db:
            _settle(db, session_id)
            db.delete("owners", "session_id = ? AND owner = ?", (session_id, owner))

    # How far it is.

    def begin_reply(self, session_id: int, group_id: int, after_seq: int, strategy: str) -> None:
        """Note that a reply may come behind the message with this seq; `append` takes it away."""
        with self.store.work() as db:
            reply: Row = {"group_id": group_id, "after_seq": after_seq, "strategy": strategy}
            words = {"text": "", "reasoning": ""}
            db.put("open_replies", {"session_id": session_id, **reply, **words})

    def note_words(self, session_id: int, text: str, reasoning: str) -> None:
        """Note the words of the reply so far."""
        words = self._gate.beginning(text), self._gate.beginning(reasoning)
        with self.store.work() as db:
            db.update(
                "open_replies", "text = ?, reasoning = ?", "session_id = ?", (*words, session_id)
            )

    def note_call(self, session_id: int, group_id: int, call_id: str, state: CallState) -> None:
        """Note how far a call is."""
        call_id = self._gate.beginning(call_id, whole=True)
        with self.store.work() as db:
            call: Row = {"group_id": group_id, "call_id": call_id, "state": state}
            db.put("open_calls", {"session_id": session_id, **call})

    def open(self, session_id: int) -> OpenWork:
        """Tell what was under way when somebody last wrote here."""
        with self.store.read() as db:
            replies = db.fetch(
                "SELECT group_id, after_seq, strategy, text, reasoning FROM open_replies "
                "WHERE session_id = ?",
                (session_id,),
            )
            calls = db.fetch("SELECT call_id, state FROM open_calls WHERE session_id = ?",
                (session_id,),
            )  # fmt: skip
        found = OpenWork(*replies[0]) if replies else OpenWork()
        return msgspec.structs.replace(found, calls=dict(calls))

    def settle(self, session_id: int) -> None:
        """Note that nothing is under way; writes only if something was."""
        if self.open(session_id) == OpenWork():
            return
        with self.store.work() as db:
            _settle(db, session_id)

    # How vendors count.

    def calibrations(self) -> Calibrations:
        """Read what was learnt; what cannot be read was not learnt."""
        with self.store.read() as db:
            rows = db.fetch("SELECT model, body FROM calibrations")
        return Calibrations(
            {model: calibration for model, body in rows if (calibration := _learnt(body))}
        )

    def learn(self, learnt: Calibrations) -> None:
        """Keep what was learnt, if it is another thing than what is kept; others keep theirs."""
        known = self.calibrations().models
        news = {
            self._gate.line(model, "a model's name"): msgspec.json.encode(calibration).decode()
            for model, calibration in learnt.models.items()
            if known.get(model) != calibration
        }
        if news:
            with self.store.work() as db:
                for model, body in news.items():
                    db.put("calibrations", {"model": model, "body": body})

    # Whose instructions are followed.

    def trusts(self, directory: str) -> bool | None:
        """Tell whether the user agreed to a directory's instructions; None if nobody asked."""
        with self.store.read() as db:
            agreed = first(db, "SELECT agreed FROM trusted WHERE path = ?", (directory,))
        return None if agreed is None else bool(agreed)

    def trust(self, directory: str, *, agreed: bool) -> None:
        """Remember whether the user agrees to a directory's instructions."""
        row: Row = {"path": self._gate.text(directory, "a directory", 4096), "agreed": agreed}
        with self.store.work(durable=True) as db:
            db.put("trusted", {**row, "created_at": self.store.timestamp()})


def _owner(db: RowReader, session_id: int) -> str:
    return str(first(db, "SELECT owner FROM owners WHERE session_id = ?", (session_id,)) or "")


def _settle(db: RowWriter, session_id: int) -> None:
    for table in ("open_replies", "open_calls"):
        db.delete(table, "session_id = ?", (session_id,))


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_calibrations: Final = msgspec.json.Decoder(Calibration)


def _learnt(body: str) -> Calibration | None:
    try:
        return _calibrations.decode(body)
    except msgspec.DecodeError:
        return None
