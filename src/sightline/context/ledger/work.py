"""What is under way: who runs a turn, the reply that is not stored yet, calls without results.

Working state, not record: it changes many times in a turn, no seal covers it, and it is
written without waiting for the disk (`Store.work`). It survives the death of its program,
which is what it is for; after a power cut the last of it may be missing, and then a turn
that was under way is closed by what the messages tell. What vendors' counts have taught
the estimates is kept in the same way.

Text passes the gate here as everywhere: no tail, no key, not half of one.

One program at a time runs a turn in a session, and it is known when it died: every host is known
to live for as long as it does, under a name of its own (`Store.attend`), and the ledger names the
owner of a session. What an owner left open who lives no longer may be closed by whoever comes next.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias
from uuid import uuid4

import msgspec

from sightline.context.ledger.rows import Row, RowReader, RowWriter, first
from sightline.context.ledger.store import Noun
from sightline.context.tokens.estimate import Calibration, Calibrations
from sightline.errors import SessionBusy

CallState: TypeAlias = Literal["asked", "running"]
Hold: TypeAlias = Literal["none", "alive", "dead"]

_TRIES: Final = 10


class OpenWork(msgspec.Struct, frozen=True):
    """What a session had under way: words of a reply that is not stored, calls by their state."""

    group_id: int = 0
    after_seq: int = -1
    strategy: str = ""
    text: str = ""
    reasoning: str = ""
    calls: dict[str, CallState] = {}


class Work(Noun):
    """The working state of a ledger's sessions."""

    # Who runs a turn.

    def owner(self, session_id: int) -> str:
        """Name who runs a turn in a session; empty if nobody does."""
        with self._store.read() as db:
            return _owner(db, session_id)

    def claim(self, session_id: int, owner: str, *, instead_of: str) -> bool:
        """Name who runs a turn, if it is still as the caller believes; say whether it was."""
        with self._store.work() as db:
            db.lock_session(session_id)
            if _owner(db, session_id) != instead_of:
                return False
            db.put("owners", {"session_id": session_id, "owner": owner})
        return True

    def release(self, session_id: int, owner: str) -> None:
        """Note that nothing is under way, and that nobody runs a turn any more."""
        with self._store.work() as db:
            _settle(db, session_id)
            db.delete("owners", "session_id = ? AND owner = ?", (session_id, owner))

    # How far it is.

    def begin_reply(self, session_id: int, group_id: int, after_seq: int, strategy: str) -> None:
        """Note that a reply may come behind the message with this seq; `append` takes it away."""
        reply: Row = {"session_id": session_id, "group_id": group_id, "after_seq": after_seq}
        with self._store.work() as db:
            db.put("open_replies", {**reply, "strategy": strategy, "text": "", "reasoning": ""})

    def note_words(self, session_id: int, text: str, reasoning: str) -> None:
        """Note the words of the reply so far."""
        words = self._gate.beginning(text), self._gate.beginning(reasoning)
        with self._store.work() as db:
            db.update(
                "open_replies", "text = ?, reasoning = ?", "session_id = ?", (*words, session_id)
            )

    def note_call(self, session_id: int, group_id: int, call_id: str, state: CallState) -> None:
        """Note how far a call is."""
        call_id = self._gate.beginning(call_id, whole=True)
        with self._store.work() as db:
            call: Row = {"group_id": group_id, "call_id": call_id, "state": state}
            db.put("open_calls", {"session_id": session_id, **call})

    def open(self, session_id: int) -> OpenWork:
        """Tell what was under way when somebody last wrote here."""
        reply = "SELECT group_id, after_seq, strategy, text, reasoning FROM open_replies"
        call = "SELECT call_id, state FROM open_calls"
        with self._store.read() as db:
            replies, calls = (
                db.fetch(f"{sql} WHERE session_id = ?", (session_id,)) for sql in (reply, call)
            )
        found = OpenWork(*replies[0]) if replies else OpenWork()
        return msgspec.structs.replace(found, calls=dict(calls))

    def settle(self, session_id: int) -> None:
        """Note that nothing is under way; writes only if something was."""
        if self.open(session_id) == OpenWork():
            return
        with self._store.work() as db:
            _settle(db, session_id)

    # How vendors count.

    def calibrations(self) -> Calibrations:
        """Read what was learnt; what cannot be read was not learnt."""
        rows = self._fetch("SELECT model, body FROM calibrations")
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
            with self._store.work() as db:
                for model, body in news.items():
                    db.put("calibrations", {"model": model, "body": body})


class Owner:
    """One host's claim to the sessions it works on."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._name = uuid4().hex
        self._leave = work._store.attend(self._name)

    def close(self) -> None:
        """Stop counting as alive: whoever comes next may take over what this host still owns."""
        self._leave()

    def claim(self, session_id: int) -> bool:
        """Take a session; say whether its last owner died over it.

        Raises `SessionBusy` while somebody else runs a turn in it.
        """
        for _ in range(_TRIES):
            other = self._work.owner(session_id)
            if other == self._name:
                return False
            if self._work._store.attends(other):
                raise SessionBusy(
                    f"session {session_id} is in use by another program; wait for its turn to end"
                )
            self._work._store.bury(other)
            if self._work.claim(session_id, self._name, instead_of=other):
                return bool(other)
        raise SessionBusy(f"session {session_id} changes hands too fast")

    def release(self, session_id: int) -> None:
        """Give a session back, with nothing under way in it."""
        self._work.release(session_id, self._name)


def hold_on(work: Work, session_id: int) -> Hold:
    """Tell whether somebody runs a turn in a session, or died over one; changes nothing."""
    name = work.owner(session_id)
    if not name:
        return "none"
    return "alive" if work._store.attends(name) else "dead"


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
