"""How much of each prompt must be evaluated anew: five layouts, one conversation, one cache.

    python -m benchmarks --only cache

Fifty turns; half of them call tools, one to three rounds each. A state block of about
800 tokens is another one at every request, as it is where apps act and where the block
has a time in it; once more with a state that holds still for a whole turn. The
`### STATE` anchor changes every turn, the scratchpad every fifth. The cache is exact:
a request reuses the longest beginning, in blocks of 16 tokens, that any earlier request
had. Tokens are o200k_base's, counted message by message, because every chat format
separates messages with tokens of its own.

    a  state before history       system · guidelines · state · notes · history · input
    b  state in user messages     every user message keeps the state of its turn
    c  std::slop's layers         system · guidelines · anchor · scratchpad · state · history
    d  Sightline, exact           system · guidelines · history ║ notes · state
    e  Sightline, slack, settle   the same; the window folds in steps, results shrink at folds
    f  (e), repeats in a word     a tail that has not changed refers to the one it repeats,
                                  which stays in place until the user speaks again; results
                                  behind it shrink then, for they were in no prefix

All show the last 20 groups at least, with the same truncation tiers. (e) is the host with
`truncation.settle`, (f) with `tail.repeat = "brief"` as well; the repeats are decided by the
function that writes requests (`dialects.observations`), what shrinks by `messages.replay`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.data import WORDS
from benchmarks.harness import Row
from benchmarks.slots import tiktoken_offline
from sightline.context.dialects.observations import SentTail, observe, running
from sightline.context.messages.entries import Entry, by_group
from sightline.context.messages.parts import Message, Text, ToolCall, ToolResult
from sightline.context.messages.replay import fresh_groups, replay
from sightline.context.messages.truncate import Tiers, truncate
from sightline.context.messages.window import Window

TURNS, QUICK_TURNS = 50, 12
BLOCK = 16
WINDOW = Window(20)
SLACKED = Window(20, slack=10)
TIERS, SETTLED = Tiers(), Tiers(settle=True)
BAR = 3.0
CACHED_PRICE = 0.1  # of an evaluated token's, at most vendors


@dataclass(frozen=True)
class Moment:
    """What a host holds when it asks the model: the stored entries, and what is true now."""

    entries: list[Entry]
    state: str
    anchor: str
    scratchpad: str
    states: dict[int, str]


@dataclass(frozen=True)
class Outcome:
    """A layout's fifty turns: tokens sent and evaluated, and the worst reuse between folds."""

    requests: int
    sent: int
    evaluated: int
    last: int
    worst_reuse: float
    folds: int

    @property
    def price(self) -> float:
        """What the prompts cost, in evaluated tokens."""
        return self.evaluated + CACHED_PRICE * (self.sent - self.evaluated)


# A layout is its messages, and how many of them are the prefix.
Layout = Callable[[Moment], tuple[list[Message], int]]


def run(*, quick: bool = False) -> list[Row]:
    """Replay the conversation under every layout; the peer of each row is layout c."""
    turns = QUICK_TURNS if quick else TURNS
    moving = measure(turns)
    still = measure(turns, every_request=False)
    rows = [_row(name, outcome, moving["c"]) for name, outcome in moving.items()]
    return rows + [_row(name, still[name], still["c"], still=True) for name in "cdef"]


def _row(name: str, outcome: Outcome, base: Outcome, *, still: bool = False) -> Row:
    saved = base.price / outcome.price
    note = f"{outcome.sent:,} tokens sent; {saved:.2f} times cheaper if cached ones cost a tenth"
    if name in "def":
        note += f"; least reuse of a prefix between folds {outcome.worst_reuse:.0%}"
    title = f"{TITLES[name]}, state still within a turn" if still else TITLES[name]
    bar = BAR if name in "ef" else None
    more = {"sent": outcome.sent, "saved": saved, "worst_reuse": outcome.worst_reuse}
    return Row(
        f"still-{name}" if still else name, title, outcome.requests,
        outcome.evaluated, base.evaluated, bar, "tokens", note, more,
    )  # fmt: skip


def measure(turns: int, *, every_request: bool = True) -> dict[str, Outcome]:
    """Run every layout over the same moments."""
    moments = list(conversation(turns, every_request=every_request))
    return {name: _outcome(make(), moments, name in "ef") for name, make in LAYOUTS.items()}


