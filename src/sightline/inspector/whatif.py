"""The same turn under other rules: the host's composer on recorded inputs, some of them changed.

    a wish for what the turn had anyway is the recorded request

What a turn was made of is known: its layers and its input from the recorded prompt, its
world from the journal, its history as it saw it. What neither tells comes from the
settings. Strategies are those that this machine has, by the labels they are offered under,
and run as the host runs them: within time limits, and with the built-in layout where one
fails. There is no model to ask.

The conversation that a turn saw:

    what the request replayed   is what the turn saw, group by group
    the ledger                  has the same groups whole, dropped ones too, but not those undone
    before the first of them    the ledger as it is now: the turn did not see that far

So a group that was seen is taken from the ledger where it is still there, as the host took
it, and from the request, as it was sent, where it is not. A group that is in the ledger and
was not seen (dropped then, restored since) stays out.

An estimate is corrected by what a vendor reports, and the correction is kept nowhere. But
the receipt has every weight that came of it:

    weight = fixed + ⌈estimate x factor⌉      so factor is in ((kept - 1) / n, kept / n]

All messages of a request together leave an interval so small that any factor in it weighs
them alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import islice
from math import ceil, inf
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from sightline._amounts import dollars
from sightline.agent.host.compose import (
    SMALL_WINDOW,
    Composed,
    Conversation,
    Inputs,
    compose,
    input_at,
    input_of,
    kept_tokens,
)
from sightline.agent.host.journal import Recorded, RequestLine
from sightline.agent.host.sight import FRAME_TOKENS, Sight, SightRules, look
from sightline.agent.host.stage import LedgerMemory, tiers_of
from sightline.agent.host.stage import counter_of as stage_counter
from sightline.agent.models.choose import label_of, profile_of
from sightline.agent.plugins.run import StrategyRunner
from sightline.config import Settings
from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import slot_names
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.messages.parts import Entry, Input, Message, by_group
from sightline.context.messages.replay import Tiers, compatible, cut_from, truncate
from sightline.context.messages.window import Window
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.context.slots.slots import OUTPUT_SHARE, Budget
from sightline.context.slots.standing import system_text
from sightline.context.slots.strategies import DEFAULT
from sightline.context.slots.strategy import Layers
from sightline.context.tokens.estimate import Calibration
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput, NotFound
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

_TIERS: Final = ("recent", "degraded", "inactive")
_GONE: Final = "-"  # instead of a time: the ledger no longer has it
_OPTIONS: Final = frozenset({"max_ratio", "min_ratio", "min_tokens", "priority", "slack"})


class Wishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different about a recorded turn; None is as it was.

    `results` are the characters that a tool's result may have, `tail` the tokens of live state.
    """

    budget: int | None = None
    window: int | None = None
    slack: int | None = None
    results: Annotated[int, msgspec.Meta(ge=0)] | None = None
    tail: Annotated[int, msgspec.Meta(ge=1)] | None = None
    strategy: str | None = None
    model: str | None = None
    slots: dict[str, dict[str, int | float]] = {}

    def tail_share(self, input_tokens: int) -> float | None:
        """The share of so much input that the live state may have then."""
        if self.tail is None:
            return None
        return min(1.0, ceil(10_000 * (self.tail + FRAME_TOKENS) / max(1, input_tokens)) / 10_000)

    def config(self, model: str, output_tokens: int, input_tokens: int = 0) -> str:
        """Write as a configuration file what of it a configuration can hold.

        A budget is what a model's window leaves beside its output; so it is written as both,
        for `model`, whose output is at most `output_tokens` and whose input `input_tokens`.
        """
        lines = [
            f"{key} = {_toml(value)}"
            for key in ("model", "strategy")
            if (value := getattr(self, key))
        ]
        window = {"size": self.window, "slack": self.slack}
        lines += _table("window", window)
        lines += _table("truncation", dict.fromkeys(_TIERS, self.results))
        tail = {"max_tokens": self.tail, "max_share": self.tail_share(input_tokens)}
        lines += _table("tail", tail)
        comments = [
            f"# slot {name}: {key} = {_toml(value)} (an option of the strategy's own code)"
            for name, options in self.slots.items()
            for key, value in options.items()
        ]
        if self.budget is not None:
            reserve = min(output_tokens, self.budget // (OUTPUT_SHARE - 1))
            room = {"window_tokens": self.budget + reserve, "max_output_tokens": reserve}
            lines += _table(f"profiles.{_toml(model)}", room)
        return "\n".join([*lines, *comments])


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wishes: Final = msgspec.json.Decoder(Wishes)


def read_wishes(body: bytes, strategies: Collection[str]) -> Wishes:
    """Read what the page asks for. Raises `InvalidInput` naming what makes no sense."""
    if nests_deeper(body, NESTING):
        raise InvalidInput(f"what if: nested deeper than {NESTING} levels")
    try:
        wishes = _wishes.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"what if: {error}") from error
    if wishes.strategy is not None and wishes.strategy not in strategies:
        have = ", ".join(sorted(strategies))
        raise InvalidInput(f"there is no strategy {wishes.strategy!r} to try; there are {have}")
    for name, options in wishes.slots.items():
        for key in sorted(set(options) - _OPTIONS):
            raise InvalidInput(f"slot {name!r}: {key!r} cannot be changed here")
    return wishes


