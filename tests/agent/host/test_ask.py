"""A host at work: what it sends, runs, asks, stores and tells."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from agent.host.helpers import (
    check_ledger,
    ended,
    hosted,
    invoke,
    messages,
    of_kind,
    statuses,
    turn,
)
from context.projection.requirements import proves
from sightline.agent.models.scripted import Cut, ScriptedModel, Stall
from sightline.config import AppSettings, LimitSettings, PolicyRule, WindowSettings
from sightline.context.dialects.drift import drift
from sightline.context.dialects.profiles import profile_for
from sightline.context.messages.parts import UNREADABLE, ToolCall
from sightline.errors import (
    InvalidInput,
    ModelFailed,
    NotFound,
    Overflow,
    RateLimited,
    Unauthorized,
)
from sightline.events import (
    AppChanged,
    ApprovalAsked,
    CallFinished,
    CallStarted,
    HostEvent,
    Noticed,
    RequestBuilt,
    Retrying,
    TurnEnded,
    TurnStarted,
)
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import serve_unix
from support.live import TREE, LiveApp


def sent(model: ScriptedModel, number: int = -1) -> str:
    return model.requests[number].data.decode()


async def test_a_model_that_counts_as_nothing_is_used_all_the_same(tmp_path: Path) -> None:
    class Empty(ScriptedModel):
        def __len__(self) -> int:
            return 0

    async with hosted(tmp_path, Empty(["Hello."])) as (host, model):
        assert await host.model() is model


async def test_an_answer_is_told_and_stored(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["Hello, Ada."]) as (host, model):
        events = await turn(host, "hi")
        assert ended(events).text == "Hello, Ada."
        assert [m.text for m in messages(tmp_path)] == ["hi", "Hello, Ada."]
        assert '"hi"' in sent(model)
    check_ledger(tmp_path)


async def test_who_leaves_at_the_end_of_a_turn_may_ask_again_at_once(tmp_path: Path) -> None:
    async def answer(question: str) -> str:
        async for event in host.ask(question):
            if isinstance(event, TurnEnded):
                return event.text
        raise AssertionError("no end")

    async with hosted(tmp_path, ["One.", "Two.", "Three."]) as (host, _):
        assert [await answer(question) for question in "abc"] == ["One.", "Two.", "Three."]


async def test_a_call_that_cannot_be_read_is_answered_and_not_tried_again(tmp_path: Path) -> None:
    wrong = ToolCall("c1", "slop_invoke", {UNREADABLE: "{'app': 'live'}"})
    async with hosted(tmp_path, [["Look.", wrong], "Sorry."], app=LiveApp()) as (host, model):
        events = await turn(host, "go")
    assert ended(events).outcome == "answered"
    assert not of_kind(events, Retrying)
    assert not of_kind(events, ApprovalAsked)
    assert len(model.requests) == 2
    assert "are not a JSON object" in sent(model)
    check_ledger(tmp_path)


@proves("CI-2")
async def test_the_model_sees_the_apps_as_they_are_now(tmp_path: Path) -> None:
    app = LiveApp()
    async with hosted(tmp_path, ["one", "two"], app=app) as (host, model):
        await turn(host)
        assert "Message 1" in sent(model)
        app.publish(TREE.with_property("n", 41))
        async for world in host.hub.changes():
            state = world.app("live")
            assert state is not None
            if state.tree is not None and state.tree.properties["n"] == 41:
                break
        await turn(host)
        assert "n=41" in sent(model)
        assert "n=41" not in sent(model, 0)


async def test_a_call_is_asked_run_and_answered(tmp_path: Path) -> None:
    script = [["Counting.", invoke("c1", "/", "count")], "It is 1 now."]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, model):
        events = await turn(host, answer=lambda _: True)
        [asked] = of_kind(events, ApprovalAsked)
        assert (asked.app, asked.path, asked.action, asked.params) == ("live", "/", "count", {})
        [started] = of_kind(events, CallStarted)
        assert (started.app, started.path, started.action) == ("live", "/", "count")
        [finished] = of_kind(events, CallFinished)
        assert finished.ok
        assert ended(events).text == "It is 1 now."
        assert "n=1" in sent(model)
    check_ledger(tmp_path)
    assert [m.role for m in messages(tmp_path)] == ["user", "assistant", "tool", "assistant"]


async def test_what_is_not_approved_is_not_done(tmp_path: Path) -> None:
    app = LiveApp()
    async with hosted(tmp_path, [invoke("c1", "/", "count"), "As you like."], app=app) as (host, _):
        events = await turn(host, answer=lambda _: False)
        [finished] = of_kind(events, CallFinished)
        assert not finished.ok
        assert "did not approve" in finished.content
    assert app.tree.properties["n"] == 0
    check_ledger(tmp_path)


async def test_the_user_sees_what_changed_since_the_model_looked(tmp_path: Path) -> None:
    app = LiveApp()

    async def change_and_call(_: object) -> ToolCall:
        app.publish(TREE.with_property("n", 7))
        async for world in host.hub.changes():
            if world.apps[0].tree is not None and world.apps[0].tree.properties["n"] == 7:
                break
        return invoke("c1", "/inbox/msg-1", "archive")

    async with hosted(tmp_path, [change_and_call, "ok"], app=app) as (host, _):
        events = await turn(host, answer=lambda _: False)
        [asked] = of_kind(events, ApprovalAsked)
        assert asked.changes == ("Live: / n 0 -> 7",)


async def test_a_remembered_answer_is_not_asked_for_again(tmp_path: Path) -> None:
    script = [
        invoke("c1", "/inbox/msg-1", "archive"),
        invoke("c2", "/inbox/msg-2", "archive"),
        invoke("c3", "/", "count"),
        "done",
    ]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, _):
        asked: list[str] = []
        async for event in host.ask("tidy up"):
            if isinstance(event, ApprovalAsked):
                asked.append(event.call_id)
                host.answer(event.call_id, approved=True, remember=len(event.rules))
        assert asked == ["c1", "c3"]


async def test_rules_decide_before_the_user_does(tmp_path: Path) -> None:
    rules = (PolicyRule(action="count", decision="approve"), PolicyRule(decision="deny"))
    script = [[invoke("c1", "/", "count"), invoke("c2", "/inbox", "archive_all")], "ok"]
    async with hosted(tmp_path, script, app=LiveApp(), policy=rules) as (host, _):
        events = await turn(host)
        assert [call.ok for call in of_kind(events, CallFinished)] == [True, False]
        assert of_kind(events, ApprovalAsked) == []


async def test_auto_runs_what_is_shown_and_asks_for_what_is_not(tmp_path: Path) -> None:
    script = [[invoke("c1", "/", "count"), invoke("c2", "/nowhere", "explode")], "ok"]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, _):
        host.set_mode("auto")
        events = await turn(host, answer=lambda _: False)
        assert [asked.call_id for asked in of_kind(events, ApprovalAsked)] == ["c2"]
        assert host.mode == "auto"
        with pytest.raises(InvalidInput):
            host.set_mode("reckless")  # type: ignore[arg-type]  # what a user might type


async def test_what_the_model_gets_wrong_it_is_told(tmp_path: Path) -> None:
    script = [[ToolCall("c1", "slop_invoke", {"app": 3}), ToolCall("c2", "no_such", {})], "sorry"]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, _):
        events = await turn(host)
        assert [call.ok for call in of_kind(events, CallFinished)] == [False, False]
        assert of_kind(events, ApprovalAsked) == []
    check_ledger(tmp_path)


async def test_reads_run_side_by_side(tmp_path: Path) -> None:
    script = [[ToolCall(f"c{n}", "slop_query", {"app": "live"}) for n in range(3)], "ok"]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, _):
        events = await turn(host)
        kinds = [type(e) for e in events if isinstance(e, CallStarted | CallFinished)]
        assert kinds == [CallStarted] * 3 + [CallFinished] * 3
        assert [call.call_id for call in of_kind(events, CallFinished)] == ["c0", "c1", "c2"]


async def test_the_state_goes_to_its_place_and_out_of_the_history(tmp_path: Path) -> None:
    script = ["First.\n\n### STATE\nGoal: find it", "Second."]
    async with hosted(tmp_path, script) as (host, model):
        await turn(host, "one")
        assert host.ledger.states.current(host.session.id) == "### STATE\nGoal: find it"
        await turn(host, "two")
        body = model.requests[-1].body
        said = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
        assert said == ["First."]
        assert "Goal: find it" in str(body["messages"][-1])


async def test_memos_and_scratchpad_are_shown_behind_the_conversation(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["ok"]) as (host, model):
        host.ledger.memos.save("Deploys happen on Tuesday.", ["deploy"])
        host.ledger.scratchpad.replace(host.session.id, "1. look 2. act")
        await turn(host, "when do we deploy?")
        tail = str(model.requests[-1].body["messages"][-1])
        assert "Deploys happen on Tuesday." in tail
        assert "1. look 2. act" in tail


async def test_the_prefix_holds_up_to_the_results_of_the_turn_that_is_over(tmp_path: Path) -> None:
    script = [[ToolCall("c1", "describe_db", {})], "one", "two", "three"]
    async with hosted(tmp_path, script, app=LiveApp()) as (host, model):
        events = []
        for text in ("a", "b", "c"):
            events += await turn(host, text)
        built = of_kind(events, RequestBuilt)
        assert len(built) == 4
        assert not any(request.regression for request in built)
        assert all(request.reused_tokens > 0 for request in built[1:])
        changes = [drift(one.wire, other.wire) for one, other in pairwise(model.requests)]
        assert [change.kind for change in changes] == ["appended", "tier", "appended"]
        cut = changes[1]
        assert b"[TRUNCATED." not in model.requests[1].data
        assert b"[TRUNCATED." in model.requests[2].wire.data[cut.common_bytes :]
        assert (cut.slot, cut.label) == ("history", "messages[4]")


async def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    script = [RateLimited("slow down", retry_after_s=0), "here"]
    async with hosted(tmp_path, script) as (host, model):
        events = await turn(host)
        [retry] = of_kind(events, Retrying)
        assert (retry.attempt, retry.after_s, retry.reason) == (1, 0, "slow down")
        assert ended(events).text == "here"
        assert len(model.requests) == 2


async def test_what_will_not_pass_is_told(tmp_path: Path) -> None:
    async with hosted(tmp_path, [ModelFailed("no such model", status=404)]) as (host, _):
        events = await turn(host)
        assert (ended(events).outcome, ended(events).code) == ("failed", "model_failed")
        assert ended(events).detail == "no such model"
        assert [m.text for m in messages(tmp_path)] == ["hi"]


async def test_a_reply_that_breaks_off_is_kept_as_incomplete(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Cut("I was about to"), "Again."]) as (host, model):
        events = await turn(host)
        assert ended(events).code == "incomplete"
        assert statuses(tmp_path) == ["complete", "incomplete"]
        await turn(host, "go on")
        assert "I was about to" in sent(model)


async def test_too_long_for_the_vendor_folds_the_window_and_tries_once_more(tmp_path: Path) -> None:
    script = [*(f"answer {n} {'x' * 200}" for n in range(8)), Overflow("too long"), "short enough"]
    async with hosted(tmp_path, script) as (host, model):
        for n in range(8):
            await turn(host, f"question {n}")
        events = await turn(host, "one more")
        assert [notice.code for notice in of_kind(events, Noticed)] == ["overflow"]
        assert ended(events).text == "short enough"
        assert "question 0" in sent(model, -2)
        assert "question 0" not in sent(model)
        assert "question 7" in sent(model)
        assert "one more" in sent(model)


async def test_overflow_twice_is_the_end(tmp_path: Path) -> None:
    script = ["ok", Overflow("too long"), Overflow("still too long")]
    async with hosted(tmp_path, script) as (host, _):
        await turn(host)
        events = await turn(host)
        assert (ended(events).code, ended(events).detail) == ("overflow", "still too long")


async def test_a_turn_has_its_limits(tmp_path: Path) -> None:
    script = [ToolCall("c1", "describe_db", {}), ToolCall("c2", "describe_db", {})]
    limits = LimitSettings(rounds=2)
    async with hosted(tmp_path, script, limits=limits) as (host, _):
        events = await turn(host)
        assert (ended(events).outcome, ended(events).code) == ("limit", "rounds")
    check_ledger(tmp_path)


async def test_cancelling_a_stream_keeps_what_was_said(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Stall("So far "), "ok"]) as (host, model):
        events: list[HostEvent] = []
        async for event in host.ask("tell me"):
            events.append(event)
            if type(event).__name__ == "TextDelta" and "far" in event.text:  # type: ignore[union-attr]
                host.cancel()
        assert ended(events).outcome == "cancelled"
        assert model.abandoned == 1
        assert statuses(tmp_path) == ["complete", "incomplete"]
        assert messages(tmp_path)[-1].text == "So far "
        assert ended(await turn(host)).text == "ok"


async def test_leaving_the_loop_ends_the_turn(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Stall("So "), "ok"]) as (host, model):
        stream = host.ask("tell me")
        async for event in stream:
            if type(event).__name__ == "TextDelta":
                break
        await stream.aclose()  # type: ignore[attr-defined]  # a generator has it
        assert not host.busy
        assert model.abandoned == 1
        assert ended(await turn(host)).text == "ok"
    check_ledger(tmp_path)


async def test_cancelling_an_approval_leaves_no_open_call(tmp_path: Path) -> None:
    app = LiveApp()
    async with hosted(tmp_path, [invoke("c1", "/", "count")], app=app) as (host, _):
        async for event in host.ask("count"):
            if isinstance(event, ApprovalAsked):
                host.cancel()
                with pytest.raises(NotFound):
                    host.answer("another", approved=True)
    assert app.tree.properties["n"] == 0
    check_ledger(tmp_path)


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Stall("…")]) as (host, _):
        async for event in host.ask("first"):
            if type(event).__name__ == "TextDelta":
                assert host.busy
                with pytest.raises(InvalidInput, match="under way"):
                    await turn(host, "second")
                with pytest.raises(InvalidInput, match="under way"):
                    await host.new_session()
                host.cancel()


@pytest.mark.parametrize("text", ["", "<slop-state>x</slop-state>"])
async def test_nothing_cannot_be_asked(tmp_path: Path, text: str) -> None:
    async with hosted(tmp_path) as (host, _):
        with pytest.raises(InvalidInput, match="nothing to ask"):
            await turn(host, text)
        with pytest.raises(NotFound):
            host.answer("c1", approved=True)
        host.cancel()


async def test_a_model_that_cannot_be_used_raises_before_anything_is_stored(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):

        async def refuse(_: str) -> object:
            raise Unauthorized("set SOME_KEY")

        host._model = None
        host._open_model = refuse  # type: ignore[method-assign, assignment]  # no vendor is at hand
        with pytest.raises(Unauthorized):
            await turn(host)
        assert messages(tmp_path, host.session.id) == []


async def test_a_session_can_be_gone_on_with(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one"]) as (host, _):
        await turn(host, "first words")
        number = host.session.id
    async with hosted(tmp_path, ["two"], session=number) as (host, model):
        await turn(host, "second words")
        assert "first words" in sent(model)
        assert host.session.id == number
        assert host.session.groups == 2


async def test_a_session_without_words_leaves_no_trace(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        first = host.session
        second = await host.new_session("named")
        assert second.name == "named"
        assert [s.id for s in host.ledger.sessions.recent()] == [second.id]
        assert first.id != second.id


async def test_who_finds_no_other_session_stays_in_this_one(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one"]) as (host, model):
        here = host.session
        with pytest.raises(NotFound):
            await host.switch("nowhere")
        assert host.session == here
        assert (await host.switch(here.id)).id == here.id
        await turn(host, "first words")
        assert "first words" in sent(model)
        assert [s.id for s in host.ledger.sessions.recent()] == [here.id]


async def test_a_session_that_another_program_deleted_can_be_left(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        gone = host.session
        host.ledger.sessions.delete(gone.id, confirm=gone.uuid)
        assert (await host.new_session("other")).name == "other"


async def test_sessions_are_switched(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["a", "b", "c"]) as (host, model):
        await turn(host, "in the first")
        first = host.session
        await host.new_session("other")
        await turn(host, "in the second")
        await host.switch(first.id)
        await turn(host, "back again")
        assert "in the first" in sent(model)
        assert "in the second" not in sent(model)


async def test_new_sessions_have_the_window_of_the_settings(tmp_path: Path) -> None:
    window = WindowSettings(size=1, slack=0)
    async with hosted(tmp_path, ["a", "b"], window=window) as (host, model):
        await turn(host, "first words")
        await turn(host, "second words")
        assert "first words" not in sent(model)


async def test_compacting_keeps_the_newer_half_and_is_remembered(tmp_path: Path) -> None:
    async with hosted(tmp_path, [str(n) for n in range(5)]) as (host, model):
        for n in range(4):
            await turn(host, f"question {n}")
        assert await host.compact()
        await turn(host, "now")
        assert "question 1" not in sent(model)
        assert "question 2" in sent(model)
        number = host.session.id
    async with hosted(tmp_path, ["ok"], session=number) as (host, model):
        await turn(host, "later")
        assert "question 1" not in sent(model)


async def test_a_preview_is_what_would_be_sent(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one", "two"], app=LiveApp()) as (host, model):
        await turn(host, "first")
        preview = await host.preview("second")
        assert preview.drift is not None
        assert preview.drift.kind == "appended"
        await turn(host, "second")
        assert preview.request.data == model.requests[-1].data
        assert host.last is not None
        assert host.last.usage is not None
        assert [m.text for m in messages(tmp_path)] == ["first", "one", "second", "two"]


async def test_a_state_can_be_written_anew(tmp_path: Path) -> None:
    script = ["ok\n\n### STATE\nGoal: old", "### STATE\nGoal: new"]
    async with hosted(tmp_path, script) as (host, _):
        await turn(host)
        assert await host.rebuild_state() == "### STATE\nGoal: new"
        assert host.ledger.states.current(host.session.id) == "### STATE\nGoal: new"
        assert len(messages(tmp_path)) == 2
        assert host.ledger.accounts.totals(host.session.id).requests == 2


async def test_what_the_user_does_needs_nobodys_approval(tmp_path: Path) -> None:
    app = LiveApp()
    async with hosted(tmp_path, ["ok"], app=app) as (host, model):
        outcome = await host.invoke("live", "/", "count")
        assert outcome.data == {"n": 1}
        host.focus("live", "/inbox/msg-3")
        with pytest.raises(NotFound):
            host.focus("nobody", "/")
        await turn(host)
        host.unfocus("live", "/inbox/msg-3")
        assert "Message 3" in sent(model)


async def test_a_pinned_state_is_part_of_the_conversation(tmp_path: Path) -> None:
    app = LiveApp()
    async with hosted(tmp_path, ["one", "two"], app=app) as (host, model):
        with pytest.raises(InvalidInput, match="there is nothing"):
            await host.pin("live")
        with pytest.raises(NotFound):
            await host.pin("nobody")
        await turn(host)
        pinned = await host.pin("live")
        assert "not current" in pinned
        assert "msg-3" in pinned, "a pin is nothing without its tree"
        await turn(host, "what was it?")
        assert msgspec.json.encode(pinned).decode()[1:-1] in sent(model)


async def test_apps_come_and_go_in_the_events(tmp_path: Path) -> None:
    async with hosted(tmp_path, app=LiveApp()) as (host, _):
        seen: list[AppChanged] = []

        async def watch() -> None:
            async for event in host.events():
                if isinstance(event, AppChanged):
                    seen.append(event)
                    if event.status == "gone":
                        return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await host.disconnect("live")
        await watching
        assert seen[-1].app == "live"
        with pytest.raises(NotFound):
            await host.disconnect("live")


async def test_a_host_connects_to_an_address(tmp_path: Path) -> None:
    from sightline.slop.transports.unix import serve_unix

    app = LiveApp()
    path = tmp_path / "live.sock"
    async with serve_unix(app.handle, path), hosted(tmp_path, ["ok"]) as (host, model):
        assert await host.connect(f"unix:{path}") == "live"
        with pytest.raises(InvalidInput, match="already"):
            await host.connect(f"unix:{path}")
        await turn(host)
        assert "Message 1" in sent(model)


async def test_an_address_that_does_not_answer_is_told_at_the_start(tmp_path: Path) -> None:
    from sightline.config import AppSettings

    apps = AppSettings(connect=(f"unix:{tmp_path}/none.sock",), discover=False, workspace=False)
    async with hosted(tmp_path, ["ok"], apps=apps) as (host, _):
        assert ended(await turn(host)).outcome == "answered"


async def test_watchers_hear_what_the_asker_hears(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["ok"]) as (host, _):
        heard: list[HostEvent] = []

        async def watch() -> None:
            async for event in host.events():
                heard.append(event)
                if type(event).__name__ == "TurnEnded":
                    return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        events = await turn(host)
        await watching
        assert heard == events
        assert isinstance(events[0], TurnStarted)


async def test_small_models_get_the_short_texts(tmp_path: Path) -> None:
    small = profile_for("ollama", "tiny", {"window_tokens": 8192, "max_output_tokens": 512})
    async with hosted(tmp_path, ["ok"], profile=small) as (host, model):
        await turn(host)
        assert "You help one user." in sent(model)


async def test_an_app_that_turns_us_away_is_told_of_and_keeps_nobody_from_the_chat(
    tmp_path: Path,
) -> None:
    async def refuse(link: Link) -> None:
        said = b'{"type":"error","error":{"code":"unauthorized","message":"bring a token"}}'
        await link.send([said])
        await link.close()

    path = tmp_path / "app.sock"
    async with serve_unix(refuse, path):
        apps = AppSettings(connect=(f"unix:{path}",), discover=False, workspace=False)
        async with hosted(tmp_path, ["Hello."], apps=apps) as (host, _):
            events = await turn(host)
            assert ended(events).text == "Hello."
