"""One turn: from what the user said to the answer. A machine: events in, effects out.

Theory of operation
===================
The machine does nothing itself. It is told what happened (`Start`, `PromptReady`,
`Replied`, `ActionDone`, `Cancel`, …) and answers with what is to be done, in order
(`Append`, `BuildPrompt`, `CallModel`, `RunCall`, …). Approval is a pause: an `AskApproval`
that nobody has answered yet.

    idle ──Start──▶ building ──PromptReady──▶ streaming ──Replied──▶ calling
                     ▲  ▲  ▲                   │      │                │  │
                     │  │  └──Waited── waiting ◀┘      └─────▶ over ◀───┘  │
                     │  └───Folded─── folding ◀┘ (too long)               │
                     └────────────────── every call has its result ◀──────┘

*Money.* A request that would pass a limit is not sent (`Overrun`): the turn is `paused` until
the user says whether to go on (`Spend`). Then it is built again, with the state of then.

*Calls* are taken up in the order of the reply. One that can run beside others starts
at once, any other waits until it is alone. Each is judged when its turn comes and not
before, because the calls before it may have changed what it would do. Results are
stored in call order, as soon as the ones before them are there.

*Consent* is to what was shown. A call that would act on something else by the time it
would run (`Changed`) is judged again, and asked about again if it was before. It is given
up when that happens too often: an app that never stands still cannot hold a turn. One that the
user changed (`Revised`) is judged and asked about again as it is now, and its result says so.

*Loops.* The result of a call that had the same result three times says so to the model. After five
times the call does not run again: the turn ends (`repeated_call`). Where a user can be asked, the
user decides, and a rejection without a reason ends the turn. In one reply a call id runs once.

*Failure.* A request that failed before anything was shown is built and sent again
after a wait, as often as the limits say: built again, so that it carries the state of
now. One that is too long by the vendor's count folds the window, once a turn. After the
first word of a reply nothing is repeated: what was said is stored as incomplete.

*Shell's part.* Effects are performed one by one in order. `Append` and `Judge` are
answered (`Stored`, `Judged`) before the next effect is performed; the others are
begun, and answered whenever they are done. `Stop` ends all that was begun. What comes
too late, twice, or for nobody is ignored.

The laws, for any sequence of events (tests/laws/test_turn_laws.py):

    in what was stored, every tool call has exactly one result, after it
    `TurnEnded` is emitted exactly once, and last
    no call is run twice, or without having been approved as it is when it runs
    no call id of a reply is run twice
    after `Start` and any `Cancel` the turn is over, whatever was under way
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

import sightline.agent.turn.steps as steps
import sightline.context.dialects.events as replies
import sightline.events as events
from sightline.agent.policy import Decision
from sightline.context.messages.parts import Message, Part, ToolCall, ToolResult
from sightline.context.messages.state import strip_state
from sightline.errors import OverBudget
from sightline.events import Outcome

Phase: TypeAlias = Literal[
    "idle", "building", "paused", "streaming", "waiting", "folding", "calling", "over"
]  # fmt: skip

# What is told of something stored: it carries the message's id.
Announced: TypeAlias = events.ReplyEnded | events.CallFinished

FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 60.0
TOLD_EQUAL: Final = 3  # equal results of equal calls, from which on the model is informed
MAX_CHANGES: Final = 3  # so often may a call change between the decision and its running
PATIENCE_S: Final = 300.0  # a vendor that wants us to wait longer has to be asked again by hand


class TurnLimits(msgspec.Struct, frozen=True):
    """How far one turn may go. 0 tokens is no limit.

    `asks_about_loops` states whether a user is asked about a call in a loop, or the turn ends.
    """

    rounds: int = 25
    turn_tokens: int = 0
    retries: int = 4
    asks_about_loops: bool = False


class TurnMachine:
    """One turn as a machine. `step` takes what happened and returns what is to be done."""

    def __init__(self, limits: TurnLimits | None = None) -> None:
        self._limits = limits or TurnLimits()
        self._phase: Phase = "idle"
        self._turn = 0
        self._requests = 0
        self._replies = 0
        self._spent_tokens = 0
        self._failures = 0
        self._folded = False
        self._reply = steps.ReplyProgress()
        self._round = steps.Round()
        self._equal = steps.EqualResults()
        self._call_ids: set[str] = set()
        # What is told once the Append it belongs to is on the disk, one entry per Append.
        self._announcements: deque[tuple[Announced, ...]] = deque()
        self._ending: events.TurnEnded | None = None
        self._overrun: events.SpendingAsked | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the turn is at its end and has said so."""
        return self._over

    @property
    def asking(self) -> ToolCall | None:
        """The call that waits for the user's answer."""
        return self._round.asking

    @property
    def overrun(self) -> events.SpendingAsked | None:
        """The limit in money that the user is asked about."""
        return self._overrun if self._phase == "paused" else None

    def tokens_for(self, name: str) -> int:
        """Give a call of this tool its part of the tokens that are left; 0 is no limit."""
        if not self._limits.turn_tokens:
            return 0
        calls, results = self._round.calls, self._round.results
        sharing = sum(call.name == name and call.id not in results for call in calls)
        return max(1, (self._limits.turn_tokens - self._spent_tokens) // max(1, sharing))

    def step(self, event: steps.TurnEvent) -> list[steps.Effect]:
        """Take what happened; return what is to be done, in order."""
        handler = TRANSITIONS.get((self._phase, type(event))) or ANYWHERE.get(type(event))
        return [] if self._over or handler is None else handler(self, event)

    # The user's words, and the request made of them.

    def _start(self, event: steps.Start) -> list[steps.Effect]:
        self._turn = event.turn
        started = events.TurnStarted(
            session_id=event.session_id,
            group_id=event.group_id,
            turn=event.turn,
            text=event.text,
        )
        return [steps.Emit(started), *self._build()]

    def _build(self) -> list[steps.Effect]:
        self._phase = "building"
        self._requests += 1
        return [steps.BuildPrompt(self._requests)]

    def _prompt_ready(self, event: steps.PromptReady) -> list[steps.Effect]:
        limit, prompt_tokens = self._limits.turn_tokens, event.built.prompt_tokens
        if limit and self._spent_tokens + prompt_tokens > limit:
            spent = f"{self._spent_tokens} tokens used, {prompt_tokens} in the next request"
            return self._end("limit", "turn_tokens", f"{spent}; the limit of a turn is {limit}")
        self._phase = "streaming"
        self._reply = steps.ReplyProgress(prompt_tokens=prompt_tokens)
        return [steps.Emit(event.built), steps.CallModel()]

    def _pause(self, event: steps.Overrun) -> list[steps.Effect]:
        self._phase = "paused"
        self._requests -= 1  # it was not sent
        self._overrun = event.question
        return [steps.Emit(event.question)]

    def _spend(self, event: steps.Spend) -> list[steps.Effect]:
        if event.agreed:
            return self._build()
        return self._end("limit", OverBudget.code, str(self._overrun))

    # The reply.

    def _streamed(self, event: steps.Streamed) -> list[steps.Effect]:
        match event.event:
            case replies.TextArrived(text):
                self._reply.text += text
                return [steps.Emit(events.TextDelta(text=text))]
            case replies.ReasoningArrived(text):
                self._reply.reasoning += text
                return [steps.Emit(events.ReasoningDelta(text=text))]
            case replies.UsageArrived(usage, miss, reported):
                self._reply.usage, self._reply.cache_miss = usage, miss
                self._reply.reported = reported
                return [steps.UsageReport(event.event), *_unusable(usage)]
            case replies.ToolCalled():
                pass  # the whole reply has them, in order
        return []

    def _replied(self, event: steps.Replied) -> list[steps.Effect]:
        stopped, reply = event.stopped, self._reply
        if stopped.incomplete and not reply.shown:
            code = stopped.code or "incomplete"
            return self._failed(steps.ModelError(code, stopped.detail, retryable=True))
        message = self._with_new_ids(stopped.message)
        if stopped.incomplete:
            reply.failure = reply.failure or stopped.code
            kept = tuple(part for part in message.parts if not isinstance(part, ToolCall))
            message = Message("assistant", kept)
        self._replies += 1
        self._failures = 0
        usage = reply.usage or replies.Usage()
        self._spent_tokens += (usage.input_tokens or reply.prompt_tokens) + usage.output_tokens
        ended = events.ReplyEnded(reason=stopped.reason, detail=stopped.detail)
        effects = self._store_reply(message, ended, incomplete=stopped.incomplete)
        calls = message.tool_calls
        if not calls:
            return effects + self._answer(stopped, message)
        pairs = list(zip(stopped.message.tool_calls, calls, strict=True))
        parallel = {new.id for old, new in pairs if old.id in event.parallel}
        firsts = {old.id: new for old, new in reversed(pairs) if old.id not in stopped.repeated}
        repeated = {new.id for old, new in pairs if firsts.get(old.id) is not new}
        self._phase = "calling"
        self._round = steps.Round(calls, frozenset(parallel), frozenset(repeated))
        refusal = self._why_not_go_on(stopped)
        if refusal is None:
            return effects + self._take_up_calls()
        outcome, code, why = refusal
        return effects + self._close_calls(why) + self._end(outcome, code, why)

    def _why_not_go_on(self, stopped: replies.Stopped) -> tuple[Outcome, str, str] | None:
        limits = self._limits
        if stopped.reason == "refused":
            return "failed", "refused", stopped.detail or "the model declined"
        if self._replies >= limits.rounds:
            return "limit", "rounds", f"a turn has {limits.rounds} requests at most"
        if limits.turn_tokens and self._spent_tokens >= limits.turn_tokens:
            return "limit", "turn_tokens", f"a turn has {limits.turn_tokens} tokens at most"
        return None

    def _answer(self, stopped: replies.Stopped, message: Message) -> list[steps.Effect]:
        text = strip_state(message.text)
        match stopped.reason:
            case "length":
                return self._end("limit", "length", "the reply was cut off at its limit", text)
            case "refused":
                detail = stopped.detail or "the model declined"
                return self._end("failed", "refused", detail, text)
            case "incomplete" | "error":
                return self._end("failed", stopped.code or "incomplete", stopped.detail, text)
            case _:
                return self._end("answered", text=text)

    def _store_reply(
        self, message: Message, ended: events.ReplyEnded, *, incomplete: bool
    ) -> list[steps.Effect]:
        spent = self._spent(ended.reason, ended.detail)
        if message.parts:
            return [self._append((message,), (ended,), incomplete=incomplete, spent=spent)]
        known = spent.usage is not None or self._reply.failure
        return [*([steps.Account(spent)] if known else []), steps.Emit(ended)]

    def _spent(self, outcome: str, error: str) -> steps.Spent:
        reply = self._reply
        outcome = reply.failure or outcome
        return steps.Spent(reply.usage, reply.cache_miss, outcome, error, reply.reported)

    def _with_new_ids(self, message: Message) -> Message:
        """Give a call whose id was there before in this turn another one.

        Ollama's chat API gives calls no id, and then the same call has the same id again.
        """
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                call_id, number = part.id, 1
                while call_id in self._call_ids:
                    number += 1
                    call_id = f"{part.id}-{number}"
                self._call_ids.add(call_id)
                part = part if call_id == part.id else msgspec.structs.replace(part, id=call_id)
            parts.append(part)
        return Message(message.role, tuple(parts))

    # A request that failed.

    def _failed(self, event: steps.ModelError) -> list[steps.Effect]:
        self._reply.failure = event.code
        if self._reply.shown:
            stopped = replies.Stopped("incomplete", self._reply.message(), event.detail)
            return self._replied(steps.Replied(stopped))
        spent = self._spent(event.code, event.detail)
        self._reply.usage = None
        return [steps.Account(spent), *self._try_again(event)]

    def _try_again(self, event: steps.ModelError) -> list[steps.Effect]:
        """Fold and ask again, wait and ask again, or give up."""
        if event.overflow and not self._folded:
            self._folded = True
            self._phase = "folding"
            message = f"the vendor finds the prompt too long ({event.detail}); the window is folded"
            return [steps.Emit(events.Noticed(code="overflow", message=message)), steps.Fold()]
        if event.retryable and self._failures < self._limits.retries:
            after_s = event.retry_after_s
            if after_s is None:
                after_s = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0**self._failures)
            if after_s <= PATIENCE_S:
                self._failures += 1
                self._phase = "waiting"
                retrying = events.Retrying(
                    attempt=self._failures, after_s=after_s, reason=event.detail
                )
                return [steps.Emit(retrying), steps.Wait(after_s)]
        return self._end("failed", event.code, event.detail)

    def _was_folded(self, event: steps.Folded) -> list[steps.Effect]:
        if not event.possible:
            detail = "the vendor finds the prompt too long, and nothing of it can be left out"
            return self._end("failed", "overflow", detail)
        return self._build()

    # The calls of a reply.

    def _take_up_calls(self) -> list[steps.Effect]:
        """Store what can be stored, and begin what can begin."""
        effects, current = self._store_results(), self._round
        if current.is_done:
            return effects + self._build()
        call = current.next_call()
        if call is not None and call.id in current.repeated:
            current.judging = call
            deny = Decision("deny", "an earlier call of this reply has its id, and an id runs once")
            return effects + self._judged(steps.Judged(call.id, deny))
        if call is not None:
            current.judging = call
            effects.append(steps.Judge(call))
        return effects

    def _judged(self, event: steps.Judged) -> list[steps.Effect]:
        current = self._round
        call = current.judging
        if call is None or call.id != event.call_id:
            return []
        current.judging = None
        effects: list[steps.Effect] = []
        if call.id not in current.begun:
            current.begun.add(call.id)
            started = events.CallStarted(
                call_id=call.id, name=call.name, arguments=call.arguments,
                app=event.app, path=event.path, action=event.action,
            )  # fmt: skip
            effects.append(steps.Emit(started))
        loop_count = self._equal.loop_count(call)
        reason = _loop_text(loop_count) if loop_count else event.decision.reason
        match event.decision.verdict:
            # What was agreed to and changed is nobody's to approve but the user's.
            case "approve" if call.id not in current.questions and not loop_count:
                current.run(call)
                effects.append(steps.RunCall(call))
            case "approve" | "ask" if not loop_count or self._limits.asks_about_loops:
                current.asking = call
                current.questions.add(call.id)
                effects.append(steps.AskApproval(call, reason))
            case _:
                current.results[call.id] = _refused(call, reason)
                if loop_count:
                    return effects + self._end_loop(call)
        return effects + self._take_up_calls()

    def _take_asking(self, call_id: str) -> ToolCall | None:
        """Take the call that waits for the user's answer, if it is this one."""
        call = self._round.asking
        if call is None or call.id != call_id:
            return None
        self._round.asking = None
        return call

    def _approved(self, event: steps.Approved) -> list[steps.Effect]:
        call = self._take_asking(event.call_id)
        if call is None:
            return []
        if self._equal.loop_count(call):
            self._equal = steps.EqualResults()
        self._round.run(call, alone=True)
        answered = events.ApprovalAnswered(call_id=call.id, approved=True, by=event.by)
        return [steps.Emit(answered), steps.RunCall(call)]

    def _denied(self, event: steps.Denied) -> list[steps.Effect]:
        call = self._take_asking(event.call_id)
        if call is None:
            return []
        why = "the user did not approve it" if event.by == "user" else f"not approved: {event.by}"
        if event.reason:
            why += f": {event.reason}"
        self._round.results[call.id] = _refused(call, why)
        answered = events.ApprovalAnswered(
            call_id=call.id, approved=False, by=event.by, reason=event.reason
        )
        if self._equal.loop_count(call) and not event.reason:
            return [steps.Emit(answered), *self._end_loop(call)]
        return [steps.Emit(answered), *self._take_up_calls()]

    def _end_loop(self, call: ToolCall) -> list[steps.Effect]:
        why = f"{_loop_text(self._equal.loop_count(call))}: {call.name}"
        return [steps.Stop(), *self._close_calls(why), *self._end("limit", "repeated_call", why)]

    def _revised(self, event: steps.Revised) -> list[steps.Effect]:
        call = self._take_asking(event.call.id)
        if call is None:
            return []
        self._round.again.append(event.call)
        self._round.notes[call.id] = event.note
        answered = events.ApprovalAnswered(
            call_id=call.id, approved=False, by="user", params=event.params
        )
        return [steps.Emit(answered), *self._take_up_calls()]

    def _action_done(self, event: steps.ActionDone) -> list[steps.Effect]:
        return self._take_up_calls() if self._keep_result(event) else []

    def _keep_result(self, event: steps.ActionDone) -> bool:
        """Take the result of a call that runs; False if none of this id does."""
        call = self._round.finish(event.call_id)
        if call is not None:
            note = self._round.notes.get(call.id)
            self._round.diffs[call.id] = event.diff
            self._spent_tokens += event.tokens
            content = event.content if note is None else f"{note}\n{event.content}"
            self._round.results[call.id] = ToolResult(
                call.id, content, call.name, is_error=not event.ok
            )
        return call is not None

    def _changed(self, event: steps.Changed) -> list[steps.Effect]:
        current = self._round
        call = current.finish(event.call_id)
        if call is None:
            return []
        current.changes[call.id] = current.changes.get(call.id, 0) + 1
        if current.changes[call.id] < MAX_CHANGES:
            current.again.append(call)
        else:
            why = "what it would act on kept changing between the question and the answer"
            current.results[call.id] = _refused(call, why)
        return self._take_up_calls()

    def _store_results(self) -> list[steps.Effect]:
        ready = [self._marked(result) for result in self._round.take_ready()]
        if not ready:
            return []
        finished = tuple(
            events.CallFinished(
                call_id=result.call_id, name=result.name, ok=not result.is_error,
                content=result.content, diff=self._round.diffs.get(result.call_id, ""),
            )
            for result in ready
        )  # fmt: skip
        return [self._append(tuple(Message("tool", (result,)) for result in ready), finished)]

    def _marked(self, result: ToolResult) -> ToolResult:
        """Count a result, and add a note for the model if the same call had it before."""
        [call] = (call for call in self._round.calls if call.id == result.call_id)
        if (count := self._equal.add(call, result)) < TOLD_EQUAL:
            return result
        note = f"({_loop_text(count)}: do something else, or tell the user why you cannot)"
        return msgspec.structs.replace(result, content=f"{note}\n{result.content}")

    def _close_calls(self, why: str) -> list[steps.Effect]:
        """Give every open call a result that says what became of it."""
        current = self._round
        effects: list[steps.Effect] = []
        if current.asking is not None:
            answered = events.ApprovalAnswered(
                call_id=current.asking.id, approved=False, by="cancel", reason=why
            )
            effects.append(steps.Emit(answered))
            current.asking = None
        for call in current.calls:
            if call.id in current.results:
                continue
            if call.id not in current.begun:
                started = events.CallStarted(
                    call_id=call.id, name=call.name, arguments=call.arguments
                )
                effects.append(steps.Emit(started))
            if call.id in current.running:
                text = f"error: interrupted ({why}); whether it took effect is unknown"
                current.results[call.id] = ToolResult(call.id, text, call.name, is_error=True)
            else:
                current.results[call.id] = _refused(call, why)
        return effects + self._store_results()

    # The end.

    def _cancel(self, event: steps.Cancel) -> list[steps.Effect]:
        effects: list[steps.Effect] = [steps.Stop()]
        text = ""
        if self._phase == "streaming":
            self._reply.failure = "cancelled"
            message = self._reply.message()
            text = strip_state(message.text)
            ended = events.ReplyEnded(reason="incomplete", detail=event.reason)
            effects += self._store_reply(message, ended, incomplete=True)
        elif self._phase == "calling":
            for done in event.results:
                self._keep_result(done)
            effects += self._close_calls(event.reason)
        return effects + self._end("cancelled", "cancelled", event.reason, text)

    def _broken(self, event: steps.Broken) -> list[steps.Effect]:
        self._announcements.clear()
        self._ending = None
        return [steps.Stop(), *self._end("failed", event.code, event.detail)]

    def _end(
        self, outcome: Outcome, code: str = "", detail: str = "", text: str = ""
    ) -> list[steps.Effect]:
        self._phase = "over"
        self._ending = events.TurnEnded(
            turn=self._turn, outcome=outcome, text=text, code=code, detail=detail
        )
        return self._say_the_end()

    def _say_the_end(self) -> list[steps.Effect]:
        """Tell the end once all that came before it is stored and told."""
        if self._ending is None or self._announcements:
            return []
        self._over = True
        return [steps.Emit(self._ending)]

    # What is stored, and told when it is.

    def _append(
        self,
        messages: tuple[Message, ...],
        announced: tuple[Announced, ...],
        *,
        incomplete: bool = False,
        spent: steps.Spent | None = None,
    ) -> steps.Append:
        self._announcements.append(announced)
        return steps.Append(messages, incomplete, spent)

    def _stored(self, event: steps.Stored) -> list[steps.Effect]:
        if not self._announcements:
            return []
        announced = self._announcements.popleft()
        effects: list[steps.Effect] = [
            steps.Emit(msgspec.structs.replace(one, message_id=message_id))
            for one, message_id in zip(announced, event.message_ids, strict=True)
        ]
        return effects + self._say_the_end()


