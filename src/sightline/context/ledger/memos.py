"""Memos: knowledge that outlives its session, found again by what a prompt is about.

The stems of tags (and of their hyphenated parts) are looked up in `memo_words`, those of
content in `memo_content_words`. Words rank memos only (std::slop, context management §7),
never the conversation: there they pulled in fragments that mean nothing.

A shelf has several ledgers' memos side by side: a project's, and the user's own. Reading looks
at all of them, and among equals the first one wins; writing goes to the one that is named. Each
ledger numbers its own memos, so a memo is referred to by its number on the first shelf, and by a
letter and its number on another: `3`, `u3`. A ledger that is not there yet is read as an empty
one, and made when something is saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec

from sightline.context.ledger.rows import Row, RowReader, RowWriter, at_most, first, marks, portions
from sightline.context.ledger.store import Noun, Transaction
from sightline.context.messages.memos import (
    TOP,
    Memo,
    content_stems,
    keywords,
    normal_tags,
    rank,
    stem,
    tag_stems,
)
from sightline.errors import InvalidInput, NotFound

_REFERENCE: Final = re.compile(r"([a-z]?)([0-9]{1,15})", re.ASCII)


class Memos(Noun):
    """The memos of one ledger."""

    def save(self, content: str, tags: Iterable[str]) -> Memo:
        """Store a memo with at least one tag."""
        content, tags = self._checked(content, tags)
        with self._store.write() as tx:
            return _memo(_put(tx, {"content": content, "tags": tags, "created_at": tx.now}))

    def edit(
        self, memo_id: int, *, content: str | None = None, tags: Iterable[str] | None = None
    ) -> Memo:
        """Change a memo's content, its tags, or both; it becomes the most recent one."""
        with self._store.write() as tx:
            old = _take(tx, memo_id)
            new_content, new_tags = self._checked(
                old["content"] if content is None else content,
                msgspec.json.decode(old["tags"]) if tags is None else tags,
            )
            row = {"id": memo_id, "content": new_content, "tags": new_tags}
            return _memo(_put(tx, {**row, "created_at": old["created_at"]}))

    def delete(self, memo_id: int) -> None:
        """Delete a memo for good."""
        with self._store.write() as tx:
            _take(tx, memo_id)
        self._store.scrub()

    def get(self, memo_id: int) -> Memo:
        """Read one memo."""
        rows = self._rows("SELECT * FROM llm_memos WHERE id = ?", memo_id)
        if not rows:
            raise NotFound(f"no memo {memo_id}")
        return _memo(rows[0])

    def recent(self, limit: int = -1) -> list[Memo]:
        """List memos, the most recently changed first."""
        sql = "SELECT * FROM llm_memos ORDER BY activity DESC LIMIT ?"
        return [_memo(row) for row in self._rows(sql, at_most(limit))]

    def tagged(self, tags: Iterable[str], *, limit: int = 20) -> list[Memo]:
        """Find memos by tags, a hyphenated part of one included: most matches first."""
        return [memo for memo, _ in self.matching(tags, limit=limit)]

    def matching(self, tags: Iterable[str], *, limit: int = 20) -> list[tuple[Memo, int]]:
        """Find memos by tags, with how many of them matched."""
        words = [*dict.fromkeys(map(stem, normal_tags(tags)))]
        with self._store.read() as db:
            matches = _matches(db, "memo_words", words)
            memos = _ranked(db, matches, {}, limit)
        return [(memo, matches[memo.id]) for memo in memos]

    def search(self, query: str, *, limit: int = 20) -> list[Memo]:
        """Find memos by the words of their content: most matches first."""
        with self._store.read() as db:
            return _ranked(db, {}, _matches(db, "memo_content_words", _keywords(db, query)), limit)

    def relevant(self, prompt: str, *, limit: int = TOP) -> list[Memo]:
        """Find the memos that a prompt calls for; five at most unless told otherwise."""
        return [memo for memo, _ in self.scored(prompt, limit=limit)]

    def scored(self, prompt: str, *, limit: int = TOP) -> list[tuple[Memo, tuple[int, int]]]:
        """Find the memos that a prompt calls for, with their matches in tags and in content."""
        with self._store.read() as db:
            words = _keywords(db, prompt)
            tags = _matches(db, "memo_words", words)
            content = _matches(db, "memo_content_words", words)
            memos = _ranked(db, tags, content, limit)
        return [(memo, (tags.get(memo.id, 0), content.get(memo.id, 0))) for memo in memos]

    def _checked(self, content: str, tags: Iterable[str]) -> tuple[str, str]:
        content = self._gate.text(content.strip(), "the memo", self._gate.limits.memo)
        if not content:
            raise InvalidInput("a memo needs content")
        normal = normal_tags(self._gate.text(tag, "a tag", 1024) for tag in tags)
        if not normal:
            raise InvalidInput("a memo needs at least one tag to be found by")
        return content, msgspec.json.encode(normal).decode()


