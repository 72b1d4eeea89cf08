"""What is kept or cut: units, in blocks of messages that are laid out once.

A unit is a message, or a tool call with its results. A block is closed if every result in it
has its call before it in there; then its units are its own, whatever stands around it. So the
units of closed blocks, one behind the other, are the units of all their messages, and

    laid out (before + new)  ==  the blocks of before, and blocks of what is new

A conversation is handed over again every turn, a little longer. Its blocks are known by their
message objects (`Beginnings`); the newest messages are left out of that, because those may be
cut shorter in the next request. All of it is a memory of pure functions: it changes how long
an answer takes and never what it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise
from typing import Final, Generic, NamedTuple, TypeVar, cast

from sightline.context.messages.parts import Message, Text, ToolCall, ToolResult, tool_rounds
from sightline.context.tokens.tokens import Counter

V = TypeVar("V")

BLOCK: Final = 128  # messages, or a few more
REMEMBERED: Final = 4  # conversations
HELD_CHARS: Final = 128 * 1024 * 1024


class Beginning(Generic[V]):
    """A list of messages, and what was made of it."""

    __slots__ = ("chars", "messages", "value")

    def __init__(self, value: V) -> None:
        self.messages: list[Message] = []
        self.value = value
        self.chars = 0

    def replace_from(self, start: int, messages: Sequence[Message], value: V) -> None:
        """Go on with other messages from a place on."""
        if start < len(self.messages):
            self.chars -= sum(map(_chars, self.messages[start:]))
        self.chars += sum(map(_chars, messages))
        self.messages[start:] = messages
        self.value = value


class Beginnings(Generic[V]):
    """What was made of the beginnings of a few lists of messages, known by their objects."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Hashable, Beginning[V]]] = {}

    def take(self, key: Hashable, messages: list[Message]) -> tuple[Beginning[V] | None, int]:
        """Take out what was made of a beginning of this list, and how much of that is the same.

        Nobody else has it then, in whichever thread, so it may be changed and put back.
        """
        for name, (known, held) in list(self._held.items()):
            if (
                known == key
                and messages
                and held.messages[0] is messages[0]
                and self._held.pop(name, None) is not None
            ):
                return held, _alike(held.messages, messages)
        return None, 0

    def put(self, key: Hashable, held: Beginning[V]) -> None:
        """Remember what was made of a beginning, and forget what was not asked for lately."""
        if not held.messages:
            return
        self._held[id(held)] = (key, held)
        chars = 0
        for count, (name, (_, one)) in enumerate(reversed(list(self._held.items()))):
            chars += one.chars
            if count >= REMEMBERED or chars > HELD_CHARS:
                self._held.pop(name, None)


def _chars(message: Message) -> int:
    """About what a message takes of memory, the object itself included."""
    texts = (
        getattr(p, "text", "") or getattr(p, "content", "") or getattr(p, "uri", "")
        for p in message.parts
    )
    return 256 + sum(map(len, texts))


def _alike(held: list[Message], messages: list[Message]) -> int:
    """Count the messages that two lists begin with alike."""
    try:
        # Lists are compared item by item, in no time where it is the same; messages have no order.
        if held <= messages:
            return len(held)
    except TypeError:
        pass
    pairs = enumerate(zip(held, messages, strict=False))
    return next(
        (at for at, (one, other) in pairs if one is not other), min(len(held), len(messages))
    )


class Layout(NamedTuple):
    """Some messages and those of their units that are somebody's.

    A unit is named by its first message; `rounds` has those of more than one, `sums` what the
    first so many units weigh together, `every` all messages of the units.
    """

    messages: Sequence[Message]
    weights: Sequence[int]
    rounds: Mapping[int, tuple[int, ...]]
    units: Sequence[int]
    sums: Sequence[int]
    every: Sequence[int]
    closed: bool
    has_system: bool

    def members(self, unit: int) -> tuple[int, ...]:
        return self.rounds.get(unit, (unit,))

    def only(self, units: Sequence[int]) -> Layout:
        """The same messages, with these of their units."""
        weights, members = self.weights, list(map(self.members, units))
        sums = list(accumulate((sum(weights[i] for i in unit) for unit in members), initial=0))
        return self._replace(units=units, sums=sums, every=sorted(chain.from_iterable(members)))

    def parted(self) -> tuple[Layout, Layout]:
        """Separate the units that hold a system message from those that do not."""
        systems = {i for i, message in enumerate(self.messages) if message.role == "system"}
        held: list[int] = []
        rest: list[int] = []
        for unit in self.units:
            (rest if systems.isdisjoint(self.members(unit)) else held).append(unit)
        return self.only(held), self.only(rest)


class Block:
    """Messages that stand together, and their layout for the counter that asked last."""

    __slots__ = ("_laid", "messages")

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages = messages
        self._laid: tuple[Counter, Layout] | None = None

    def known(self, counter: Counter) -> Layout | None:
        """Return the layout, if it was made for this counter."""
        laid = self._laid
        return laid[1] if laid is not None and laid[0] is counter else None

    def lay(self, counter: Counter, weights: list[int]) -> Layout:
        """Lay the messages out, given what they weigh."""
        layout = _layout(self.messages, weights, closed=_is_closed(self.messages))
        self._laid = (counter, layout)
        return layout


def _layout(messages: Sequence[Message], weights: Sequence[int], *, closed: bool) -> Layout:
    rounds = {unit[0]: unit for unit in tool_rounds(messages)}
    has_system = any(message.role == "system" for message in messages)
    every = range(len(messages))
    sums = list(accumulate(weights, initial=0))
    layout = Layout(messages, weights, rounds, every, sums, every, closed, has_system)
    if not rounds:
        return layout
    later = {index for unit in rounds.values() for index in unit[1:]}
    return layout.only([index for index in every if index not in later])._replace(every=every)


