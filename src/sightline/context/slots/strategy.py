"""Strategies: user code that decides which slots a turn has.

A strategy is an object or a module with

    on_context_build(ctx)       required: fill `ctx.slots`, return `ctx.slots.render()` or nothing
    on_init(ctx)                once per session, before its first turn
    on_turn_end(ctx)            after the answer
    on_error(ctx, error)        when a hook of this strategy failed

each of them plain or `async`, and optionally `name` and `config` (a class, see
`settings`). Hooks see one turn through `ctx` and nothing else; this module only
says what a turn is. Loading and running strategies, with time limits and the
fall-back, is the shell's part (`sightline.agent.plugins`).

`ctx.state` is a JSON object of the session. What a hook leaves in it is stored with
the group that the turn writes, and goes when that group goes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import index as as_index
from typing import Any, Final, Protocol

import msgspec

from sightline.context.messages.parts import Input, Message, Role, units_of
from sightline.context.slots.ladder import CharLadder
from sightline.context.slots.options import Keep
from sightline.context.slots.settings import NoSettings, Schema, read_schema
from sightline.context.slots.slots import Budget, Slots
from sightline.context.slots.units import MessageBlocks, Units, lay_out
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput, InvalidStrategy, SightlineError
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

HOOKS: Final = ("on_init", "on_context_build", "on_turn_end", "on_error")


class History:
    """The conversation so far, in the order it was said, without the input of this turn.

    Every question is answered in whole units: a tool call never comes without its
    results. A unit that an answer would have to split is left out of it, so an answer
    may be shorter than asked for, and is never longer. It has a length, can be walked and
    indexed, and is not sliced: that would split units.
    """

    def __init__(self, messages: Sequence[Message], counter: Counter) -> None:
        self._messages = tuple(messages)
        self._counter = counter

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Message:
        return self._messages[as_index(index)]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @property
    def last_user(self) -> Message | None:
        """The latest message of the user."""
        return self._last("user")

    @property
    def last_assistant(self) -> Message | None:
        """The latest message of the model."""
        return self._last("assistant")

    def range(self, from_end: int, to_end: int = 0) -> list[Message]:
        """Return the messages from the `from_end`-th last up to the `to_end`-th last.

        Both count from the end and the second is not included: `range(10, 0)` are the
        last ten, `range(10, 4)` the six before the last four.
        """
        _check_count("from_end", from_end)
        _check_count("to_end", to_end)
        start = max(0, len(self) - from_end)
        stop = max(0, len(self) - to_end)
        inside = (u for u in self._units if start <= u[0] and u[-1] < stop)
        return [self._messages[index] for index in sorted(i for unit in inside for i in unit)]

    def recent(self, count: int) -> list[Message]:
        """Return the last so many messages."""
        return self.range(count, 0)

    def groups(self, count: int) -> list[Message]:
        """Return the last so many groups, each a user's message and what followed; 0 is all."""
        _check_count("count", count)
        starts = [index for index, message in enumerate(self) if message.role == "user"]
        if count == 0 or count >= len(starts):
            return list(self._messages)
        return self.range(len(self) - starts[-count], 0)

    def by_tokens(self, tokens: int) -> list[Message]:
        """Return the newest messages that weigh so many tokens at most."""
        _check_count("tokens", tokens)
        weights = self._counter.weigh(self._messages)
        kept: list[int] = []
        for unit in reversed(self._units):
            tokens -= sum(weights[index] for index in unit)
            if tokens < 0:
                break
            kept += unit
        return [self._messages[index] for index in sorted(kept)]

    def recent_text(self, count: int) -> str:
        """Return what was said in the last so many messages, one `role: text` per line."""
        return "\n".join(
            f"{message.role}: {message.text}" for message in self.recent(count) if message.text
        )

    @cached_property
    def _units(self) -> list[tuple[int, ...]]:
        return units_of(self._messages)

    def _last(self, role: Role) -> Message | None:
        return next((m for m in reversed(self._messages) if m.role == role), None)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or value < 0:
        raise InvalidInput(f"history, {name}: {value!r} is not a count")


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""


class Memory(Protocol):
    """What the ledger remembers beyond the window."""

    def memos(self, text: str, limit: int = 5) -> Sequence[str]:
        """Return the memos that fit a text, the best first."""

    def query(self, sql: str) -> Sequence[Mapping[str, Any]]:
        """Read from this session's history, with the limits of `query_db`."""


