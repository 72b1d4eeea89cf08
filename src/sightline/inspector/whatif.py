"""The same turn under other rules, assembled with the functions that the host uses.

    a wish for what the turn had anyway is the recorded prompt

What a turn was made of is known: its layers and its input from the recorded prompt, its
world from the journal, its history as it saw it (`past`). What neither tells comes from the
settings. Strategies are those that this machine has, by the labels they are offered under,
and run as the host runs them: within time limits, and with the built-in layout where one
fails. There is no model to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from sightline.agent.host.compose import FRAME_TOKENS, SMALL_WINDOW, LedgerMemory
from sightline.agent.host.journal import Recorded
from sightline.agent.host.sight import Sight, look
from sightline.agent.models.choose import label_of, profile_of
from sightline.agent.plugins.run import StrategyRunner
from sightline.config import Settings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options, slot_names
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.messages.isolate import compatible, isolate
from sightline.context.messages.parts import File, Input, Message
from sightline.context.messages.replay import replay
from sightline.context.messages.state import strip_states
from sightline.context.messages.truncate import Tiers
from sightline.context.messages.window import Window
from sightline.context.projection.body import Format
from sightline.context.slots.budget import OUTPUT_SHARE, Budget
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Slots
from sightline.context.slots.standing import system_text
from sightline.context.slots.strategy import Capabilities, Layers, Turn
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput
from sightline.inspector.counters import counter_as_then, counter_of
from sightline.inspector.past import Past, entry_of, past_of
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

__all__ = ["Again", "SightRules", "Then", "Wishes", "assemble_again", "read_wishes", "sight_of"]

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

    def config(self, model: str, output_tokens: int) -> str:
        """Write as a configuration file what of it a configuration can hold.

        A budget is what a model's window leaves beside its output; so it is written as both,
        for `model`, whose output is at most `output_tokens`.
        """
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
            reserve = min(output_tokens, self.budget // (OUTPUT_SHARE - 1))
            room = {"window_tokens": self.budget + reserve, "max_output_tokens": reserve}
            lines += _table(f"profiles.{_toml(model)}", room)
        return "\n".join([*lines, *comments])


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wishes: Final = msgspec.json.Decoder(Wishes)
_sights: Final = msgspec.json.Decoder(SightRules)


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


def sight_of(recorded: Recorded, rules: SightRules) -> Sight:
    """Choose again what a request showed of its world, by the rules in its receipt."""
    return _look(recorded, rules, counter_as_then(recorded))


@dataclass(frozen=True, slots=True)
class Then:
    """What the receipt of a turn says of how it was made."""

    rules: SightRules | None
    strategy: str
    state: Mapping[str, Any]


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
    then: Then,
    settings: Settings,
) -> Again:
    """Assemble a recorded turn as the wishes say. Raises `DoesNotFit` if it cannot be."""
    label = label_of(wishes.model, settings) if wishes.model else recorded.line.model
    wishes = _news(wishes, recorded, then, settings)
    if wishes.model is None:
        profile, counter = recorded.profile, counter_as_then(recorded)
    else:
        profile = profile_of(wishes.model, settings)
        counter = counter_of(profile)
    budget = _budget(recorded, profile, wishes)
    pieces = _pieces(recorded.prompt)
    texts = {name: _text(pieces, name) for name in _TEXTS}
    small = profile.window_tokens < SMALL_WINDOW
    texts["system"] = texts["system"] or system_text(small=small)
    history, notes = _history(ledger, recorded, profile, wishes, settings)
    turn = _WishedTurn(
        input=_input(pieces),
        history=history,
        rounds=pieces.get("rounds", ()),
        budget=budget,
        counter=counter,
        layers=Layers(**texts, **_seen(recorded, wishes, then, settings, budget, counter, small)),
        tools=recorded.prompt.tools if profile.tools.calls else (),
        capabilities=Capabilities(vision=profile.messages.images),
        memory=LedgerMemory(ledger, recorded.line.session_id, MemoShelf({"user": ledger.memos})),
        wishes=wishes.slots,
    )
    built = asyncio.run(runner.build(turn, then.state))
    if built.failure is not None:
        notes = [*notes, f"{built.failure}; the built-in layout is shown instead"]
    line = msgspec.structs.replace(recorded.line, receipt_id=None, model=label)
    options = _moved(recorded.options, recorded.prompt, built.prompt)
    if wishes.model is not None:
        options = msgspec.structs.replace(
            options, max_output_tokens=budget.max_output_tokens or None, previous_id=""
        )
    made = replace(recorded, line=line, prompt=built.prompt, profile=profile, options=options)
    return Again(made, tuple(notes))


def _news(wishes: Wishes, recorded: Recorded, then: Then, settings: Settings) -> Wishes:
    """What of the wishes is not as it was."""
    had = recorded.line.model
    model = wishes.model
    if model is not None and had in (model, label_of(model, settings)):
        model = None
    return msgspec.structs.replace(
        wishes,
        budget=None if wishes.budget == recorded.prompt.receipt.budget else wishes.budget,
        strategy=None if wishes.strategy == then.strategy else wishes.strategy,
        model=model,
    )


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
_HISTORY: Final = "history"
_STATE_END: Final = "</slop-state>"
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


def _text(pieces: Mapping[str, tuple[Message, ...]], name: str) -> str:
    return "\n\n".join(message.text for message in pieces.get(name, ()))


def _seen(
    recorded: Recorded,
    wishes: Wishes,
    then: Then,
    settings: Settings,
    budget: Budget,
    counter: Counter,
    small: bool,
) -> dict[str, str]:
    """What the request shows of apps: as it was sent where nothing has changed for that."""
    pieces = _pieces(recorded.prompt)
    sent = {name: _text(pieces, name) for name in ("apps", "state")}
    as_it_was = wishes.budget is None and wishes.model is None
    if as_it_was and sent["state"]:
        return sent
    rules = then.rules or SightRules(recorded.prompt.receipt.budget)
    if not as_it_was:
        room = _room(recorded, then.rules, settings, budget)
        rules = msgspec.structs.replace(rules, budget=room)
    tail = _look(recorded, rules, counter).tail
    # Behind the block a small model is reminded of the question.
    reminder = sent["state"].rpartition(_STATE_END)[2] if small else ""
    return {"apps": tail.available, "state": tail.state + reminder}


def _room(recorded: Recorded, rules: SightRules | None, settings: Settings, budget: Budget) -> int:
    """How many tokens live state may have: the share it had then, of another budget."""
    tokens, had = budget.remaining_input_tokens, recorded.prompt.receipt.budget
    if rules is None or not rules.budget or not had:
        room = int(tokens * settings.tail.max_share)
    else:
        room = tokens * (rules.budget + FRAME_TOKENS) // had
    return max(0, room - FRAME_TOKENS)


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


def _history(
    ledger: Ledger, recorded: Recorded, profile: Profile, wishes: Wishes, settings: Settings
) -> tuple[list[Message], list[str]]:
    """What was said before: as it was sent, or another window of what the turn could see."""
    slot, replayed = _replayed(recorded.prompt)
    if wishes == Wishes():
        return replayed, []
    session = ledger.sessions.get(recorded.line.session_id)
    past = past_of(replayed, ledger.messages(session.id), recorded.line, recorded.profile.dialect)
    lines = [line for line in recorded.prompt.receipt.slots if line.name == slot]
    translate = settings.isolate == "translate"
    same_voice = translate or compatible(recorded.profile.dialect, profile.dialect)
    same_window = wishes.window is None and wishes.slack is None
    if same_window and same_voice and not any(line.cut for line in lines):
        return replayed, _notes(past, reaches_back=False)
    groups = [*past.older, *past.seen]
    total = len(groups) + 1  # the turn's own group counts for the window, and is no history
    window = Window(
        session.window.size if wishes.window is None else wishes.window,
        session.window.slack if wishes.slack is None else wishes.slack,
    )
    if same_window:
        offered = sum(one.role == "user" for line in lines for one in line.messages)
        groups = groups[max(0, len(groups) - offered) :]
        if window.shown(total) != offered + 1:  # it was another one then
            window, total = Window(0, window.slack), len(groups) + 1
    own = recorded.line.group_id
    asked = entry_of(Message.of("user", ""), recorded.line, profile.dialect, own)
    entries = [entry for said in groups for entry in said]
    first = min((entry.group_id for entry in entries if entry.group_id > 0), default=own)
    loose = ledger.accounts.loose(session.id, first)
    again = replay([*entries, asked], window, _tiers(settings), total=total, loose=loose)
    shown = [entry for entry in again if entry.group_id != own]
    said = strip_states(isolate(shown, profile.dialect, translate=translate))
    reaches_back = len({entry.group_id for entry in shown}) > len(past.seen)
    return [entry.message for entry in said], _notes(past, reaches_back=reaches_back)


def _tiers(settings: Settings) -> Tiers:
    cut = settings.truncation
    return Tiers(
        recent=cut.count,
        recent_chars=cut.recent,
        degraded_chars=cut.degraded,
        inactive_chars=cut.inactive,
        settle=cut.settle,
    )


def _moved(options: Options, old: Prompt, new: Prompt) -> Options:
    """Let the earlier tails of the turn stand where they stood behind its input."""
    by = _asked(new) - _asked(old)
    sent = tuple(msgspec.structs.replace(one, after=one.after + by) for one in options.sent)
    return msgspec.structs.replace(options, sent=sent)


def _asked(prompt: Prompt) -> int:
    users = (at for at, message in enumerate(prompt.prefix) if message.role == "user")
    return max(users, default=0)


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
    at = datetime.fromisoformat(recorded.line.sent_at).replace(microsecond=0)
    return look(recorded.world, at, rules.budget, counter.count, form=rules.format, pins=rules.pins)


def _budget(recorded: Recorded, profile: Profile, wishes: Wishes) -> Budget:
    if wishes.budget is not None:
        return Budget(wishes.budget)
    if wishes.model is not None:
        return Budget.for_window(profile.window_tokens, profile.max_output_tokens)
    return Budget(recorded.prompt.receipt.budget)


def _table(name: str, values: Mapping[str, object]) -> list[str]:
    given = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    return [f"[{name}]", *given] if given else []


def _toml(value: object) -> str:
    return msgspec.json.encode(value).decode()  # texts and numbers are spelt alike
