"""Read a conversation back: a window of it, a group, a message, or all.

A window costs what it shows, whatever the session's length: the newest live
groups come from one index, the position of a token cut from another, the messages
of each run of groups from a third. Decoded groups are kept, found again by the
digest of their content; while the seal over a session is the same, so is its
window; and where the seal moved by an append of this process alone, the window
moves with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from sightline.context.ledger.attachments import entries_of, fetching, names_in
from sightline.context.ledger.codec import ENTRY_COLUMNS, entry_of, parts_of, size_of, without_bytes
from sightline.context.ledger.rows import Row, RowReader, find_session, first, the_session
from sightline.context.ledger.seal import seal
from sightline.context.ledger.store import Store
from sightline.context.ledger.writer import Written
from sightline.context.messages.parts import Entry, by_group
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import LedgerDamaged, NotFound

_LIVE: Final = "FROM groups WHERE session_id = ? AND status = 'live'"
_SHOWN: Final = "SELECT id, content_digest, first_seq, messages"
_MESSAGES: Final = f"SELECT {ENTRY_COLUMNS} FROM messages WHERE session_id = ?"
_IN_ORDER: Final = f"{_MESSAGES} AND seq >= ? AND seq < ? ORDER BY seq"
_PAGE: Final = 1000
_MAX_MOVED: Final = 5000  # messages; an append must not copy a long window that nobody asks for

_MEASURES: Final = ("digest", "live_groups", "tokens", "context_size", "context_slack")
_MEASURED: Final = f"SELECT {', '.join(_MEASURES)} FROM sessions WHERE id = ?"
_measured: Final = itemgetter(*_MEASURES)
# As `Window.shown` counts; where it is null, the session's own window.
_COUNT: Final = (
    "SELECT CASE WHEN size = 0 OR live_groups <= size THEN live_groups "
    "ELSE size + (live_groups - size) % (slack + 1) END FROM (SELECT live_groups, "
    "coalesce(?, context_size) AS size, coalesce(?, context_slack) AS slack "
    "FROM sessions WHERE id = ?) AS measured"
)
_NEWEST: Final = f"{_LIVE} ORDER BY seq DESC LIMIT coalesce(({_COUNT}), 0)"
_FROM_OLDEST: Final = (
    f"{_MESSAGES} AND dropped = 0 AND seq >= "
    f"(SELECT min(first_seq) FROM (SELECT first_seq {_NEWEST}) AS shown) ORDER BY seq"
)

_Measures: TypeAlias = tuple[bytes, int, int, int, int]
_Group: TypeAlias = tuple[int, bytes, int, int]  # the columns of _SHOWN
_OVERHEAD: Final = 500  # what an entry costs in memory besides its text


class _Reading(NamedTuple):
    """A window as it was read; good as long as the seal over its session is the same."""

    session_id: int
    window: Window | TokenWindow
    digest: bytes
    groups: list[_Group]
    shown: tuple[Entry, ...]


class _GroupCache:
    """Groups that were read or written lately, decoded, by id.

    Each is good for the content digest that it was put in with: a group that has changed is not
    found. What is kept is bounded by the size of its text.
    """

    def __init__(self, max_size: int) -> None:
        self._max = max_size
        self._size = 0
        self._groups: dict[int, tuple[bytes, list[Entry], int]] = {}
        self._sessions: set[int] = set()

    def knows(self, session_id: int) -> bool:
        """Tell whether any group of a session is here."""
        return session_id in self._sessions

    def missing(self, groups: Iterable[_Group]) -> list[_Group]:
        """List the groups that are not here, or no longer as they are here."""
        known = self._groups
        return [
            group
            for group in groups
            if (held := known.get(group[0])) is None or held[0] != group[1]
        ]

    def put(self, group_id: int, digest: bytes, entries: list[Entry], size: int) -> None:
        """Keep a group, in place of what it was before."""
        size += _OVERHEAD * len(entries)
        if group_id in self._groups:
            self._size -= self._groups[group_id][2]
        self._groups[group_id] = (digest, entries, size)
        self._sessions.update(entry.session_id for entry in entries[:1])
        self._size += size

    def extend(self, group: _Group, before: bytes | None, added: list[Entry], size: int) -> None:
        """Keep a group that is new (`before` is None), or grew from what is here."""
        if before is None:
            self.put(group[0], group[1], added, size)
        elif (held := self._groups.get(group[0])) is not None and held[0] == before:
            size += held[2] - _OVERHEAD * len(held[1])
            self.put(group[0], group[1], held[1] + added, size)

    def entries(self, groups: Iterable[_Group]) -> tuple[Entry, ...]:
        """Put the entries of groups together, in order; none of them is missing."""
        known = self._groups
        found: list[Entry] = []
        for group in groups:
            found += known[group[0]][1]
        return tuple(found)

    def trim(self, keep: Iterable[_Group]) -> bool:
        """Forget all groups but those in `keep`, and those too if they alone are too much.

        Say whether those in `keep` are still here.
        """
        if self._size <= self._max:
            return True
        kept = {group[0] for group in keep}
        self._groups = {id_: held for id_, held in self._groups.items() if id_ in kept}
        self._size = sum(held[2] for held in self._groups.values())
        self._sessions = {e.session_id for _, held, _ in self._groups.values() for e in held[:1]}
        if self._size <= self._max:
            return True
        self._groups.clear()
        self._sessions.clear()
        self._size = 0
        return False


class HistoryReader:
    """The messages of a ledger, for reading."""

    def __init__(self, store: Store, *, cached_chars: int = 16 * 1024 * 1024) -> None:
        self._store = store
        self._cache = _GroupCache(cached_chars)
        self._last: _Reading | None = None

    def window(
        self, session_id: int, window: Window | TokenWindow | None = None
    ) -> tuple[Entry, ...]:
        """Read the messages that a window shows, in order; by default the session's own window."""
        known = self._store.at_hand(session_id)
        if known is not None:
            shown = self._shown(session_id, window, _measured(known))
            if shown is not None:
                return shown
        with self._store.read() as db:
            all_new = self._store.is_far and not self._cache.knows(session_id)
            if all_new and not isinstance(window, TokenWindow):
                measures, groups = self._fetch_all(db, session_id, window)
            else:
                measures = the_session(db.fetch(_MEASURED, (session_id,)), session_id)
                if (shown := self._shown(session_id, window, measures)) is not None:
                    return shown
                groups = _groups(db, session_id, window, measures)
                if missing := self._cache.missing(groups):
                    self._fetch(db, session_id, missing)
            digest, _, _, size, slack = measures
            shown = self._cache.entries(groups)
            self._keep(_Reading(session_id, window or Window(size, slack), digest, groups, shown))
            return shown

    def _shown(
        self, session_id: int, window: Window | TokenWindow | None, measures: _Measures
    ) -> tuple[Entry, ...] | None:
        """Give what was read last, if it is what would be read now."""
        digest, _, _, size, slack = measures
        last = self._last
        sought = (session_id, window or Window(size, slack), digest)
        return last.shown if last is not None and last[:3] == sought else None

    def follow(self, session: Row, written: Sequence[Written], entries: Sequence[Entry]) -> None:
        """Keep up with an append, so that the next window need not read what is at hand.

        `session` is its row as it will be sealed, with the digest that it had before.
        If it is not stored in the end, no window will find this seal or these digests.
        """
        added = dict(by_group(entries))
        groups: list[_Group] = []
        for group, before, size in written:
            shown = (group["id"], group["content_digest"], group["first_seq"], group["messages"])
            self._cache.extend(shown, before, added[group["id"]], size)
            groups.append(shown)
        if self._last is None:
            self._cache.trim([])
        else:
            goes_on = written[0].digest_before is not None
            self._keep(_moved(self._last, session, groups, entries, goes_on=goes_on))

    def messages(self, session_id: int, *, whole: bool = True) -> Iterator[Entry]:
        """Read every message of a session in order, dropped ones included, page by page."""
        fetch: Callable[[str], bytes] = without_bytes
        with self._store.read() as db:
            find_session(db, session_id)
        last = -1
        while True:
            with self._store.read() as db:
                rows = db.fetch(
                    f"SELECT {ENTRY_COLUMNS} FROM messages "
                    "WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
                    (session_id, last, _PAGE),
                )
                if whole:
                    fetch = fetching(db, self._store.attachments, names_in(parts_of(rows)))
            if not rows:
                return
            last = rows[-1][3]
            yield from (entry_of(row, fetch) for row in rows)

    def message(self, message_id: int) -> Entry:
        """Read one message by its id."""
        with self._store.read() as db:
            rows = db.fetch(f"SELECT {ENTRY_COLUMNS} FROM messages WHERE id = ?", (message_id,))
            if not rows:
                raise NotFound(f"no message {message_id}")
            return entries_of(db, self._store.attachments, rows)[0]

    def _keep(self, reading: _Reading) -> None:
        """Keep a reading, unless it alone is too much to keep."""
        self._last = reading if self._cache.trim(reading.groups) else None

    def _fetch_all(
        self, db: RowReader, session_id: int, window: Window | None
    ) -> tuple[_Measures, list[_Group]]:
        """Bring a window of which nothing is known into the cache, all of it in one question."""
        size = (None, None) if window is None else (window.size, window.slack)
        newest = (session_id, *size, session_id)
        measured, groups, rows = db.fetch_each(
            (_MEASURED, (session_id,)),
            (f"{_SHOWN} {_NEWEST}", newest),
            (_FROM_OLDEST, (session_id, *newest)),
        )
        groups.reverse()
        measures: _Measures = the_session(measured, session_id)
        self._put(db, session_id, groups, rows)
        return measures, groups

    def _fetch(self, db: RowReader, session_id: int, groups: list[_Group]) -> None:
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
            self._put(db, session_id, run, db.fetch(_IN_ORDER, (session_id, start, end)))

    def _put(
        self, db: RowReader, session_id: int, groups: list[_Group], rows: list[tuple[Any, ...]]
    ) -> None:
        """Bring groups into the cache, whose messages are in these rows and nothing else is."""
        if len(rows) != sum(count for *_, count in groups):
            lost = f"from {groups[0][2]} to {groups[-1][2] + groups[-1][3] - 1}"
            raise LedgerDamaged([f"session {session_id} has lost messages {lost}"])
        entries = entries_of(db, self._store.attachments, rows)
        at = 0
        for group_id, digest, _, count in groups:
            span = slice(at, at + count)
            at += count
            size = sum(map(size_of, rows[span], entries[span]))
            self._cache.put(group_id, digest, entries[span], size)


