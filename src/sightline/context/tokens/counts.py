"""What was counted before, so that a turn counts only what is new.

Three layers, each asked before the next: the message object itself (`SeenMessages`),
the content of a text (`CountCache`), and the tokenizer, which gets everything that
is left in one batch (`Engine`). All of them are memories of pure functions: they
change how long an answer takes and never what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from sightline.context.messages.parts import File, Message

Tally: TypeAlias = Callable[[Sequence[str]], Sequence[int]]


class CountCache:
    """Counts by content, without holding on to the content.

    A text is known by its hash (64 bits, keyed per process) and its length. Two
    generations: when the young one is full it becomes the old one, and the old one is
    forgotten. What is still in use is carried over on its next look-up.
    """

    def __init__(self, max_texts: int = 1_000_000) -> None:
        self._max_texts = max_texts // 2
        self._young: dict[tuple[int, int], int] = {}
        self._old: dict[tuple[int, int], int] = {}

    def get(self, text: str) -> int | None:
        """Return the count of a text seen before."""
        key = (hash(text), len(text))
        tokens = self._young.get(key)
        if tokens is None:
            tokens = self._old.get(key)
            if tokens is not None:
                self._store(key, tokens)
        return tokens

    def learn(self, text: str, tokens: int) -> None:
        """Remember a count, for example one that was stored with the message."""
        self._store((hash(text), len(text)), tokens)

    def shrink(self, max_texts: int) -> None:
        """Forget everything if there is more of it: for who looks at ever new texts."""
        if len(self) > max_texts:
            self._young, self._old = {}, {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def _store(self, key: tuple[int, int], tokens: int) -> None:
        if len(self._young) >= self._max_texts:
            self._old, self._young = self._young, {}
        self._young[key] = tokens


class SeenMessages:
    """The weights of message objects that were weighed before: the same one, not an equal one.

    A conversation is handed over again every turn. Looking its messages up by identity
    costs a tenth of looking up what they say; holding on to them keeps their identities
    from being given to others. Bounded by what it holds, and emptied at once.
    """

    def __init__(self, max_tokens: int = 24_000_000) -> None:
        self._max_tokens = max_tokens
        self._tokens = 0
        # One object, so that threads never see the weights of one and the messages of another.
        self._memory: tuple[dict[int, int], list[Message]] = ({}, [])

    def get_many(self, messages: Iterable[Message]) -> list[int | None]:
        """Return the weights that are known, None for the others, in order."""
        return list(map(self._memory[0].get, map(id, messages)))

    def learn(self, message: Message, weight: int) -> None:
        """Remember a message and its weight."""
        if self._tokens > self._max_tokens:
            self._memory, self._tokens = ({}, []), 0
        weights, held = self._memory
        held.append(message)
        weights[id(message)] = weight
        self._tokens += weight + 16  # an empty message is an object, too
        # A picture of megabytes weighs a few hundred tokens, and is held whole.
        self._tokens += sum(len(part.uri) for part in message.parts if type(part) is File) // 4


class Engine:
    """A tokenizer, or an estimate where none is public, with a cache of what it has counted.

    Counters of models that share a vocabulary share its engine, and so its cache.
    """

    def __init__(self, tally: Tally, cache: CountCache | None = None) -> None:
        self.tally = tally
        self.cache = CountCache() if cache is None else cache

    def learn(self, texts: Iterable[str]) -> None:
        """Count what is new among these texts, in one batch."""
        unknown = [text for text in set(texts) if self.cache.get(text) is None]
        for text, tokens in zip(unknown, self.tally(unknown), strict=True):
            self.cache.learn(text, tokens)

    def count(self, text: str) -> int:
        """Return a text's count, remembered if it is."""
        known = self.cache.get(text)
        return self.tally((text,))[0] if known is None else known