def _unusable(usage: replies.Usage) -> list[steps.Effect]:
    """Tell which counts of a vendor's are none, so that nobody takes them for zero."""
    if not usage.unusable:
        return []
    message = f"the vendor's {', '.join(usage.unusable)} make no sense and count as not reported"
    return [steps.Emit(events.Noticed(code="usage", message=message))]


def _loop_text(count: int) -> str:
    return f"the model made the same call {count} times in this turn, with the same result"


def _refused(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, f"error: not run ({why})", call.name, is_error=True)


# A handler takes the event that its key names; a table cannot say so.
_Handler: TypeAlias = Callable[[TurnMachine, Any], list[steps.Effect]]

TRANSITIONS: Final[dict[tuple[Phase, type[steps.TurnEvent]], _Handler]] = {
    ("idle", steps.Start): TurnMachine._start,
    ("building", steps.PromptReady): TurnMachine._prompt_ready,
    ("building", steps.PromptFailed): lambda turn, why: turn._end("failed", why.code, why.detail),
    ("building", steps.Overrun): TurnMachine._pause,
    ("paused", steps.Spend): TurnMachine._spend,
    ("streaming", steps.Streamed): TurnMachine._streamed,
    ("streaming", steps.Replied): TurnMachine._replied,
    ("streaming", steps.ModelError): TurnMachine._failed,
    ("waiting", steps.Waited): lambda turn, _: turn._build(),
    ("folding", steps.Folded): TurnMachine._was_folded,
    ("calling", steps.Judged): TurnMachine._judged,
    ("calling", steps.Approved): TurnMachine._approved,
    ("calling", steps.Denied): TurnMachine._denied,
    ("calling", steps.Revised): TurnMachine._revised,
    ("calling", steps.ActionDone): TurnMachine._action_done,
    ("calling", steps.Changed): TurnMachine._changed,
    ("over", steps.Cancel): lambda _turn, _event: [],
}
# In every phase, unless the table above knows better.
ANYWHERE: Final[dict[type[steps.TurnEvent], _Handler]] = {
    steps.Stored: TurnMachine._stored,
    steps.Cancel: TurnMachine._cancel,
    steps.Broken: TurnMachine._broken,
}
