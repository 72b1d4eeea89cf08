"""What a turn is told, what it wants done, and how far its reply and its calls are: values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

import sightline.context.dialects.events as replies
import sightline.events as events
from sightline.agent.policy import Decision
from sightline.context.messages.parts import Message, Part, Reasoning, Text, ToolCall, ToolResult
from sightline.events import HostEvent

# What happened.


class Start(msgspec.Struct, frozen=True):
    """The user said something, and it is stored."""

    session_id: int
    group_id: int
    turn: int
    text: str


class Stored(msgspec.Struct, frozen=True):
    """The messages of the oldest `Append` that is not answered yet are on the disk."""

    message_ids: tuple[int, ...]


class PromptReady(msgspec.Struct, frozen=True):
    """The request is built and its receipt stored; `built` tells about it."""

    built: events.RequestBuilt


class PromptFailed(msgspec.Struct, frozen=True):
    """No request can be built; the code and detail of the error say why."""

    code: str
    detail: str


class Overrun(msgspec.Struct, frozen=True):
    """The request would pass a limit in money; it is not sent. `question` is for the user."""

    question: events.SpendingAsked


class Spend(msgspec.Struct, frozen=True):
    """The user says whether to go on over a limit in money."""

    agreed: bool


class Streamed(msgspec.Struct, frozen=True):
    """A piece of the model's reply has arrived."""

    event: (
        replies.TextArrived | replies.ReasoningArrived | replies.ToolCalled | replies.UsageArrived
    )


class Replied(msgspec.Struct, frozen=True):
    """The reply is over. `parallel` are the ids of its calls that can run beside others."""

    stopped: replies.Stopped
    parallel: frozenset[str] = frozenset()


class ModelError(msgspec.Struct, frozen=True):
    """The request failed. `overflow`: the vendor finds the prompt too long."""

    code: str
    detail: str
    retryable: bool = False
    retry_after_s: float | None = None
    overflow: bool = False


class Waited(msgspec.Struct, frozen=True):
    """The seconds that `Wait` named have passed."""


class Folded(msgspec.Struct, frozen=True):
    """The window was folded; `possible` is false if there was nothing left to fold."""

    possible: bool = True


class Judged(msgspec.Struct, frozen=True):
    """The policy looked at a call; the names say what it invokes, if anything."""

    call_id: str
    decision: Decision
    app: str = ""
    path: str = ""
    action: str = ""


class Approved(msgspec.Struct, frozen=True):
    """The user, or whom `by` names, lets a call run."""

    call_id: str
    by: str = "user"


class Denied(msgspec.Struct, frozen=True):
    """The user, or whom `by` names, does not let a call run; `reason` is what the model is told."""

    call_id: str
    by: str = "user"
    reason: str = ""


class Revised(msgspec.Struct, frozen=True):
    """The user put another call in the place of one that was asked about; `note` says how."""

    call: ToolCall
    params: dict[str, Any]
    note: str


class ActionDone(msgspec.Struct, frozen=True):
    """A call has run, well or not. `diff` is what it changed in files.

    `tokens` are those that models used for it, which count as the turn's.
    """

    call_id: str
    content: str
    ok: bool = True
    diff: str = ""
    tokens: int = 0


class Changed(msgspec.Struct, frozen=True):
    """A call has not run: what it would act on is no longer what was agreed to."""

    call_id: str


class Cancel(msgspec.Struct, frozen=True):
    """The user stops the turn, whatever is under way.

    `results` are of calls that could be asked to stop, and said how far they came.
    """

    reason: str = "cancelled by the user"
    results: tuple[ActionDone, ...] = ()


class Broken(msgspec.Struct, frozen=True):
    """The shell cannot store anything, so there is no going on."""

    code: str
    detail: str


TurnEvent: TypeAlias = (
    Start | Stored | PromptReady | PromptFailed | Overrun | Spend | Streamed | Replied
    | ModelError | Waited | Folded | Judged | Approved | Denied | Revised | ActionDone | Changed
    | Cancel | Broken
)  # fmt: skip


# What is to be done.


