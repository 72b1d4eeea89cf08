"""What a prompt costs: layouts, windows, tiers and tails at the prices of four vendors.

    python -m benchmarks --only cache

One simulation, parameters as data. A conversation grows for 300 turns; whenever the model is
asked, every layout writes its request of the same moment, and each vendor's cache says what of
it was there before. Three kinds of work (`WORKS`), and a state block of about 800 tokens that is
another one at each request, each turn, or each tenth turn. The `### STATE` anchor changes every
turn, the scratchpad every fifth. Tokens are o200k_base's, counted message by message, because
every chat format separates messages with tokens of its own.

A price is the profile's (`dialects.prices`), in tokens of new input: what is read from the cache
costs the read price, what a mark writes the write price, all else one. A vendor with marks
(`cache_control`, breakpoints) reads up to a place that an earlier request had marked, if it is not
further back from a mark of this one than the vendor looks. Marked are the end of the instructions,
and what `dialects.segments.choose_marks` says. One without reads the longest beginning in blocks
of 16 tokens. So does a local runtime, where the cost is the tokens evaluated, and the tokens that
these attend to. A cache knows the last 32 requests.

Layouts differ in where the state stands:

    before   system · guidelines · state · notes · history
    layers   system · guidelines · notes · state · history     std::slop's order; the peer
    users    every user message keeps the state of its turn
    tail     system · guidelines · history ║ notes · state     Sightline

and those with a tail in window, slack, tiers (`replay`) and form of the tail (`observations`).
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.data import WORDS
from benchmarks.harness import Row
from benchmarks.slots import tiktoken_offline
from sightline.config.settings import Settings
from sightline.context.dialects.observations import Repeat, SentTail, observe
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.segments import Ends, choose_marks, earlier_ends
from sightline.context.messages.parts import Entry, Message, Part, Text, ToolCall, ToolResult
from sightline.context.messages.replay import Tiers, fresh_groups, truncate
from sightline.context.messages.window import Window

TURNS, QUICK_TURNS = (30, 90, 300), (3, 6, 12)
BLOCK = 16
REMEMBERED = 32
VENDORS = {
    "anthropic": profile_for("anthropic"),
    "openai": profile_for("openai-responses"),
    "gemini": profile_for("gemini"),
    "deepseek": profile_for("deepseek"),
}
MARKED = {name: profile.cache for name, profile in VENDORS.items() if profile.cache.max_marks}
MEASURES = (*VENDORS, "evaluated", "attended")

Changes = Literal["request", "turn", "seldom"]
CHANGES: tuple[Changes, ...] = ("request", "turn", "seldom")
SELDOM = 10


@dataclass(frozen=True)
class Work:
    """A kind of work: which turns call tools, how often, and how many words a result has."""

    name: str
    every: int
    calls: tuple[int, int]
    words: tuple[int, int]


WORKS = (
    Work("chat", 2, (1, 3), (20, 400)),
    Work("loops", 1, (12, 12), (20, 400)),
    Work("large", 1, (3, 3), (600, 3_000)),
)


_WORKS = {work.name: work for work in WORKS}
WINDOW = Window(Settings().window.size, Settings().window.slack)
TIERS, SETTLED = Tiers(), Tiers(settle=True)
EXACT = Window(WINDOW.size)


@dataclass(frozen=True)
class Layout:
    """Where the state stands, and how much of the conversation stands beside it."""

    title: str
    place: Literal["before", "layers", "users", "tail"] = "tail"
    window: Window = WINDOW
    tiers: Tiers = TIERS
    repeat: Repeat = "whole"
    note: str = ""

    @property
    def depends_on_changes(self) -> bool:
        """Whether the price depends on when the state changes; a whole tail is new anyway."""
        return self.place != "tail" or self.repeat != "whole"


DEFAULT = Layout("the default")
SLACKS, SIZES = (5, 10, 15, 20, 35, 50), ((10, 5), (20, 10), (100, 50))
LAYOUTS = {
    "before": Layout("state before everything else", "before", EXACT),
    "layers": Layout("std::slop's order", "layers", EXACT),
    "users": Layout(
        "state kept in user messages", "users", EXACT,
        note="departs: old states stay in the history",
    ),
    "default": DEFAULT,
    "settle": replace(
        DEFAULT, title="`truncation.settle`", tiers=SETTLED,
        note="departs: results of a turn that is over stay long until the fold",
    ),
    "brief": replace(
        DEFAULT, title='`tail.repeat = "brief"`', repeat="brief",
        note="departs: the state is not in every request",
    ),
    "slack-0": Layout("slack 0", window=EXACT, note="to the letter"),
    **{
        f"slack-{slack}": Layout(f"slack {slack}", window=Window(WINDOW.size, slack))
        for slack in SLACKS
    },
    **{
        f"window-{size}": Layout(f"window {size} to {size + slack}", window=Window(size, slack))
        for size, slack in SIZES
    },
    "window-all": Layout("the whole conversation", window=Window(0)),
}  # fmt: skip


def run(*, quick: bool = False) -> list[Row]:
    """Price every layout; the peer of each is std::slop's order."""
    found = measure(LAYOUTS, turns=QUICK_TURNS if quick else TURNS)
    base, peer = found["default"], _mean_price(found["layers"])
    rows = []
    for slug, cells in found.items():
        layout = LAYOUTS[slug]
        longest = max(cell.turns for cell in cells)
        counts = (costs["requests"] for cell, costs in cells.items() if cell.turns == longest)
        requests = round(sum(counts))
        price = _mean_price(cells)
        more = _ratios(cells, base)
        rows.append(
            Row(slug, layout.title, requests, price, peer, None, "tokens", layout.note, more)
        )
    return rows


