"""Read a conversation back: a window of it, a group, a message, or all.

A window costs what it shows, whatever the session's length: the newest live
groups come from one index, the place of a token cut from another, the messages
of each run of groups from a third. Decoded groups are kept, found again by the
digest of their content; while the seal over a session is the same, so is its
window; and where the seal moved by an append of this process alone, only what was
appended is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import apsw

from sightline.context.entries import Entry, by_group
from sightline.context.window import TokenWindow, Window
from sightline.errors import LedgerDamaged, NotFound
from sightline.ledger.cache import GroupCache
from sightline.ledger.codec import ENTRY_COLUMNS, entry_of, size_of
from sightline.ledger.store import Store
from sightline.ledger.transaction import Row, fetch, find_session, seal
from sightline.ledger.writer import Written

__all__ = ["History", "group_entries"]

_LIVE: Final = "FROM groups WHERE session_id = ? AND status = 'live'"
_SHOWN: Final = "SELECT id, content_digest, first_seq, messages"
_IN_ORDER: Final = (
    f"SELECT {ENTRY_COLUMNS} FROM messages "
    "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq"
)
_PAGE: Final = 1000

_Group: TypeAlias = tuple[int, bytes, int, int]  # the columns of _SHOWN


class History:
    """The messages of a ledger, for reading."""

    def __init__(self, store: Store, *, cached_chars: int = 16 * 1024 * 1024) -> None:
        self._store = store
        self._cache = GroupCache(cached_chars)
        # The window read last, good as long as the seal over its session is the same.
        self._last: tuple[tuple[int, Window | TokenWindow, bytes], tuple[Entry, ...]] | None = None
        # A session, the seal over it, and its newest live groups, as many as were asked for.
        self._known: tuple[int, bytes, list[_Group]] = (0, b"", [])

    def window(
        self, session_id: int, window: Window | TokenWindow | None = None
    ) -> tuple[Entry, ...]:
        """Read the messages that a window shows, in order; by default the session's own window."""
        with self._store.read() as connection:
            digest, live_groups, tokens, size, slack = _measures(connection, session_id)
            if window is None:
                window = Window(size, slack)
            asked = (session_id, window, digest)
            if self._last is not None and self._last[0] == asked:
                return self._last[1]
            if isinstance(window, Window):
                count = window.shown(live_groups)
                groups = self._newest(connection, session_id, digest, count)
            else:
                groups = _groups_from(connection, session_id, window.left_out(tokens))
            self._known = (session_id, digest, groups)
            missing = self._cache.missing(groups)
            if missing:
                self._fetch(connection, session_id, missing)
            shown = self._cache.entries(groups)
            self._last = (asked, shown) if self._cache.trim(groups) else None
            return shown

    def follow(self, session: Row, written: Sequence[Written], entries: Sequence[Entry]) -> None:
        """Keep up with an append, so that the next window need not read what is at hand.

        `session` is its row as it will be sealed, with the digest that it had before.
        If it is not stored in the end, no window will find this seal or these digests.
        """
        session_id, digest, groups = self._known
        known = (session_id, digest) == (session["id"], session["digest"])
        added = dict(by_group(entries))
        for group, before, size in written:
            shown = (group["id"], group["content_digest"], group["first_seq"], group["messages"])
            self._cache.extend(shown, before, added[group["id"]], size)
            if known:
                groups = [*(groups if before is None else groups[:-1]), shown]
        if known:
            self._known = (session_id, seal("sessions", session), groups)
        self._cache.trim([])

    def messages(self, session_id: int) -> Iterator[Entry]:
        """Read every message of a session in order, dropped ones included, page by page."""
        with self._store.read() as connection:
            find_session(connection, session_id)
        last = -1
        while True:
            with self._store.read() as connection:
                rows = fetch(
                    connection,
                    f"SELECT {ENTRY_COLUMNS} FROM messages "
                    "WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
                    (session_id, last, _PAGE),
                )
            if not rows:
                return
            last = rows[-1][3]
            yield from map(entry_of, rows)

    def message(self, message_id: int) -> Entry:
        """Read one message by its id."""
        with self._store.read() as connection:
            row = connection.execute(
                f"SELECT {ENTRY_COLUMNS} FROM messages WHERE id = ?", (message_id,)
            ).fetchone()
        if row is None:
            raise NotFound(f"no message {message_id}")
        return entry_of(row)

    def _newest(
        self, connection: apsw.Connection, session_id: int, digest: bytes, count: int
    ) -> list[_Group]:
        known_session, known_digest, groups = self._known
        if (known_session, known_digest) == (session_id, digest) and len(groups) >= count:
            return groups[len(groups) - count :]
        return _last_groups(connection, session_id, count)

    def _fetch(self, connection: apsw.Connection, session_id: int, groups: list[_Group]) -> None:
        """Bring groups into the cache, one range scan for each run of neighbours."""
        runs: list[tuple[int, list[_Group]]] = []
        end = -1
        for group in groups:
            _, _, first, count = group
            if first != end:
                runs.append((first, []))
            runs[-1][1].append(group)
            end = first + count
        for start, run in runs:
            end = run[-1][2] + run[-1][3]
            rows = fetch(connection, _IN_ORDER, (session_id, start, end))
            if len(rows) != end - start:
                place = f"from {start} to {end - 1}"
                raise LedgerDamaged([f"session {session_id} has lost messages {place}"])
            for group_id, digest, first, count in run:
                own = rows[first - start : first - start + count]
                size = sum(map(size_of, own))
                self._cache.put(group_id, digest, [entry_of(row) for row in own], size)


def _measures(connection: apsw.Connection, session_id: int) -> tuple[bytes, int, int, int, int]:
    rows = fetch(
        connection,
        "SELECT digest, live_groups, tokens, context_size, context_slack "
        "FROM sessions WHERE id = ?",
        (session_id,),
    )
    if not rows:
        raise NotFound(f"no session {session_id}")
    digest, live_groups, tokens, size, slack = rows[0]
    return digest, live_groups, tokens, size, slack


def group_entries(connection: apsw.Connection, session_id: int, group_id: int) -> list[Entry]:
    """Read the messages of one group, dropped or not."""
    place = connection.execute(
        "SELECT first_seq, first_seq + messages FROM groups WHERE id = ? AND session_id = ?",
        (group_id, session_id),
    ).fetchone()
    if place is None:
        raise NotFound(f"no group {group_id} in session {session_id}")
    return [entry_of(row) for row in fetch(connection, _IN_ORDER, (session_id, *place))]


def _last_groups(connection: apsw.Connection, session_id: int, count: int) -> list[_Group]:
    sql = f"{_SHOWN} {_LIVE} ORDER BY seq DESC LIMIT ?"
    return fetch(connection, sql, (session_id, count))[::-1]


def _groups_from(connection: apsw.Connection, session_id: int, left_out: int) -> list[_Group]:
    first = connection.execute(
        f"SELECT seq {_LIVE} AND tokens_before >= ? ORDER BY tokens_before, id LIMIT 1",
        (session_id, left_out),
    ).get
    if first is None:
        return _last_groups(connection, session_id, 1)
    return fetch(connection, f"{_SHOWN} {_LIVE} AND seq >= ? ORDER BY seq", (session_id, first))