def sight_of(recorded: Recorded) -> Sight:
    """Choose again what a request showed of its world, by the rules in its receipt."""
    rules = _rules(recorded)
    if not rules.budget:
        rules = replace(rules, budget=recorded.prompt.receipt.budget)
    at = datetime.fromisoformat(recorded.line.sent_at).replace(microsecond=0)
    return look(recorded.world, at, rules, counter_as_then(recorded).count)


def strategy_of(recorded: Recorded) -> str:
    """Name the strategy that laid a request out; receipts that do not say so had the default."""
    return recorded.about.get("strategy") or DEFAULT.name


def tail_tokens_of(recorded: Recorded) -> int:
    """What live state could weigh in a request."""
    rules = _rules(recorded)
    limits = [limit for limit in (rules.max_tokens, rules.budget) if limit]
    return min(limits, default=recorded.prompt.receipt.budget)


def _rules(recorded: Recorded) -> SightRules:
    return msgspec.convert(recorded.about.get("sight", {}), SightRules)


@dataclass(frozen=True, slots=True)
class Again:
    """A turn composed again, for which model, and what a reader should know about it."""

    composed: Composed
    model: str
    notes: tuple[str, ...]


@dataclass(slots=True)
class TurnSums:
    """What other rules would change in many turns; `known` is how many there are."""

    known: int
    tried: int = 0
    refused: int = 0
    losing: int = 0
    gaining: int = 0
    tokens: tuple[int, int] = (0, 0)
    history: tuple[int, int] = (0, 0)
    usd: tuple[float, float] | None = (0.0, 0.0)
    _model: tuple[str, int, int] = ("", 0, 0)

    def add(self, recorded: Recorded, other: Again) -> None:
        """Count a turn as it was and as it would be."""
        request = other.composed.request
        before, after = recorded.prompt.receipt, other.composed.prompt.receipt
        kept = _kept_history(before), _kept_history(after)
        prices = [recorded.profile.prices, request.profile.prices]
        totals = before.total, after.total
        paid = [
            cost(Usage(input_tokens=tokens), price)
            for tokens, price in zip(totals, prices, strict=True)
        ]
        self.tried += 1
        self.losing += kept[1] < kept[0]
        self.gaining += kept[1] > kept[0]
        self.tokens = self.tokens[0] + totals[0], self.tokens[1] + totals[1]
        self.history = self.history[0] + kept[0], self.history[1] + kept[1]
        if self.usd is not None and paid[0] is not None and paid[1] is not None:
            self.usd = self.usd[0] + paid[0], self.usd[1] + paid[1]
        else:
            self.usd = None  # a sum without a part of it would be none
        self._model = other.model, request.profile.max_output_tokens, after.budget

    def refuse(self, recorded: Recorded) -> None:
        """Count a turn that does not fit."""
        self.tried += 1
        self.refused += 1
        if not self._model[0]:
            receipt, most = recorded.prompt.receipt, recorded.profile.max_output_tokens
            self._model = recorded.line.model, most, receipt.budget

    def answer(self, wishes: Wishes) -> dict[str, Any]:
        """Say it in words and figures, with the configuration that does it."""
        parts = [
            f"{many} of {self.tried} turns {what}"
            for many, what in (
                (self.losing, "lose history"),
                (self.gaining, "see more of it"),
                (self.refused, "do not fit"),
            )
            if many
        ]
        words = parts or [f"the history of {self.tried} turns stays as it was"]
        if self.usd is not None and (change := self.usd[1] - self.usd[0]):
            words.append(f"{'+' if change > 0 else '-'}{dollars(abs(change))}")
        left = self.known - self.tried
        return {
            "summary": ", ".join(words),
            "notes": [f"only the newest {self.tried} of {self.known} turns"] if left else [],
            "turns": self.tried,
            "tokens": self.tokens,
            "history": self.history,
            "usd": self.usd or (None, None),
            "config": wishes.config(*self._model),
        }


