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
    Replied,
    Revised,
    RunCall,
    Spent,
    Stop,
    Streamed,
    UsageReport,
    Wait,
    Waited,
)
from sightline.context.dialects.events import (
    ReasoningArrived,
    Stopped,
    TextArrived,
    Usage,
    UsageArrived,
)
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


def test_machine_runs_a_call_id_once_when_a_reply_repeats_it() -> None:
    driver = Driver()
    calls = [call("x"), call("y"), call("x"), ToolCall("x", "other", {})]
    driver.to_reply(reply(*calls, reason="tool_calls", parallel="x y"))
    driver.step(ActionDone("x", "1"))
    assert driver.step(ActionDone("y", "2")) == [BuildPrompt(2)]
    runs = [effect.call.id for effect in driver.begun if isinstance(effect, RunCall)]
    assert runs == ["x", "y"]
    repeated = "error: not run (an earlier call of this reply has its id, and an id runs once)"
    assert results(driver) == [
        ("x", "1", False), ("y", "2", False), ("x-2", repeated, True), ("x-3", repeated, True),
    ]  # fmt: skip
    ids = [part.id for message in driver.messages() for part in message.tool_calls]
    assert ids == ["x", "y", "x-2", "x-3"]
    assert driver.kinds().count("CallStarted") == driver.kinds().count("CallFinished") == 4


def test_machine_runs_no_call_that_the_dialect_names_as_repeated() -> None:
    driver = Driver()
    calls = Message("assistant", (call("x"), call("derived")))
    driver.to_reply(Replied(Stopped("tool_calls", calls, repeated=("derived",))))
    driver.step(ActionDone("x", "1"))
    assert [effect.call.id for effect in driver.begun if isinstance(effect, RunCall)] == ["x"]
    assert [is_error for _, _, is_error in results(driver)] == [False, True]


def test_machine_runs_a_call_id_again_when_a_later_reply_has_it() -> None:
    driver = Driver()
    driver.to_reply(reply(call("x"), reason="tool_calls"))
    driver.step(ActionDone("x", "1"))
    driver.step(READY)
    driver.step(reply(call("x"), reason="tool_calls"))
    driver.step(ActionDone("x-2", "2"))
    assert results(driver) == [("x", "1", False), ("x-2", "2", False)]


class Loop:
    """A model that makes a call in each reply, in a turn with one limit: the loop."""

    def __init__(self, *, asks: bool = True) -> None:
        self.driver = Driver(TurnLimits(rounds=100, asks_about_loops=asks))
        self.driver.step(START)
        self.driver.step(READY)
        self.count = 0

    def make(self, made: ToolCall, content: str = "Done.") -> list[object]:
        """Make the call, and give it a result if it runs. Return what the machine wants first."""
        self.count += 1
        made = ToolCall(f"c{self.count}", made.name, made.arguments)
        begun = self.driver.step(reply(made, reason="tool_calls"))
        if isinstance(begun[0], RunCall):
            self.finish(content)
        return [type(effect) for effect in begun]

    def finish(self, content: str = "Done.") -> None:
        self.driver.step(ActionDone(f"c{self.count}", content))
        self.driver.step(READY)

    @property
    def content(self) -> str:
        return results(self.driver)[-1][1]


SEND = ToolCall("", "slop_invoke", {"path": "/", "action": "send"})
LOOPS = "the model made the same call {} times in this turn, with the same result"


def test_machine_informs_the_model_when_three_equal_calls_had_equal_results() -> None:
    loop = Loop()
    contents: list[str] = []
    for _ in range(5):
        assert loop.make(SEND) == [RunCall]
        contents.append(loop.content)
    advice = ": do something else, or tell the user why you cannot)\nDone."
    assert contents[:2] == ["Done.", "Done."]
    assert contents[2:] == [f"({LOOPS.format(count)}{advice}" for count in (3, 4, 5)]


