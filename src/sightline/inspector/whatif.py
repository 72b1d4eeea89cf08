"""The same turn under other rules, assembled with the functions that the host uses.

What a turn was made of is known: its layers and its input from the recorded prompt, its
world from the journal, its history as it saw it (`past`). Strategies are those that this
machine has, by the labels they are offered under, and run as the host runs them: within
time limits, and with the built-in layout where one fails. There is no model to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import msgspec

from sightline.context.budget import Budget
from sightline.context.entries import Entry
from sightline.context.isolate import isolate
from sightline.context.parts import File, Input, Message
from sightline.context.prompt import Prompt
from sightline.context.replay import replay
from sightline.context.slots import Slots
from sightline.context.standing import system_text
from sightline.context.state import strip_states
from sightline.context.strategy import Capabilities, Layers, Turn
from sightline.context.tokens import ESTIMATE, Counter, counter_for
from sightline.context.truncate import Tiers
from sightline.context.window import Window
from sightline.dialects import profile_for
from sightline.dialects.profile import Profile
from sightline.dialects.request import slot_names
from sightline.errors import InvalidInput, MissingExtra
from sightline.host.compose import SMALL_WINDOW, LedgerMemory
from sightline.host.journal import Recorded
from sightline.host.sight import Sight, look
from sightline.inspector.past import Past, entry_of, past_of
from sightline.ledger import Ledger, MemoShelf
from sightline.plugins.run import StrategyRunner
from sightline.projection.body import Format

__all__ = ["Again", "SightRules", "Wishes", "assemble_again", "read_wishes", "sight_of"]

TAIL_SHARE: Final = 0.15
_ANY_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)
_OPTIONS: Final = frozenset({"max_ratio", "min_ratio", "min_tokens", "priority", "slack"})


class SightRules(msgspec.Struct, frozen=True):
    """By what rules a request chose what it shows; see `host.sight.Sight.rules`."""

    budget: int
    format: Format = "text"
    pins: dict[str, list[str]] = {}


class Wishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different; None is as it was."""

    budget: int | None = None
    window: int | None = None
    slack: int | None = None
    strategy: str | None = None
    model: str | None = None
    slots: dict[str, dict[str, float]] = {}

    def config(self) -> str:
        """Write as a configuration file what of it a configuration can hold."""
        lines = [
            f"{key} = {_toml(value)}"
            for key in ("model", "strategy")
            if (value := getattr(self, key))
        ]
        window = {"size": self.window, "slack": self.slack}
        lines += _table("window", window)
        comments = [
            f"# slot {name}: {key} = {_toml(value)} (an option of the strategy's own code)"
            for name, options in self.slots.items()
            for key, value in options.items()
        ]
        if self.budget is not None:
            comments.append(f"# budget {self.budget}: a model's window, in its profile")
            target = self.model or "endpoint:model"
            comments += [f"# [profiles.{_toml(target)}]", f"# window_tokens = {self.budget}"]
        return "\n".join([*lines, *comments])


def read_wishes(body: bytes, strategies: Collection[str]) -> Wishes:
    """Read what the page asks for. Raises `InvalidInput` naming what makes no sense."""
    try:
        wishes = msgspec.json.decode(body, type=Wishes)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"what if: {error}") from error
    if wishes.strategy is not None and wishes.strategy not in strategies:
        have = ", ".join(sorted(strategies))
        raise InvalidInput(f"there is no strategy {wishes.strategy!r} to try; there are {have}")
    for name, options in wishes.slots.items():
        for key in sorted(set(options) - _OPTIONS):
            raise InvalidInput(f"slot {name!r}: {key!r} cannot be changed here")
    return wishes


def sight_of(recorded: Recorded, rules: SightRules) -> Sight:
    """Choose again what a request showed of its world, by the rules in its receipt."""
    return _look(recorded, rules, _counter(recorded.profile))


@dataclass(frozen=True, slots=True)
class Again:
    """A turn assembled again, and what a reader should know about it."""

    recorded: Recorded
    notes: tuple[str, ...]


