"""A shell for the machine with nothing behind it: it stores into a list and begins nothing."""

from __future__ import annotations

from sightline.agent.policy import Decision
from sightline.agent.turn.machine import TurnLimits, TurnMachine
from sightline.agent.turn.steps import (
    Account,
    Append,
    Broken,
    Effect,
    Emit,
    Judge,
    Judged,
    PromptReady,
    Replied,
    Spent,
    Start,
    Stored,
    TurnEvent,
)
from sightline.context.dialects.events import Stopped, StopReason
from sightline.context.messages.parts import Message, Part, Text, ToolCall
from sightline.events import HostEvent, RequestBuilt

READY = PromptReady(
    RequestBuilt(
        turn=1, request=1, model="m", prompt_tokens=10, budget_tokens=100, tail_tokens=1, basis="b"
    )
)
START = Start(session_id=7, group_id=3, turn=1, text="hi")


class Driver:
    """Steps a machine, answering at once what a shell answers at once."""

    def __init__(self, limits: TurnLimits | None = None) -> None:
        self.machine = TurnMachine(limits)
        self.verdicts: dict[str, Decision] = {}
        self.disk_fails_at = -1  # the append that fails, from 0
        self.appends = 0
        self.stored: list[tuple[Message, bool]] = []
        self.emitted: list[HostEvent] = []
        self.accounted: list[Spent] = []
        self.begun: list[Effect] = []  # everything else, in order

    def step(self, event: TurnEvent) -> list[Effect]:
        """Tell the machine; return what it wants begun."""
        begun: list[Effect] = []
        waiting = self.machine.step(event)
        while waiting:
            effect = waiting.pop(0)
            match effect:
                case Append():
                    self.appends += 1
                    if self.appends - 1 == self.disk_fails_at:
                        waiting = self.machine.step(Broken("ledger_unavailable", "disk full"))
                    else:
                        ids = tuple(len(self.stored) + n for n in range(len(effect.messages)))
                        self.stored += [(m, effect.incomplete) for m in effect.messages]
                        waiting = self.machine.step(Stored(ids)) + waiting
                case Judge(call):
                    decision = self.verdicts.get(call.id, Decision("approve", "test"))
                    waiting = self.machine.step(Judged(call.id, decision)) + waiting
                case Account(spent):
                    self.accounted.append(spent)
                case Emit(told):
                    self.emitted.append(told)
                case _:
                    begun.append(effect)
        self.begun += begun
        return begun

    def to_reply(self, *events: TurnEvent) -> None:
        """Start, and send the first request; then what else happened."""
        for event in (START, READY, *events):
            self.step(event)

    def messages(self) -> list[Message]:
        """Everything stored."""
        return [message for message, _ in self.stored]

    def kinds(self) -> list[str]:
        """What was told, by the names of the events."""
        return [type(event).__name__ for event in self.emitted]


def call(call_id: str, name: str = "look") -> ToolCall:
    return ToolCall(call_id, name, {"n": call_id})


def reply(
    *parts: Part | str, reason: StopReason = "end", parallel: str = "", detail: str = ""
) -> Replied:
    """A whole reply; strings are texts. `parallel` names the calls that may run together."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Replied(Stopped(reason, Message("assistant", made), detail), frozenset(parallel.split()))
