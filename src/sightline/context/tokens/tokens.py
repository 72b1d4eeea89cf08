"""One counter, one unit: how many tokens a text or a message weighs.

The promise: a counter is a function of content. The same message weighs the
same in every slot, every turn and every process, and a text is handed to the
tokenizer once (`weigh` looks up what it has seen and counts the rest in one
batch). Every counter says where its figures come from:

    counted     by the model's own tokenizer
    estimated   by a fit, corrected by reported usage, or by a rule for images
    declared    by whoever made the file reference
    reported    by the vendor, after the fact

`counter_for` turns a name into a counter: an encoding counts bare text, a model
id adds the frame its vendor puts around messages, `chars/4` is ⌈characters/4⌉
per message and needs nothing installed.

So that a turn counts only what is new, each is asked before the next: the message object itself
(`SeenMessages`), the content of a text, and the tokenizer, which gets everything that is left in
one batch (`Engine`). These memories are of pure functions: they change how long an answer takes
and never what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias, cast

import msgspec

from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.tokens.basis import ENCODINGS, PLAIN, Basis, basis_of, file_tokens
from sightline.context.tokens.estimate import Calibration, estimate
from sightline.errors import InvalidInput, MissingExtra

Provenance: TypeAlias = Literal["counted", "estimated", "declared", "reported"]
Tally: TypeAlias = Callable[[Sequence[str]], Sequence[int]]

CHARS_PER_FOUR: Final = "chars/4"
ESTIMATE: Final = "estimate"
DEFAULT_ENCODING: Final = "o200k_base"


class Counter(Protocol):
    """Counts tokens of texts and messages; the assembler takes any object with these members."""

    @property
    def name(self) -> str:
        """What the receipt calls it."""

    @property
    def provenance(self) -> Provenance:
        """Where a text's count comes from."""

    @property
    def request_overhead(self) -> int:
        """Tokens that a request costs before any message."""

    def count(self, text: str) -> int:
        """Count one text by itself."""

    def weigh(self, messages: Sequence[Message], *, remember: bool = True) -> list[int]:
        """Weigh messages, frame included, in order; `remember` those that will come again."""

    def alone(self) -> Counter:
        """Return the same counter with memories of its own, which go when it goes."""

    def provenance_of(self, message: Message) -> Provenance:
        """Say where this message's weight comes from: its least certain part."""


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
    """A tokenizer, or an estimate where none is public, and what it has counted, by content.

    Counters of models that share a vocabulary share its engine, and so its memory. A text is not
    held, but known by its hash (64 bits, keyed per process) and its length. Two generations: when
    the young one is full it becomes the old one, and the old one is forgotten. What is still in
    use is carried over on its next look-up.
    """

    def __init__(self, tally: Tally, max_texts: int = 1_000_000) -> None:
        self.tally = tally
        self._max_texts = max_texts // 2
        self._young: dict[tuple[int, int], int] = {}
        self._old: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def learn(self, texts: Iterable[str]) -> None:
        """Count what is new among these texts, in one batch."""
        unknown = [text for text in set(texts) if self._known(text) is None]
        for text, tokens in zip(unknown, self.tally(unknown), strict=True):
            self._store((hash(text), len(text)), tokens)

    def count(self, text: str) -> int:
        """Return a text's count, remembered if it is."""
        known = self._known(text)
        return self.tally((text,))[0] if known is None else known

    def shrink(self, max_texts: int) -> None:
        """Forget everything if there is more of it: for who looks at ever new texts."""
        if len(self) > max_texts:
            self._young, self._old = {}, {}

    def _known(self, text: str) -> int | None:
        key = (hash(text), len(text))
        tokens = self._young.get(key)
        if tokens is None:
            tokens = self._old.get(key)
            if tokens is not None:
                self._store(key, tokens)
        return tokens

    def _store(self, key: tuple[int, int], tokens: int) -> None:
        if len(self._young) >= self._max_texts:
            self._old, self._young = self._young, {}
        self._young[key] = tokens