def _mean_price(cells: dict[Cell, Costs]) -> float:
    return fmean(costs[name] for costs in cells.values() for name in VENDORS)


def _ratios(cells: dict[Cell, Costs], base: dict[Cell, Costs]) -> dict[str, float]:
    """How many times the default's its costs are, on average, and in each kind of work."""

    def mean(names: Iterable[str], work: str = "") -> float:
        chosen = [cell for cell in cells if work in ("", cell.work)]
        return fmean(cells[cell][name] / base[cell][name] for cell in chosen for name in names)

    return {
        "price": mean(VENDORS),
        **{name: mean([name]) for name in MEASURES},
        **{f"{name}_{work.name}": mean([name], work.name) for name in MEASURES for work in WORKS},
    }


class Moment(NamedTuple):
    """What a host holds when it asks the model: the stored groups, and what is true now."""

    groups: list[list[Entry]]
    states: list[Message]
    state: Message
    notes: list[Message]


def conversation(work: Work, turns: int, changes: Changes) -> Iterator[Moment]:
    """Grow a conversation; yield it, the same lists each time, whenever the model is asked."""
    chance, moods = random.Random(7), random.Random(8)
    groups: list[list[Entry]] = []
    states: list[Message] = []
    scratchpad = Message.of("user", "")
    asked = stored = 0

    def text(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    def store(*parts: Part, role: Literal["user", "assistant", "tool"]) -> None:
        nonlocal stored
        stored += 1
        message = Message(role, parts)
        status = "tool_call" if message.tool_calls else "complete"
        entry = Entry(stored, 1, len(groups), stored, message, status, "x", 0, "counted", "")  # type: ignore[arg-type]  # a status
        groups[-1].append(entry)

    for turn in range(turns):
        anchor = f"### STATE\nGoal: {text(12)}\nResolved: step {turn}, {text(20)}"
        if turn % 5 == 0:
            scratchpad = Message.of("user", f"Plan:\n{text(60)}")
        notes = [Message.of("user", anchor), scratchpad]
        groups.append([])
        store(Text(text(25)), role="user")
        if changes == "turn" or turn % SELDOM == 0 or changes == "request":
            states.append(state_block(moods, asked))
        else:
            states.append(states[-1])
        state = states[-1]
        yield Moment(groups, states, state, notes)
        calls = chance.randint(*work.calls) if (turn + 1) % work.every == 0 else 0
        for number in range(calls):
            asked += 1
            call = ToolCall(f"t{turn}/{number}", "slop_query", {"path": text(3)})
            store(Text(text(10)), call, role="assistant")
            store(ToolResult(call.id, text(chance.randint(*work.words))), role="tool")
            state = state_block(moods, asked) if changes == "request" else state
            yield Moment(groups, states, state, notes)
        store(Text(text(80)), role="assistant")
        asked += 1


def state_block(chance: random.Random, number: int) -> Message:
    """Write a mail app as a model sees it, another one every time."""
    lines = [f"### Mail (mail-app)\n[root] mail-app: Mail (unread={number})"]
    for item in range(24):
        sender = chance.choice(("alice", "bob", "carol"))
        lines.append(
            f'  [item] thread-{number * 7 + item}: Launch plan (from="{sender}@co.org",'
            f" unread={chance.random() < 0.5}) actions: {{reply(body: string), mark_read}}"
        )
    time = f"2026-11-15T{10 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    head = f'<slop-state generated_at="{time}" format="text/tree">'
    return Message.of("user", "\n".join((head, *lines, "</slop-state>")))


FIXED = [
    Message.of("system", "You help with mail and calendar; be brief and exact. " * 40),
    Message.of("system", "Keep a ### STATE block; use query_db for what is cut. " * 16),
]


ENCODING = tiktoken_offline()
Numbers: TypeAlias = NDArray[np.int64]


class Texts:
    """Messages by number: the same text is the same number, and has tokens and blocks."""

    def __init__(self) -> None:
        self.tokens: list[Numbers] = []
        self.weights: Numbers = np.zeros(1024, np.int64)
        self.blocks: Numbers = np.zeros(1024, np.int64)
        self._numbers: dict[bytes, int] = {}

    def numbers(self, messages: Iterable[Message]) -> Numbers:
        """Number messages."""
        return np.array([self._number(message) for message in messages], np.int64)

    def _number(self, message: Message) -> int:
        written = msgspec.json.encode(message)
        number = self._numbers.setdefault(written, len(self.tokens))
        if number == len(self.tokens):
            text = "\n".join((message.role, *map(_words, message.parts)))
            # The end of a message is a token that no text has.
            self.tokens.append(np.array([*ENCODING.encode_ordinary(text), -1]))
            if number == self.weights.size:
                self.weights = np.concatenate((self.weights, np.zeros_like(self.weights)))
                self.blocks = np.concatenate((self.blocks, np.zeros_like(self.blocks)))
            self.weights[number] = self.tokens[-1].size
            self.blocks[number] = len(message.parts)
        return number


def _words(part: object) -> str:
    if isinstance(part, ToolResult):
        return part.content
    if isinstance(part, ToolCall):
        return f"{part.name} {msgspec.json.encode(part.arguments).decode()}"
    return part.text if isinstance(part, Text) else ""


class Asked(NamedTuple):
    """A request as a cache sees it: messages by number, tokens and blocks up to the end of each.

    `stable` counts the messages before what is live, `marks` those up to each mark behind the
    instructions, by vendor.
    """

    numbers: Numbers
    ends: Numbers
    blocks: Numbers
    stable: int
    marks: dict[str, list[int]]


class Writer:
    """Writes the requests of a layout, one after the other.

    What `replay` shows of a group depends on whether it still has the form of a running turn, so
    a group that is over is written once in each form.
    """

    def __init__(self, layout: Layout, texts: Texts) -> None:
        self._layout, self._texts = layout, texts
        self._fixed = texts.numbers(FIXED)
        self._over: dict[tuple[int, bool], Numbers] = {}
        self._turn = 0
        self._sent: tuple[SentTail, ...] = ()

    def write(self, moment: Moment) -> Asked:
        """Write the request of a moment."""
        texts, place = self._texts, self._layout.place
        head, live = [self._fixed], texts.numbers([*moment.notes, moment.state])
        stable = self._fixed.size
        if place == "before":
            body = [*head, live[-1:], live[:-1], *self.history(moment)]
        elif place == "layers":
            body = [*head, live, *self.history(moment)]
        elif place == "tail" and self._layout.repeat == "brief":
            body, stable = self._observed(moment)
        else:
            body = [*head, *self.history(moment)]
            stable = sum(part.size for part in body)
            body.append(live if place == "tail" else live[:-1])
        numbers = np.concatenate(body)
        ends, blocks = np.cumsum(texts.weights[numbers]), np.cumsum(texts.blocks[numbers])
        return Asked(numbers, ends, blocks, stable, self._marks(moment, stable, blocks))

    def history(self, moment: Moment) -> Iterator[Numbers]:
        """The groups that are shown, each as `replay` shows it."""
        window, total = self._layout.window, len(moment.groups)
        running = fresh_groups(window, total) if self._layout.tiers.settle else 1
        for at in range(total - window.shown(total), total):
            if at == total - 1:
                yield self._group(moment, at, running=True)
                continue
            key = (at, at >= total - running)
            if key not in self._over:
                self._over[key] = self._group(moment, at, running=key[1])
            yield self._over[key]

    def _group(self, moment: Moment, at: int, *, running: bool) -> Numbers:
        group = moment.groups[at]
        active = group[0].group_id if running else -1
        shown = truncate(group, self._layout.tiers, active_group=active)
        return self._texts.numbers(self._messages(moment, at, shown))

    def _messages(self, moment: Moment, at: int, group: list[Entry]) -> list[Message]:
        messages = [entry.message for entry in group]
        if self._layout.place == "users":
            messages.insert(1, moment.states[at])
        return messages

    def _marks(self, moment: Moment, stable: int, blocks: Numbers) -> dict[str, list[int]]:
        """Mark what a dialect marks; it looks no further back than the turn before."""
        if stable == self._fixed.size:
            return {name: [stable] for name in MARKED}
        total = len(moment.groups)
        turns = range(max(0, total - 2), total)
        said = [m for at in turns for m in self._messages(moment, at, moment.groups[at])]
        kept = [(sent.after, len(sent.parts)) for sent in self._sent[:-1]]
        before = stable - sum(size for _, size in kept) - len(said)

        def place(end: int) -> int:
            after = before + end + 1
            return after + sum(size for at, size in kept if at <= after) if end >= 0 else -1

        def behind(after: int) -> int:
            return int(blocks[stable - 1] - blocks[after - 1])

        ends = Ends(*map(place, earlier_ends(said)))
        return {
            name: choose_marks(stable, ends, behind, cache, cache.max_marks - 1)
            for name, cache in MARKED.items()
        }

    def _observed(self, moment: Moment) -> tuple[list[Numbers], int]:
        prefix = np.concatenate((self._fixed, *self.history(moment)))
        tail = tuple(p for message in (*moment.notes, moment.state) for p in message.parts)
        if self._turn != len(moment.groups):
            self._turn, self._sent = len(moment.groups), ()
        kept, newest = observe(tail, self._sent, prefix.size, repeat="brief")
        self._sent = (*kept, newest)
        body: list[Numbers] = []
        at = stable = 0
        for sent in self._sent:
            body.append(prefix[at : sent.after])
            stable = sum(part.size for part in body)
            body.append(self._texts.numbers(Message("user", (part,)) for part in sent.parts))
            at = sent.after
        return body, stable


@dataclass(frozen=True)
class Reuse:
    """What of a request was there before: tokens, and messages up to each mark, by vendor."""

    common: int
    marks: dict[str, set[int]]


class PrefixCache:
    """The last requests of one conversation."""

    def __init__(self, texts: Texts, remembered: int = REMEMBERED) -> None:
        self._texts = texts
        self._asked: deque[Asked] = deque(maxlen=remembered)

    def reuse(self, asked: Asked) -> Reuse:
        """Say how much of a request earlier ones began with; then remember it."""
        best, common = -1, 0
        marks: dict[str, set[int]] = {name: set() for name in MARKED}
        for earlier in reversed(self._asked):
            same = _same(asked.numbers, earlier.numbers)
            for name, held in marks.items():
                held.update(mark for mark in earlier.marks[name] if mark <= same)
            if same > best:
                best, common = same, _tokens_in_common(asked, earlier, same, self._texts)
        if best >= len(FIXED):
            for held in marks.values():
                held.add(len(FIXED))
        self._asked.append(asked)
        return Reuse(common, marks)


def _tokens_in_common(one: Asked, other: Asked, same: int, texts: Texts) -> int:
    whole = int(one.ends[same - 1]) if same else 0
    if same == one.numbers.size or same == other.numbers.size:
        return whole
    parts = (texts.tokens[asked.numbers[same]] for asked in (one, other))
    return whole + _same(*parts)


def _same(one: Numbers, other: Numbers) -> int:
    """Count the equal items at the start."""
    size = min(one.size, other.size)
    differ = one[:size] != other[:size]
    first = int(differ.argmax()) if size else 0
    return first if size and differ[first] else size


def price(vendor: str, asked: Asked, reuse: Reuse) -> float:
    """What a request costs at a vendor's, in tokens of new input."""
    prices, cache = VENDORS[vendor].prices, VENDORS[vendor].cache
    total, stable = int(asked.ends[-1]), int(asked.ends[asked.stable - 1])
    one = prices.input or 1
    read_price, write_price = (prices.cache_read or one) / one, (prices.cache_write or one) / one
    if cache.style == "automatic":
        read = reuse.common - reuse.common % BLOCK
        read = read if read >= cache.min_tokens else 0
        cost = total - read + read * read_price
    else:
        back = cache.lookback_blocks or int(asked.blocks[-1])
        marks = (len(FIXED), *asked.marks[vendor])
        near = (
            held for held in reuse.marks[vendor]
            if any(0 <= asked.blocks[at - 1] - asked.blocks[held - 1] <= back for at in marks)
        )  # fmt: skip
        read = max((int(asked.ends[held - 1]) for held in near), default=0)
        stable, read = (n if n >= cache.min_tokens else 0 for n in (stable, read))
        cost = total - stable + (stable - read) * write_price + read * read_price
    return cost * (prices.long_factor if 0 < prices.long_tokens < total else 1)


Costs = dict[str, float]


@dataclass
class Run:
    """A layout in one conversation: what it has cost so far, by `MEASURES` and a few counts."""

    layout: Layout
    texts: Texts
    costs: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._writer, self._cache = Writer(self.layout, self.texts), PrefixCache(self.texts)

    def ask(self, moment: Moment) -> None:
        """Send one request more."""
        asked = self._writer.write(moment)
        reuse, total = self._cache.reuse(asked), int(asked.ends[-1])
        common = reuse.common - reuse.common % BLOCK
        self.costs["requests"] += 1
        self.costs["sent"] += total
        self.costs["evaluated"] += total - common
        self.costs["attended"] += (total**2 - common**2) // 2
        for name in VENDORS:
            self.costs[name] += price(name, asked, reuse)


class Cell(NamedTuple):
    """Where a layout was priced."""

    work: str
    changes: Changes
    turns: int


def measure(
    layouts: dict[str, Layout], works: Sequence[Work] = WORKS, turns: Sequence[int] = TURNS
) -> dict[str, dict[Cell, Costs]]:
    """Price layouts in every kind of work, for every change of state, at each of these turns."""
    found: dict[str, dict[Cell, Costs]] = {slug: {} for slug in layouts}
    for work in works:
        texts = Texts()
        for changes in CHANGES:
            runs = {
                slug: Run(layout, texts) for slug, layout in layouts.items()
                if changes == CHANGES[0] or layout.depends_on_changes
            }  # fmt: skip
            for moment in conversation(work, max(turns), changes):
                turn = len(moment.groups)
                for slug, run in runs.items():
                    run.ask(moment)
                    if turn in turns:
                        found[slug][Cell(work.name, changes, turn)] = dict(run.costs)
    for slug, layout in layouts.items():
        if not layout.depends_on_changes:
            for cell, costs in list(found[slug].items()):
                found[slug] |= {cell._replace(changes=changes): costs for changes in CHANGES}
    return found


def lengths(layout: Layout, work: str, turns: int) -> list[list[int]]:
    """Of each request the tokens that one slot of a runtime has from the one before, and all."""
    texts = Texts()
    writer, cache = Writer(layout, texts), PrefixCache(texts, 1)
    found = []
    for moment in conversation(_WORKS[work], turns, "request"):
        asked = writer.write(moment)
        common = cache.reuse(asked).common
        found.append([common - common % BLOCK, int(asked.ends[-1])])
    return found
