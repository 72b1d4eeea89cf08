"""Find what was said by its words: the newest messages first, until there are enough.

The words of a message are runs of letters and digits without accents, in any case. They are made
when somebody searches, so that an append costs nothing for it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sightline.context.ledger.retrieval import SearchHit, excerpt
from sightline.context.ledger.rows import RowReader, Values
from sightline.errors import InvalidInput

_LONGEST: Final = 1_000
_CHARS: Final = 200_000  # of a message; PostgreSQL's text search takes up to 1 MB of words
_WORD: Final = re.compile(r"[^\W_]+")
_WORDS: Final = (
    "to_tsvector('simple', regexp_replace(regexp_replace("
    f"normalize(lower(left(content, {_CHARS})), NFD), '[\\u0300-\\u036f]', '', 'g'), "
    "'[^[:alnum:]]+', ' ', 'g'))"
)


def search_messages(
    db: RowReader, text: str, session_id: int | None, limit: int
) -> list[SearchHit]:
    """Find the newest messages that have all words of a text, and are not dropped."""
    values: Values = (_query(text), limit)
    here = ""
    if session_id is not None:
        here, values = "AND session_id = ? ", (session_id, *values)
    rows = db.fetch(
        "SELECT id, session_id, group_id, role, created_at, content FROM messages "
        f"WHERE dropped = 0 {here}AND {_WORDS} @@ to_tsquery('simple', ?) "
        "ORDER BY id DESC LIMIT ?",
        values,
    )
    return [
        SearchHit(number, session, group, role, at, excerpt(content, text))
        for number, session, group, role, at, content in rows
    ]


def _query(text: str) -> str:
    """Write the words of a text as PostgreSQL's text search takes them; the last may go on."""
    if len(text) > _LONGEST:
        raise InvalidInput(f"a search has at most {_LONGEST:,} characters")
    marked = unicodedata.normalize("NFD", text.lower())
    plain = "".join(char for char in marked if not unicodedata.combining(char))
    phrases = [" <-> ".join(words) for word in plain.split() if (words := _WORD.findall(word))]
    if not phrases:
        raise InvalidInput("a search needs a word to look for")
    return " & ".join(f"({phrase})" for phrase in [*phrases[:-1], f"{phrases[-1]}:*"])
