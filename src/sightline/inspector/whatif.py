"""The same turn under other rules, assembled with the functions that the host uses.

What a turn was made of is known: its layers and its input from the recorded prompt, its
world from the journal, its history from the ledger, as it is there now, up to the turn.
Only strategies that are built in are run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sightline.context.budget import Budget
from sightline.context.isolate import isolate
from sightline.context.parts import File, Input, Message
from sightline.context.prompt import Prompt
from sightline.context.replay import replay
from sightline.context.settings import resolve
from sightline.context.slots import Slots
from sightline.context.state import strip_states
from sightline.context.strategies import BUILT_IN
from sightline.context.strategy import Layers, Turn
from sightline.context.tokens import ESTIMATE, Counter, counter_for
from sightline.context.truncate import Tiers
from sightline.context.window import Window
from sightline.dialects import profile_for
from sightline.dialects.profile import Profile
from sightline.dialects.request import slot_names
from sightline.errors import InvalidInput, MissingExtra
from sightline.host.journal import Recorded
from sightline.host.sight import Sight, look
from sightline.ledger import Ledger
from sightline.projection.body import Format

__all__ = ["SightRules", "Wishes", "assemble_again", "read_wishes", "sight_of"]

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


def read_wishes(body: bytes) -> Wishes:
    """Read what the page asks for. Raises `InvalidInput` naming what makes no sense."""
    try:
        wishes = msgspec.json.decode(body, type=Wishes)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"what if: {error}") from error
    if wishes.strategy is not None and wishes.strategy not in BUILT_IN:
        have = ", ".join(sorted(BUILT_IN))
        raise InvalidInput(f"there is no strategy {wishes.strategy!r} to try; there are {have}")
    for name, options in wishes.slots.items():
        for key in sorted(set(options) - _OPTIONS):
            raise InvalidInput(f"slot {name!r}: {key!r} cannot be changed here")
    return wishes


def sight_of(recorded: Recorded, rules: SightRules) -> Sight:
    """Choose again what a request showed of its world, by the rules in its receipt."""
    return look(
        recorded.world,
        _ANY_MOMENT,
        rules.budget,
        _counter(recorded.profile).count,
        form=rules.format,
        pins=rules.pins,
    )


def assemble_again(ledger: Ledger, recorded: Recorded, wishes: Wishes) -> Recorded:
    """Assemble a recorded turn as the wishes say. Raises `DoesNotFit` if it cannot be."""
    profile = recorded.profile if wishes.model is None else _profile(wishes.model)
    counter = _counter(profile)
    budget = _budget(recorded, profile, wishes)
    pieces = _pieces(recorded.prompt)
    sight = _look(recorded, counter, budget.remaining_input_tokens)
    texts = {name: "\n\n".join(m.text for m in pieces.get(name, ())) for name in _TEXTS}
    asked = _input(pieces)
    turn = Turn(
        input=asked,
        history=_history(ledger, recorded, profile, wishes, pieces),
        rounds=pieces.get("rounds", ()),
        budget=budget,
        counter=counter,
        layers=Layers(**texts, apps=sight.tail.available, state=sight.tail.state),
        tools=recorded.prompt.tools,
    )
    strategy = BUILT_IN[wishes.strategy or "sightline"]
    context = turn.context(resolve(strategy.schema, {}), {})
    slots = _Wished(turn, wishes.slots)
    prompt = strategy.hooks["on_context_build"](replace(context, slots=slots))
    if not isinstance(prompt, Prompt):
        prompt = slots.render()
    label = wishes.model or recorded.line.model
    line = msgspec.structs.replace(recorded.line, receipt_id=None, model=label)
    return replace(recorded, line=line, prompt=prompt, profile=profile)


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


def _history(
    ledger: Ledger,
    recorded: Recorded,
    profile: Profile,
    wishes: Wishes,
    pieces: Mapping[str, tuple[Message, ...]],
) -> list[Message]:
    """What was said before: as it was sent, or another window of what the ledger has."""
    if (
        wishes.window is None
        and wishes.slack is None
        and wishes.model is None
        and wishes.budget is None
    ):
        return list(pieces.get("history", ()))
    session = ledger.sessions.get(recorded.line.session_id)
    window = Window(
        session.window.size if wishes.window is None else wishes.window,
        session.window.slack if wishes.slack is None else wishes.slack,
    )
    group = recorded.line.group_id
    entries = [e for e in ledger.window(session.id, Window(0)) if e.group_id <= group]
    # The turn's own group counts for the window, and is no history.
    shown = replay(entries, window, Tiers(settle=True))
    past = isolate([e for e in shown if e.group_id < group], profile.dialect)
    return [entry.message for entry in strip_states(past)]


def _look(recorded: Recorded, counter: Counter, budget: int) -> Sight:
    return look(recorded.world, _ANY_MOMENT, int(budget * TAIL_SHARE), counter.count)


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