class TextCounter:
    """Counts the texts of a message with an engine, corrects them, and adds the frame."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        provenance: Provenance,
        basis: Basis,
        calibration: Calibration | None = None,
    ) -> None:
        self.name = name
        self.provenance = provenance
        self.request_overhead = basis.overhead.per_request
        self._engine = engine
        self._seen = SeenMessages()
        self._basis = basis
        self._correct = None if calibration is None else calibration.apply

    def __repr__(self) -> str:
        return f"TextCounter({self.name!r}, {self.provenance})"

    def alone(self) -> TextCounter:
        """Return the same counter with memories of its own, which go when it goes."""
        other = copy(self)
        other._engine, other._seen = Engine(self._engine.tally), SeenMessages()
        return other

    def count(self, text: str) -> int:
        tokens = self._engine.tally((text,))[0]
        return tokens if self._correct is None else self._correct(tokens)

    def weigh(self, messages: Sequence[Message], *, remember: bool = True) -> list[int]:
        if not remember:
            return self._weigh_new(messages)
        weights = self._seen.get_many(messages)
        new = [index for index, weight in enumerate(weights) if weight is None]
        if new:
            counted = self._weigh_new([messages[index] for index in new])
            for index, weight in zip(new, counted, strict=True):
                weights[index] = weight
                self._seen.learn(messages[index], weight)
        return cast("list[int]", weights)

    def _weigh_new(self, messages: Sequence[Message]) -> list[int]:
        texts = [[text for part in m.parts for text in _texts(part)] for m in messages]
        self._engine.learn(text for message_texts in texts for text in message_texts)
        frame, weights = self._basis.overhead.per_message, []
        for message, message_texts in zip(messages, texts, strict=True):
            tokens = sum(map(self._engine.count, message_texts))
            fixed = sum(map(self._fixed_tokens, message.parts))
            weights.append(frame + fixed + (self._correct(tokens) if self._correct else tokens))
        return weights

    def provenance_of(self, message: Message) -> Provenance:
        if self.provenance == "estimated":
            return "estimated"
        framed = self._basis.overhead.per_tool_call and (message.tool_calls or message.tool_results)
        return "estimated" if framed else _file_provenance(message) or self.provenance

    def _fixed_tokens(self, part: Part) -> int:
        """What a part weighs beside its texts."""
        if isinstance(part, ToolCall):
            return self._basis.overhead.per_tool_call
        if isinstance(part, ToolResult):
            return self._basis.overhead.per_tool_result
        return file_tokens(part, self._basis.image_rule) if isinstance(part, File) else 0


class CharsPerFour:
    """⌈characters/4⌉ per message, no frame: exact by definition, for scripts and tests."""

    name = CHARS_PER_FOUR
    provenance: Provenance = "counted"
    request_overhead = 0

    def __repr__(self) -> str:
        return "CharsPerFour()"

    def alone(self) -> CharsPerFour:
        return self

    def count(self, text: str) -> int:
        return -(-len(text) // 4)

    def weigh(self, messages: Sequence[Message], *, remember: bool = True) -> list[int]:
        weights = []
        for message in messages:
            chars = files = 0
            for part in message.parts:
                if isinstance(part, File):
                    files += file_tokens(part, "openai_tiles")
                else:
                    chars += sum(map(len, _texts(part)))
            weights.append(-(-chars // 4) + files)
        return weights

    def provenance_of(self, message: Message) -> Provenance:
        return _file_provenance(message) or self.provenance


def counter_for(name: str, calibration: Calibration | None = None) -> Counter:
    """Return the counter of that name; the same one each time, so that its cache is kept.

    Raise `MissingExtra` when an exact count was asked for and its tokenizer is not
    installed, `InvalidInput` for an empty name. A model whose tokenizer is not public
    is estimated; `calibration` corrects the estimate, and leaves an exact count alone.
    """
    if not name.strip():
        raise InvalidInput("a counter needs a name: an encoding, a model id, or chars/4")
    return _counter_for(name, calibration)


@lru_cache(maxsize=8)
def _counter_for(name: str, calibration: Calibration | None) -> Counter:
    if name == CHARS_PER_FOUR:
        return CharsPerFour()
    if name in ENCODINGS:
        return TextCounter(name, _tokenizer(name), "counted", Basis(name, PLAIN))
    basis = Basis(None, PLAIN, exact=False) if name == ESTIMATE else basis_of(name)
    if basis.encoding is None:
        correction = calibration or Calibration(start=basis.start_factor)
        return TextCounter(name, ESTIMATES, "estimated", basis, correction)
    engine = _tokenizer(basis.encoding)
    if basis.exact:
        return TextCounter(name, engine, "counted", basis)
    return TextCounter(name, engine, "estimated", basis, calibration)


def default_counter(
    name: str = DEFAULT_ENCODING, calibration: Calibration | None = None
) -> Counter:
    """Count as an encoding or a model does, or estimate where its tokenizer is not installed."""
    try:
        return counter_for(name, calibration)
    except MissingExtra:
        return counter_for(ESTIMATE, calibration)


ESTIMATES: Final = Engine(lambda texts: list(map(estimate, texts)))


@lru_cache(maxsize=len(ENCODINGS))
def _tokenizer(encoding: str) -> Engine:
    """Load a vocabulary; about half a second at the first count."""
    try:
        import toktok
    except ModuleNotFoundError as error:
        from sightline._distribution import install

        raise MissingExtra(
            f"counting with {encoding} needs its tokenizer: {install('tokens')}"
            f" (or use the counter {CHARS_PER_FOUR} or {ESTIMATE})"
        ) from error

    batch_count: Callable[..., list[int]] = toktok.batch_count

    def tally(texts: Sequence[str]) -> list[int]:
        try:
            # Every core (0) only where starting threads costs less than it saves.
            threads = 0 if sum(map(len, texts)) > PARALLEL_CHARS else 1
            return batch_count(texts, encoding, threads=threads)
        except UnicodeEncodeError:
            return batch_count([_well_formed(text) for text in texts], encoding)

    return Engine(tally)


PARALLEL_CHARS: Final = 1_000_000


def _well_formed(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, as tiktoken does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _texts(part: Part) -> tuple[str, ...]:
    """The texts of a part that a model reads."""
    if isinstance(part, Text | Reasoning):
        return (part.text,)
    if isinstance(part, ToolResult):
        return (part.content,)
    if isinstance(part, ToolCall):
        return (part.name, msgspec.json.encode(part.arguments).decode())
    return ()


def _file_provenance(message: Message) -> Provenance | None:
    """Where the weight of a message's files comes from, if it has any."""
    files = [part for part in message.parts if isinstance(part, File)]
    if not files:
        return None
    return "estimated" if any(file.tokens is None for file in files) else "declared"
