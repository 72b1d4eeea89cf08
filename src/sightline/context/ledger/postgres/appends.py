"""Append in one round trip, where this host wrote to the session last.

What an append has to know of a session is its row, its last group and that nothing was undone:
all of it is under the seal of the row. So a host goes on from the end that it left itself, computes
the seals, and sends one call that changes the row only if its seal is still that one, and stores
nothing otherwise (`append` in postgres.steps). Then, and the first time, the end is read under a
lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import psycopg

import sightline.context.ledger.postgres.rows as stored
from sightline.context.ledger.postgres.calls import (
    BIGINT,
    BIGINTS,
    BOOLEAN,
    BYTEA,
    BYTEAS,
    TEXT,
    TEXTS,
    TRUE,
    FunctionCall,
    LedgerConnection,
    ServerAnswer,
    bound,
)
from sightline.context.ledger.postgres.connect import OUT_OF_DATE
from sightline.context.ledger.rows import Row, Statement, Values
from sightline.context.ledger.seal import ZERO, Value

_MOST_TIPS: Final = 1000
_WARY: Final = 16  # appends that ask first, after one that found the session changed
_AT_ONCE: Final = 100  # messages by one call, whose time grows with their square
_AHEAD: Final = 64  # times as many numbers for who goes on and on
_THERE: Final = (
    "SELECT EXISTS (SELECT 1 FROM messages WHERE session_id = ? AND append_key = ?), "
    "EXISTS (SELECT 1 FROM undone WHERE session_id = ?), "
    + ", ".join(f"ARRAY({stored.reserving(table)})" for table in stored.RESERVED)
)
_SESSION: Final = {
    "updated_at": TEXT, "activity": BIGINT, "next_seq": BIGINT, "next_group": BIGINT,
    "live_groups": BIGINT, "tokens": BIGINT, "largest": BIGINT, "head": BYTEA, "digest": BYTEA,
}  # fmt: skip
_GROUP: Final = {
    "id": BIGINT, "seq": BIGINT, "first_seq": BIGINT, "messages": BIGINT, "tokens": BIGINT,
    "created_at": TEXT, "salt": BYTEA, "content_digest": BYTEA, "chain": BYTEA, "digest": BYTEA,
    "tokens_before": BIGINT,
}  # fmt: skip
# How `append` takes each column of the messages: their lists as arrays, what all share as it is.
_MESSAGES: Final = {
    "id": BIGINTS, "role": TEXTS, "content": TEXTS, "parts": TEXTS, "outcome": TEXTS,
    "parsing_strategy": TEXT, "tool_call_id": TEXTS, "tokens": BIGINTS, "tokens_basis": TEXTS,
    "created_at": TEXT, "digest": BYTEAS,
}  # fmt: skip
_ending, _grouped, _message = itemgetter(*_SESSION), itemgetter(*_GROUP), itemgetter(*_MESSAGES)
CALL: Final = FunctionCall(
    "sightline.append",
    (TEXT, BIGINT, BYTEA, BIGINT, TEXT, *_SESSION.values(), BOOLEAN, *_GROUP.values(),
     *_MESSAGES.values()),
)  # fmt: skip


class OutOfDate(Exception):
    """What was known of a session is not so any more; nothing was done."""


class AppendWriter(stored.PostgresWriter):
    """A transaction that adds to the end of one session.

    With `ahead` it begins with what is known and asks nothing; whatever has to be asked then, or is
    found to be otherwise, ends it with `OutOfDate`.
    """

    def __init__(
        self,
        connection: LedgerConnection,
        tenant: str,
        known: stored.Known,
        *,
        key: str | None,
        ahead: bool,
        now: datetime,
    ) -> None:
        super().__init__(connection, tenant, known, durable=True, now=now)
        self._ahead = ahead
        self._tip: stored.Tip | None = None  # the end that it goes on from
        self._key = key
        self._is_stored = self._undone = False  # something under the key; something to redo
        self._is_plain = True  # nothing but what `append` does
        self._session: Row = {}  # as it will be
        self._groups: list[Row] = []  # begun here
        self._grown: Row | None = None  # the last one before, if it was added to
        self._messages: list[Mapping[str, Value]] = []
        self._left: dict[tuple[str, Value], Row] = {}  # by groups that were begun or added to
        self._rest: list[Statement] = []

    def lock_session(self, session_id: int) -> list[Row]:
        tip = self._known.tips.pop(session_id, None)
        if self._ahead:
            if tip is None:
                raise OutOfDate
            self._tip = tip
            return [dict(tip.session)]
        self._known.numbers.clear()
        self._connection.expect(CALL.unbound)
        session, groups, there = self._ask_all(
            (stored.LOCK, (session_id,)),
            (stored.LAST_GROUPS, (session_id,)),
            (_THERE, (session_id, self._key, session_id)),
        )
        rows = self._locked(session)
        [(self._is_stored, self._undone, *numbers)] = there.rows()
        for table, given in zip(stored.RESERVED, numbers, strict=True):
            self._known.numbers[table] = deque(given)
        last = stored.last_group(stored.named(groups))
        if rows:
            self._tip = stored.Tip(dict(rows[0]), *(last or ({}, ZERO)))
        return rows

    def last_group(self, session_id: int) -> tuple[Row, bytes] | None:
        tip = self._tip
        if tip is None or tip.session["id"] != session_id:
            return super().last_group(session_id)
        return (dict(tip.group), tip.before) if tip.group else None

    def under_key(self, session_id: int, columns: str, key: str) -> list[tuple[Any, ...]]:
        return super().under_key(session_id, columns, key) if self._is_stored else []

    def take(self, table: str, where: str, values: Values) -> list[Row]:
        if table == "undone" and not self._undone:
            return []
        if where == "group_id = ?":
            left = self._left.pop((table, values[0]), None)
            if left is not None or values[0] in [group["id"] for group in self._groups]:
                return [left] if left else []
        self._is_plain = False
        return super().take(table, where, values)

    def next_id(self, table: str) -> int:
        numbers = self._known.numbers
        if self._ahead and not numbers.get(table):
            # Not more and more of what is seldom used.
            few = [name for name in stored.RESERVED if len(numbers.get(name, ())) < _AHEAD]
            self._reserve(*(few if table in stored.RESERVED else (table,)))
        return super().next_id(table)

    def _reserve(self, *tables: str) -> None:
        """Take numbers for many appends, in a trip before the transaction, which has not begun."""
        each = ", ".join(f"ARRAY({stored.reserving(table, _AHEAD)})" for table in tables)
        [answer] = self._connection.exchange([bound(f"SELECT {each}", ())], begins=True)
        for table, given in zip(tables, answer.rows()[0], strict=True):
            self._known.numbers.setdefault(table, deque()).extend(given)

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        if table == "groups":
            self._groups.append(dict(row))
        elif table == "messages":
            self._messages.append(row)
        else:
            self._is_plain = False
            if table == "session_state":
                self._left[table, row["group_id"]] = dict(row)
            else:
                self._rest.append((stored.insertion(table, tuple(row)), tuple(row.values())))

    def insert_once(self, table: str, row: Mapping[str, Value]) -> None:
        self._is_plain = False
        statement = f"{stored.insertion(table, tuple(row))} {stored.UNLESS_THERE}"
        self._rest.append((statement, tuple(row.values())))

    def update(self, table: str, changes: str, where: str, values: Values) -> None:
        self._is_plain = False
        self._rest.append((f"UPDATE {table} SET {changes} WHERE {where}", values))

    def rewrite(self, table: str, row: Mapping[str, Value]) -> None:
        if table == "sessions":
            self._fence(int(row["id"] or 0))
            self._session = dict(row)
            return
        for number, group in enumerate(self._groups):
            if group["id"] == row["id"]:
                self._groups[number] = dict(row)
                return
        if table == "groups" and self._tip and self._tip.group.get("id") == row["id"]:
            self._grown = dict(row)
        else:  # one that was undone
            super().rewrite(table, row)

    def delete(self, table: str, where: str, values: Values) -> None:
        if table == "open_replies":
            return  # with every append
        self._is_plain = False
        self._rest.append((f"DELETE FROM {table} WHERE {where}", values))

    def _ask_all(self, *questions: Statement) -> list[ServerAnswer]:
        if self._ahead:
            raise OutOfDate
        return super()._ask_all(*questions)

    def finish(self) -> None:
        if self._tip is None or not self._session:
            self._ahead = False
            super().finish()
            return
        is_one = len(self._groups) + bool(self._grown) == 1
        if self._is_plain and is_one and len(self._messages) <= _AT_ONCE:
            self._call(self._tip)
        else:
            self._send(self._tip)
        self._learn(self._tip)

    def _call(self, tip: stored.Tip) -> None:
        """Store it by one call: a transaction of its own, or the end of the one that read first."""
        call = CALL.bound(self._values(tip))
        done = (
            self._connection.exchange([call], begins=True)
            if self._ahead
            else self._connection.end([call, bound("COMMIT", ())])
        )
        if done is None:
            raise OutOfDate
        if done[0].value != TRUE:
            self._known.contended[self._session["id"]] = _WARY
            raise OutOfDate

    def _values(self, tip: stored.Tip) -> list[Any]:
        session, group = self._session, self._groups[0] if self._groups else self._grown
        assert group is not None  # noqa: S101 - there is exactly one
        values: list[Any] = [
            self._tenant, session["id"], tip.session["digest"],
            self._known.epochs.get(session["id"]), self._key,
            *_ending(session), bool(self._groups), *_grouped(group),
        ]  # fmt: skip
        columns = zip(*map(_message, self._messages), strict=True)
        values += [
            column[0] if kind == TEXT else column if column.count(None) < len(column) else None
            for kind, column in zip(_MESSAGES.values(), columns, strict=True)
        ]
        return values

    def _send(self, tip: stored.Tip) -> None:
        """Store whatever it is, in one trip, once it is seen that the session is still the same."""
        if self._ahead:
            self._ahead = False
            still = (self._session["id"], tip.session["digest"])
            held = self._known.epochs.get(self._session["id"])
            self._waiting.append(("SELECT still_is(?, ?, ?, ?)", (*still, held, self._key)))
        for group in self._groups:
            self._change(stored.insertion("groups", tuple(group)), tuple(group.values()))
        for message in self._messages:
            self._change(stored.insertion("messages", tuple(message)), tuple(message.values()))
        for table, row in (("groups", self._grown), ("sessions", self._session)):
            if row is not None:
                names = [name for name in row if name != "id"]
                changes = ", ".join(f"{name} = ?" for name in names)
                values = (*(row[name] for name in names), row["id"])
                self._change(f"UPDATE {table} SET {changes} WHERE id = ?", values)
        for (table, _), left in self._left.items():
            self._change(stored.insertion(table, tuple(left)), tuple(left.values()))
        for statement in self._rest:
            self._change(*statement)
        replies = "DELETE FROM open_replies WHERE session_id = ?"
        self._change(replies, (self._session["id"],))
        try:
            super().finish()
        except psycopg.Error as error:
            if error.sqlstate == OUT_OF_DATE:
                raise OutOfDate from error
            raise

    def _learn(self, tip: stored.Tip) -> None:
        """Know the end of the session as it is now, unless others are quicker anyway."""
        number = self._session["id"]
        if left := self._known.contended.pop(number, 0):
            if left > 1:
                self._known.contended[number] = left - 1
            return
        chains = [tip.session["head"]]
        last = tip.group
        if self._grown is not None:
            last = {**tip.group, **self._grown}
            chains = [tip.before, last["chain"]]
        chains += [group["chain"] for group in self._groups]
        tips = self._known.tips
        if len(tips) >= _MOST_TIPS:
            tips.pop(next(iter(tips)))
        last = self._groups[-1] if self._groups else last
        tips[number] = stored.Tip({**tip.session, **self._session}, last, chains[-2])
