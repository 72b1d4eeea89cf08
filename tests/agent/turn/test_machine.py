"""The turn, step by step: literal events in, literal effects out."""

from __future__ import annotations

import pytest

from agent.turn.driver import READY, START, Driver, call, reply
from sightline.agent.policy import Decision
from sightline.agent.turn.machine import TurnLimits
from sightline.agent.turn.steps import (
    ActionDone,
    Approved,
    AskApproval,
    BuildPrompt,
    CallModel,
    Cancel,
    Changed,
    Denied,
    Fold,
    Folded,
    ModelError,
    PromptFailed,
    Revised,
    RunCall,
    Spent,
    Stop,
    Streamed,
    UsageReport,
    Wait,
    Waited,
)
from sightline.context.dialects.events import ReasoningArrived, TextArrived, Usage, UsageArrived
from sightline.context.messages.parts import Message, Reasoning, Text, ToolCall, ToolResult
from sightline.events import (
    ApprovalAnswered,
    CallFinished,
    Noticed,
    ReplyEnded,
    Retrying,
    TurnEnded,
    TurnStarted,
)

ASK = Decision("ask", "mode ask")
DENY = Decision("deny", "mode plan")


def ending(driver: Driver) -> TurnEnded:
    last = driver.emitted[-1]
    assert isinstance(last, TurnEnded)
    assert driver.machine.over
    return last


def results(driver: Driver) -> list[tuple[str, str, bool]]:
    return [
        (part.call_id, part.content, part.is_error)
        for message in driver.messages()
        for part in message.tool_results
    ]


def said(text: str) -> Streamed:
    return Streamed(TextArrived(text))


def test_a_question_is_stored_asked_and_answered() -> None:
    driver = Driver()
    assert driver.step(START) == [BuildPrompt(1)]
    assert driver.step(READY) == [CallModel()]
    driver.step(said("Hel"))
    driver.step(said("lo"))
    usage = UsageArrived(Usage(10, 2))
    assert driver.step(Streamed(usage)) == [UsageReport(usage)]
    driver.step(reply("Hello"))
    assert driver.messages() == [Message.of("assistant", "Hello")]
    assert driver.kinds() == [
        "TurnStarted", "RequestBuilt", "TextDelta", "TextDelta", "ReplyEnded", "TurnEnded",
    ]  # fmt: skip
    started = driver.emitted[0]
    assert isinstance(started, TurnStarted)
    assert (started.session_id, started.group_id, started.text) == (7, 3, "hi")
    ended = driver.emitted[-2]
    assert isinstance(ended, ReplyEnded)
    assert (ended.reason, ended.message_id) == ("end", 0)
    assert ending(driver) == TurnEnded(turn=1, outcome="answered", text="Hello")


def test_the_answer_comes_without_its_state_block_which_is_stored() -> None:
    driver = Driver()
    driver.to_reply(reply("Done.\n\n### STATE\nGoal: none"))
    assert ending(driver).text == "Done."
    assert driver.messages()[0].text.endswith("Goal: none")


