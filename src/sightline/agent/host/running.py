"""The loop around a turn: what the machine wants is done, what happens is told to it.

*Theory of operation.* One task runs a turn. It takes events from an inbox, steps the
machine and performs the effects in order. What can take long (building a prompt,
streaming, a call, a wait) is begun as a task of its own, which puts its outcome into the
inbox. Storing is awaited on the spot: nothing that follows may happen before it is on the
disk. So the machine is stepped by one task only, and a cancel is an event like any other.

Whatever goes wrong is an event, too. The turn ends with `TurnEnded`, always.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

import sightline.agent.host.judge as judge
import sightline.agent.turn.steps as steps
import sightline.errors as errors
import sightline.events as events
from sightline.agent.host.asking import stream_of
from sightline.agent.host.compose import Composed
from sightline.agent.host.hooks import TurnHooks, stricter
from sightline.agent.host.journal import Ended, Noted
from sightline.agent.host.session import Current, OpenTurn, ReplyPace
from sightline.agent.host.spans import TurnSpans
from sightline.agent.host.stage import HostStage
from sightline.agent.models.base import Model
from sightline.agent.policy import Answer, Decision, in_words, plan_of
from sightline.agent.toolbox.results import Ran
from sightline.agent.toolbox.toolbox import DELEGATE, with_params
from sightline.agent.turn.machine import TurnLimits, TurnMachine
from sightline.context.dialects.events import (
    ReasoningArrived,
    Stopped,
    TextArrived,
    UsageArrived,
    cost,
)
from sightline.context.ledger.work import CallState
from sightline.context.messages.parts import Reasoning, ToolCall
from sightline.context.projection.tools import ToolTarget
from sightline.events import HostEvent
from sightline.slop.protocol.tree import Affordance
from sightline.slop.protocol.world import World

NOTE_EVERY_S: Final = 0.2  # how much of a reply a killed program may lose
HALT_S: Final = 8.0  # what ends a command gives it a moment, and then ends what is left
_AGAIN_S: Final = 0.05


class TurnRun:
    """One turn, running. `emit` is called for every event, in order.

    `ended` is how it ended; interrupted, as long as it has not said so itself.
    """

    def __init__(
        self,
        stage: HostStage,
        now: Current,
        model: Model,
        limits: TurnLimits,
        emit: Callable[[HostEvent], None],
        hooks: TurnHooks,
    ) -> None:
        self._spans = TurnSpans(now.session.row.uuid)

        def tell(event: HostEvent) -> None:
            self._spans.hear(event)
            emit(event)

        self._hooks = hooks
        self._stage = stage
        self._now = now
        self._model = model
        self._emit = tell
        self._machine = TurnMachine(limits)
        self._inbox: asyncio.Queue[steps.TurnEvent] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[asyncio.Task[None], str] = {}
        self._done: dict[str, steps.ActionDone] = {}
        self._halting: str | None = None  # why, once it has begun
        self._cases: dict[str, judge.Case] = {}
        # Calls as the user was last asked about them, and rules to remember if they still hold.
        self._shown_cases: dict[str, judge.Case] = {}
        self._rules: dict[str, Answer] = {}
        self._agreed: set[str] = set()  # calls to whose other parameters the user said yes
        self._seen = World()
        self._notes = _ReplyNotes(self._note_words)
        self._sent_at = 0.0
        self._asked_ms = 0
        self.ended = Ended("interrupted")
        self._last: events.TurnEnded | None = None

    def answer(
        self, call_id: str, *, approved: bool, by: str, remember: int = 0, reason: str = ""
    ) -> bool:
        """Answer an approval; False if nobody asked.

        `remember` is the number of a rule that was offered, from 1. A yes is remembered when
        the call runs as it was shown, a no at once; a command runs with the network if the rule
        gives it. Raises InvalidInput if there is no such rule.
        """
        asking = self._machine.asking
        if asking is None or asking.id != call_id:
            return False
        self._rules.pop(call_id, None)
        if remember:
            case = self._cases[call_id]
            rules = judge.offered_rules(case, "approve" if approved else "deny")
            if not 1 <= remember <= len(rules):
                raise errors.InvalidInput(f"there is no rule {remember} for this call")
            rule = rules[remember - 1]
            if rule.network and (params := judge.with_network(case)) is not None:
                self.revise(call_id, params, agreed=True)
                self._rules[call_id] = rule
                return True
            self._rules[call_id] = rule
            if not approved:
                self._remember(call_id)
        self._inbox.put_nowait(
            steps.Approved(call_id, by) if approved else steps.Denied(call_id, by, reason)
        )
        return True

    def revise(self, call_id: str, params: dict[str, Any], *, agreed: bool = False) -> bool:
        """Ask about a call again, with other parameters; False if nobody asked.

        One that is `agreed` to runs unasked if nothing but these changed since it was shown, and
        it does nothing to files. Raises InvalidInput if the action, as its app shows it, does
        not take them.
        """
        asking = self._machine.asking
        if asking is None or asking.id != call_id:
            return False
        case = self._cases[call_id]
        judge.check_params(case, params)
        call = with_params(asking, params, self._composed.inputs.targets)
        note = Ran.of(judge.revision_note(case.params, params)).content
        self._rules.pop(call_id, None)
        (self._agreed.add if agreed else self._agreed.discard)(call_id)
        self._inbox.put_nowait(steps.Revised(call, params, note))
        return True

    def spend_more(self, agreed: bool) -> bool:
        """Answer whether to go on over a limit in money; False if nobody asked."""
        if (overrun := self._machine.overrun) is None:
            return False
        if agreed:
            self._stage.spending.go_on(overrun)
        self._inbox.put_nowait(steps.Spend(agreed))
        return True

    def tokens_for(self, name: str) -> int:
        """Give a call of this tool its part of the turn's tokens; 0 is no limit."""
        return self._machine.tokens_for(name)

    def cancel(self, reason: str) -> None:
        """Stop, whatever is under way."""
        self._inbox.put_nowait(steps.Cancel(reason))

    async def run(self, text: str) -> None:
        """Run the turn to its end."""
        turn = self._now.turn
        start = steps.Start(self._now.session.id, turn.group_id, turn.number, text)
        try:
            await self._perform(self._machine.step(start))
            while not self._machine.over:
                event = await self._inbox.get()
                if isinstance(event, steps.Cancel):
                    event = msgspec.structs.replace(event, results=await self._halt(event.reason))
                await self._perform(self._machine.step(event))
        finally:
            await self._stop()
        if self._last is not None:
            await self._hooks.turn_ended(self._last)

    async def _perform(self, effects: list[steps.Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            try:
                answer = await self._do(waiting.popleft())
            except errors.SightlineError as error:
                waiting.clear()
                answer = steps.Broken(error.code, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the turn must end
                waiting.clear()
                answer = steps.Broken("internal", f"{type(error).__name__}: {error}")
            if answer is not None:
                waiting.extendleft(reversed(self._machine.step(answer)))

    async def _do(self, effect: steps.Effect) -> steps.TurnEvent | None:
        match effect:
            case steps.Emit(event):
                if isinstance(event, events.TurnEnded) and self._stage.mode == "plan":
                    event = msgspec.structs.replace(event, plan=plan_of(event.text))
                self._emit(event)
                await self._keep_time(event)
            case steps.Append():
                return await self._append(effect)
            case steps.Account(spent):
                account, now = self._stage.scribe.account, self._now
                turn_key = now.session.id, now.turn.group_id
                await asyncio.to_thread(account, *turn_key, self._model, spent)
            case steps.BuildPrompt(request):
                self._now.keep(replace(self._now.turn, requests=request))
                self._begin(self._build)
            case steps.CallModel():
                with self._spans.chatting():
                    self._begin(self._stream)
            case steps.Wait(after_s):
                self._begin(partial(self._wait, after_s))
            case steps.Fold():
                return steps.Folded(await self._stage.fold(self._now, self._now.turn.composed))
            case steps.Judge(call):
                return await self._judge(call)
            case steps.AskApproval(call, reason):
                await self._ask(call, reason)
            case steps.RunCall(call):
                with self._spans.calling(call.id):
                    task = self._begin(partial(self._call, call))
                is_task = call.name == DELEGATE.name
                if is_task or self._stage.can_stop(self._cases[call.id].facts):
                    self._calls[task] = call.id
                    task.add_done_callback(self._calls.pop)
            case steps.UsageReport(reported):
                self._report(reported)
            case steps.Stop():
                await self._stop()
        return None

    # What is done at once.

    async def _append(self, effect: steps.Append) -> steps.Stored:
        await self._notes.rest()
        entries = await asyncio.to_thread(
            self._stage.scribe.append, self._now.session, self._now.turn, effect, self._model,
            self._stage.counter(self._model.profile),
        )  # fmt: skip
        self._now.keep(replace(self._now.turn, last_seq=entries[-1].seq, pace=None))
        return steps.Stored(tuple(entry.id for entry in entries))

    async def _judge(self, call: ToolCall) -> steps.Judged:
        toolbox = self._now.session.toolbox
        target = toolbox.target(call, self._composed.inputs.targets)
        case = self._stage.case(call, target, reads=toolbox.parallel(call))
        facts = case.facts
        decision = self._stage.decide(self._now.session, facts)
        if decision.verdict != "deny":
            try:
                case = await asyncio.to_thread(self._stage.planned, case)
            except (errors.ActionError, errors.InvalidInput) as error:
                # It would fail: nobody needs to be asked.
                decision = Decision("deny", Ran.of(str(error)).content)
        self._cases[call.id] = case
        if decision.verdict != "deny":
            answer = await self._hooks.before_call(case)
            self._now.keep(self._now.turn.hear("before_call", answer.context))
            decision = stricter(decision, answer, can_ask=target is not None)
        if decision.verdict != "ask":
            words = f"{_DECIDED[decision.verdict]}: {decision.reason}"
            await self._note("answers", call.id, words)
        if facts.kind != "invoke":
            return steps.Judged(call.id, decision)
        return steps.Judged(call.id, decision, facts.app, facts.path, facts.action)

    async def _ask(self, call: ToolCall, reason: str) -> None:
        case = self._cases[call.id]
        agreed = self._shown_cases.get(call.id)
        changed = judge.changes_since_answer(case.facts, self._stage.remembered(self._now.session))
        self._shown_cases[call.id] = case
        facts, safe = case.facts, case.safe
        node = safe.node
        await self._note_call(call, "asked")
        self._asked_ms = self._now_ms
        if call.id in self._agreed and agreed is not None and agreed.same_but_params(case):
            self._agreed.discard(call.id)
            self._inbox.put_nowait(steps.Approved(call.id, "user"))
            return
        self._emit(
            events.ApprovalAsked(
                call_id=call.id,
                app=facts.app,
                path=facts.path,
                action=facts.action or call.name,
                params=case.params,
                dangerous=facts.dangerous,
                reason=reason,
                changes=judge.changes_since(self._seen, self._stage.world, facts),
                name=safe.name,
                origin=facts.origin,
                type="" if node is None else node.type,
                label=facts.label,
                summary="" if node is None else node.meta.summary or "",
                properties={} if node is None else node.properties,
                context=safe.context,
                about=safe.about,
                differences=changed if agreed is None else judge.differences(agreed, case),
                rules=tuple(in_words(rule, facts.sandboxed) for rule in judge.offered_rules(case)),
                diff=case.diff,
                no_network=judge.with_network(case) is not None,
            )
        )

    def _report(self, reported: UsageArrived) -> None:
        usage, miss = reported.usage, reported.cache_miss
        expected = self._composed.expected_tokens
        self._stage.learn(self._model.profile, expected, usage.input_tokens)
        prompt, request = self._composed.prompt, self._composed.request
        self._stage.held.learn(self._model, prompt, request, usage)
        self._now.keep(replace(self._now.session, last=replace(self._composed, usage=usage)))
        self._emit(
            events.UsageReported(
                model=self._model.label,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                cost_usd=cost(usage, self._model.profile.prices),
                cache_miss="" if miss is None else miss.reason,
            )
        )

    # What is begun.

    def _begin(self, work: Callable[[], Awaitable[steps.TurnEvent]]) -> asyncio.Task[None]:
        async def tell() -> None:
            event = await work()
            if self._halting is not None and isinstance(event, steps.Changed):
                event = steps.ActionDone(event.call_id, f"error: not run ({self._halting})", False)
            if self._halting is not None and isinstance(event, steps.ActionDone):
                self._done[event.call_id] = event
            else:
                self._inbox.put_nowait(event)

        task = asyncio.create_task(tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _halt(self, reason: str) -> tuple[steps.ActionDone, ...]:
        """Stop the commands that calls wait for; give the results of those calls."""
        self._halting = reason
        is_plain = reason.startswith("cancelled ")
        by = reason.removeprefix("cancelled ") if is_plain else f"({reason})"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HALT_S):
                # Again if need be: what was just asked for may not have begun yet.
                while self._calls:
                    await self._stage.stop_commands(by)
                    if self._calls:
                        await asyncio.wait(set(self._calls), timeout=_AGAIN_S)
        return tuple(self._done.values())

    async def _stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._notes.rest()

    async def _build(self) -> steps.TurnEvent:
        now, stage = self._now, self._stage
        try:
            composed = await stage.compose(now, self._model)
            overrun = await asyncio.to_thread(stage.overrun, composed, self._model.profile)
            if overrun is not None:
                return steps.Overrun(overrun)
            now.keep(
                now.session.with_request(now.turn.group_id, composed),
                replace(now.turn, composed=composed),
            )
            receipt_id, row = await asyncio.to_thread(
                stage.scribe.record, now.session, now.turn, self._model, composed
            )
            now.keep(replace(now.turn, row=row, pace=None))
            self._sent_at = asyncio.get_running_loop().time()
        except errors.SightlineError as error:
            return steps.PromptFailed(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - a strategy's or a dialect's bug must not leave the turn open
            return steps.PromptFailed("internal", f"{type(error).__name__}: {error}")
        self._seen = composed.sight.world
        now.keep(replace(now.session, seen=self._seen, last=composed))
        return steps.PromptReady(_built(now.turn, self._model, composed, receipt_id))

    async def _stream(self) -> steps.TurnEvent:
        composed, clock = self._composed, asyncio.get_running_loop().time
        pace = ReplyPace(clock(), composed.steps)
        try:
            async with contextlib.aclosing(stream_of(self._model, composed.request)) as stream:
                async for event in stream:
                    pace = pace.tick(clock())
                    if isinstance(event, Stopped):
                        pace = replace(pace, outcome=event.reason)
                        self._sent(composed, event)
                        return steps.Replied(event, self._parallel(event))
                    if isinstance(event, TextArrived | ReasoningArrived):
                        self._notes.add(event)
                    self._inbox.put_nowait(steps.Streamed(event))
            return steps.ModelError(
                "incomplete", "the model ended without an answer", retryable=True
            )
        except errors.SightlineError as error:
            pace = replace(pace, outcome=error.code)
            if composed.request.cached_content and _is_refusal(error):
                self._stage.held.lost()
                return steps.ModelError(error.code, str(error), retryable=True, retry_after_s=0.0)
            return _model_error(error)
        except Exception as error:  # noqa: BLE001 - a bug in a vendor's library is a failed request
            pace = replace(pace, outcome="model_failed")
            return steps.ModelError("model_failed", f"{type(error).__name__}: {error}")
        finally:
            self._now.keep(replace(self._now.turn, pace=pace))

    def _sent(self, composed: Composed, stopped: Stopped) -> None:
        """Remember the request that the vendor's cache now holds."""
        request, now = composed.request, self._now
        label, answer = self._model.label, stopped.response_id
        sent = request.sent
        reasoned = any(isinstance(part, Reasoning) for part in stopped.message.parts)
        if request.profile.reasoning.bound and composed.options.repeat == "whole" and not reasoned:
            sent = sent[:-1]  # nothing depends on the newest, and no later one refers to it
        stay = sent if composed.options.repeat == "session" else ()
        now.keep(
            replace(now.session, wire=request.wire, model=label, response_id=answer, sent=stay),
            replace(now.turn, sent=sent),
        )

    def _parallel(self, stopped: Stopped) -> frozenset[str]:
        calls = stopped.message.tool_calls
        return frozenset(call.id for call in calls if self._now.session.toolbox.parallel(call))

    async def _wait(self, after_s: float) -> steps.TurnEvent:
        async with self._timed("waits", "waiting to retry"):
            await self._stage.sleep(after_s)
        return steps.Waited()

    async def _call(self, call: ToolCall) -> steps.TurnEvent:
        await self._note_call(call, "running")
        diff = self._cases[call.id].diff
        try:
            await self._check_plan(call)
            async with self._alone(call), self._timed("calls", call.name):
                check = partial(self._check, call)
                may_read = partial(self._may_read, call)
                targets = self._composed.inputs.targets
                ran = await self._now.session.toolbox.run(call, targets, check, may_read)
        except judge.Lapsed:
            return steps.Changed(call.id)
        except errors.SightlineError as error:
            return steps.Broken(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - a tool's bug is that call's failure
            return steps.ActionDone(call.id, f"error: {type(error).__name__}: {error}", ok=False)
        heard = await self._hooks.after_call(self._cases[call.id], ran.content, ok=ran.ok)
        self._now.keep(self._now.turn.hear("after_call", heard.context))
        delegates = self._stage.delegates
        tokens = 0 if delegates is None else delegates.take_tokens(call.id)
        return steps.ActionDone(call.id, ran.content, ran.ok, diff if ran.ok else "", tokens)

    def _alone(self, call: ToolCall) -> contextlib.AbstractAsyncContextManager[object]:
        """Wait for whoever else changes files, if a call does: what is expected is of one call."""
        changes_nothing = self._cases[call.id].plan is None
        return contextlib.nullcontext() if changes_nothing else self._stage.changing

    def _may_read(self, call: ToolCall, target: ToolTarget, offered: Affordance) -> bool:
        """Tell whether the policy lets a content be read unasked, as the app shows it now."""
        facts = self._stage.case(call, target, reads=True).facts
        shown = msgspec.structs.replace(facts, declared=True, dangerous=offered.dangerous is True)
        return self._stage.decide(self._now.session, shown).verdict == "approve"

    async def _check_plan(self, call: ToolCall) -> None:
        """Raise `Lapsed` if a call would do something else to files than was shown."""
        shown = self._shown_cases.get(call.id)
        if shown is None or shown.plan is None:
            return
        try:
            plan = await asyncio.to_thread(self._stage.plan, shown)
        except (errors.ActionError, errors.InvalidInput):
            plan = None
        if not shown.same_plan(plan):
            self._rules.pop(call.id, None)
            raise judge.Lapsed

    def _check(self, call: ToolCall, target: ToolTarget) -> None:
        """Raise `Lapsed` unless a call is what was decided on; by the user, as it was shown."""
        if self._halting is not None:
            raise judge.Lapsed
        now = self._stage.case(call, target, reads=self._now.session.toolbox.parallel(call))
        shown = self._shown_cases.get(call.id)
        holds = self._cases[call.id].same_facts(now) if shown is None else shown.same(now)
        if not holds:
            self._rules.pop(call.id, None)
            raise judge.Lapsed
        self._stage.expect(self._cases[call.id] if shown is None else shown)
        self._remember(call.id)

    def _remember(self, call_id: str) -> None:
        """Keep the rule that the user wanted remembered, if there is one."""
        if (rule := self._rules.pop(call_id, None)) is not None:
            self._now.keep(self._now.session.remember(rule))

    # When it happened, in milliseconds since the last request was sent.

    @property
    def _now_ms(self) -> int:
        return round((asyncio.get_running_loop().time() - self._sent_at) * 1000)

    @contextlib.asynccontextmanager
    async def _timed(self, kind: Noted, name: str) -> AsyncIterator[None]:
        """Note how long something took, however it ends."""
        began = self._now_ms
        try:
            yield
        finally:
            await self._note(kind, name, self._now_ms - began, began)

    async def _keep_time(self, event: HostEvent) -> None:
        if isinstance(event, events.ApprovalAnswered):
            waited_ms = self._now_ms - self._asked_ms
            await self._note("waits", "approval", waited_ms, self._asked_ms)
            await self._note("answers", event.call_id, answered_words(event))
        elif isinstance(event, events.TurnEnded):
            self._last = event
            self.ended = Ended(event.outcome, event.code, self._now_ms)

    async def _note_call(self, call: ToolCall, state: CallState) -> None:
        await asyncio.to_thread(
            self._stage.scribe.note_call, self._now.session, self._now.turn, call.id, state
        )

    async def _note(self, kind: Noted, *values: str | int) -> None:
        await asyncio.to_thread(self._stage.scribe.note, self._now.turn, kind, *values)

    async def _note_words(self, text: str, reasoning: str) -> None:
        await asyncio.to_thread(self._stage.scribe.note_words, self._now.session, text, reasoning)

    @property
    def _composed(self) -> Composed:
        composed = self._now.turn.composed
        assert composed is not None  # noqa: S101 - nothing is asked before it is composed
        return composed


_DECIDED: Final = {"approve": "allowed", "deny": "refused"}


def answered_words(event: events.ApprovalAnswered) -> str:
    """Say how an approval was answered, and by whom."""
    who = "you" if event.by == "user" else event.by
    if event.params is not None:
        return f"changed by {who}, and asked about again"
    why = f": {event.reason}" if event.reason else ""
    return f"{'allowed' if event.approved else 'refused'} by {who}{why}"


class _ReplyNotes:
    """The words of a reply that are not stored yet, on their way to the ledger.

    Written in the background, the first at once and the rest now and then, so that a
    stream never waits for the disk. Each time all of them: a key is known by its whole.
    """

    def __init__(self, write: Callable[[str, str], Awaitable[None]]) -> None:
        self._write = write
        self._text = ""
        self._reasoning = ""
        self._written = 0
        self._task: asyncio.Task[None] | None = None
        self._resting = asyncio.Event()

    def add(self, event: TextArrived | ReasoningArrived) -> None:
        """Take more words."""
        if isinstance(event, TextArrived):
            self._text += event.text
        else:
            self._reasoning += event.text
        if self._task is None:
            self._resting.clear()
            self._task = asyncio.create_task(self._keep_writing())

    async def rest(self) -> None:
        """Write no more of this reply; what is being written is."""
        self._resting.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        self._text = self._reasoning = ""
        self._written = 0

    async def _keep_writing(self) -> None:
        while not self._resting.is_set():
            if (length := len(self._text) + len(self._reasoning)) > self._written:
                self._written = length
                await self._write(self._text, self._reasoning)
            try:
                async with asyncio.timeout(NOTE_EVERY_S):
                    await self._resting.wait()
            except TimeoutError:
                continue


def _model_error(error: errors.SightlineError) -> steps.ModelError:
    retryable = isinstance(error, errors.Unreachable) or (
        isinstance(error, errors.ModelFailed) and error.retryable
    )
    after_s = error.retry_after_s if isinstance(error, errors.RateLimited) else None
    overflow = isinstance(error, errors.Overflow)
    return steps.ModelError(error.code, str(error), retryable, after_s, overflow)


def _is_refusal(error: errors.SightlineError) -> bool:
    """Whether a vendor will not take this request; Google answers 403 where a resource is gone."""
    if isinstance(error, errors.RateLimited | errors.Overflow):
        return False
    return isinstance(error, errors.Unauthorized) or (
        isinstance(error, errors.ModelFailed) and not error.retryable
    )


def _built(
    turn: OpenTurn, model: Model, composed: Composed, receipt_id: int | None
) -> events.RequestBuilt:
    receipt, change = composed.prompt.receipt, composed.drift
    volatile = (slot.kept for slot in receipt.slots if slot.stability == "volatile")
    cause = ""
    if change is not None and not change.expected:
        cause = f"{change.kind}: {change.slot or change.label}"
    return events.RequestBuilt(
        turn=turn.number,
        request=turn.requests,
        model=model.label,
        prompt_tokens=composed.expected_tokens,
        budget_tokens=receipt.budget + composed.kept_tokens,
        tail_tokens=sum(volatile),
        basis=receipt.provenance,
        reused_tokens=0 if change is None else change.common_tokens,
        cause=cause,
        regression=change is not None and change.kind == "regression",
        receipt_id=receipt_id,
        warnings=composed.warnings,
    )