def _moved(
    reading: _Reading,
    session: Row,
    groups: list[_Group],
    entries: Sequence[Entry],
    *,
    goes_on: bool,
) -> _Reading:
    """Move a reading along with an append to its session, where that is less work than reading.

    `goes_on` says that the first of the groups was there before and grew.
    """
    if (
        (reading.session_id, reading.digest) != (session["id"], session["digest"])
        or not isinstance(reading.window, Window)
        or len(reading.shown) > _MAX_MOVED
    ):
        return reading
    groups = (reading.groups[:-1] if goes_on else reading.groups) + groups
    left = len(groups) - reading.window.shown(session["live_groups"])
    if left < 0:
        return reading
    return _Reading(
        reading.session_id,
        reading.window,
        seal("sessions", session),
        groups[left:],
        (*reading.shown, *entries)[sum(count for *_, count in groups[:left]) :],
    )


def group_rows(db: RowReader, session_id: int, group_id: int) -> list[tuple[Any, ...]]:
    """Read the messages of one group, dropped or not, as rows of `ENTRY_COLUMNS`."""
    ranges = db.fetch(
        "SELECT first_seq, first_seq + messages FROM groups WHERE id = ? AND session_id = ?",
        (group_id, session_id),
    )
    if not ranges:
        raise NotFound(f"no group {group_id} in session {session_id}")
    return db.fetch(_IN_ORDER, (session_id, *ranges[0]))


def _groups(
    db: RowReader, session_id: int, window: Window | TokenWindow | None, measures: _Measures
) -> list[_Group]:
    _, live_groups, tokens, size, slack = measures
    if isinstance(window, TokenWindow):
        cut = f"SELECT seq {_LIVE} AND tokens_before >= ? ORDER BY tokens_before, id LIMIT 1"
        start = first(db, cut, (session_id, window.left_out(tokens)))
        if start is not None:
            return db.fetch(f"{_SHOWN} {_LIVE} AND seq >= ? ORDER BY seq", (session_id, start))
        count = 1  # the newest is always shown
    else:
        count = (window or Window(size, slack)).shown(live_groups)
    return db.fetch(f"{_SHOWN} {_LIVE} ORDER BY seq DESC LIMIT ?", (session_id, count))[::-1]
