"""Whether the index of the memos' words says what the memos say.

SQLite's page check does not look into it: an index that lost its words finds nothing and
is said to be whole. FTS5 has a check of its own, but that is a write, and a ledger may be
open for reading only. So the index is copied into memory, beside the memos, and checked
there; it costs as much as there are memos.

FTS5's check reads the index from its beginning to its end. A search does not: it finds
the page of a word through `memo_text_idx`, in which every page where a word begins has a
row. That is looked at here, by the page format of FTS5 (its versions 4 and 5; the check
refuses others): a page's number has its segment above bit 37 and its place in the last
31; bytes 2 and 3 of a page say where its words end, and a list of them follows if there
are any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import apsw

from sightline.context.ledger.sqlite.steps import MEMO_INDEX

__all__ = ["index_findings"]

_SHADOWS: Final = {
    "memo_text_data": ("id", "block"),
    "memo_text_idx": ("segid", "term", "pgno"),
    "memo_text_docsize": ("id", "sz"),
    "memo_text_config": ("k", "v"),
}
_CHECK: Final = "INSERT INTO memo_text (memo_text, rank) VALUES ('integrity-check', 1)"
_LEAVES: Final = (
    "SELECT id >> 37, id & 0x7fffffff, length(block), substr(block, 3, 2) FROM memo_text_data "
    "WHERE id >= 1 << 37 AND (id >> 31) & 63 = 0 AND typeof(block) = 'blob'"
)
# `secure-delete` is ours; the version follows when it is first used.
_CONFIG: Final = {"secure-delete": (1,), "version": (4, 5)}


def index_findings(connection: apsw.Connection) -> Iterator[str]:
    """Tell what is wrong with the index of the memos' words."""
    config = dict(connection.execute("SELECT k, v FROM memo_text_config"))
    if config.keys() != _CONFIG.keys() or any(config[key] not in _CONFIG[key] for key in _CONFIG):
        yield f"memo_text has other settings than were given to it: {config}"
    try:
        with closing(_copied(connection)) as copy:
            copy.execute(_CHECK)
    except apsw.Error as error:
        yield f"the memos' words are not what memo_text says: {error}"
    known = set(connection.execute("SELECT segid, pgno >> 1 FROM memo_text_idx"))
    for segment, page, size, words_end in connection.execute(_LEAVES):
        if size > int.from_bytes(words_end, "big") and (segment, page) not in known:
            yield f"memo_text_idx does not lead to page {page} of segment {segment}"


def _copied(connection: apsw.Connection) -> apsw.Connection:
    """Copy memos and index into memory."""
    with closing(apsw.Connection(":memory:")) as made:
        made.execute("CREATE TABLE llm_memos (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
        made.execute(MEMO_INDEX)
        _copy(connection, made, "llm_memos", ("id", "content"))
        for table, columns in _SHADOWS.items():
            made.execute(f"DELETE FROM {table}")
            _copy(connection, made, table, columns)
        image = made.serialize("main")
    # A connection that made the index remembers what it wrote; another one has to read it.
    copy = apsw.Connection(":memory:")
    copy.deserialize("main", image)
    return copy


def _copy(
    source: apsw.Connection, target: apsw.Connection, table: str, columns: tuple[str, ...]
) -> None:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows = source.execute(f"SELECT {names} FROM {table}")
    target.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
