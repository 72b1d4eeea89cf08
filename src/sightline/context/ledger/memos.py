"""Memos: knowledge that outlives its session, found again by what a prompt is about.

The stems of tags (and of their hyphenated parts) are looked up in `memo_words`, those of
content in `memo_content_words`. Words rank memos only (std::slop, context management §7),
never the conversation: there they pulled in fragments that mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sightline.context.ledger.rows import Row, RowReader, RowWriter, at_most, first, marks
from sightline.context.ledger.store import Noun
from sightline.context.ledger.transaction import Transaction
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

_BATCH: Final = 1000  # values of one statement


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
    if not words:
        return {}
    found = f"SELECT memo_id, count(*) FROM {table} WHERE word IN ({marks(words)}) GROUP BY memo_id"
    return dict(db.fetch(found, words))


def _ranked(
    db: RowReader,
    tag_matches: Mapping[int, int],
    content_matches: Mapping[int, int],
    limit: int,
) -> list[Memo]:
    found = [*(tag_matches.keys() | content_matches.keys())]
    recency = {row["id"]: row["activity"] for row in _by_id(db, "id, activity", found)}
    best = rank(tag_matches, content_matches, recency, limit)
    rows = {row["id"]: row for row in _by_id(db, "*", best)}
    return [_memo(rows[memo_id]) for memo_id in best]


def _by_id(db: RowReader, columns: str, ids: Sequence[int]) -> Iterator[Row]:
    for start in range(0, len(ids), _BATCH):
        some = ids[start : start + _BATCH]
        yield from db.rows(f"SELECT {columns} FROM llm_memos WHERE id IN ({marks(some)})", some)
