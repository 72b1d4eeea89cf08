"""Find what was said by its words, in an index that grows when somebody searches.

`messages` is indexed up to a number; whoever may write brings in the rest before it looks.
Whoever may only read keeps an index of the rest for itself, in a table of its connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import apsw

from sightline.context.ledger.retrieval import SearchHit, excerpt
from sightline.errors import InvalidInput

_BATCH: Final = 500  # messages in one transaction: nobody waits long to write between two
_REST: Final = "rest_text"
_LONGEST: Final = 1_000
_UNREADABLE: Final = re.compile("[\0\ud800-\udfff]")  # SQLite ends a text at one, takes no other
_INDEXED: Final = "SELECT coalesce(max(id), 0) FROM {index}_docsize"
_ADD: Final = (
    "INSERT INTO {index} (rowid, content) SELECT id, content FROM messages "
    "WHERE id > ? ORDER BY id LIMIT ?"
)
_MAKE_REST: Final = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_REST} USING fts5 (
    content, content = '', tokenize = 'unicode61 remove_diacritics 2'
)
"""


def index_rest(
    connection: apsw.Connection, change: Callable[[], AbstractContextManager[object]]
) -> None:
    """Bring into the index what was said since somebody last searched."""
    while True:
        with change():
            (upto,) = connection.execute(_INDEXED.format(index="message_text")).fetchall()[0]
            connection.execute(_ADD.format(index="message_text"), (upto, _BATCH))
            if connection.changes() < _BATCH:
                return


def search_messages(
    connection: apsw.Connection, text: str, session_id: int | None, limit: int
) -> list[SearchHit]:
    """Find the newest messages that have all words of a text, and are not dropped."""
    match = _match(text)
    chosen = "SELECT rowid FROM message_text WHERE message_text MATCH :match"
    if connection.readonly("main"):
        _index_apart(connection)
        chosen += f" UNION SELECT rowid FROM temp.{_REST} WHERE {_REST} MATCH :match"
    here = "" if session_id is None else "AND session_id = :session "
    rows = connection.execute(
        "SELECT id, session_id, group_id, role, created_at, content FROM messages "
        f"WHERE dropped = 0 {here}AND id IN ({chosen}) ORDER BY id DESC LIMIT :limit",
        {"match": match, "session": session_id, "limit": limit},
    )
    return [
        SearchHit(number, session, group, role, at, excerpt(content, text))
        for number, session, group, role, at, content in rows
    ]


def _index_apart(connection: apsw.Connection) -> None:
    connection.execute(_MAKE_REST)
    upto = max(
        connection.execute(_INDEXED.format(index=index)).get
        for index in ("message_text", f"temp.{_REST}")
    )
    connection.execute(_ADD.format(index=f"temp.{_REST}"), (upto, -1))


def _match(text: str) -> str:
    """Write the words of a text as SQLite's FTS5 takes them: each as it is, the last may go on."""
    if len(text) > _LONGEST:
        raise InvalidInput(f"a search has at most {_LONGEST:,} characters")
    readable = _UNREADABLE.sub(" ", text)
    words = [word.replace('"', '""') for word in readable.split() if any(map(str.isalnum, word))]
    if not words:
        raise InvalidInput("a search needs a word to look for")
    return " ".join(f'"{word}"' for word in words) + "*"
