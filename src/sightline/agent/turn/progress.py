"""How far a reply and its calls are: what the machine remembers between two events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sightline.context.dialects.events import CacheMiss, Usage
from sightline.context.messages.parts import Message, Part, Reasoning, Text, ToolCall, ToolResult


class ReplyProgress(msgspec.Struct):
    """What has arrived of a model's reply so far."""

    prompt_tokens: int = 0
    text: str = ""
    reasoning: str = ""
    usage: Usage | None = None
    cache_miss: CacheMiss | None = None
    reported: dict[str, Any] | None = None
    failure: str = ""  # the code of the error that ended it

    @property
    def shown(self) -> bool:
        return bool(self.text or self.reasoning)

    def message(self) -> Message:
        parts: list[Part] = []
        if self.reasoning:
            parts.append(Reasoning(self.reasoning))
        if self.text:
            parts.append(Text(self.text))
        return Message("assistant", tuple(parts))


class Round(msgspec.Struct):
    """The tool calls of one reply, and how far each of them is."""

    calls: tuple[ToolCall, ...] = ()
    parallel: frozenset[str] = frozenset()
    taken: int = 0
    stored: int = 0
    judging: ToolCall | None = None
    asking: ToolCall | None = None
    alone: bool = False
    begun: set[str] = msgspec.field(default_factory=set)
    questions: set[str] = msgspec.field(default_factory=set)  # the ids of calls put to the user
    # What changed before it ran, to be judged again; and how often that was so of each call.
    again: list[ToolCall] = msgspec.field(default_factory=list)
    changes: dict[str, int] = msgspec.field(default_factory=dict)
    notes: dict[str, str] = msgspec.field(default_factory=dict)  # on calls that the user changed
    diffs: dict[str, str] = msgspec.field(default_factory=dict)  # what calls changed in files
    running: dict[str, ToolCall] = msgspec.field(default_factory=dict)
    results: dict[str, ToolResult] = msgspec.field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.stored == len(self.calls)

    def next_call(self) -> ToolCall | None:
        """The next call, if it can be taken up beside what is under way."""
        if self.judging or self.asking or not (self.again or self.taken < len(self.calls)):
            return None
        call = self.again[0] if self.again else self.calls[self.taken]
        if self.running and (self.alone or call.id not in self.parallel):
            return None
        if self.again:
            self.again.pop(0)
        else:
            self.taken += 1
        return call

    def run(self, call: ToolCall, *, alone: bool = False) -> None:
        self.running[call.id] = call
        self.alone = alone or call.id not in self.parallel

    def finish(self, call_id: str) -> ToolCall | None:
        return self.running.pop(call_id, None)

    def take_ready(self) -> Sequence[ToolResult]:
        """The results that are next in call order and not stored yet."""
        first = self.stored
        while self.stored < len(self.calls) and self.calls[self.stored].id in self.results:
            self.stored += 1
        return [self.results[call.id] for call in self.calls[first : self.stored]]
