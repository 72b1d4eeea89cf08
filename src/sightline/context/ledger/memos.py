"""Memos: knowledge that outlives its session, found again by what a prompt is about.

Tags (and their hyphenated parts) are looked up in `memo_words`, content in the
full-text index `memo_text`. Full text ranks memos only, never the conversation:
there it pulled in fragments by words that mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sightline.context.ledger.rows import NO_LIMIT, Row, RowReader, marks
from sightline.context.ledger.store import Store
from sightline.context.ledger.transaction import Transaction
from sightline.context.messages.gate import Gate
from sightline.context.messages.memos import TOP, Memo, keywords, normal_tags, rank, tag_words
from sightline.errors import InvalidInput, NotFound

__all__ = ["Memos"]

_BATCH: Final = 1000  # values of one statement


class Memos:
    """The memos of one ledger."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store = store
        self._gate = gate

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
        with self._store.read() as db:
            rows = db.rows("SELECT * FROM llm_memos WHERE id = ?", (memo_id,))
        if not rows:
            raise NotFound(f"no memo {memo_id}")
        return _memo(rows[0])

    def recent(self, limit: int = -1) -> list[Memo]:
        """List memos, the most recently changed first."""
        with self._store.read() as db:
            rows = db.rows(
                "SELECT * FROM llm_memos ORDER BY activity DESC LIMIT ?",
                (NO_LIMIT if limit < 0 else limit,),
            )
        return [_memo(row) for row in rows]

    def tagged(self, tags: Iterable[str], *, limit: int = 20) -> list[Memo]:
        """Find memos by tags, a hyphenated part of one included: most matches first."""
        return [memo for memo, _ in self.matching(tags, limit=limit)]

    def matching(self, tags: Iterable[str], *, limit: int = 20) -> list[tuple[Memo, int]]:
        """Find memos by tags, with how many of them matched."""
        words = normal_tags(tags)
        with self._store.read() as db:
            matches = _tag_matches(db, words)
            memos = _ranked(db, matches, {}, limit)
        return [(memo, matches[memo.id]) for memo in memos]

    def search(self, query: str, *, limit: int = 20) -> list[Memo]:
        """Find memos by the words of their content: most matches first."""
        with self._store.read() as db:
            return _ranked(db, {}, db.memos_saying(keywords(query)), limit)

    def relevant(self, prompt: str, *, limit: int = TOP) -> list[Memo]:
        """Find the memos that a prompt calls for; five at most unless told otherwise."""
        return [memo for memo, _ in self.scored(prompt, limit=limit)]

    def scored(self, prompt: str, *, limit: int = TOP) -> list[tuple[Memo, tuple[int, int]]]:
        """Find the memos that a prompt calls for, with their matches in tags and in content."""
        words = keywords(prompt)
        with self._store.read() as db:
            tags = _tag_matches(db, words)
            content = db.memos_saying(words)
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
    """Store a memo, and the words of its tags."""
    row = {**row, "updated_at": tx.now, "activity": tx.db.next_activity()}
    row = tx.insert_memo(row)
    for word in tag_words(msgspec.json.decode(row["tags"])):
        tx.db.insert("memo_words", {"word": word, "memo_id": row["id"]})
    return row


def _take(tx: Transaction, memo_id: int) -> Row:
    """Delete a memo and the words of its tags; return it."""
    row = tx.delete_memo(memo_id)
    tx.db.delete("memo_words", "memo_id = ?", (memo_id,))
    return row


def _tag_matches(db: RowReader, words: Sequence[str]) -> dict[int, int]:
    if not words:
        return {}
    rows = db.fetch(
        f"SELECT memo_id, count(*) FROM memo_words WHERE word IN ({marks(words)}) GROUP BY memo_id",
        words,
    )
    return dict(rows)


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
