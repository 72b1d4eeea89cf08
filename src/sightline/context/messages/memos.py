"""Memos: tags that agree with each other, and which memos a prompt calls for.

Tags are lower case, hyphenated, without punctuation, so that `Arch Decision`,
`arch_decision` and `#arch-decision` are one tag. A prompt calls for memos by its
keywords: first those whose tags (or a hyphenated part of one) match, then those
whose content does; more matches first, then the newer one; five at most.

Words match by their stems, which are Snowball's for English: `tests` is `testing`. Every
word becomes one stem, so whatever it is, a name or a word of another language, it is
found by itself. Ledgers keep the stems: other ones need a new format of the ledger.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from sightline._lazy import lazy_pattern
from sightline.errors import InvalidInput

# std::slop, context management §7: up to five memos are injected with a prompt.
TOP: Final = 5
MAX_KEYWORDS: Final = 32
MAX_TAGS: Final = 32
MAX_TAG: Final = 64
_WORD: Final = lazy_pattern(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_NOT_WORD: Final = lazy_pattern(r"[\W_]+")
_DIACRITICS: Final = lazy_pattern("[\u0300-\u036f]+")

# std::slop, context management, why FTS-ranked mode was removed: stop-word pollution.
# Words that say nothing about a subject, and the phrases ("go on", "next") by which
# ranked retrieval once filled prompts with noise.
STOP_WORDS: Final = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can can't could did do does doing don't done down during each else etc ever
    every few for from further get give go going good got had has have having he her here hers him
    his how i i'd i'll i'm i've if in into is isn't it it's its itself just keep let let's like make
    many maybe me more most much must my new next no nor not now of off ok okay on once one only or
    other our out over own please put same see shall she should show so some still such take tell
    than thanks that that's the their them then there these they thing things this those through to
    too try two under until up use used using very want was way we well were what what's when where
    which while who whom why will with without work works would yes yet you your yours continue
    """.split()  # noqa: SIM905 - a text is the readable form of this list
)


class Memo(msgspec.Struct, frozen=True):
    """Something worth knowing in later sessions. `home` names the ledger it is kept in."""

    id: int
    content: str
    tags: tuple[str, ...]
    created_at: str
    updated_at: str
    home: str = ""


def normal_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalise tags: one spelling, no repeats, sorted. Raise `InvalidInput` on an empty one."""
    normal = set()
    for tag in tags:
        plain = _NOT_WORD.sub("-", tag.casefold()).strip("-")
        if not plain or len(plain) > MAX_TAG:
            raise InvalidInput(f"a tag has 1 to {MAX_TAG} letters or digits; not {tag[:80]!r}")
        normal.add(plain)
    if len(normal) > MAX_TAGS:
        raise InvalidInput(f"a memo has at most {MAX_TAGS} tags, not {len(normal)}")
    return tuple(sorted(normal))


def stem(word: str) -> str:
    """Reduce a word to what its forms have in common; a hyphenated one part by part."""
    return "-".join(map(_stem, _plain(word).split("-")))


def tag_stems(tags: Iterable[str]) -> frozenset[str]:
    """Collect what a prompt may name these tags by: the stems of each tag and of its parts."""
    return frozenset(stem(word) for tag in tags for word in (tag, *tag.split("-")))


def content_stems(content: str) -> frozenset[str]:
    """Collect the stems of the words that say what a text is about."""
    return frozenset(map(stem, _telling_words(content)))


def keywords(prompt: str) -> tuple[str, ...]:
    """Take the stems of the words that say what a prompt is about, in order, without repeats."""
    found: dict[str, None] = {}
    for word in _telling_words(prompt):
        found[stem(word)] = None
        if len(found) == MAX_KEYWORDS:
            break
    return tuple(found)


def _telling_words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(_plain(text)):
        word = match[0].replace("\u2019", "'")
        for candidate in (word, *word.split("-")) if "-" in word else (word,):
            if candidate not in STOP_WORDS and (len(candidate) > 1 or not candidate.isascii()):
                yield candidate.replace("'", "")


def _plain(text: str) -> str:
    """Write a text without case and accents: `Größe` is `grosse`."""
    if text.isascii():
        return text.casefold()
    apart = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", apart))


@lru_cache(maxsize=1 << 14)
def _stem(word: str) -> str:
    if len(word) > MAX_TAG or not (word.isascii() and word.isalpha()):
        return word
    # Its package reads the rules of every language, so whoever has no memos does not import it.
    from snowballstemmer.english_stemmer import EnglishStemmer

    # A stemmer keeps the word that it is at, so threads do not share one.
    return str(EnglishStemmer().stemWord(word))


def rank(
    tag_matches: Mapping[int, int],
    content_matches: Mapping[int, int],
    recency: Mapping[int, int],
    top: int = TOP,
) -> list[int]:
    """Order memo ids by matches in tags, then in content, then newest; the best `top`."""
    return sorted(
        tag_matches.keys() | content_matches.keys(),
        key=lambda memo: (
            -tag_matches.get(memo, 0),
            -content_matches.get(memo, 0),
            -recency[memo],
        ),
    )[:top]