class Llm(Protocol):
    """A model that a strategy may ask while it builds the context."""

    async def call(self, prompt: str, *, max_tokens: int = 1024) -> str:
        """Complete one prompt, without tools."""

    async def run(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> Message:
        """Answer a conversation."""


class NoMemory:
    """The memory of a turn that has none: it finds no memos and no rows."""

    def memos(self, text: str, limit: int = 5) -> Sequence[str]:
        return ()

    def query(self, sql: str) -> Sequence[Mapping[str, Any]]:
        return ()


class NoLlm:
    """The model of a host that has none for strategies: every call raises."""

    async def call(self, prompt: str, *, max_tokens: int = 1024) -> str:
        raise SightlineError("no model is available to this strategy")

    async def run(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> Message:
        raise SightlineError("no model is available to this strategy")


class Capabilities(msgspec.Struct, frozen=True):
    """What the model of this turn can do."""

    vision: bool = False
    structured_output: bool = False
    tools: bool = True


class Layers(msgspec.Struct, frozen=True):
    """The texts that the host has ready for this turn; an empty one is not there."""

    system: str = ""
    guidelines: str = ""
    instructions: str = ""
    memos: str = ""
    anchor: str = ""
    scratchpad: str = ""
    hooks: str = ""
    mode: str = ""
    apps: str = ""
    state: str = ""


class Utils(msgspec.Struct, frozen=True):
    """Small helpers that need this turn's counter or clock."""

    counter: Counter
    clock: Clock | None = None

    def count(self, text: str) -> int:
        """Count a text's tokens, as the budget does."""
        return self.counter.count(text)

    def clip(self, text: str, tokens: int, keep: Keep = "tail") -> str:
        """Cut a text to so many tokens, as `count` counts them, at graphemes."""
        message = Message.of("user", text)
        [frame] = self.counter.weigh([Message.of("user", "")])
        [layouts] = lay_out([MessageBlocks.of((message,))], self.counter)
        ladder = CharLadder(Units(layouts), keep, self.counter)
        rung = ladder.highest(tokens + frame)
        if rung.whole:
            return text
        return rung.piece.messages[0].text if rung.piece else ""

    def now(self) -> datetime:
        """Return the time of the injected clock; raise when the host gave none."""
        if self.clock is None:
            raise SightlineError("no clock is available to this strategy")
        return self.clock.now()


class Context(msgspec.Struct, frozen=True):
    """`ctx`: everything that a strategy's hook gets to see of one turn."""

    input: Input
    history: History
    budget: Budget
    config: Any
    capabilities: Capabilities
    slots: Slots
    state: dict[str, Any]
    memory: Memory
    llm: Llm
    utils: Utils
    layers: Layers


class Turn(msgspec.Struct, frozen=True):
    """What a turn is made of, before any strategy looked at it.

    `rounds` are the calls and results that followed the input so far; no strategy has
    to place them. `overruled` are options of slots, by name, that hold whatever it says.
    """

    input: Input
    history: Sequence[Message]
    budget: Budget
    counter: Counter
    layers: Layers = msgspec.field(default_factory=Layers)
    tools: Sequence[dict[str, Any]] = ()
    capabilities: Capabilities = msgspec.field(default_factory=Capabilities)
    memory: Memory = msgspec.field(default_factory=NoMemory)
    llm: Llm = msgspec.field(default_factory=NoLlm)
    clock: Clock | None = None
    rounds: Sequence[Message] = ()
    overruled: Mapping[str, Mapping[str, float]] = msgspec.field(default_factory=dict)

    def context(self, config: object, state: Mapping[str, Any]) -> Context:
        """Make a fresh context: empty slots and a copy of the state, shared with nobody."""
        return Context(
            input=self.input,
            history=History(self.history, self.counter),
            budget=self.budget,
            config=config,
            capabilities=self.capabilities,
            slots=self.empty_slots(),
            state=copy_of_state(state),
            memory=self.memory,
            llm=self.llm,
            utils=Utils(self.counter, self.clock),
            layers=self.layers,
        )

    def empty_slots(self) -> Slots:
        """Make slots that know this turn's budget, tools, input and rounds, and hold nothing."""
        return Slots(
            self.budget, self.counter, tools=self.tools, input=self.input, rounds=self.rounds,
            overruled=self.overruled,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy that was checked: its hooks can be called and its schema holds."""

    name: str
    hooks: Mapping[str, Callable[..., Any]]
    schema: Schema = NoSettings
    origin: str = ""

    @classmethod
    def of(cls, source: object, name: str = "", origin: str = "") -> Strategy:
        """Check an object, a class (which is called without arguments) or a module."""
        if inspect.isclass(source):
            try:
                source = source()
            except Exception as error:
                raise InvalidStrategy(f"{source!r} cannot be created: {error}") from error
        name = str(getattr(source, "name", "") or name or type(source).__name__)
        found = {hook: getattr(source, hook, None) for hook in HOOKS}
        hooks = {hook: function for hook, function in found.items() if function is not None}
        for hook, function in hooks.items():
            if not callable(function):
                raise InvalidStrategy(f"strategy {name!r}: {hook} is not a function")
        if "on_context_build" not in hooks:
            raise InvalidStrategy(f"strategy {name!r} has no on_context_build(ctx)")
        return cls(name, hooks, read_schema(getattr(source, "config", NoSettings)), origin)


def copy_of_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a state through JSON; raise `InvalidStrategy` for what JSON cannot hold."""
    try:
        text = msgspec.json.encode(dict(state))
        if nests_deeper(text, NESTING):
            raise InvalidStrategy(f"state must not nest deeper than {NESTING} levels")
        copied: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidStrategy(f"state must be a JSON object: {error}") from error
    return copied