class MemoShelf:
    """`MemoShelf({"project": ledger.memos, "user": mine.memos})`; a memo's `home` names its ledger.

    An entry may be a function that opens one: it is called when something is to be saved there.
    """

    def __init__(self, homes: Mapping[str, Memos | Callable[[], Memos]]) -> None:
        if not homes:
            raise InvalidInput("a shelf needs at least one ledger")
        self._homes = dict(homes)
        self._opening = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the ledgers, the first of them first."""
        return tuple(self._homes)

    def home(self, name: str) -> Memos:
        """Give the memos of one ledger, to save, edit and delete there."""
        if name not in self._homes:
            raise NotFound(f"no memos called {name!r}; there are {', '.join(self._homes)}")
        with self._opening:
            home = self._homes[name]
            if not isinstance(home, Memos):
                home = self._homes[name] = home()
        return home

    def save(self, content: str, tags: Iterable[str], home: str = "") -> Memo:
        """Store a memo in the ledger of this name; in the first if none is named."""
        name = home or self.names[0]
        return _at(name, self.home(name).save(content, tags))

    def reference(self, memo: Memo) -> str:
        """Write how a memo is referred to."""
        return f"{'' if memo.home in ('', self.names[0]) else memo.home[0]}{memo.id}"

    def find(self, reference: str) -> tuple[Memos, Memo]:
        """Find a memo by its reference, and the ledger that it is in."""
        read = _REFERENCE.fullmatch(reference)
        # Without a letter the first one: every name begins with nothing.
        name = next((name for name in self.names if read and name.startswith(read[1])), None)
        if read is None or name is None:
            raise InvalidInput(f"a memo is called {self._forms()}; not {reference[:40]!r}")
        home = self._homes[name]
        if not isinstance(home, Memos):
            raise NotFound(f"no memo {reference}")
        try:
            return home, _at(name, home.get(int(read[2])))
        except NotFound:
            raise NotFound(f"no memo {reference}") from None

    def recent(self, limit: int = -1) -> list[Memo]:
        """List memos home by home, in each the most recently changed first, at most `limit`."""
        return [_at(name, memo) for name, memos in self._there() for memo in memos.recent(limit)]

    def relevant(self, prompt: str, *, limit: int = TOP) -> list[Memo]:
        """Find the memos that a prompt calls for in all of them together."""
        return self._best(lambda memos: memos.scored(prompt, limit=limit), limit)

    def tagged(self, tags: Sequence[str], *, limit: int = 20) -> list[Memo]:
        """Find memos by tags in all of them: most matches first."""
        return self._best(lambda memos: memos.matching(tags, limit=limit), limit)

    def _best(self, find: Callable[[Memos], Iterable[tuple[Memo, Any]]], limit: int) -> list[Memo]:
        found = [
            (rank, _at(name, memo)) for name, memos in self._there() for memo, rank in find(memos)
        ]
        # Each home comes ranked already; a stable sort keeps its order among equals.
        found.sort(key=lambda item: item[0], reverse=True)
        return [memo for _, memo in found[:limit]]

    def _there(self) -> list[tuple[str, Memos]]:
        return [(name, home) for name, home in self._homes.items() if isinstance(home, Memos)]

    def _forms(self) -> str:
        others = [f"{name[0]} and its number ({name})" for name in self.names[1:]]
        return " or ".join(["by its number", *others])


def _at(home: str, memo: Memo) -> Memo:
    return msgspec.structs.replace(memo, home=home)


def _memo(row: Row) -> Memo:
    tags = tuple(msgspec.json.decode(row["tags"], type=list[str]))
    return Memo(row["id"], row["content"], tags, row["created_at"], row["updated_at"])


def _put(tx: Transaction, row: Row) -> Row:
    """Store a memo, and what it is found by."""
    row = {**row, "updated_at": tx.now, "activity": tx.db.next_activity()}
    row = tx.insert_memo(row)
    index_memo(tx.db, row["id"], row["content"], row["tags"])
    return row


def index_memo(db: RowWriter, memo_id: int, content: str, tags: str) -> None:
    """Make a memo be found by the stems of its tags (a JSON array) and of its content."""
    for table, stems in memo_stems(content, tags).items():
        for word in stems:
            db.insert(table, {"word": word, "memo_id": memo_id})


def memo_stems(content: str, tags: str) -> dict[str, frozenset[str]]:
    """Tell which stems a memo has in each index."""
    return {
        "memo_words": tag_stems(msgspec.json.decode(tags, type=list[str])),
        "memo_content_words": content_stems(content),
    }


def _take(tx: Transaction, memo_id: int) -> Row:
    """Delete a memo and what it is found by; return it."""
    row = tx.delete_memo(memo_id)
    for table in ("memo_words", "memo_content_words"):
        tx.db.delete(table, "memo_id = ?", (memo_id,))
    return row


def _keywords(db: RowReader, prompt: str) -> tuple[str, ...]:
    # Stemming is worth importing only where there is something to find.
    return keywords(prompt) if first(db, "SELECT id FROM llm_memos LIMIT 1") else ()


def _matches(db: RowReader, table: str, words: Sequence[str]) -> dict[int, int]:
    """Count how many of the words each memo has in an index."""
    found = f"SELECT memo_id, count(*) FROM {table} WHERE word IN ({marks(words)}) GROUP BY memo_id"
    return dict(db.fetch(found, words))


def _ranked(
    db: RowReader, tag_matches: Mapping[int, int], content_matches: Mapping[int, int], limit: int
) -> list[Memo]:
    found = [*(tag_matches.keys() | content_matches.keys())]
    recency = {row["id"]: row["activity"] for row in _by_id(db, "id, activity", found)}
    best = rank(tag_matches, content_matches, recency, limit)
    rows = {row["id"]: row for row in _by_id(db, "*", best)}
    return [_memo(rows[memo_id]) for memo_id in best]


def _by_id(db: RowReader, columns: str, ids: Sequence[int]) -> Iterator[Row]:
    for some in portions(ids):
        yield from db.rows(f"SELECT {columns} FROM llm_memos WHERE id IN ({marks(some)})", some)