def _kept_history(receipt: Receipt) -> int:
    return sum(line.kept for line in receipt.slots if line.name == _HISTORY)


def assemble_again(
    ledger: Ledger,
    recorded: Recorded,
    wishes: Wishes,
    runner: StrategyRunner,
    settings: Settings,
) -> Again:
    """Compose a recorded turn as the wishes say. Raises `DoesNotFit` if it cannot be."""
    label = label_of(wishes.model, settings) if wishes.model else recorded.line.model
    wishes = _news(wishes, recorded, settings)
    inputs = recorded_inputs(ledger, recorded, settings)
    inputs = _with_model_and_budget(inputs, wishes, settings)
    inputs, notes = _with_history(inputs, wishes, ledger, recorded, settings)
    inputs = _with_results(inputs, wishes, ledger)
    composed = asyncio.run(compose(inputs, runner))
    failed = (f"{one}; the built-in layout is shown instead" for one in composed.failures)
    return Again(composed, label, (*notes, *failed))


def recorded_inputs(ledger: Ledger, recorded: Recorded, settings: Settings) -> Inputs:
    """Find what a request was made of; `compose` makes the same one of it."""
    line, prompt, profile = recorded.line, recorded.prompt, recorded.profile
    options, counter = recorded.options, counter_as_then(recorded)
    rules = _rules(recorded)
    pieces = _pieces(prompt)
    texts = {
        name: "\n\n".join(message.text for message in pieces.get(name, ()))
        for name in (*_TEXTS, "apps", "state")
    }
    texts["system"] = texts["system"] or system_text(small=profile.window_tokens < SMALL_WINDOW)
    user_input = pieces.get("input", ())
    kept = kept_tokens(options, profile, counter)

    def entries(messages: Sequence[Message]) -> tuple[Entry, ...]:
        return tuple(entry_of(one, line, profile.dialect, line.group_id) for one in messages)

    return Inputs(
        conversation=Conversation(
            entries=entries(_replayed(prompt)[1]), total=0, window=Window(), tiers=None
        ),
        draft=input_of(user_input[-1]) if user_input else Input(""),
        rounds=entries(pieces.get("rounds", ())),
        layers=Layers(**texts),
        world=recorded.world,
        at=datetime.fromisoformat(line.sent_at),
        sight=rules,
        share=_share(rules, prompt.receipt.budget) or settings.tail.max_share,
        tools=prompt.tools,
        profile=profile,
        counter=counter,
        budget=Budget(prompt.receipt.budget + kept, options.max_output_tokens or 0),
        options=options,
        input_at=input_at(prompt),
        strategy=strategy_of(recorded),
        state=ledger.strategy_states.before(line.session_id, line.group_id),
        memory=LedgerMemory(ledger, line.session_id, MemoShelf({"user": ledger.memos})),
    )


def _share(rules: SightRules, budget: int) -> Fraction | None:
    """What live state could have of the input, exactly; None where nobody wrote it down."""
    return Fraction(rules.budget + FRAME_TOKENS, budget) if rules.budget and budget else None


def _news(wishes: Wishes, recorded: Recorded, settings: Settings) -> Wishes:
    """What of the wishes is not as it was."""
    had = recorded.line.model
    model = wishes.model
    if model is not None and had in (model, label_of(model, settings)):
        model = None
    return replace(
        wishes,
        budget=None if wishes.budget == recorded.prompt.receipt.budget else wishes.budget,
        strategy=None if wishes.strategy == strategy_of(recorded) else wishes.strategy,
        model=model,
    )


def _with_model_and_budget(inputs: Inputs, wishes: Wishes, settings: Settings) -> Inputs:
    """Compose for another model, in another room, with as much of the apps as that allows."""
    if wishes.model is None and wishes.budget is None and wishes.tail is None:
        return replace(inputs, overruled=wishes.slots)
    profile, counter, options = inputs.profile, inputs.counter, inputs.options
    budget = inputs.budget
    if wishes.model is not None:
        profile = profile_of(wishes.model, settings)
        counter = counter_of(profile)
        budget = Budget.for_window(profile.window_tokens, profile.max_output_tokens)
        output = budget.max_output_tokens or None
        options = replace(options, max_output_tokens=output, previous_id="")
    if wishes.budget is not None:
        kept = kept_tokens(options, profile, counter)
        budget = replace(budget, max_input_tokens=wishes.budget + kept)
    layers = replace(inputs.layers, apps="", state="")
    inputs = replace(
        inputs, profile=profile, counter=counter, options=options, budget=budget, layers=layers,
        overruled=wishes.slots,
    )  # fmt: skip
    share = wishes.tail_share(budget.max_input_tokens)
    if wishes.tail is None or share is None:
        return inputs
    sight = replace(inputs.sight, max_tokens=wishes.tail)
    slots = {"state": {"max_ratio": share}, **wishes.slots}
    return replace(inputs, sight=sight, share=share, overruled=slots)