class Spent(msgspec.Struct, frozen=True):
    """What a request came to: what its vendor reported of it, and how it ended.

    `outcome` is the reason of its stop, or the code of the error that ended it; `reported` the
    vendor's own account, as it came.
    """

    usage: replies.Usage | None = None
    cache_miss: replies.CacheMiss | None = None
    outcome: str = ""
    error: str = ""
    reported: dict[str, Any] | None = None


class Append(msgspec.Struct, frozen=True):
    """Store messages, durably; then tell `Stored`. `spent` is of the request they came of."""

    messages: tuple[Message, ...]
    incomplete: bool = False
    spent: Spent | None = None


class Account(msgspec.Struct, frozen=True):
    """Store what a request came to that brought no message."""

    spent: Spent


class BuildPrompt(msgspec.Struct, frozen=True):
    """Make the next request, the `request`-th of the turn; then tell `PromptReady`."""

    request: int


class CallModel(msgspec.Struct, frozen=True):
    """Send the request that was built last, and tell what comes."""


class Fold(msgspec.Struct, frozen=True):
    """Let a good part of the window go; then tell `Folded`."""


class Wait(msgspec.Struct, frozen=True):
    """Tell `Waited` after so many seconds."""

    after_s: float


class Judge(msgspec.Struct, frozen=True):
    """Ask the policy about a call; then tell `Judged`."""

    call: ToolCall


class AskApproval(msgspec.Struct, frozen=True):
    """Show the user what is about to happen, and wait for `Approved` or `Denied`."""

    call: ToolCall
    reason: str


class RunCall(msgspec.Struct, frozen=True):
    """Run a call; then tell `ActionDone`, or `Changed` where it is not what was agreed to."""

    call: ToolCall


class UsageReport(msgspec.Struct, frozen=True):
    """Tell what the request used; the shell knows what that costs."""

    reported: replies.UsageArrived


class Stop(msgspec.Struct, frozen=True):
    """End every effect that was begun: request, wait, question, calls."""


class Emit(msgspec.Struct, frozen=True):
    """Send an event to everybody who watches the host."""

    event: HostEvent


Effect: TypeAlias = (
    Append | Account | BuildPrompt | CallModel | Fold | Wait | Judge | AskApproval | RunCall
    | UsageReport | Stop | Emit
)  # fmt: skip


# How far it is: what the machine remembers between two events.


class ReplyProgress(msgspec.Struct):
    """What has arrived of a model's reply so far."""

    prompt_tokens: int = 0
    text: str = ""
    reasoning: str = ""
    usage: replies.Usage | None = None
    cache_miss: replies.CacheMiss | None = None
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


MAX_EQUAL: Final = 5  # equal results of equal calls, after which the user decides
# The time of a command is not part of its result: two equal runs never take the same time.
_TIME: Final = re.compile(r'(?<="exit_code":)(-?\d+),"seconds":[\d.e-]+')


class EqualResults(msgspec.Struct):
    """Counts equal results of equal calls in one turn, since a different call had a new result."""

    counts: dict[bytes, dict[bytes, int]] = msgspec.field(default_factory=dict)

    def add(self, call: ToolCall, result: ToolResult) -> int:
        """Count a result, and return how often the same call has had it."""
        counts = self.counts.setdefault(_digest((call.name, call.arguments)), {})
        key = _digest(_TIME.sub("", result.content))
        for others in self.counts.values():
            if key not in counts and others is not counts:
                others.update(dict.fromkeys(others, 1))  # A new result is progress: begin again.
        counts[key] = counts.get(key, 0) + 1
        return counts[key]

    def loop_count(self, call: ToolCall) -> int:
        """Return how often a call has had the same result, or 0 below the limit."""
        counts = self.counts.get(_digest((call.name, call.arguments)), {})
        return max((count for count in counts.values() if count >= MAX_EQUAL), default=0)


def _digest(value: object) -> bytes:
    return sha256(msgspec.json.encode(value, order="sorted")).digest()


class Round(msgspec.Struct):
    """The tool calls of one reply, and how far each of them is.

    `repeated` are the ids of calls that came with the id of an earlier call.
    """

    calls: tuple[ToolCall, ...] = ()
    parallel: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
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
