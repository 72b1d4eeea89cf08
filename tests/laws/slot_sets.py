"""Random slot sets, read from bytes: cheap to draw by the thousand, and they shrink.

A set has up to five slots of texts, messages and tool rounds in several scripts,
some empty, some sharing priorities and positions, some with minima that cannot be
met, under budgets from zero to far too large. Tool rounds may begin in one slot
and end in another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from sightline.context.messages.parts import File, Message, Text, ToolCall, ToolResult
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Content, Slots

ALPHABET = ("a", "word ", "字", "é", "e\u0301", "👩‍👩‍👧", "🇫🇷", "\r\n", " ", "1")
ROLES = ("user", "assistant", "system", "user")
BUDGETS = (0, 1, 3, 7, 12, 20, 33, 50, 80, 130, 1_000_000)
RATIOS = (0.0, 0.1, 0.25, 0.29, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SlotSet:
    """One call of the assembler: a budget and what is added, with which options."""

    budget: int
    slots: tuple[tuple[str, Content, dict[str, Any]], ...]
    counter: str = "chars/4"

    def render(self) -> Prompt:
        slots = Slots(self.budget, self.counter)
        for name, content, options in self.slots:
            slots.add(name, content, **options)
        return slots.render()

    def with_budget(self, budget: int) -> SlotSet:
        return replace(self, budget=budget)


class Choices:
    """A sequence of small choices; when the bytes are used up, every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def below(self, limit: int) -> int:
        return next(self._bytes, 0) % limit

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == one_in - 1

    def of(self, options: tuple[Any, ...]) -> Any:
        return options[self.below(len(options))]


class Reader:
    """Reads one slot set. The flags switch off what a law does not speak about."""

    def __init__(self, data: bytes, *, minima: bool, char: bool, slack: bool, spanning: bool):
        self.choices = Choices(data)
        self.minima, self.char, self.slack, self.spanning = minima, char, slack, spanning
        self.calls = 0
        self.open_calls: list[str] = []

    def slot_set(self) -> SlotSet:
        budget = self.choices.of(BUDGETS) + self.choices.below(4)
        prioritised = self.choices.below(2)
        slots = []
        for number in range(1 + self.choices.below(5)):
            if not self.spanning:
                self.open_calls.clear()
            slots.append((f"slot{number}", self.content(), self.options(bool(prioritised))))
        return SlotSet(budget, tuple(slots))

    def content(self) -> Content:
        kind = self.choices.below(8)
        if kind == 0:
            return self.text()
        if kind == 1:
            return None if self.choices.below(2) else ""
        return [m for _ in range(self.choices.below(7)) for m in self.messages()]

    def messages(self) -> list[Message]:
        kind = self.choices.below(8)
        if kind == 0:
            return self.tool_round()
        if kind == 1 and self.open_calls:
            return [Message("tool", (ToolResult(self.open_calls.pop(), self.text()),))]
        if kind == 2:
            file = File("file:///a", "image/png", tokens=self.choices.below(9))
            return [Message("user", (Text(self.text()), file))]
        return [Message.of(self.choices.of(ROLES), self.text())]

    def tool_round(self) -> list[Message]:
        ids = [f"call{self.calls + n}" for n in range(1 + self.choices.below(2))]
        self.calls += len(ids)
        calls = tuple(ToolCall(call, "find", {"q": self.choices.below(3)}) for call in ids)
        asked = Message("assistant", (Text(self.text()), *calls))
        if self.spanning and self.choices.chance(3):
            self.open_calls.append(ids.pop())
        answers = [Message("tool", (ToolResult(call, self.text()),)) for call in ids]
        return [asked, *answers]

    def text(self) -> str:
        unit: str = self.choices.of(ALPHABET)
        return unit * self.choices.below(24) + str(self.choices.of(ALPHABET))

    def options(self, prioritised: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"keep": self.choices.of(("tail", "tail", "head", "middle-out"))}
        if prioritised:
            options["priority"] = self.choices.of((0, 1, 5, -3))
        if self.choices.chance(3):
            options["max_ratio"] = self.choices.of(RATIOS)
        if self.minima and self.choices.chance(3):
            options["min_ratio"] = self.choices.of(RATIOS)
            options["min_tokens"] = self.choices.of((0, 1, 5, 20, 500))
        if self.choices.chance(3):
            options["position"] = self.choices.of((0, 1, 1, -2))
        if self.choices.chance(4):
            options["stability"] = self.choices.of(("frozen", "append", "volatile"))
        if self.char and self.choices.chance(3):
            options["trim_behavior"] = "char"
        if self.slack and options["keep"] == "tail" and self.choices.chance(3):
            options["slack"] = self.choices.of((0.05, 0.1, 0.3, 0.9))
        options["role"] = self.choices.of((None, "system", "assistant"))
        return options


def slot_sets(
    *, minima: bool = True, char: bool = True, slack: bool = True, spanning: bool = True
) -> st.SearchStrategy[SlotSet]:
    """Draw slot sets, without the features that are switched off."""

    def read(data: bytes) -> SlotSet:
        reader = Reader(data, minima=minima, char=char, slack=slack, spanning=spanning)
        return reader.slot_set()

    return st.binary(min_size=48, max_size=200).map(read)
