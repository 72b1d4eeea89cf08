"""Slots: declare what a prompt is made of, and let the budget decide what stays.

    slots = Slots(Budget(8_000), "gpt-4o")
    slots.add("system", "You are a helpful assistant.", role="system", priority=100)
    slots.add("history", messages, max_ratio=0.5)
    slots.add("input", "What changed since yesterday?")
    prompt = slots.render()

The promise: a rendered prompt never exceeds its budget, by the same counter that
wrote its receipt, or `render` raises `DoesNotFit` with the arithmetic.


Theory of operation
===================

**Units.** What is kept or cut is a unit: a message, or a tool call with its
results, also when these lie in different slots (the most protected one holds the
unit). Nothing ever splits a unit, except that character trimming may shorten its
texts.

**Ladders.** Each slot is a ladder of ways to cut it, from nothing to all of it,
each rung holding everything below it (`ladder`). `keep` orders the units;
`trim_behavior="char"` adds rungs inside a unit.

**Protection.** Slots are ordered by priority, and at equal priority by where they
stand in the prompt: the later, the more protected. This is the trimming order of
`ctx.slots` ("lowest priority first, then slot order, older content first") read from
its end. While no slot has a priority, system messages stand outside all of this:
they are kept, and counted first.

**The decision** takes two passes over the slots, the most protected first:

  1. Each slot climbs to the lowest rung that meets its minimum.
  2. Each slot climbs to the highest rung that its maximum and the room left allow.

This gives what trimming and refilling would: trim the least protected slot down
to its minimum, then the next, until all fits; then give what the last cut freed
too much back to the slots that were cut, the most protected first, up to their
maxima. A slot's unused share is simply room for the next. When the minima
together exceed the room, all are taken as 0, so that priority alone decides.

**Consequences** (laws in `tests/laws`). No slot can be given anything
more without taking from another. All else equal, a larger budget never keeps fewer
tokens of a slot: it takes from one only what another gains by it; without minima,
only what a more protected one does. (No rule that trims whole messages by priority
can promise more; `docs/slots.md` has the example.) The same slots give the same
prompt, always.

**Stability.** `volatile` slots stand behind the boundary, whatever their position,
so what changes every turn never moves what does not. A slot with `slack` is cut
on a grid: at the first place at or after a multiple of `slack` of the budget,
counted in tokens from its first message. The grid is a function of the content, so
the cut stays where it is while content is appended, and is the same after a restart.

**The budget** is how many tokens a prompt may have:

    remaining_input_tokens = max_input_tokens - reserved_tokens

`Budget.for_window` derives the first from a model's window, which most vendors
share between input and output:

    max_input_tokens = min(input limit, window - max_output_tokens)

A model may list an output limit as large as its window; unless the caller asks
for that much output, a quarter of the window is set aside for it at most, so
that small windows keep a usable input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, get_args

import msgspec

from sightline._keywords import NamesKeywords, names_keywords
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import Input, Message, Role
from sightline.context.slots.assemble import Slot, assemble
from sightline.context.slots.options import Keep, SlotOptions, Stability, TrimBehavior
from sightline.context.slots.prompt import Notice, Prompt
from sightline.context.slots.units import MessageBlocks
from sightline.context.tokens.tokens import Counter, counter_for, default_counter
from sightline.errors import DoesNotFit, InvalidInput, InvalidSlot

OUTPUT_SHARE: Final = 4  # an output nobody asked for gets one part in this many, at most


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=NamesKeywords):
    """The room of one request. `reserved_tokens` are spoken for outside the slots."""

    max_input_tokens: int
    max_output_tokens: int = 0
    reserved_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("max_input_tokens", "max_output_tokens", "reserved_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidInput(f"budget, {name}: {value!r} is not a whole number")
            if value < 0:
                raise InvalidInput(f"budget, {name}: {value} is negative")
        if self.reserved_tokens > self.max_input_tokens:
            raise DoesNotFit(
                f"no room for a prompt: {self.max_input_tokens} input tokens"
                f" - {self.reserved_tokens} reserved = {self.remaining_input_tokens}"
            )

    @property
    def remaining_input_tokens(self) -> int:
        """What the slots share; ratios are of this."""
        return self.max_input_tokens - self.reserved_tokens

    @classmethod
    def for_window(
        cls,
        window_tokens: int,
        max_output_tokens: int,
        *,
        max_input_tokens: int | None = None,
        output_tokens: int | None = None,
        reserved_tokens: int = 0,
    ) -> Budget:
        """Make the budget of a model from its limits.

        `output_tokens` asks for that much output. Raise `DoesNotFit`, with the
        arithmetic, when nothing is left for the input.
        """
        if output_tokens is None:
            output_tokens = min(max_output_tokens, window_tokens // OUTPUT_SHARE)
        elif output_tokens > max_output_tokens:
            raise DoesNotFit(
                f"{output_tokens} output tokens asked for, the model gives {max_output_tokens}"
            )
        room = window_tokens - output_tokens
        if max_input_tokens is not None:
            room = min(room, max_input_tokens)
        if room - reserved_tokens <= 0:
            limit = "" if max_input_tokens is None else f" (input limit {max_input_tokens})"
            raise DoesNotFit(
                f"no room for a prompt: window {window_tokens} - output {output_tokens}{limit}"
                f" - {reserved_tokens} reserved = {room - reserved_tokens}"
            )
        return cls(room, output_tokens, reserved_tokens)


Content: TypeAlias = (
    str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]] | Input | None
)

ROLES = get_args(Role)
_DEFAULTS: Final = msgspec.structs.asdict(SlotOptions()).items()
# A loop of many calls must leave room for what it works on; its oldest rounds go first, in steps.
ROUNDS_SHARE: Final = 0.5
ROUNDS_SLACK: Final = 0.1


class Slots:
    """The prompt under construction.

    `budget` is a `Budget` or a number of tokens; `counter` is a counter, the name of
    one (see `tokens.counter_for`), or None for the default. `tools` are definitions
    that the request carries; they are counted and never cut. With `input`, a prompt
    that was not given this input gets it as a last slot, and gets it only once.
    `rounds` are what followed the input in this turn, calls and results; they stand
    behind it in a slot of their own, wherever the strategy put it. `overruled` are options,
    by the slot's name, that hold in the place of those that it is added with.
    """

    @names_keywords
    def __init__(
        self,
        budget: Budget | int,
        counter: Counter | str | None = None,
        *,
        tools: Sequence[dict[str, Any]] = (),
        input: Input | None = None,  # noqa: A002 - the seed's name for it
        rounds: Sequence[Message] = (),
        overruled: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.budget = budget if isinstance(budget, Budget) else Budget(budget)
        self.counter = _resolve(counter)
        self._tools = tuple(tools)
        self._input = input
        self._rounds = tuple(rounds)
        self._overruled = overruled or {}
        self._message = Message("user") if input is None else input.message()
        self._slots: list[Slot] = []
        self._input_slots: set[int] = set()
        self._rendered: Prompt | None = None

    @names_keywords
    def add(
        self,
        name: str,
        content: Content,
        options: Mapping[str, Any] | None = None,
        *,
        priority: int = 0,
        max_ratio: float = 1.0,
        min_ratio: float = 0.0,
        min_tokens: int = 0,
        position: int | None = None,
        role: Role | None = None,
        trim_behavior: TrimBehavior = "message",
        stability: Stability = "append",
        keep: Keep = "tail",
        slack: float = 0.0,
    ) -> None:
        """Add a component; each call is a slot of its own, in the order of the calls.

        Content is a text, an input, or messages: neutral ones, or OpenAI-style dicts with
        `content`, `tool_calls` and `tool_call_id`. Options are keywords, or a mapping of them in
        either spelling (`max_ratio`, `maxRatio`); keywords have the last word. Ratios are of
        `budget.remaining_input_tokens`, rounded down.

        priority        higher is kept before lower
        max_ratio       the slot never gets more than this share
        min_ratio       it is not trimmed below this share (at most `max_ratio`) …
        min_tokens      … or below this number, whichever is larger
        position        lower stands earlier; by default the number of the call, from 0
        role            of a text or input; by default `user`
        trim_behavior   cut by whole messages (`message`) or by characters (`char`)
        stability       `frozen` or `append` before the boundary, `volatile` behind it
        keep            which end outlives trimming: `tail`, `head`, or both (`middle-out`)
        slack           fold ahead by this share, so that the cut holds still

        Raise `InvalidSlot`, naming slot and option, for anything out of range.
        """
        chosen = SlotOptions(
            priority=priority,
            max_ratio=max_ratio,
            min_ratio=min_ratio,
            min_tokens=min_tokens,
            position=position,
            role=role,
            trim_behavior=trim_behavior,
            stability=stability,
            keep=keep,
            slack=slack,
        )
        if options:
            spoken = msgspec.structs.asdict(chosen).items() - _DEFAULTS
            chosen = msgspec.structs.replace(SlotOptions.from_json(name, options), **dict(spoken))
        if overruled := self._overruled.get(name):
            chosen = msgspec.structs.replace(chosen, **overruled)
        self.add_slot(name, content, chosen)

    def add_slot(self, name: str, content: Content, options: SlotOptions) -> None:
        """Add a component whose options are already a value."""
        if not name:
            raise InvalidSlot(name, "name", "a slot needs a name")
        options.check(name)
        messages = _messages_of(name, content, options.role or "user")
        if self._input is not None and (
            content == self._input or (len(messages) == 1 and messages.last == (self._message,))
        ):
            self._input_slots.add(len(self._slots))
        self._slots.append(Slot(name, messages, options, len(self._slots)))

    def render(self) -> Prompt:
        """Assemble the prompt. Raise `DoesNotFit` if what must stay is over the budget.

        Rendering changes nothing: render again, or add more and render again.
        """
        slots, notices = self._with_the_input_once()
        slots = self._with_the_rounds(slots)
        try:
            self._rendered = assemble(
                slots, self.budget.remaining_input_tokens, self.counter, self._tools, notices
            )
        except UnicodeEncodeError:
            raise _not_text(slots) from None
        return self._rendered

    def rendered(self, prompt: object) -> bool:
        """Tell whether this is the prompt that the last `render` returned."""
        return prompt is not None and prompt is self._rendered

    def _with_the_input_once(self) -> tuple[list[Slot], list[Notice]]:
        """Add the input if it is missing; take it out wherever it is there a second time."""
        if not self._message.parts:
            return self._slots, []
        ordered = sorted(self._slots, key=lambda slot: slot.render_key)
        input_slots = [slot for slot in ordered if slot.index in self._input_slots]
        # A history that was stored before the prompt is built ends with the input.
        ending = [slot for slot in ordered if slot.messages.last == (self._message,)]
        holders = input_slots + [slot for slot in reversed(ending) if slot not in input_slots]
        if not holders:
            added = Notice("input_added", "input", "no slot held the input; it was added")
            return [*self._slots, self._input_slot()], [added]
        slots, notices = list(self._slots), []
        for slot in holders[1:]:
            slots[slot.index] = msgspec.structs.replace(slot, messages=slot.messages.without_last())
            reason = f"slot {slot.name!r}: the input is in the prompt already, and was taken out"
            notices.append(Notice("input_repeated", slot.name, reason))
        return slots, notices

    def _with_the_rounds(self, slots: list[Slot]) -> list[Slot]:
        """Put what followed the input behind it, a little less protected than the input itself."""
        if not self._rounds:
            return slots
        stable = sorted((s for s in slots if not s.render_key[0]), key=lambda s: s.render_key)
        ending = [slot for slot in stable if slot.messages.last == (self._message,)]
        before = (ending or stable)[-1:]
        priority = max((slot.options.priority for slot in before), default=0)
        options = SlotOptions(
            position=before[0].render_key[1] if before else 0,
            priority=max(0, priority - 1),
            max_ratio=ROUNDS_SHARE,
            slack=ROUNDS_SLACK,
        )
        return [*slots, Slot("rounds", MessageBlocks.of(self._rounds), options, len(slots))]

    def _input_slot(self) -> Slot:
        """The input goes behind everything stable and is the last to be trimmed."""
        stable = [slot.render_key[1] for slot in self._slots if not slot.render_key[0]]
        priorities = [slot.options.priority for slot in self._slots]
        options = SlotOptions(
            position=max(stable, default=0),
            priority=max(priorities, default=0),
            trim_behavior="char",
            keep="middle-out",
        )
        return Slot("input", MessageBlocks.of((self._message,)), options, len(self._slots))


def _resolve(counter: Counter | str | None) -> Counter:
    if counter is None:
        return default_counter()
    return counter_for(counter) if isinstance(counter, str) else counter


def _not_text(slots: Sequence[Slot]) -> InvalidInput:
    """Name the slot whose text has a lone surrogate, which no encoding can carry."""
    for slot in slots:
        try:
            msgspec.json.encode(list(slot.messages))
        except UnicodeEncodeError:
            return InvalidSlot(slot.name, "content", "has a lone surrogate, which no text can hold")
    return InvalidInput("a tool's definition has a lone surrogate, which no text can hold")


def _messages_of(slot: str, content: Content, role: Role) -> MessageBlocks:
    """Turn what was given into messages; nothing said (None, "") is no message."""
    if content is None or content == "":
        return MessageBlocks.of(())
    if isinstance(content, str):
        return MessageBlocks.of((Message.of(role, content),))
    if isinstance(content, Input):
        message = content.message(role)
        return MessageBlocks.of((message,) if message.parts else ())
    messages: Any = (content,) if isinstance(content, Message | Mapping) else content
    if not isinstance(messages, Sequence):
        raise _no_messages(slot)
    return MessageBlocks.of(messages, partial(_checked, slot))


def _checked(slot: str, messages: Sequence[Message | Mapping[str, Any]]) -> Sequence[Message]:
    """Read messages as callers write them."""
    if not all(isinstance(item, Message | Mapping) for item in messages):
        raise _no_messages(slot)
    try:
        plain = set(map(type, messages)) <= {Message}
        read: Any = messages if plain else tuple(map(message_given, messages))
    except InvalidInput as error:
        raise InvalidSlot(slot, "content", str(error)) from error
    for unknown in {message.role for message in read}.difference(ROLES):
        raise InvalidSlot(slot, "role", f"{unknown!r} is not one of {', '.join(ROLES)}")
    return tuple(read)


def _no_messages(slot: str) -> InvalidSlot:
    return InvalidSlot(slot, "content", "neither text, message, list of messages nor input")
