"""What a session keeps beside its messages: the model's state, its scratchpad, the strategy's.

State and scratchpad are those of std::slop, context management §3 and §4.
The state in force is the one left by the newest live group that left any, so
undo, drop and remove bring the right one back by themselves. The scratchpad is
one text of the session, whatever model reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.rows import find_session, first
from sightline.context.ledger.store import Noun, Store
from sightline.context.ledger.writer import leave
from sightline.context.messages.gate import Gate
from sightline.context.messages.parts import Entry
from sightline.context.messages.state import HEADING, StateRebuild, extract_state, rebuild_request
from sightline.errors import InvalidInput, NotFound


class State(msgspec.Struct, frozen=True):
    """A `### STATE` block as a group left it."""

    group_id: int
    text: str
    created_at: str


class States(Noun):
    """The `### STATE` blocks of a ledger's sessions."""

    def __init__(self, store: Store, gate: Gate, history: HistoryReader) -> None:
        super().__init__(store, gate)
        self._history = history

    def current(self, session_id: int) -> str | None:
        """Read the state in force, heading included, or None."""
        newest = self.history(session_id, last=1)
        return newest[0].text if newest else None

    def history(self, session_id: int, *, last: int = 200) -> list[State]:
        """List the newest states that live groups left, oldest first."""
        rows = self._fetch_of(
            "SELECT group_id, content, session_state.created_at FROM session_state "
            "JOIN groups ON groups.id = group_id AND status = 'live' "
            "WHERE session_state.session_id = ? ORDER BY group_id DESC LIMIT ?",
            session_id,
            last,
        )
        return [State(*row) for row in reversed(rows)]

    def set(self, session_id: int, text: str, *, group_id: int | None = None) -> str:
        """Store the state block of a text for a group, by default the newest live one.

        Raise `InvalidInput` if the text has no block.
        """
        block = extract_state(text)
        if block is None:
            raise InvalidInput(f"there is no {HEADING!r} block in this text")
        block = self._gate.text(block, "the state", self._gate.limits.state)
        with self._changing(session_id) as (tx, session):
            chosen = "" if group_id is None else "AND id = ? "
            found = first(
                tx.db,
                "SELECT id FROM groups WHERE session_id = ? AND status = 'live' "
                f"{chosen}ORDER BY seq DESC LIMIT 1",
                (session_id,) if group_id is None else (session_id, group_id),
            )
            if found is None:
                raise NotFound("there is no live group that this state could belong to")
            leave(tx, session, "session_state", found, block)
        return block

    def rebuild(self, session_id: int) -> StateRebuild:
        """Make the request that asks the model for a new state from the current window."""
        history: tuple[Entry, ...] = self._history.window(session_id)
        if not history:
            raise NotFound("the window is empty; there is nothing to make a state of")
        return rebuild_request(session_id, history)


class StrategyStates(Noun):
    """What strategies keep between turns: one JSON object for each group that left one."""

    def current(self, session_id: int) -> dict[str, Any]:
        """Read what the newest live group left that left anything; empty if none did."""
        return self._newest(
            "SELECT body FROM strategy_states "
            "JOIN groups ON groups.id = group_id AND status = 'live' "
            "WHERE strategy_states.session_id = ? ORDER BY group_id DESC LIMIT 1",
            session_id,
        )

    def before(self, session_id: int, group_id: int) -> dict[str, Any]:
        """Read what was in force when a group began, as far as it is still known."""
        return self._newest(
            "SELECT body FROM strategy_states WHERE session_id = ? AND group_id < ? "
            "ORDER BY group_id DESC LIMIT 1",
            session_id,
            group_id,
        )

    def set(self, session_id: int, group_id: int, state: dict[str, Any]) -> None:
        """Keep what a group left. Raise `InvalidInput` if it cannot be stored."""
        body = self._gate.json(state, "the strategy's state", self._gate.limits.strategy_state)
        with self._store.write() as tx:
            leave(tx, tx.session(session_id), "strategy_states", group_id, body)

    def _newest(self, sql: str, *values: int) -> dict[str, Any]:
        rows = self._fetch(sql, *values)
        return msgspec.json.decode(rows[0][0], type=dict[str, Any]) if rows else {}


class Scratchpad(Noun):
    """The scratchpads of a ledger's sessions."""

    def read(self, session_id: int) -> str:
        """Read the scratchpad; empty if nobody wrote to it."""
        with self._store.read() as db:
            return str(find_session(db, session_id)["scratchpad"])

    def replace(self, session_id: int, text: str) -> str:
        """Write the scratchpad anew."""
        return self._change(session_id, lambda _: text)

    def append(self, session_id: int, text: str) -> str:
        """Add a paragraph at the end."""
        return self._change(session_id, lambda old: f"{old.rstrip()}\n{text}" if old else text)

    def edit(self, session_id: int, old: str, new: str) -> str:
        """Replace one passage, given exactly. Raise `InvalidInput` unless it is there once."""

        def changed(text: str) -> str:
            found = text.count(old) if old else 0
            if found != 1:
                times = "not in the scratchpad" if not found else f"there {found} times"
                raise InvalidInput(f"the passage to replace is {times}: {old[:80]!r}")
            return text.replace(old, new)

        return self._change(session_id, changed)

    def _change(self, session_id: int, change: Callable[[str], str]) -> str:
        with self._changing(session_id) as (_, session):
            text = change(session["scratchpad"])
            text = self._gate.text(text, "the scratchpad", self._gate.limits.scratchpad)
            session["scratchpad"] = text
        return text