_TEXTS: Final = (
    "system", "guidelines", "instructions", "memos", "anchor", "scratchpad", "hooks", "mode",
)  # fmt: skip
_HISTORY: Final = "history"
_NO_HISTORY: Final = frozenset({*_TEXTS, "apps", "state", "input", "rounds"})


def _pieces(prompt: Prompt) -> dict[str, list[Message]]:
    """The messages of a prompt by the slot they came from."""
    pieces: dict[str, list[Message]] = {}
    for name, message in zip(slot_names(prompt), prompt.messages, strict=True):
        pieces.setdefault(name, []).append(message)
    return pieces


def _replayed(prompt: Prompt) -> tuple[str, list[Message]]:
    """What a prompt replays of the conversation, and what its strategy called the slot.

    Where none is called `history` it is the one with the most messages before the boundary.
    """
    slots: dict[str, list[Message]] = {}
    placed = zip(slot_names(prompt), prompt.messages, strict=True)
    for name, message in islice(placed, prompt.boundary):
        if name not in _NO_HISTORY and message.role != "system":
            slots.setdefault(name, []).append(message)
    most = max(slots, key=lambda name: len(slots[name]), default=_HISTORY)
    name = _HISTORY if _HISTORY in slots else most
    return name, slots.get(name, [])


def _with_history(
    inputs: Inputs, wishes: Wishes, ledger: Ledger, recorded: Recorded, settings: Settings
) -> tuple[Inputs, list[str]]:
    """Say again what was said before: as it was sent, or another window of what could be seen."""
    if wishes == Wishes():
        return inputs, []
    line, dialect = recorded.line, recorded.profile.dialect
    slot, replayed = _replayed(recorded.prompt)
    session = ledger.sessions.get(line.session_id)
    past = past_of(replayed, ledger.messages(session.id), line, dialect)
    slot_lines = [one for one in recorded.prompt.receipt.slots if one.name == slot]
    translate = settings.isolate == "translate"
    same_voice = translate or compatible(dialect, inputs.profile.dialect)
    same_window = wishes.window is None and wishes.slack is None
    if same_window and same_voice and not any(one.cut for one in slot_lines):
        return inputs, _notes(past, reaches_back=False)
    groups = [*past.older, *past.seen]
    total = len(groups)
    window = Window(
        session.window.size if wishes.window is None else wishes.window,
        session.window.slack if wishes.slack is None else wishes.slack,
    )
    if same_window:
        offered = sum(sent.role == "user" for one in slot_lines for sent in one.messages)
        groups = groups[max(0, total - offered) :]
        if window.shown(total + 1) != offered + 1:  # it was another one then
            window = Window(0, window.slack)
    entries = [entry for group in groups for entry in group]
    ids = [entry.group_id for entry in entries]
    first = min((one for one in ids if one > 0), default=line.group_id)
    conversation = Conversation(
        entries=entries,
        total=total,
        window=window,
        tiers=tiers_of(settings) if wishes.results is None else _tiers(wishes.results),
        loose=ledger.accounts.loose(session.id, first),
        first_group=min(ids, default=0),
        translate=translate,
    )
    # The turn's own group counts for the window, too.
    reaches_back = min(len(groups), window.shown(total + 1) - 1) > len(past.seen)
    return replace(inputs, conversation=conversation), _notes(past, reaches_back=reaches_back)


def _tiers(chars: int) -> Tiers:
    return Tiers(recent_chars=chars, degraded_chars=chars, inactive_chars=chars)


def _with_results(inputs: Inputs, wishes: Wishes, ledger: Ledger) -> Inputs:
    """Say the tool results again that were sent in part, from the ledger, cut as is wished."""
    if wishes.results is None:
        return inputs
    tiers = _tiers(wishes.results)

    def again(entries: Sequence[Entry]) -> tuple[Entry, ...]:
        return tuple(truncate([_whole(entry, ledger) for entry in entries], tiers))

    talk = inputs.conversation
    if talk.tiers is None:  # else they are cut there
        talk = replace(talk, entries=again(talk.entries))
    return replace(inputs, conversation=talk, rounds=again(inputs.rounds))