def test_calls_run_and_the_model_is_asked_again() -> None:
    driver = Driver()
    driver.to_reply(reply("I look.", call("a"), reason="tool_calls"))
    assert driver.begun[-1] == RunCall(call("a"))
    assert driver.step(ActionDone("a", "3 mails")) == [BuildPrompt(2)]
    assert results(driver) == [("a", "3 mails", False)]
    driver.step(READY)
    driver.step(reply("Three."))
    assert ending(driver).text == "Three."
    assert [message.role for message in driver.messages()] == [
        "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_what_is_safe_runs_at_once_and_results_are_stored_in_call_order() -> None:
    driver = Driver()
    calls = [call("a"), call("b"), call("c")]
    driver.to_reply(reply(*calls, reason="tool_calls", parallel="a b c"))
    assert driver.begun[-3:] == [RunCall(c) for c in calls]
    driver.step(ActionDone("c", "3"))
    driver.step(ActionDone("a", "1"))
    assert [call_id for call_id, _, _ in results(driver)] == ["a"]
    assert driver.step(ActionDone("b", "2")) == [BuildPrompt(2)]
    assert [call_id for call_id, _, _ in results(driver)] == ["a", "b", "c"]


def test_what_is_not_safe_runs_alone_and_in_its_place() -> None:
    driver = Driver()
    calls = [call("a"), call("w"), call("b")]
    driver.to_reply(reply(*calls, reason="tool_calls", parallel="a b"))
    assert driver.begun[-1] == RunCall(call("a"))
    assert driver.step(ActionDone("a", "")) == [RunCall(call("w"))]
    assert driver.step(ActionDone("w", "")) == [RunCall(call("b"))]
    assert driver.step(ActionDone("b", "")) == [BuildPrompt(2)]


def test_approval_is_a_pause() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a"), call("b"), reason="tool_calls", parallel="b"))
    assert driver.begun[-1] == AskApproval(call("a"), "mode ask")
    assert driver.machine.asking == call("a")
    assert driver.step(Approved("b")) == []
    assert driver.step(Approved("a")) == [RunCall(call("a"))]
    assert driver.step(Approved("a")) == []
    assert driver.step(ActionDone("a", "done")) == [RunCall(call("b"))]


def test_what_changed_after_the_yes_is_asked_about_again_and_given_up_in_the_end() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a")))
    for _ in range(2):
        assert driver.step(Approved("a")) == [RunCall(call("a"))]
        assert driver.step(Changed("a")) == [AskApproval(call("a"), "mode ask")]
    driver.step(Approved("a"))
    driver.step(Changed("a"))
    assert "kept changing" in results(driver)[0][1]
    assert driver.kinds().count("CallStarted") == 1


def test_what_changed_after_the_yes_is_the_users_to_approve_whatever_the_policy_says() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a")))
    driver.step(Approved("a"))
    driver.verdicts = {}  # the app calls it harmless now
    assert driver.step(Changed("a")) == [AskApproval(call("a"), "test")]


def test_what_changed_before_the_policys_decision_was_done_is_judged_again() -> None:
    driver = Driver()
    driver.to_reply(reply(call("a")))
    assert driver.step(Changed("a")) == [RunCall(call("a"))]
    driver.verdicts = {"a": DENY}
    driver.step(Changed("a"))
    assert results(driver) == [("a", "error: not run (mode plan)", True)]
    assert driver.step(Changed("a")) == []


@pytest.mark.parametrize(
    ("by", "told"), [("user", "the user did not approve it"), ("nobody there", "nobody there")]
)
def test_a_denied_call_is_not_run_and_the_model_is_told(by: str, told: str) -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    assert driver.step(Denied("a", by)) == [BuildPrompt(2)]
    [(_, content, is_error)] = results(driver)
    assert told in content
    assert is_error
    assert ApprovalAnswered(call_id="a", approved=False, by=by) in driver.emitted


def test_a_reason_is_told_to_the_model() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    driver.step(Denied("a", reason="use rg"))
    told = "error: not run (the user did not approve it: use rg)"
    assert results(driver) == [("a", told, True)]


def test_a_call_that_the_user_changed_is_asked_about_again_and_its_result_says_so() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a")))
    other = ToolCall("a", "slop_query", {"path": "/elsewhere"})
    assert driver.step(Revised(ToolCall("b", "slop_query", {}), {}, "")) == []
    driver.verdicts = {}  # whatever the policy says of it as it is now
    assert driver.step(Revised(other, {"x": 1}, "Changed.")) == [AskApproval(other, "test")]
    assert driver.step(Approved("a")) == [RunCall(other)]
    driver.step(ActionDone("a", "Done."))
    assert results(driver) == [("a", "Changed.\nDone.", False)]


def test_what_the_policy_denies_is_not_run_and_the_model_is_told_why() -> None:
    driver = Driver()
    driver.verdicts = {"a": DENY}
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    assert driver.begun[-1] == BuildPrompt(2)
    assert results(driver) == [("a", "error: not run (mode plan)", True)]


def test_a_call_that_fails_has_an_error_result() -> None:
    driver = Driver()
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    driver.step(ActionDone("a", "no such node", ok=False))
    assert results(driver) == [("a", "no such node", True)]


def test_calls_of_one_name_get_names_of_their_own() -> None:
    driver = Driver()
    driver.to_reply(reply(call("x"), call("x"), reason="tool_calls", parallel="x"))
    driver.step(ActionDone("x", "1"))
    driver.step(ActionDone("x-2", "2"))
    driver.step(READY)
    driver.step(reply(call("x"), reason="tool_calls"))
    driver.step(ActionDone("x-3", "3"))
    assert [call_id for call_id, _, _ in results(driver)] == ["x", "x-2", "x-3"]
    ids = [part.id for message in driver.messages() for part in message.tool_calls]
    assert ids == ["x", "x-2", "x-3"]


def test_a_cancelled_stream_is_stored_as_incomplete() -> None:
    driver = Driver()
    driver.to_reply(Streamed(ReasoningArrived("hm")), said("I thi"))
    assert driver.step(Cancel()) == [Stop()]
    partial = Message("assistant", (Reasoning("hm"), Text("I thi")))
    assert driver.stored[-1] == (partial, True)
    assert (ending(driver).outcome, ending(driver).text) == ("cancelled", "I thi")


@pytest.mark.parametrize("before", [[], [START], [START, READY]])
def test_with_nothing_said_nothing_is_stored(before: list[object]) -> None:
    driver = Driver()
    for event in before:
        driver.step(event)  # type: ignore[arg-type]  # the list of all events
    driver.step(Cancel())
    assert driver.stored == []
    assert ending(driver).outcome == "cancelled"


def test_cancelling_gives_every_open_call_a_result_that_says_what_became_of_it() -> None:
    driver = Driver()
    driver.verdicts = {"c": ASK}
    calls = [call("a"), call("b"), call("c"), call("d")]
    driver.to_reply(reply(*calls, reason="tool_calls", parallel="a b"))
    driver.step(ActionDone("a", "done"))
    driver.step(Cancel("interrupted"))
    told = {call_id: content for call_id, content, _ in results(driver)}
    assert list(told) == ["a", "b", "c", "d"]
    assert told["a"] == "done"
    assert told["b"] == "error: interrupted (interrupted); whether it took effect is unknown"
    assert told["c"] == told["d"] == "error: not run (interrupted)"
    assert driver.kinds().count("CallStarted") == driver.kinds().count("CallFinished") == 4


def test_cancelling_an_approval_answers_it() -> None:
    driver = Driver()
    driver.verdicts = {"a": ASK}
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    driver.step(Cancel())
    assert "ApprovalAnswered" in driver.kinds()
    assert driver.step(Approved("a")) == []
    assert results(driver) == [("a", "error: not run (cancelled by the user)", True)]


def test_nothing_comes_after_the_end() -> None:
    driver = Driver()
    driver.to_reply(reply("ok"))
    told = len(driver.emitted)
    for event in (Cancel(), READY, reply("again"), ActionDone("a", ""), Waited(), START):
        assert driver.step(event) == []
    assert len(driver.emitted) == told


def test_what_may_pass_is_tried_again_and_built_anew() -> None:
    driver = Driver()
    driver.to_reply()
    error = ModelError("rate_limited", "too many", retryable=True, retry_after_s=7)
    assert driver.step(error) == [Wait(7)]
    assert driver.accounted == [Spent(outcome="rate_limited", error="too many")]
    assert driver.emitted[-1] == Retrying(attempt=1, after_s=7, reason="too many")
    assert driver.step(Waited()) == [BuildPrompt(2)]
    driver.step(READY)
    driver.step(reply("ok"))
    assert ending(driver).outcome == "answered"


def test_waits_grow_and_end() -> None:
    driver = Driver(TurnLimits(retries=3))
    driver.to_reply()
    waits: list[float] = []
    error = ModelError("unreachable", "no route", retryable=True)
    while (begun := driver.step(error)) and isinstance(begun[0], Wait):
        waits.append(begun[0].after_s)
        driver.step(Waited())
        driver.step(READY)
    assert waits == [1, 2, 4]
    assert (ending(driver).code, ending(driver).detail) == ("unreachable", "no route")


def test_retries_are_counted_anew_after_a_reply() -> None:
    driver = Driver(TurnLimits(retries=1))
    error = ModelError("unreachable", "no route", retryable=True)
    driver.to_reply(error, Waited(), READY, reply(call("a"), reason="tool_calls"))
    driver.step(ActionDone("a", ""))
    driver.step(READY)
    assert driver.step(error) == [Wait(1)]


def test_a_vendor_that_wants_an_hour_is_not_waited_for() -> None:
    driver = Driver()
    driver.to_reply(ModelError("rate_limited", "tomorrow", retryable=True, retry_after_s=3600))
    assert ending(driver).code == "rate_limited"


def test_what_will_not_pass_ends_the_turn() -> None:
    driver = Driver()
    driver.to_reply(ModelError("unauthorized", "no key"))
    assert (ending(driver).outcome, ending(driver).code) == ("failed", "unauthorized")
    assert driver.messages() == []


def test_nothing_is_repeated_after_the_first_word() -> None:
    driver = Driver()
    driver.to_reply(said("I "), ModelError("unreachable", "gone", retryable=True))
    assert driver.stored[-1] == (Message.of("assistant", "I "), True)
    assert (ending(driver).outcome, ending(driver).code) == ("failed", "incomplete")


def test_a_stream_that_breaks_off_unseen_is_tried_again_and_else_kept() -> None:
    driver = Driver()
    driver.to_reply()
    assert driver.step(reply(reason="incomplete", detail="cut")) == [Wait(1)]
    driver.step(Waited())
    driver.step(READY)
    driver.step(said("I "))
    driver.step(reply("I ", call("a"), reason="incomplete", detail="cut"))
    assert driver.stored[-1] == (Message.of("assistant", "I "), True)
    assert ending(driver).detail == "cut"


def test_too_long_folds_the_window_once() -> None:
    driver = Driver()
    driver.to_reply()
    error = ModelError("overflow", "9000 > 8192", overflow=True)
    assert driver.step(error) == [Fold()]
    assert isinstance(driver.emitted[-1], Noticed)
    assert driver.step(Folded()) == [BuildPrompt(2)]
    driver.step(READY)
    driver.step(error)
    assert (ending(driver).outcome, ending(driver).code) == ("failed", "overflow")


def test_nothing_left_to_fold_is_the_end() -> None:
    driver = Driver()
    driver.to_reply(ModelError("overflow", "long", overflow=True), Folded(possible=False))
    assert ending(driver).code == "overflow"


def test_a_turn_has_so_many_rounds_and_calls_beyond_are_not_run() -> None:
    driver = Driver(TurnLimits(rounds=1))
    driver.to_reply(reply("more", call("a"), reason="tool_calls"))
    assert not any(isinstance(effect, RunCall) for effect in driver.begun)
    [(_, content, is_error)] = results(driver)
    assert "1 requests at most" in content
    assert is_error
    assert (ending(driver).outcome, ending(driver).code) == ("limit", "rounds")


def test_a_turn_has_so_many_tokens() -> None:
    driver = Driver(TurnLimits(turn_tokens=25))
    driver.to_reply(Streamed(UsageArrived(Usage(10, 8))), reply(call("a"), reason="tool_calls"))
    driver.step(ActionDone("a", ""))
    driver.step(READY)  # 18 and 10 more
    assert (ending(driver).outcome, ending(driver).code) == ("limit", "turn_tokens")
    driver = Driver(TurnLimits(turn_tokens=10))
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    assert ending(driver).code == "turn_tokens"
    assert len(results(driver)) == 1


@pytest.mark.parametrize(
    ("reason", "outcome", "code"),
    [("length", "limit", "length"), ("refused", "failed", "refused")],
)
def test_other_ends_are_told(reason: str, outcome: str, code: str) -> None:
    driver = Driver()
    driver.to_reply(reply("so far", reason=reason))  # type: ignore[arg-type]  # one of them
    assert (ending(driver).outcome, ending(driver).code) == (outcome, code)
    assert ending(driver).text == "so far"
    assert driver.stored[-1] == (Message.of("assistant", "so far"), False)


def test_the_calls_of_a_refused_reply_are_not_run() -> None:
    driver = Driver()
    driver.to_reply(reply(call("a"), reason="refused"))
    assert ending(driver).code == "refused"
    assert len(results(driver)) == 1


def test_a_reply_of_nothing_is_an_answer_of_nothing() -> None:
    driver = Driver()
    driver.to_reply(Streamed(UsageArrived(Usage(5, 0))), reply())
    assert driver.accounted == [Spent(Usage(5, 0), outcome="end")]
    assert driver.messages() == []
    assert (ending(driver).outcome, ending(driver).text) == ("answered", "")


def test_a_prompt_that_cannot_be_made_ends_the_turn() -> None:
    driver = Driver()
    driver.step(START)
    driver.step(PromptFailed("does_not_fit", "8 > 4"))
    assert (ending(driver).code, ending(driver).detail) == ("does_not_fit", "8 > 4")


@pytest.mark.parametrize("at", range(2))
def test_a_full_disk_ends_the_turn_and_nothing_is_told_that_is_not_stored(at: int) -> None:
    driver = Driver()
    driver.disk_fails_at = at
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    driver.step(ActionDone("a", "done"))
    assert (ending(driver).outcome, ending(driver).code) == ("failed", "ledger_unavailable")
    assert len(driver.stored) == at
    finished = [event for event in driver.emitted if isinstance(event, CallFinished)]
    assert finished == []


def test_a_call_waits_for_its_reply_to_be_stored() -> None:
    driver = Driver()
    driver.disk_fails_at = 0
    driver.to_reply(reply(call("a"), reason="tool_calls"))
    assert not any(isinstance(effect, RunCall) for effect in driver.begun)


def test_results_are_stored_one_message_each() -> None:
    driver = Driver()
    calls: list[ToolCall] = [call("a"), call("b")]
    driver.to_reply(reply(*calls, reason="tool_calls", parallel="a b"))
    driver.step(ActionDone("b", "2"))
    driver.step(ActionDone("a", "1"))
    assert driver.messages()[1:] == [
        Message("tool", (ToolResult("a", "1", "look"),)),
        Message("tool", (ToolResult("b", "2", "look"),)),
    ]