def conversation(turns: int, *, every_request: bool = True) -> Iterator[Moment]:
    """Grow a conversation; yield a moment each time the model is asked."""
    chance, moods = random.Random(7), random.Random(8)

    def text(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    entries: list[Entry] = []
    states: dict[int, str] = {}
    scratchpad = ""

    def store(group: int, message: Message) -> None:
        number = len(entries) + 1
        status = "tool_call" if message.tool_calls else "complete"
        entries.append(
            Entry(number, 1, group, number, message, status, "x", 0, "counted", "")  # type: ignore[arg-type]  # a status
        )

    for turn in range(turns):
        anchor = f"### STATE\nGoal: {text(12)}\nResolved: step {turn}, {text(20)}"
        if turn % 5 == 0:
            scratchpad = f"Plan:\n{text(60)}"
        store(turn, Message.of("user", text(25)))
        states[turn] = state_block(moods, len(entries))
        yield Moment(list(entries), states[turn], anchor, scratchpad, dict(states))
        for number in range(chance.randint(1, 3) if turn % 2 else 0):
            call = ToolCall(f"t{turn}/{number}", "slop_query", {"path": text(3)})
            store(turn, Message("assistant", (Text(text(10)), call)))
            store(turn, Message("tool", (ToolResult(call.id, text(chance.randint(20, 400))),)))
            now = state_block(moods, len(entries)) if every_request else states[turn]
            yield Moment(list(entries), now, anchor, scratchpad, dict(states))
        store(turn, Message.of("assistant", text(80)))


def state_block(chance: random.Random, turn: int) -> str:
    """Write a mail app as a model sees it, another one every time."""
    lines = [f"### Mail (mail-app)\n[root] mail-app: Mail (unread={turn})"]
    for item in range(24):
        sender = chance.choice(("alice", "bob", "carol"))
        lines.append(
            f'  [item] thread-{turn * 7 + item}: Launch plan (from="{sender}@co.org",'
            f" unread={chance.random() < 0.5}) actions: {{reply(body: string), mark_read}}"
        )
    time = f"2026-11-15T10:{turn // 60:02}:{turn % 60:02}Z"
    head = f'<slop-state generated_at="{time}" format="text/tree">'
    return "\n".join((head, *lines, "</slop-state>"))


SYSTEM = Message.of("system", "You help with mail and calendar; be brief and exact. " * 40)
GUIDELINES = Message.of("system", "Keep a ### STATE block; use query_db for what is cut. " * 16)
FIXED = [SYSTEM, GUIDELINES]


def _exact(moment: Moment) -> list[Message]:
    groups = list(by_group(moment.entries))
    shown = groups[-WINDOW.shown(len(groups)) :]
    return [e.message for e in truncate([e for _, group in shown for e in group], TIERS)]


def _notes(moment: Moment) -> list[Message]:
    return [Message.of("user", moment.anchor), Message.of("user", moment.scratchpad)]


def _before_history(moment: Moment) -> tuple[list[Message], int]:
    head = [*FIXED, Message.of("user", moment.state), *_notes(moment)]
    return [*head, *_exact(moment)], len(FIXED)


def _in_user_messages(moment: Moment) -> tuple[list[Message], int]:
    groups = list(by_group(moment.entries))
    shown = groups[-WINDOW.shown(len(groups)) :]
    with_state = []
    for group_id, group in shown:
        first = group[0].with_parts((*group[0].message.parts, Text(moment.states[group_id])))
        with_state += [first, *group[1:]]
    history = [entry.message for entry in truncate(with_state, Tiers())]
    return [*FIXED, *history, *_notes(moment)], len(FIXED) + len(history)


def _layers(moment: Moment) -> tuple[list[Message], int]:
    head = [*FIXED, *_notes(moment), Message.of("user", moment.state)]
    return [*head, *_exact(moment)], len(FIXED)


def _with_tail(history: list[Message], moment: Moment) -> tuple[list[Message], int]:
    prefix = [*FIXED, *history]
    return [*prefix, *_notes(moment), Message.of("user", moment.state)], len(prefix)


def _sightline_exact(moment: Moment) -> tuple[list[Message], int]:
    return _with_tail(_exact(moment), moment)


def _sightline(moment: Moment) -> tuple[list[Message], int]:
    shown = replay(moment.entries, SLACKED, SETTLED)
    return _with_tail([entry.message for entry in shown], moment)


class Keeping:
    """A layout with a memory of one user turn: the tails that it sent since the user spoke."""

    def __init__(self) -> None:
        self._sent: tuple[SentTail, ...] = ()
        self._loose: dict[int, int] = {}  # as a host knows it: group, first message behind a tail

    def __call__(self, moment: Moment) -> tuple[list[Message], int]:
        shown = replay(moment.entries, SLACKED, SETTLED, loose=self._loose)
        prefix = [*FIXED, *(entry.message for entry in shown)]
        tail = (*(p for note in _notes(moment) for p in note.parts), Text(moment.state))
        kept = running(self._sent, prefix)
        kept, newest = observe(tail, kept, len(prefix), repeat="brief")
        self._sent = (*kept, newest)
        behind = len(prefix) - self._sent[0].after
        self._loose[shown[-1].group_id] = shown[-behind].id if behind else 0
        messages: list[Message] = []
        at = 0
        for sent in self._sent:
            messages += [*prefix[at : sent.after], *(Message("user", (p,)) for p in sent.parts)]
            at = sent.after
        return messages, self._sent[0].after


# Made anew for every conversation.
LAYOUTS: dict[str, Callable[[], Layout]] = {
    "a": lambda: _before_history,
    "b": lambda: _in_user_messages,
    "c": lambda: _layers,
    "d": lambda: _sightline_exact,
    "e": lambda: _sightline,
    "f": Keeping,
}
TITLES = {
    "a": "(a) state before history",
    "b": "(b) state stored in user messages",
    "c": "(c) std::slop's layer order",
    "d": "(d) Sightline, exact window and tiers",
    "e": "(e) Sightline, slack and settle",
    "f": "(f) as (e), an unchanged tail in a word",
}

ENCODING = tiktoken_offline()
_SEEN: dict[bytes, list[int]] = {}


def tokens_of(messages: Sequence[Message]) -> list[int]:
    """Encode a prompt; the end of a message is a token that no text has."""
    tokens: list[int] = []
    for message in messages:
        written = msgspec.json.encode(message)
        if written not in _SEEN:
            text = "\n".join((message.role, *map(_words, message.parts)))
            _SEEN[written] = [*ENCODING.encode_ordinary(text), -1]
        tokens += _SEEN[written]
    return tokens


def _words(part: object) -> str:
    if isinstance(part, ToolResult):
        return part.content
    if isinstance(part, ToolCall):
        return f"{part.name} {msgspec.json.encode(part.arguments).decode()}"
    return part.text if isinstance(part, Text) else ""


class PrefixCache:
    """Every beginning, in whole blocks, of every request so far."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def cached(self, tokens: Sequence[int]) -> int:
        """Count the tokens at the start that need no evaluation; then remember this request."""
        hit, chain, missed = 0, 0, False
        for at in range(0, len(tokens) - BLOCK + 1, BLOCK):
            chain = hash((chain, tuple(tokens[at : at + BLOCK])))
            missed = missed or chain not in self._known
            hit = hit if missed else at + BLOCK
            self._known.add(chain)
        return hit


def _outcome(layout: Layout, moments: Sequence[Moment], folding: bool) -> Outcome:
    cache = PrefixCache()
    sent = evaluated = last = folds = 0
    worst = 1.0
    previous: list[int] = []
    groups_before = 0
    for moment in moments:
        messages, boundary = layout(moment)
        tokens, prefix = tokens_of(messages), tokens_of(messages[:boundary])
        hit = cache.cached(tokens)
        groups = moment.entries[-1].group_id + 1
        folded = folding and groups > groups_before > 0 and _folds(groups)
        folds += folded
        if previous and not folded:
            worst = min(worst, _common(previous, tokens) / len(previous))
        sent, evaluated, last = sent + len(tokens), evaluated + len(tokens) - hit, len(tokens)
        previous, groups_before = prefix, groups
    return Outcome(len(moments), sent, evaluated, last, worst, folds)


def _folds(groups: int) -> bool:
    return groups > SLACKED.size and fresh_groups(SLACKED, groups) == 1


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (x, y) in enumerate(pairs) if x != y), min(len(one), len(other)))