def _whole(entry: Entry, ledger: Ledger) -> Entry:
    """Find the message of which the results of an entry are parts; itself if they are whole."""
    ids = [cut_from(result.content) for result in entry.message.tool_results]
    number = next(filter(None, ids), None)
    if number is None:
        return entry
    try:
        stored = ledger.message(number)
    except NotFound:
        return entry
    return stored if stored.session_id == entry.session_id else entry


def _notes(past: Past, *, reaches_back: bool) -> list[str]:
    notes = []
    if past.dropped:
        notes.append(
            f"the ledger has changed since: {past.dropped} of the {len(past.seen)} groups that "
            f"this turn saw have been dropped, undone or removed; they are shown as they were then"
        )
    if past.removed:
        notes.append(f"{past.removed} of them are taken from the recorded request, as it cut them")
    if reaches_back:
        notes.append(
            "the window reaches further back than the turn saw: those groups are as the ledger "
            "has them now"
        )
    return notes


def _table(name: str, values: Mapping[str, object]) -> list[str]:
    given = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    return [f"[{name}]", *given] if given else []


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode()  # texts and numbers are spelt alike


# A recorded turn as it was: the conversation that it saw, and the counter that weighed it.


@dataclass(frozen=True, slots=True)
class Past:
    """What was said before a turn: what it saw, what is older, and how many groups have gone.

    `dropped` are groups that it saw and that no turn sees any more; of those, `removed`
    are in no ledger.
    """

    seen: list[list[Entry]]
    older: list[list[Entry]]
    dropped: int = 0
    removed: int = 0


def past_of(
    replayed: Sequence[Message], stored: Iterable[Entry], line: RequestLine, dialect: str
) -> Past:
    """Find what a request replayed in what the ledger has of the session, up to its turn."""
    groups = [entries for group, entries in by_group(stored) if group < line.group_id]
    seen: list[list[Entry]] = []
    dropped = removed = 0
    end = len(groups)
    for number, sent in reversed(list(enumerate(_groups(replayed)))):
        at = next((i for i in reversed(range(end)) if groups[i][0].message == sent[0]), None)
        if at is None:
            removed += 1
            seen.append([entry_of(message, line, dialect, -1 - number) for message in sent])
            continue
        end = at
        dropped += groups[at][0].status == "dropped"
        seen.append(groups[at])
    older = [group for group in groups[:end] if group[0].status != "dropped"]
    return Past(seen[::-1], older, dropped + removed, removed)


def _groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Split at what the user said; what stands before the first of it lost its beginning."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            groups.append([])
        if groups:
            groups[-1].append(message)
    return groups


def entry_of(message: Message, line: RequestLine, dialect: str, group: int) -> Entry:
    """Make an entry of a message that was sent and that the ledger does not have."""
    return Entry(0, line.session_id, group, 0, message, "complete", dialect, 0, "estimated", _GONE)


def counter_of(profile: Profile, calibration: Calibration | None = None) -> Counter:
    """Return the counter of a model for one look: what is looked at does not come again."""
    return stage_counter(profile, calibration).alone()


def counter_as_then(recorded: Recorded) -> Counter:
    """Return the counter of a recorded request, corrected as it was."""
    plain = counter_of(recorded.profile)
    weighed = _weighed(recorded.prompt)
    once, twice = (
        counter_of(recorded.profile, Calibration(start=factor)).weigh([m for m, _ in weighed])
        for factor in (1.0, 2.0)
    )
    least, most = 0.0, inf
    for (_, weight), one, two in zip(weighed, once, twice, strict=True):
        estimate, corrected = two - one, weight - (2 * one - two)
        if estimate > 0:
            least = max(least, (corrected - 1) / estimate)
            most = min(most, corrected / estimate)
    if not least < most < inf:
        return plain  # its counter is not one that is corrected
    return counter_of(recorded.profile, Calibration(start=(least + most) / 2))


def _weighed(prompt: Prompt) -> list[tuple[Message, int]]:
    """The messages that are in a prompt as they were offered, with their weights."""
    lines = [line for slot in prompt.receipt.slots for line in slot.messages if line.is_present]
    if len(lines) != len(prompt.messages):
        return []
    placed = zip(prompt.messages, lines, strict=True)
    return [(message, line.kept) for message, line in placed if not line.cut]
