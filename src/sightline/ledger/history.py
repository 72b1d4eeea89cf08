"""Read a conversation back: a window of it, a group, a message, or all.

A window costs what it shows, whatever the session's length: the newest live
groups come from one index, the place of a token cut from another, the messages
of each run of groups from a third. Groups that are over do not change, so the
decoded ones are kept, found again by the digest of their content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
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

_Group: TypeAlias = tuple[Any, ...]  # id, first_seq, messages, content_digest
_Key: TypeAlias = tuple[int, bytes]

_LIVE: Final = "FROM groups WHERE session_id = ? AND status = 'live'"
_SHOWN: Final = "SELECT id, first_seq, messages, content_digest"
_PAGE: Final = 1000
_OVERHEAD: Final = 500  # what an entry costs in memory besides its text


class History:
    """The messages of a ledger, for reading."""

    def __init__(self, store: Store, *, cached_chars: int = 16 * 1024 * 1024) -> None:
        self._store = store
        self._cache = _GroupCache(cached_chars)

    def window(
        self, session_id: int, window: Window | TokenWindow | None = None
    ) -> tuple[Entry, ...]:
        """Read the messages that a window shows, in order; by default the session's own window."""
        with self._store.read() as connection:
            session = find_session(connection, session_id)
            if window is None:
                window = Window(session["context_size"], session["context_slack"])
            if isinstance(window, Window):
                groups = _last_groups(connection, session_id, window.shown(session["live_groups"]))
            else:
                cut = window.left_out(session["tokens"])
                groups = _groups_from(connection, session_id, cut)
            self._fetch(connection, session_id, groups)
            return tuple(chain.from_iterable(self._cache[_key(group)] for group in groups))

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
        """Bring the groups into the cache that are not there, one range scan for each run."""
        missing = [group for group in groups if _key(group) not in self._cache]
        self._cache.make_room(keep={_key(group) for group in groups})
        runs: list[list[int]] = []
        for _, first, count, _ in missing:
            if runs and runs[-1][1] == first:
                runs[-1][1] = first + count
            else:
                runs.append([first, first + count])
        keys = {group[0]: _key(group) for group in missing}
        for first, end in runs:
            rows = connection.execute(
                f"SELECT {ENTRY_COLUMNS} FROM messages "
                "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
                (session_id, first, end),
            )
            for group_id, entries in by_group(map(entry_of, rows)):
                if group_id in keys:
                    self._cache[keys[group_id]] = tuple(entries)


def _key(group: _Group) -> _Key:
    return group[0], group[3]


class _GroupCache:
    """Decoded groups, least recently used first, up to a number of characters."""

    def __init__(self, max_chars: int) -> None:
        self._max = max_chars
        self._chars = 0
        self._groups: OrderedDict[_Key, tuple[tuple[Entry, ...], int]] = OrderedDict()

    def __contains__(self, key: _Key) -> bool:
        return key in self._groups

    def __getitem__(self, key: _Key) -> tuple[Entry, ...]:
        if key not in self._groups:
            raise LedgerDamaged([f"group {key[0]} has lost its messages"])
        self._groups.move_to_end(key)
        return self._groups[key][0]

    def __setitem__(self, key: _Key, entries: tuple[Entry, ...]) -> None:
        size = sum(_weight(entry) for entry in entries)
        self._groups[key] = (entries, size)
        self._chars += size

    def make_room(self, keep: set[_Key]) -> None:
        """Forget the groups longest unused until within the limit, sparing those in `keep`."""
        while self._chars > self._max and self._groups:
            oldest = next(iter(self._groups))
            if oldest in keep:
                return
            self._chars -= self._groups.pop(oldest)[1]


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
