"""Put messages at the end of a session, each sealed to the one before it.

The one place that makes groups and messages; append, clone and import are three
ways to call it. A group's chain closes when the next begins or the writer
finishes, and a group can be added to only while it is the session's last.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from sightline.context.ledger.attachments import keep_row
from sightline.context.ledger.codec import to_columns, tool_call_id_of
from sightline.context.ledger.rows import Row
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, Value, group_chain, message_digest
from sightline.context.ledger.store import Transaction
from sightline.context.messages.parts import Draft, Entry, Role, Status, outcome_of
from sightline.context.messages.state import extract_state
from sightline.errors import TooLarge

_SALT_BYTES: Final = 16
# What a group leaves: the model's state, the strategy's; and the column that has it.
LEFT: Final = {"session_state": "content", "strategy_states": "body"}
_MESSAGE: Final = (*TABLES["messages"].sealed, "dropped", "digest")


class Written(NamedTuple):
    """A group that was begun or added to: as it is now, and what to find it by in a cache."""

    group: Row
    digest_before: bytes | None  # of its content; None if it was begun here
    size: int  # of what was added, in bytes


class Writer:
    """Writes to the end of one session, inside one transaction."""

    def __init__(self, transaction: Transaction, session: Row, *, max_message: int) -> None:
        self._tx = transaction
        self._session = session
        self._max_message = max_message
        self._group: Row | None = None
        self._before = ZERO  # the chain of the group before the open one
        self._digest_before: bytes | None = None
        self._size = 0
        self._kept = 0  # bytes of a message that are elsewhere
        self.written: list[Written] = []

    @property
    def group_id(self) -> int:
        """The id of the open group."""
        assert self._group is not None  # noqa: S101 - callers open a group first
        group_id: int = self._group["id"]
        return group_id

    def open_group(self, role: Role) -> None:
        """Open the group of a message: a user's begins one, any other joins the last live one."""
        if role != "user" and self._group is not None:
            return
        last = None if role == "user" else self._tx.db.last_group(self._session["id"])
        if last is None or last[0]["status"] != "live":
            self.start_group()
            return
        self._group, self._before = last
        self._digest_before = self._group["content_digest"]

    def start_group(self, *, dropped: bool = False, created_at: str | None = None) -> int:
        """Begin a new group; return its id."""
        self.finish()
        session = self._session
        self._before = session["head"]
        self._group = {
            "id": self._tx.db.next_id("groups"),
            "session_id": session["id"],
            "seq": session["next_group"],
            "status": "dropped" if dropped else "live",
            "first_seq": session["next_seq"],
            "messages": 0,
            "tokens": 0,
            "created_at": created_at or self._tx.now,
            "salt": os.urandom(_SALT_BYTES),
            "content_digest": ZERO,
            "chain": ZERO,
            "digest": ZERO,
            "tokens_before": session["tokens"],
        }
        session["next_group"] += 1
        session["live_groups"] += not dropped
        self._digest_before = None
        self._tx.db.insert("groups", self._group)
        return self.group_id

    def add(
        self,
        draft: Draft,
        *,
        strategy: str,
        created_at: str | None = None,
        key: str | None = None,
        usage_id: int | None = None,
    ) -> Entry:
        """Store one message at the end of the open group."""
        assert self._group is not None  # noqa: S101 - callers open a group first
        group, session = self._group, self._session
        message, tokens, basis = draft.message, draft.tokens or 0, draft.basis
        outcome = outcome_of(message, incomplete=draft.incomplete)
        self._kept = 0
        content, parts = to_columns(message, self._keep)
        size = self._bounded(_bytes(content) + _bytes(parts or "") + self._kept)
        moment = created_at or self._tx.now
        numbers = (self._tx.db.next_id("messages"), session["id"], group["id"], session["next_seq"])
        sealed: tuple[Value, ...] = (
            *numbers, message.role, content, parts, outcome, strategy, tool_call_id_of(message),
            tokens, basis, moment, key, usage_id,
        )  # fmt: skip
        before = group["content_digest"] if group["messages"] else group["salt"]
        group["content_digest"] = message_digest(before, sealed)
        live = group["status"] == "live"
        row = (*sealed, int(not live), group["content_digest"])
        self._tx.db.insert("messages", dict(zip(_MESSAGE, row, strict=True)))
        status: Status = outcome if live else "dropped"
        entry = Entry(*numbers, message, status, strategy, tokens, basis, moment, usage_id)
        self._size += size
        session["next_seq"] += 1
        session["largest"] = max(session["largest"], size)
        session["tokens"] += tokens if live else 0
        group["messages"] += 1
        group["tokens"] += tokens
        if message.role == "assistant" and (state := extract_state(message.text)):
            leave(self._tx, session, "session_state", self.group_id, state)
        return entry

    def _keep(self, data: bytes) -> str:
        self._kept = self._bounded(self._kept + len(data))
        if self._tx.attachments.is_open:
            return self._tx.attachments.keep(self._session["uuid"], data)
        return keep_row(self._tx.db, self._session["id"], data)

    def _bounded(self, size: int) -> int:
        if size > self._max_message:
            raise TooLarge(
                f"a message of {size:,} bytes; the limit of the ledger is {self._max_message:,}"
            )
        return size

    def finish(self) -> None:
        """Close the chain over the open group."""
        if self._group is None:
            return
        group = self._group
        group["chain"] = group_chain(self._before, group)
        self._tx.update("groups", group)
        self._session["head"] = group["chain"]
        self.written.append(Written(group, self._digest_before, self._size))
        self._group, self._size = None, 0


def leave(
    tx: Transaction, session: Row, table: str, group_id: int, text: str, at: str | None = None
) -> None:
    """Store what a group left in a table of `LEFT`, in place of what it left earlier."""
    tx.delete(session, table, "group_id = ?", (group_id,))
    row: Row = {"group_id": group_id, LEFT[table]: text, "created_at": at or tx.now}
    tx.insert(session, table, row)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