def test_machine_asks_the_user_when_five_equal_calls_had_equal_results() -> None:
    loop = Loop()
    for _ in range(5):
        loop.make(SEND)
    assert loop.make(SEND) == [AskApproval]
    asked = loop.driver.begun[-1]
    assert isinstance(asked, AskApproval)
    assert asked.reason == LOOPS.format(5)
    # After an approval the count begins again.
    assert loop.driver.step(Approved("c6")) == [RunCall(asked.call)]
    loop.finish()
    assert [loop.make(SEND) for _ in range(5)] == [[RunCall]] * 4 + [[AskApproval]]


def test_machine_ends_the_turn_when_the_user_rejects_a_loop_without_a_reason() -> None:
    loop = Loop()
    for _ in range(6):
        loop.make(SEND)
    assert loop.driver.step(Denied("c6")) == [Stop()]
    assert ending(loop.driver) == TurnEnded(
        turn=1, outcome="limit", code="repeated_call", detail=f"{LOOPS.format(5)}: slop_invoke"
    )
    assert results(loop.driver)[-1] == ("c6", "error: not run (the user did not approve it)", True)


def test_machine_tells_the_model_when_the_user_rejects_a_loop_with_a_reason() -> None:
    loop = Loop()
    for _ in range(6):
        loop.make(SEND)
    assert loop.driver.step(Denied("c6", reason="use rg")) == [BuildPrompt(7)]
    loop.driver.step(READY)
    assert loop.make(SEND) == [AskApproval]


def test_machine_ends_the_turn_when_five_equal_calls_had_equal_results_and_no_user_is_asked() -> (
    None
):
    loop = Loop(asks=False)
    for _ in range(5):
        assert loop.make(SEND) == [RunCall]
    assert loop.make(SEND) == [Stop]
    assert (ending(loop.driver).outcome, ending(loop.driver).code) == ("limit", "repeated_call")
    assert results(loop.driver)[-1] == ("c6", f"error: not run ({LOOPS.format(5)})", True)
    assert loop.driver.kinds().count("CallStarted") == loop.driver.kinds().count("CallFinished")


def test_machine_ends_the_turn_when_the_policy_denies_five_equal_calls() -> None:
    loop = Loop()
    loop.driver.verdicts = {f"c{number}": DENY for number in range(1, 9)}
    while not loop.driver.machine.over:
        loop.count += 1
        loop.driver.step(reply(ToolCall(f"c{loop.count}", SEND.name, SEND.arguments)))
        loop.driver.step(READY)
    assert (loop.count, ending(loop.driver).code) == (6, "repeated_call")


@pytest.mark.parametrize(
    "contents",
    [
        [f"{number}" for number in range(12)],  # each result is new
        [f'{{"run":"run-1","status":"running","seconds":{number}}}' for number in range(12)],
    ],
)
def test_machine_finds_no_loop_when_equal_calls_have_new_results(contents: list[str]) -> None:
    loop = Loop()
    assert [loop.make(SEND, content) for content in contents] == [[RunCall]] * 12
    assert not loop.content.startswith("(")


def test_machine_finds_no_loop_when_a_different_call_has_a_new_result_in_between() -> None:
    loop = Loop()
    for number in range(12):
        assert loop.make(SEND) == [RunCall]
        assert loop.make(ToolCall("", "edit", {"new": str(number)})) == [RunCall]


def test_machine_finds_a_loop_of_two_calls_that_take_turns() -> None:
    loop = Loop()
    look = ToolCall("", "slop_query", {"path": "/"})
    assert [loop.make(made) for made in (SEND, look) * 5] == [[RunCall]] * 10
    assert loop.make(SEND) == [AskApproval]


def test_machine_finds_a_loop_of_a_command_whose_time_differs() -> None:
    loop = Loop()
    for number in range(5):
        assert loop.make(SEND, f'Done.\n{{"exit_code":0,"seconds":0.0{number},"output":""}}') == [
            RunCall
        ]
    assert loop.make(SEND) == [AskApproval]


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