def _is_closed(messages: Sequence[Message]) -> bool:
    """Whether every result has its call before it."""
    calls: set[str] = set()
    for message in messages:
        parts = message.parts
        if len(parts) == 1 and type(parts[0]) is Text:
            continue
        for part in parts:
            if isinstance(part, ToolCall):
                calls.add(part.id)
            elif isinstance(part, ToolResult) and part.call_id not in calls:
                return False
    return True


class MessageBlocks:
    """The messages of one slot, as blocks; the last block is the rest, perhaps empty."""

    __slots__ = ("_length", "blocks")

    def __init__(self, blocks: tuple[Block, ...], length: int) -> None:
        self.blocks = blocks
        self._length = length

    @classmethod
    def of(
        cls,
        messages: Sequence[Message],
        check: Callable[[Sequence[Message]], Sequence[Message]] = tuple,
    ) -> MessageBlocks:
        """Put messages into blocks, the same ones as last time where the messages are the same.

        `check` sees what was not there last time, and may say it in another way.
        """
        if len(messages) <= 2 * BLOCK:
            return cls((Block(tuple(check(messages))),), len(messages))
        given = messages if isinstance(messages, list) else list(messages)
        found, same = _BLOCKS.take(None, given)
        held: Beginning[tuple[Block, ...]] = found or Beginning(())
        sizes = list(accumulate((len(block.messages) for block in held.value), initial=0))
        kept = bisect_right(sizes, same) - 1
        start = sizes[kept]
        new = check(given[start:])
        *cuts, rest = _cuts(new)
        fresh = [Block(tuple(new[at:end])) for at, end in pairwise((*cuts, rest))]
        blocks = (*held.value[:kept], *fresh)
        held.replace_from(start, new[:rest], blocks)
        _BLOCKS.put(None, held)
        return cls((*blocks, Block(tuple(new[rest:]))), start + len(new))

    def __len__(self) -> int:
        return self._length

    @property
    def last(self) -> tuple[Message, ...]:
        """The last message, if there is one."""
        return self.blocks[-1].messages[-1:]

    def without_last(self) -> MessageBlocks:
        """Everything but the last message."""
        shorter = Block(self.blocks[-1].messages[:-1])
        return MessageBlocks((*self.blocks[:-1], shorter), self._length - 1)

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(block.messages for block in self.blocks)


_BLOCKS: Final[Beginnings[tuple[Block, ...]]] = Beginnings()


def _cuts(messages: Sequence[Message]) -> Iterator[int]:
    """Find where blocks begin: before a message without results, and not too near the end.

    A long list has long blocks at its beginning, so that there are few of them.
    """
    at = 0
    yield at
    while len(messages) - at > 2 * BLOCK:
        candidates = range(at + max(BLOCK, (len(messages) - at) // 8), len(messages) - BLOCK)
        at = next((i for i in candidates if not messages[i].tool_results), len(messages))
        if at < len(messages):
            yield at


def lay_out(runs: Iterable[MessageBlocks], counter: Counter) -> list[list[Layout]]:
    """Return the layouts of each run's blocks; all that was never weighed is weighed at once."""
    blocks = [run.blocks for run in runs]
    laid = {block: block.known(counter) for run in blocks for block in run}
    new = [block for block, layout in laid.items() if layout is None]
    weights = iter(counter.weigh([message for block in new for message in block.messages]))
    for block in new:
        laid[block] = block.lay(counter, list(islice(weights, len(block.messages))))
    return [[cast("Layout", laid[block]) for block in run] for run in blocks]


def joined(layouts: Iterable[Layout]) -> Layout:
    """Lay out as one what is not closed: calls and results may lie anywhere."""
    layouts = list(layouts)
    messages = [message for layout in layouts for message in layout.messages]
    weights = [weight for layout in layouts for weight in layout.weights]
    return _layout(messages, weights, closed=False)


class Units:
    """The units of a slot, numbered from the oldest; `start` is the place of its first message."""

    def __init__(self, layouts: Sequence[Layout] = (), start: int = 0) -> None:
        self._layouts = layouts
        self._numbers = list(accumulate((len(one.units) for one in layouts), initial=0))
        self._costs = list(accumulate((one.sums[-1] for one in layouts), initial=0))
        self._starts = list(accumulate((len(one.messages) for one in layouts), initial=start))

    def __len__(self) -> int:
        return self._numbers[-1]

    @property
    def total(self) -> int:
        """What all of them weigh."""
        return self._costs[-1]

    def cost(self, count: int) -> int:
        """What the oldest so many of them weigh."""
        at = bisect_right(self._numbers, count) - 1
        within = count - self._numbers[at]
        return self._costs[at] + (self._layouts[at].sums[within] if within else 0)

    def members_of(self, numbers: range) -> Iterator[tuple[int, Layout, Sequence[int]]]:
        """Find the messages of units: where a layout starts, the layout, which messages of it."""
        at = bisect_right(self._numbers, numbers.start) - 1
        while at < len(self._layouts) and self._numbers[at] < numbers.stop:
            layout, first = self._layouts[at], self._numbers[at]
            units = layout.units[max(0, numbers.start - first) : numbers.stop - first]
            whole = len(units) == len(layout.units)
            every = layout.every if whole else [i for u in units for i in layout.members(u)]
            yield self._starts[at], layout, every
            at += 1

    def messages(self, numbers: range) -> dict[int, Message]:
        """Return the messages of units by their places."""
        found: dict[int, Message] = {}
        for start, layout, every in self.members_of(numbers):
            found.update((start + index, layout.messages[index]) for index in every)
        return found
