"""The messages of a body as labelled pieces, each written once.

    {"model":…,"tools":…,"messages":[ piece , piece │ tail , piece ]}
    ───────────────── prefix ───────────────────────┴─ tail ─┴ after ─

A piece is the JSON of one block, or of one message where an API's messages are not lists of
blocks; consecutive blocks of one role are one message, because the vendor would merge them
anyway: doing it here keeps the bytes ours. The boundary is the end of the last piece before the
first tail, kept or new; in a message that the tail was put into, the end of what it said without.
Where there is no tail it is where one would stand.

Not one byte behind a tail counts, be it the same with another tail: what follows may begin with
the same comma, brace and role by chance, and nothing says that it will again.

A cache mark is no content. It is a few bytes to put in at a place that is known (`Segment.mark`),
so a request with marks and one without are the same pieces.

What a part's JSON is depends on nothing but the part and the key of a `SegmentMemory`. So the
pieces of the parts of a message are kept, and the next request writes what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from sightline.context.dialects.profile import Cache, Profile
from sightline.context.dialects.turns import PromptTurn
from sightline.context.messages.parts import File, Message, Part
from sightline.context.messages.replay import Tiers
from sightline.context.tokens.tokens import SeenMessages

to_json: Final = msgspec.json.Encoder().encode
# Vendors look back about 20 blocks from a mark for an earlier one; stay clear of the edge.
LOOKBACK_MARGIN: Final = 2
# So many results of a running turn are whole, unless a setting says otherwise.
RECENT: Final = Tiers().recent
# Of JSON, for each of as many kinds of requests: several times the longest window there is.
MEMORY_BYTES: Final = 16 * 1024 * 1024
MEMORY_TOKENS: Final = 4_000_000
MEMORIES: Final = 4


class Segment(NamedTuple):
    """The JSON of one block or of one message.

    `mark` is the offset at which a cache mark goes in, 0 if it may have none; `blocks` is how
    many blocks of content it is. `lane` separates blocks of one role that must not share a message.
    """

    role: str
    data: bytes
    mark: int = 0
    blocks: int = 1
    lane: int = 0


Write: TypeAlias = Callable[[tuple[Part, ...]], list[Segment]]


class SegmentMemory:
    """The pieces of parts that were written before, and what their messages weigh.

    Known by identity, as in `SeenMessages`; files are not kept. Bounded, and emptied at once.
    """

    def __init__(self) -> None:
        self.weights = SeenMessages(MEMORY_TOKENS)
        self._bytes = 0
        self._held: dict[Hashable, tuple[tuple[Part, ...], list[Segment]]] = {}

    def pieces(self, parts: tuple[Part, ...], variant: Hashable, write: Write) -> list[Segment]:
        """Return what `write` makes of the parts; `variant` is what else that depends on."""
        key = (id(parts), variant)
        held = self._held.get(key)
        if held is not None:
            return held[1]
        pieces = write(parts)
        if not any(isinstance(part, File) for part in parts):
            if self._bytes > MEMORY_BYTES:
                self._held, self._bytes = {}, 0
            self._held[key] = (parts, pieces)
            self._bytes += sum(len(piece.data) for piece in pieces) + 256  # the objects themselves
        return pieces

    def weigh(
        self, messages: tuple[Message, ...], weigh: Callable[[list[Message]], list[int]]
    ) -> list[int]:
        """Weigh stable messages, those that are new among them with `weigh`."""
        weights = self.weights.get_many(messages)
        new = [index for index, weight in enumerate(weights) if weight is None]
        for index, weight in zip(new, weigh([messages[i] for i in new]), strict=True):
            weights[index] = weight
            self.weights.learn(messages[index], weight)
        return cast("list[int]", weights)


def memory_of(profile: Profile, names: tuple[str, ...]) -> SegmentMemory:
    """Return the memory of all requests whose parts are written alike.

    `names` are those of the tools that are called otherwise at the vendor's.
    """
    return _memory(profile.dialect, profile.tools, profile.messages, profile.reasoning, names)


@lru_cache(maxsize=MEMORIES)
def _memory(*_: Hashable) -> SegmentMemory:
    return SegmentMemory()


class Ends(NamedTuple):
    """Where earlier requests ended, each as a position, or -1.

    start      the last one that ended with what the user said
    settled    in a running turn the last one before the newest results, which are still whole:
               when these are cut, all that stands before them stays as it is
    previous   the last one
    """

    start: int = -1
    settled: int = -1
    previous: int = -1


def earlier_ends(messages: Sequence[Message]) -> Ends:
    """Find the messages at which the model was asked before; the last one is where it is now."""
    start = settled = previous = -1
    results, later = 0, len(messages) - 1
    is_running = later >= 0 and messages[later].role != "user"
    for at in range(later - 1, -1, -1):
        if messages[at].role == "assistant" or messages[at + 1].role != "assistant":
            continue
        previous = at if previous < 0 else previous
        results += sum(len(message.tool_results) for message in messages[at + 1 : later + 1])
        later = at
        if messages[at].role == "user":
            start = at
            break
        if is_running and settled < 0 and results >= RECENT:
            settled = at
    return Ends(start, settled, previous)


def choose_marks(
    last: int, ends: Ends, blocks: Callable[[int], int], cache: Cache, room: int
) -> list[int]:
    """Choose where marks go, in order: `last`, and up to two ends of earlier requests.

    From a mark a vendor finds what was marked before if it is not too many blocks back (`blocks`
    counts those behind a position), and if no result before it was cut since. So an end that is
    too far is marked again, and the one before the results that are still to be cut, in time.
    """
    # Anthropic, "Prompt caching": before a mark only so many blocks are looked up.
    reach = cache.lookback_blocks - LOOKBACK_MARGIN

    def is_far(end: int) -> bool:
        return bool(0 <= end < last and cache.lookback_blocks and blocks(end) > reach)

    chosen = [last]
    if is_far(ends.start):
        chosen.append(ends.start)
    if is_far(ends.previous):
        chosen.append(ends.previous)
    elif ends.start < ends.settled < last:
        chosen.append(ends.settled)
    return sorted({*chosen[:room]})


class Joined(NamedTuple):
    """Pieces as the inside of a JSON list.

    `ends` are the offsets of the pieces' ends. `messages` has for each message its start and its
    runs: a message of the prompt (-1 for a tail) and the offset at which its part ends.
    """

    data: bytes
    boundary: int
    ends: list[int]
    messages: list[tuple[int, list[tuple[int, int]]]]


class Segments:
    """The messages of a request body while a dialect writes them, in order.

    `content` is the key of the blocks of a message, where an API's messages are lists of them.
    """

    def __init__(self, memory: SegmentMemory, content: str = "") -> None:
        self._memory = memory
        self._content = content
        self._pieces: list[Segment] = []
        self._origins: list[int] = []
        self._stable: list[bool] = []
        self._edge: int | None = None
        self._inside = 0

    def add_turn(
        self, turn: PromptTurn, write: Write, role: str, variant: Hashable = None, lane: int = 0
    ) -> None:
        """Write a turn; `write` makes one piece for each of its parts, or one for the whole."""
        edge = turn.edge
        before = turn.parts if edge is None else turn.parts[:edge]
        if before and (edge is None or self._content):
            pieces = self._memory.pieces(before, (role, variant), write)
            self.extend(pieces, turn.origin, stable=turn.stable)
        if edge is None:
            return
        first = self._edge is None
        if first:
            self._edge = len(self._pieces)
            self.extend([Segment(role, b"", 0, 0, lane)], -1, stable=False)
        if self._content:
            self.extend(write(turn.parts[edge:]), turn.origin, stable=turn.stable)
            self.extend(write(turn.tail), -1, stable=False)
            return
        whole = _with_tail(turn, write)
        if first and before:
            # Of what it said alone everything but `"}` or `]}`; nothing if it is written otherwise.
            prefix = write(before)[0].data[:-2]
            self._inside = len(prefix) if whole[0].data.startswith(prefix) else 0
        self.extend(whole, turn.origin, stable=turn.stable)

    def extend(self, pieces: Iterable[Segment], origin: int, *, stable: bool) -> None:
        """Add pieces that are of one message of the prompt."""
        for piece in pieces:
            self._pieces.append(piece)
            self._origins.append(origin)
            self._stable.append(stable)

    def marked(
        self, cache: Cache, spent: int, ends: Ends, head: int = 0, *, edge: bool = False
    ) -> list[int]:
        """Choose the pieces to mark, given the marks already spent on tools and instructions.

        The last stable block, and `ends` of earlier requests as `choose_marks` says. With
        `head`, the last block of the first so many messages of the prompt as well: it is what
        is left of the prefix once a window has folded. With `edge` the last block before all tails,
        too: it is what is left once they are gone.
        """
        # SLOP, context injection, conformance 5: a mark on the last stable block before the tail.
        pieces, room = self._pieces, cache.max_marks - spent
        last = next((i for i in self._back() if pieces[i].mark), None)
        if last is None or room < 1:
            return []
        first = list(takewhile(lambda i: self._origins[i] < head, range(last)))
        begins = [i for i in first if pieces[i].mark and self._stable[i]][-1:] if room > 1 else []
        if edge and self._edge is not None and room - len(begins) > 1:
            before = (i for i in self._back() if pieces[i].mark and i < (self._edge or 0))
            begins = sorted({*begins, next(before, last)} - {last})

        def blocks(after: int) -> int:
            return sum(piece.blocks for piece in pieces[after + 1 : last + 1])

        found = Ends(*[self._behind(end, last) for end in ends])
        return sorted({*begins, *choose_marks(last, found, blocks, cache, room - len(begins))})

    def _behind(self, message: int, last: int) -> int:
        """The last piece before `last` that may be marked, up to the end of what this is part of.

        Nothing may come between the results of calls, and one that came late stands with the rest.
        """
        pieces, origins = self._pieces, self._origins
        at = next((i for i in self._back() if i < last and 0 <= origins[i] <= message), -1)
        while 0 <= at < last and pieces[at + 1].role == pieces[at].role:
            at += 1
        return next((i for i in range(at, -1, -1) if pieces[i].mark and self._stable[i]), -1)

    def _back(self) -> Iterator[int]:
        """The stable pieces that have content blocks, the last one first."""
        pieces, stable = self._pieces, self._stable
        return (i for i in reversed(range(len(pieces))) if stable[i] and pieces[i].blocks)

    def mark_offsets(self, chosen: list[int], ends: list[int]) -> list[int]:
        """Return the offsets at which the chosen pieces take their marks."""
        return [ends[i] - len(self._pieces[i].data) + self._pieces[i].mark for i in chosen]

    def join(self) -> Joined:
        """Make messages of the pieces."""
        close = b"]}" if self._content else b""
        out: list[bytes] = []
        ends: list[int] = []
        messages: list[tuple[int, list[tuple[int, int]]]] = []
        runs: list[tuple[int, int]] = []
        at = start = boundary = 0
        last: Any = None
        for piece, origin in zip(self._pieces, self._origins, strict=True):
            joins = last == (piece.role, piece.lane) and self._content
            if not piece.data:
                boundary = at if joins or last is None else at + len(close)
                ends.append(at)
                continue
            if joins:
                out.append(b",")
                at += 1
            else:
                if last is not None:
                    out.append(close + b",")
                    at += len(close) + 1
                start, runs, last = at, [], (piece.role, piece.lane)
                messages.append((start, runs))
                if self._content:
                    out.append(_opening(piece.role, self._content))
                    at += len(out[-1])
            out.append(piece.data)
            at += len(piece.data)
            ends.append(at)
            if runs and runs[-1][0] == origin:
                runs.pop()
            runs.append((origin, at))
        if last is not None:
            out.append(close)
            at += len(close)
        if self._edge is None:
            boundary = at
        elif self._inside:
            boundary = ends[self._edge + 1] - len(self._pieces[self._edge + 1].data) + self._inside
        return Joined(b"".join(out), boundary, ends, messages)


def _with_tail(turn: PromptTurn, write: Write) -> list[Segment]:
    """Write a message that is a tail, or has one behind what it says and may be marked for."""
    if not turn.parts or not turn.tail:
        return write(turn.parts) if turn.parts else []
    [whole], [stable] = write(turn.parts + turn.tail), write(turn.parts)
    keeps = whole.data.startswith(stable.data[:-2])
    return [stable._replace(data=whole.data, mark=stable.mark if keeps else 0)]


@lru_cache(maxsize=32)
def _opening(role: str, content: str) -> bytes:
    return to_json({"role": role, content: []})[:-2]
