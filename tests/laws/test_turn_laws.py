"""A turn is consistent whatever happens to it, in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.turn.driver import READY, START, Driver, call, reply
from sightline.agent.policy import Decision
from sightline.agent.turn.machine import MAX_CHANGES, TurnLimits
from sightline.agent.turn.steps import (
    ActionDone,
    Approved,
    AskApproval,
    Broken,
    BuildPrompt,
    CallModel,
    Cancel,
    Changed,
    Denied,
    Effect,
    Fold,
    Folded,
    ModelError,
    Overrun,
    PromptFailed,
    Replied,
    Revised,
    RunCall,
    Spend,
    Streamed,
    TurnEvent,
    Wait,
    Waited,
)
from sightline.context.dialects.events import (
    ReasoningArrived,
    StopReason,
    TextArrived,
    Usage,
    UsageArrived,
)
from sightline.context.messages.parts import Message, Part
from sightline.events import SpendingAsked, TurnEnded
from support.share import share

OVERRUN = Overrun(
    SpendingAsked(scope="turn", spent_usd=1.0, limit_usd=1.0, next_usd=0.1, raised_usd=2.0)
)
ids = st.sampled_from("abc")
reasons: st.SearchStrategy[StopReason] = st.sampled_from(get_args(StopReason))


@st.composite
def replies(draw: st.DrawFn) -> Replied:
    calls = [call(own) for own in draw(st.lists(ids, max_size=4))]
    text = draw(st.sampled_from(["", "text"]))
    made: list[Part | str] = [text, *calls] if text else [*calls]
    return reply(*made, reason=draw(reasons), parallel=draw(st.sampled_from(["", "a", "a b"])))


errors = st.builds(
    ModelError,
    code=st.just("e"),
    detail=st.just("d"),
    retryable=st.booleans(),
    retry_after_s=st.sampled_from([None, 0.0, 1.0, 1e9]),
    overflow=st.booleans(),
)
streamed = st.sampled_from(
    [
        Streamed(TextArrived("t")),
        Streamed(ReasoningArrived("r")),
        Streamed(UsageArrived(Usage(9, 9))),
    ]
)
done = st.builds(ActionDone, st.sampled_from(["a", "b", "c", "a-2"]), st.just("r"), st.booleans())
answers = st.one_of(
    st.builds(Approved, ids), st.builds(Denied, ids), st.builds(Changed, ids),
    ids.map(lambda own: Revised(call(own), {}, "note")),
)  # fmt: skip
# What may come from anybody at any time, mostly out of place.
junk: st.SearchStrategy[TurnEvent] = st.one_of(
    st.just(START), st.just(READY), replies(), errors, streamed, done, answers,
    st.sampled_from([Waited(), Folded(), Folded(possible=False), PromptFailed("c", "d"), OVERRUN]),
    st.builds(Spend, st.booleans()),
)  # fmt: skip


def fitting(effect: Effect) -> st.SearchStrategy[TurnEvent] | None:
    """What a shell may answer to an effect that it began."""
    match effect:
        case BuildPrompt():
            return st.sampled_from([READY, READY, READY, OVERRUN, PromptFailed("c", "d")])
        case CallModel():
            return st.one_of(streamed, replies(), replies(), errors)
        case RunCall(own):
            ran = st.builds(ActionDone, st.just(own.id), st.just("r"), st.booleans())
            return ran | st.just(Changed(own.id))
        case AskApproval(own):
            return st.sampled_from([Approved(own.id), Denied(own.id), Revised(own, {}, "note")])
        case Wait():
            return st.just(Waited())
        case Fold():
            return st.builds(Folded, st.booleans())
        case _:
            return None


class Verdicts(dict[str, Decision]):
    """Draws a verdict when a call is judged."""

    def __init__(self, draw: Callable[[st.SearchStrategy[str]], str]) -> None:
        super().__init__()
        self._draw = draw
        self.given: list[tuple[str, str]] = []

    def get(self, key: str, default: Decision | None = None) -> Decision:  # type: ignore[override]
        verdict = self._draw(st.sampled_from(["approve", "ask", "deny"]))
        self.given.append((key, verdict))
        return Decision(verdict, "drawn")  # type: ignore[arg-type]  # one of the three


@settings(max_examples=share(4_000))
@given(st.data())
def test_any_sequence_of_events_leaves_a_consistent_turn(data: st.DataObject) -> None:
    limits = TurnLimits(
        rounds=data.draw(st.integers(1, 9)),
        asks_about_loops=data.draw(st.booleans()),
        turn_tokens=data.draw(st.sampled_from([0, 50])),
        retries=data.draw(st.integers(0, 2)),
    )
    driver = Driver(limits)
    verdicts = Verdicts(data.draw)
    driver.verdicts = verdicts
    driver.disk_fails_at = data.draw(st.sampled_from([-1, -1, -1, 0, 1]))
    # What became of each call, in order: how it was judged, answered, begun, and given back.
    story: list[tuple[str, str]] = verdicts.given
    driver.step(START)
    open_effects = list(driver.begun)
    for _ in range(data.draw(st.integers(0, 25))):
        choices = [s for effect in open_effects[-3:] if (s := fitting(effect)) is not None]
        event = data.draw(st.one_of(*choices, *choices, junk) if choices else junk)
        asking = driver.machine.asking
        if isinstance(event, Approved) and asking is not None and asking.id == event.call_id:
            story.append((event.call_id, "yes"))
        if isinstance(event, Revised) and asking is not None and asking.id == event.call.id:
            story.append((event.call.id, "revised"))
        is_back = isinstance(event, Changed) and event.call_id in driver.machine._round.running
        if is_back:
            story.append((event.call_id, "changed"))
        begun = driver.step(event)
        runs = [effect.call.id for effect in begun if isinstance(effect, RunCall)]
        assert not driver.machine._round.repeated.intersection(runs), "an id of a reply ran twice"
        story += [(effect.call.id, "run") for effect in begun if isinstance(effect, RunCall)]
        open_effects += begun
    last = Cancel() if data.draw(st.booleans()) else Broken("gone", "the shell broke")
    driver.step(last)

    check_the_end(driver)
    if driver.disk_fails_at < 0 and isinstance(last, Cancel):
        check_pairs(driver.messages())
    check_runs(driver, story)


def check_the_end(driver: Driver) -> None:
    """`TurnEnded` comes exactly once, and last."""
    assert driver.machine.over
    ends = [index for index, event in enumerate(driver.emitted) if isinstance(event, TurnEnded)]
    assert ends == [len(driver.emitted) - 1]


def check_pairs(messages: list[Message]) -> None:
    """Every call has one result, after it and in call order; no result lacks its call."""
    calls: list[str] = []
    answered: list[str] = []
    for message in messages:
        if message.role == "assistant":
            assert answered == calls, "a reply while calls are open"
            calls += [part.id for part in message.tool_calls]
        else:
            assert message.tool_calls == ()
            answered += [part.call_id for part in message.tool_results]
    assert answered == calls
    assert len(set(calls)) == len(calls)


def check_runs(driver: Driver, story: list[tuple[str, str]]) -> None:
    """Nothing is run without a yes to it as it is then; nothing that ran, or was asked about
    and changed, is run again unasked."""
    runs = [effect.call.id for effect in driver.begun if isinstance(effect, RunCall)]
    for own in set(runs):
        told = [what for call_id, what in story if call_id == own]
        agreed = asked = False
        for what in told:
            if what == "run":
                assert agreed, told
            asked = asked or what == "ask"
            agreed = what == "yes" if asked else what == "approve"
        assert told.count("run") <= 1 + told.count("changed")
        assert told.count("changed") <= MAX_CHANGES
    stored = {part.id for message in driver.messages() for part in message.tool_calls}
    assert set(runs) <= stored, "a call is on the disk before it runs"


@settings(max_examples=share(2_000))
@given(st.data())
def test_a_cancel_anywhere_ends_the_turn_at_once(data: st.DataObject) -> None:
    driver = Driver()
    driver.verdicts = Verdicts(data.draw)
    driver.step(START)
    for _ in range(data.draw(st.integers(0, 12))):
        choices = [s for effect in driver.begun[-2:] if (s := fitting(effect)) is not None]
        if choices:
            driver.step(data.draw(st.one_of(*choices)))
    driver.step(Cancel())
    check_the_end(driver)
    check_pairs(driver.messages())
