"""Read a conversation back: a window of it, a group, a message, or all.

A window costs what it shows, whatever the session's length: the newest live
groups come from one index, the place of a token cut from another, the messages
of each run of groups from a third. Groups that are over do not change, so the
decoded ones are kept, found again by the digest of their content; and while the
seal over a session is the same, so is its window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import apsw

from sightline.context.entries import Entry, by_group
from sightline.context.parts import Reasoning, Text, ToolResult
from sightline.context.window import TokenWindow, Window
from sightline.errors import LedgerDamaged, NotFound
from sightline.ledger.codec import ENTRY_COLUMNS, entry_of
from sightline.ledger.store import Store
from sightline.ledger.transaction import fetch, find_session

__all__ = ["History", "group_entries"]

_LIVE: Final = "FROM groups WHERE session_id = ? AND status = 'live'"
_SHOWN: Final = "SELECT id, content_digest, first_seq, messages"
_PAGE: Final = 1000
_OVERHEAD: Final = 500  # what an entry costs in memory besides its text

_Group: TypeAlias = tuple[Any, ...]  # the columns of _SHOWN


class History:
    """The messages of a ledger, for reading."""

    def __init__(self, store: Store, *, cached_chars: int = 16 * 1024 * 1024) -> None:
        self._store = store
        self._cache = _GroupCache(cached_chars)
        # The window read last, good as long as the seal over its session is the same.
        self._last: tuple[tuple[int, Window | TokenWindow, bytes], tuple[Entry, ...]] | None = None

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
                groups = _last_groups(connection, session_id, window.shown(live_groups))
            else:
                groups = _groups_from(connection, session_id, window.left_out(tokens))
            missing = self._cache.missing(groups)
            if missing:
                self._fetch(connection, session_id, missing)
            shown = self._cache.entries(groups)
            self._last = (asked, shown) if self._cache.trim(groups) else None
            return shown

    def remember(self, group_id: int, content_digest: bytes, entries: list[Entry]) -> None:
        """Keep a group that is being stored, so that the next window need not read it.

        If it is not stored in the end, no window will ask for a group of this digest.
        """
        self._cache.put(group_id, content_digest, entries)
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

    def _fetch(self, connection: apsw.Connection, session_id: int, groups: list[_Group]) -> None:
        """Bring groups into the cache, one range scan for each run of neighbours."""
        runs: list[list[int]] = []
        for _, _, first, count in groups:
            if runs and runs[-1][1] == first:
                runs[-1][1] = first + count
            else:
                runs.append([first, first + count])
        digests = {group[0]: group[1] for group in groups}
        for first, end in runs:
            rows = connection.execute(
                f"SELECT {ENTRY_COLUMNS} FROM messages "
                "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
                (session_id, first, end),
            )
            for group_id, entries in by_group(map(entry_of, rows)):
                if group_id in digests:
                    self._cache.put(group_id, digests[group_id], entries)


class _GroupCache:
    """Decoded groups by id, each good for the content digest it was read with."""

    def __init__(self, max_chars: int) -> None:
        self._max = max_chars
        self._chars = 0
        self._groups: dict[int, tuple[bytes, list[Entry], int]] = {}

    def missing(self, groups: list[_Group]) -> list[_Group]:
        """List the groups that are not here, or no longer as they are here."""
        known = self._groups
        return [
            group
            for group in groups
            if (held := known.get(group[0])) is None or held[0] != group[1]
        ]

    def put(self, group_id: int, digest: bytes, entries: list[Entry]) -> None:
        """Keep a group, in place of what it was before."""
        size = sum(map(_weight, entries))
        if group_id in self._groups:
            self._chars -= self._groups[group_id][2]
        self._groups[group_id] = (digest, entries, size)
        self._chars += size

    def entries(self, groups: list[_Group]) -> tuple[Entry, ...]:
        """Put the entries of groups together, in order."""
        known = self._groups
        found: list[Entry] = []
        for group in groups:
            held = known.get(group[0])
            if held is None or held[0] != group[1]:
                raise LedgerDamaged([f"group {group[0]} has lost its messages"])
            found += held[1]
        return tuple(found)

    def trim(self, keep: list[_Group]) -> bool:
        """Forget all groups but those in `keep`, and those too if they alone are too much.

        Say whether those in `keep` are still here.
        """
        if self._chars <= self._max:
            return True
        kept = {group[0] for group in keep}
        self._groups = {id_: held for id_, held in self._groups.items() if id_ in kept}
        self._chars = sum(held[2] for held in self._groups.values())
        if self._chars <= self._max:
            return True
        self._groups.clear()
        self._chars = 0
        return False


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


def _weight(entry: Entry) -> int:
    texts = sum(
        len(part.content if isinstance(part, ToolResult) else part.text)
        for part in entry.message.parts
        if isinstance(part, Text | ToolResult | Reasoning)
    )
    return _OVERHEAD + texts


def group_entries(connection: apsw.Connection, session_id: int, group_id: int) -> list[Entry]:
    """Read the messages of one group, dropped or not."""
    place = connection.execute(
        "SELECT first_seq, first_seq + messages FROM groups WHERE id = ? AND session_id = ?",
        (group_id, session_id),
    ).fetchone()
    if place is None:
        raise NotFound(f"no group {group_id} in session {session_id}")
    rows = connection.execute(
        f"SELECT {ENTRY_COLUMNS} FROM messages "
        "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
        (session_id, *place),
    )
    return [entry_of(row) for row in rows]


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