def assemble_again(
    ledger: Ledger,
    recorded: Recorded,
    wishes: Wishes,
    runner: StrategyRunner,
    rules: SightRules,
    state: Mapping[str, Any],
) -> Again:
    """Assemble a recorded turn as the wishes say. Raises `DoesNotFit` if it cannot be."""
    profile = recorded.profile if wishes.model is None else _profile(wishes.model)
    counter = _counter(profile)
    budget = _budget(recorded, profile, wishes)
    pieces = _pieces(recorded.prompt)
    if wishes.budget is not None or wishes.model is not None:
        rules = msgspec.structs.replace(
            rules, budget=int(budget.remaining_input_tokens * TAIL_SHARE)
        )
    sight = _look(recorded, rules, counter)
    texts = {name: "\n\n".join(m.text for m in pieces.get(name, ())) for name in _TEXTS}
    small = profile.window_tokens < SMALL_WINDOW
    texts["system"] = texts["system"] or system_text(small=small)
    history, notes = _history(ledger, recorded, profile, wishes)
    turn = _WishedTurn(
        input=_input(pieces),
        history=history,
        rounds=pieces.get("rounds", ()),
        budget=budget,
        counter=counter,
        layers=Layers(**texts, apps=sight.tail.available, state=sight.tail.state),
        tools=recorded.prompt.tools,
        capabilities=Capabilities(vision=profile.messages.images),
        memory=LedgerMemory(ledger, recorded.line.session_id, MemoShelf({"user": ledger.memos})),
        wishes=wishes.slots,
    )
    built = asyncio.run(runner.build(turn, state))
    if built.failure is not None:
        notes = [*notes, f"{built.failure}; the built-in layout is shown instead"]
    label = wishes.model or recorded.line.model
    line = msgspec.structs.replace(recorded.line, receipt_id=None, model=label)
    return Again(replace(recorded, line=line, prompt=built.prompt, profile=profile), tuple(notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _WishedTurn(Turn):
    """A turn with slots whose options are overruled by name."""

    wishes: Mapping[str, Mapping[str, float]]

    def empty_slots(self) -> Slots:
        return _Wished(self, self.wishes)


class _Wished(Slots):
    """Slots whose options are overruled by name."""

    def __init__(self, turn: Turn, wishes: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(
            turn.budget, turn.counter, tools=turn.tools, input=turn.input, rounds=turn.rounds
        )
        self._wishes = wishes

    def add(self, name: str, content: Any, **options: Any) -> None:
        super().add(name, content, **{**options, **self._wishes.get(name, {})})


_TEXTS: Final = ("system", "guidelines", "memos", "anchor", "scratchpad")
_NO_HISTORY: Final = frozenset({*_TEXTS, "apps", "state", "input", "rounds"})


def _pieces(prompt: Prompt) -> dict[str, tuple[Message, ...]]:
    """The messages of a prompt by the slot they came from."""
    pieces: dict[str, tuple[Message, ...]] = {}
    for name, message in zip(slot_names(prompt), prompt.messages, strict=True):
        pieces[name] = (*pieces.get(name, ()), message)
    return pieces


def _input(pieces: Mapping[str, tuple[Message, ...]]) -> Input:
    said = pieces.get("input", ())
    if not said:
        return Input("")
    files = tuple(part for part in said[-1].parts if isinstance(part, File))
    return Input(said[-1].text, files)


def _replayed(prompt: Prompt) -> list[Message]:
    """What a prompt replays of the conversation, whatever its strategy called the slot.

    Where none is called `history` it is the one with the most messages before the boundary.
    """
    slots: dict[str, list[Message]] = {}
    placed = zip(slot_names(prompt), prompt.messages, strict=True)
    for name, message in islice(placed, prompt.boundary):
        if name not in _NO_HISTORY and message.role != "system":
            slots.setdefault(name, []).append(message)
    return slots.get("history") or max(slots.values(), key=len, default=[])


def _history(
    ledger: Ledger,
    recorded: Recorded,
    profile: Profile,
    wishes: Wishes,
) -> tuple[list[Message], list[str]]:
    """What was said before: as it was sent, or another window of what the turn could see."""
    replayed = _replayed(recorded.prompt)
    if (
        wishes.window is None
        and wishes.slack is None
        and wishes.model is None
        and wishes.budget is None
    ):
        return replayed, []
    session = ledger.sessions.get(recorded.line.session_id)
    past = past_of(replayed, ledger.messages(session.id), recorded.line, recorded.profile.dialect)
    window = Window(
        session.window.size if wishes.window is None else wishes.window,
        session.window.slack if wishes.slack is None else wishes.slack,
    )
    if wishes.window is None and wishes.slack is None and not _history_was_cut(recorded.prompt):
        older: list[list[Entry]] = []  # its window is not to change: what it saw, then
        window = Window(0)
    else:
        older = past.older
    own = recorded.line.group_id
    groups = [entry for said in (*older, *past.seen) for entry in said]
    asked = entry_of(Message.of("user", ""), recorded.line, profile.dialect, own)
    # The turn's own group counts for the window, and is no history.
    first = min((entry.group_id for entry in groups if entry.group_id > 0), default=own)
    loose = ledger.accounts.loose(session.id, first)
    again = replay([*groups, asked], window, Tiers(settle=True), loose=loose)
    shown = [entry for entry in again if entry.group_id != own]
    said = [entry.message for entry in strip_states(isolate(shown, profile.dialect))]
    reaches_back = len({entry.group_id for entry in shown}) > len(past.seen)
    return said, _notes(past, reaches_back=reaches_back)


def _history_was_cut(prompt: Prompt) -> bool:
    return any(line.name == "history" and line.cut > 0 for line in prompt.receipt.slots)


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


def _look(recorded: Recorded, rules: SightRules, counter: Counter) -> Sight:
    return look(
        recorded.world, _ANY_MOMENT, rules.budget, counter.count, form=rules.format, pins=rules.pins
    )


def _counter(profile: Profile) -> Counter:
    """The counter of a model, for one look: what is looked at does not come again."""
    try:
        return counter_for(profile.model).alone()
    except MissingExtra:
        return counter_for(ESTIMATE).alone()


def _budget(recorded: Recorded, profile: Profile, wishes: Wishes) -> Budget:
    if wishes.budget is not None:
        return Budget(wishes.budget)
    if wishes.model is not None:
        return Budget.for_window(profile.window_tokens, profile.max_output_tokens)
    return Budget(recorded.prompt.receipt.budget)


def _profile(reference: str) -> Profile:
    endpoint, _, model = reference.partition(":")
    return profile_for(endpoint, model)


def _table(name: str, values: Mapping[str, object]) -> list[str]:
    given = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    return [f"[{name}]", *given] if given else []


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode()  # texts and numbers are spelt alike
