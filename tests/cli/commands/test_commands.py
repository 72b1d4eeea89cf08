"""The commands at work: a real host, a real ledger, a live app, a model with a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import hosted, turn
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.agent.policy import Facts, rules_for
from sightline.cli.commands.console import PlainConsole
from sightline.cli.commands.groups import _window_of
from sightline.cli.commands.offers import Sources
from sightline.cli.commands.registry import complete, run
from sightline.config import PolicyRule, TailSettings, WindowSettings
from sightline.context.ledger import StoredUsage
from sightline.context.messages.window import Window
from sightline.demo.app import Desk, demo_app
from sightline.errors import InvalidInput, NotFound, SightlineError
from sightline.slop.protocol.tree import Node
from support.live import LiveApp
from support.terminal_attacks import ATTACKS, FORBIDDEN

STATE = "\n\n### STATE\nGoal: {}\nContext: inbox\n"


class Desktop:
    """A host with the demo app, and somebody who types commands."""

    def __init__(self, host: Host, model: ScriptedModel, desk: Desk) -> None:
        self.host = host
        self.model = model
        self.desk = desk

    async def does(self, line: str, *, yes: bool = False, width: int = 100) -> str:
        """Run a command, and return what it wrote."""
        out = StringIO()
        await run(line, self.host, PlainConsole(out, width=width, yes=yes))
        return out.getvalue()

    async def says(self, *texts: str) -> None:
        """Have some turns."""
        for text in texts:
            self.model.add(f"Answer to {text}." + STATE.format(text))
            await turn(self.host, text)


@asynccontextmanager
async def desktop(directory: Path, **settings: Any) -> AsyncIterator[Desktop]:
    desk = Desk()
    async with hosted(directory, app=demo_app(desk), app_id="desk", **settings) as (host, model):
        yield Desktop(host, model, desk)


@pytest.fixture
async def at_desk(tmp_path: Path) -> AsyncIterator[Desktop]:
    async with desktop(tmp_path) as opened:
        yield opened


async def test_context_draws_the_window_of_the_next_request(at_desk: Desktop) -> None:
    text = await at_desk.does("/context", width=60)
    receipt = (await at_desk.host.preview()).prompt.receipt
    assert text.startswith(f"{receipt.total:,} of ")
    assert "T tools" in text
    assert "V state" in text
    assert "── boundary" in text


async def test_context_show_is_what_will_be_sent(at_desk: Desktop) -> None:
    await at_desk.says("first")
    text = await at_desk.does("/context show")
    preview = await at_desk.host.preview()
    for message in preview.prompt.messages:
        for line in message.text.splitlines():
            assert line in text
    assert "══ boundary" in text


async def test_context_window_is_kept_in_the_session(at_desk: Desktop) -> None:
    await at_desk.says("one", "two", "three")
    assert "the last 1 group." in await at_desk.does("/context window 1")
    assert "Answer to three" not in await at_desk.does("/context show"), "the next turn is a group"
    await at_desk.does("/context window 2")
    shown = await at_desk.does("/context show")
    assert "Answer to three" in shown
    assert "Answer to two" not in shown
    assert "all of the conversation." in await at_desk.does("/context window 0")
    assert "Answer to one" in await at_desk.does("/context show")


async def test_context_window_shows_what_it_says_and_loses_no_slack(at_desk: Desktop) -> None:
    async def shows(line: str) -> str:
        return (await at_desk.does(f"/context window {line}")).strip()

    assert await shows("3") == "The window shows the last 3 groups."
    assert await shows("3 2") == "The window shows the last 3 groups, up to 2 more before it folds."
    assert await shows("4") == "The window shows the last 4 groups."
    built_in = "The window shows the last 50 groups, up to 25 more before it folds."
    assert await shows("50") == built_in
    host = at_desk.host
    assert host.ledger.sessions.get(host.session.id).window == Window(50, 25)


@pytest.mark.parametrize("slack", [0, 6])
def test_the_slack_of_the_settings_is_there_for_every_size(slack: int) -> None:
    configured = WindowSettings(size=10, slack=slack)
    for size in (3, 10, 50, 10):
        assert _window_of(size, None, configured) == Window(size, slack)
        assert _window_of(size, 1, configured) == Window(size, 1)


async def test_drop_and_restore_take_a_group_out_and_back(at_desk: Desktop) -> None:
    await at_desk.says("one", "two")
    assert "/context restore 1" in await at_desk.does("/context drop 1")
    assert "Answer to one" not in await at_desk.does("/context show")
    assert "(dropped)" in await at_desk.does("/messages")
    await at_desk.does("/context restore 1")
    assert "Answer to one" in await at_desk.does("/context show")


async def test_rebuild_has_the_model_write_the_state_anew(at_desk: Desktop) -> None:
    await at_desk.says("one")
    at_desk.model.add("### STATE\nGoal: rebuilt")
    assert "Goal: rebuilt" in await at_desk.does("/context rebuild")
    assert "Goal: rebuilt" in await at_desk.does("/state")


async def test_undo_takes_back_the_turn_and_its_state_and_redo_brings_both_back(
    at_desk: Desktop,
) -> None:
    await at_desk.says("one", "two")
    assert "Took back group 2" in await at_desk.does("/undo")
    assert "Goal: one" in await at_desk.does("/state")
    assert "Answer to two" not in await at_desk.does("/context show")
    await at_desk.does("/redo")
    assert "Goal: two" in await at_desk.does("/state")


async def test_undo_with_nothing_to_undo_says_so(at_desk: Desktop) -> None:
    with pytest.raises(NotFound, match="nothing to undo"):
        await at_desk.does("/undo")


async def test_message_list_shows_the_last_groups_with_their_weight(at_desk: Desktop) -> None:
    assert "Nothing was said" in await at_desk.does("/message list")
    await at_desk.says("one", "two", "three")
    lines = (await at_desk.does("/message list 2")).splitlines()
    assert lines[0].split() == ["GID", "messages", "tokens", "session", "prompt"]
    assert [line.split()[0] for line in lines[1:]] == ["2", "3"]
    assert lines[2].endswith("three")


async def test_message_show_shows_a_group_whole(at_desk: Desktop) -> None:
    await at_desk.says("one")
    text = await at_desk.does("/messages show 1")
    assert "── user (message 1" in text
    assert "Answer to one" in text
    assert "### STATE" in text


async def test_a_message_is_shown_whole_by_the_number_that_a_cut_result_names(
    at_desk: Desktop,
) -> None:
    await at_desk.says("one")
    assert "Answer to one" in await at_desk.does("/result 2")
    await at_desk.does("/session new")
    with pytest.raises(NotFound, match="no message 2 in this session"):
        await at_desk.does("/result 2")


async def test_message_remove_shows_what_and_asks(at_desk: Desktop) -> None:
    await at_desk.says("one", "two")
    text = await at_desk.does("/message remove 1")
    assert "Answer to one" in text
    assert "Nothing was deleted" in text
    assert "Group 1 is deleted" in await at_desk.does("/message remove 1", yes=True)
    with pytest.raises(NotFound):
        await at_desk.does("/message show 1")


async def test_sessions_are_made_switched_cloned_renamed_and_deleted(at_desk: Desktop) -> None:
    await at_desk.says("one")
    assert "session 1, mail: 1 group" in await at_desk.does("/session rename mail")
    await at_desk.does("/session new other")
    await at_desk.says("elsewhere")
    listed = await at_desk.does("/session list")
    assert listed.splitlines()[1].split()[:2] == ["*", "2"]
    assert "Now in session 1, mail" in await at_desk.does("/session switch mail")
    assert "Now in session 3, copy" in await at_desk.does("/session clone copy")
    assert "Answer to one" in await at_desk.does("/context show")
    assert "Nothing was deleted" in await at_desk.does("/session delete copy")
    text = await at_desk.does("/session delete copy", yes=True)
    assert "Session 3 is deleted" in text
    assert "copy" not in await at_desk.does("/session list")
    assert at_desk.host.session.id != 3


async def test_the_session_one_is_in_can_be_deleted_with_nothing_said(at_desk: Desktop) -> None:
    own = at_desk.host.session.id
    assert "is deleted" in await at_desk.does(f"/session delete {own}", yes=True)
    assert at_desk.host.session.id != own
    await at_desk.says("still here")


async def test_the_scratchpad_is_shown(at_desk: Desktop) -> None:
    assert "empty" in await at_desk.does("/session scratchpad")
    at_desk.host.ledger.scratchpad.replace(at_desk.host.session.id, "1. read mail")
    assert "1. read mail" in await at_desk.does("/session scratchpad")


async def test_memos_for_all_projects_are_kept_apart(tmp_path: Path) -> None:
    own = tmp_path / "user.db"
    async with desktop(tmp_path, user_ledger=own) as here:
        await here.does("/memo save style Tabs in this project")
        assert not own.exists()
        saved = await here.does("/memo save --user style Short answers, please")
        assert saved == "Memo u1 is saved for all projects, tagged style.\n"
        listed = (await here.does("/memo list")).splitlines()
        assert [line.split()[0] for line in listed] == ["ID", "1", "u1"]
        assert "Short answers" in await here.does("/memo search which style?")
        await here.does("/memo edit u1 Long answers")
        assert "Long answers" in await here.does("/memo show u1")
        assert "Tabs" in await here.does("/memo show 1")
        await here.does("/memo delete u1", yes=True)
        with pytest.raises(NotFound, match="no memo u1"):
            await here.does("/memo tag u1 other")
        with pytest.raises(InvalidInput, match="called by its number or u and"):
            await here.does("/memo show first")
        assert [offer.text for offer in complete("/memo show ", Sources(here.host))] == ["1"]
        assert [offer.text for offer in complete("/memo save -", Sources(here.host))] == ["--user"]


async def test_memos_are_saved_found_changed_and_deleted(at_desk: Desktop) -> None:
    saved = await at_desk.does("/memo save Gotcha,auth Tokens live for nine minutes")
    assert saved == "Memo 1 is saved, tagged auth, gotcha.\n"
    assert "nine minutes" in await at_desk.does("/memo list")
    assert "nine minutes" in await at_desk.does("/memo search how long do tokens live?")
    assert "no such memos" in await at_desk.does("/memo search weather")
    await at_desk.does("/memo edit 1 Tokens live for ten minutes")
    assert "tagged timing" in await at_desk.does("/memo tag 1 timing")
    assert "ten minutes" in await at_desk.does("/memo show 1")
    assert "Nothing was deleted" in await at_desk.does("/memo delete 1")
    await at_desk.does("/memo delete 1", yes=True)
    with pytest.raises(NotFound):
        await at_desk.does("/memo show 1")


async def test_apps_and_their_trees_are_shown(at_desk: Desktop) -> None:
    assert (await at_desk.does("/apps")).split() == ["desk", "Desk", "connected"]
    whole = await at_desk.does("/tree")
    assert "## desk (connected)" in whole
    assert "[view] calendar" in whole
    part = await at_desk.does("/tree desk/inbox")
    assert part.startswith("[view] inbox")
    assert await at_desk.does("/tree /inbox") == part


@pytest.mark.parametrize("line", ["/tree mail/inbox", "/disconnect mail", "/pin mail"])
async def test_an_app_that_is_not_there_is_named(at_desk: Desktop, line: str) -> None:
    with pytest.raises(InvalidInput, match="there is no app 'mail'; there are desk"):
        await at_desk.does(line)


async def test_focus_keeps_a_node_in_view(at_desk: Desktop) -> None:
    assert "Nothing is in focus" in await at_desk.does("/focus")
    assert await at_desk.does("/focus desk/drafts") == "Always shown: desk/drafts\n"
    assert "Nothing is in focus" in await at_desk.does("/unfocus desk/drafts")


async def test_invoke_does_it_in_the_app(at_desk: Desktop) -> None:
    assert await at_desk.does("/invoke desk/inbox/msg-102 archive") == "ok\n"
    assert [message.id for message in at_desk.desk.archive] == ["msg-102"]
    # In the words of the command line, too.
    said = await at_desk.does('/invoke desk /inbox/msg-104 reply {"body": "Yes"}')
    assert said.startswith('ok {"sent_to":"Priya Raman"')
    found = await at_desk.does('/invoke desk search {"query": "launch"}')
    assert "/inbox/msg-104" in found


async def test_invoke_asks_before_what_is_dangerous(at_desk: Desktop) -> None:
    assert "Nothing was done" in await at_desk.does("/invoke desk/inbox/msg-104 delete")
    assert len(at_desk.desk.messages) == 38
    await at_desk.does("/invoke desk/inbox/msg-104 delete", yes=True)
    assert len(at_desk.desk.messages) == 37


async def test_invoke_does_nothing_to_what_changed_since_the_question(tmp_path: Path) -> None:
    def documents(label: str) -> Node:
        draft = Node.of("d1", "document", properties={"label": label},
                        affordances=[{"action": "delete", "dangerous": True}])  # fmt: skip
        return Node.of("app", "root", children=[draft])

    app = LiveApp(documents("old draft"))
    asked: list[str] = []

    class Slow(PlainConsole):
        """Somebody who says yes when it is too late."""

        async def ask(self, question: str) -> bool:
            asked.append(question)
            app.publish(documents("TAX RETURNS 2026"))
            async for world in host.hub.changes():
                if world.apps[0].tree == app.tree:
                    break
            return True

    async with hosted(tmp_path, app=app) as (host, _):
        out = StringIO()
        await run("/invoke live/d1 delete", host, Slow(out))
    assert asked == ['live (from this process) calls delete on /d1 ("old draft") dangerous. Do it?']
    assert out.getvalue() == "It has changed since you were asked. Nothing was done.\n"


async def test_rules_are_listed_with_their_source_and_removed(tmp_path: Path) -> None:
    rules = (PolicyRule(app="desk", action="star", decision="deny"),)
    async with desktop(tmp_path, policy=rules) as there:
        assert await there.does("/rules") == "1  deny star of desk  (your configuration)\n"
        rule = rules_for(Facts(app="desk", action="a", origin="x\u200b"))[0]
        there.host._current.keep(there.host._open.remember(rule))
        said = await there.does("/rules")
        assert "2  approve a on / of desk (x⟨U+200B⟩), with exactly {}  (this session)" in said
        with pytest.raises(InvalidInput, match="in your configuration"):
            await there.does("/rules remove 1")
        with pytest.raises(NotFound, match="no rule 3"):
            await there.does("/rules remove 3")
        assert "Removed: approve a" in await there.does("/rules remove 2")
        assert len(there.host.rules) == 1
    async with desktop(tmp_path) as there:
        assert "There are no rules" in await there.does("/rules")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("/invoke desk/inbox/msg-104 dance", "has no action 'dance'"),
        ("/invoke desk/inbox/msg-104 reply [1]", "not a JSON object"),
        ("/invoke desk/nowhere open", "/nowhere"),
    ],
)
async def test_invoke_says_what_is_wrong(at_desk: Desktop, line: str, complaint: str) -> None:
    with pytest.raises(SightlineError, match=complaint):
        await at_desk.does(line)


async def test_pin_makes_the_state_part_of_the_conversation(at_desk: Desktop) -> None:
    await at_desk.says("one")
    await at_desk.does("/pin desk")
    shown = await at_desk.does("/context show")
    pinned = shown[shown.index("Pinned state of") :]
    for line in ("### Desk (desk)", "msg-104: Launch moved to Thursday"):
        assert line in pinned, "a pin is nothing without its tree"


async def test_diff_says_what_changed_since_the_model_looked(at_desk: Desktop) -> None:
    assert "has not looked" in await at_desk.does("/diff")
    await at_desk.says("one")
    assert "Nothing has changed" in await at_desk.does("/diff")
    await at_desk.does("/invoke desk/inbox/msg-104 delete", yes=True)
    async for world in at_desk.host.hub.changes():
        if "msg-104" not in [node.id for node in world.apps[0].tree.at("/inbox").children]:  # type: ignore[union-attr]
            break
    assert "msg-104" in await at_desk.does("/diff")


async def test_disconnect_and_connect(at_desk: Desktop) -> None:
    assert "desk is disconnected" in await at_desk.does("/disconnect desk")
    assert "No app is here" in await at_desk.does("/apps")
    with pytest.raises(SightlineError):
        await at_desk.does("/connect unix:/nowhere.sock")


async def test_tail_is_what_stands_behind_the_boundary(at_desk: Desktop) -> None:
    text = await at_desk.does("/tail")
    assert "<slop-state generated_at=" in text
    assert "msg-104" in text


async def test_why_explains_a_slot_and_a_node(at_desk: Desktop) -> None:
    await at_desk.says("one")
    history = await at_desk.does("/why history")
    assert "0 are cut" in history
    assert "there was room for it" in history
    assert await at_desk.does("/why desk/inbox/msg-104") == "desk/inbox/msg-104 is shown whole\n"


async def test_why_tells_that_a_node_has_no_room(tmp_path: Path) -> None:
    async with desktop(tmp_path, tail=TailSettings(max_share=0.002)) as opened:
        text = await opened.does("/why desk/calendar/evt-8")
        assert "desk/calendar/evt-8 is not shown: there is no room" in text


async def test_why_of_neither_names_what_there_is(at_desk: Desktop) -> None:
    with pytest.raises(InvalidInput, match="there is no app 'nothing'"):
        await at_desk.does("/why nothing")


async def test_cache_compares_the_next_request_with_the_last(at_desk: Desktop) -> None:
    assert "Nothing was sent yet" in await at_desk.does("/cache")
    await at_desk.says("one", "two")
    text = await at_desk.does("/cache")
    assert "next request: appended" in text
    assert "came from a cache" in text


async def test_stats_add_up_by_model(at_desk: Desktop) -> None:
    await at_desk.says("one", "two")
    lines = (await at_desk.does("/stats")).splitlines()
    assert lines[0].split()[0] == "requests"
    totals = at_desk.host.ledger.accounts.totals(at_desk.host.session.id)
    assert lines[2].split()[2:4] == ["2", f"{totals.prompt_tokens:,}"]


async def test_cost_is_told_by_turn_and_model(at_desk: Desktop) -> None:
    await at_desk.says("one", "two")
    accounts, session = at_desk.host.ledger.accounts, at_desk.host.session.id
    accounts.record(session, StoredUsage("other:m", 10, 2, cost_nanousd=5_000_000))
    head, first, second, beside, total = (await at_desk.does("/cost")).splitlines()
    assert head.split()[:2] == ["turn", "requests"]
    assert first.split()[:3] == ["1", at_desk.model.label, "1"]
    assert second.split()[:3] == ["2", at_desk.model.label, "1"]
    assert beside.split() == ["beside", "other:m", "1", "10", "0", "2", "$0.005"]
    assert total.split()[:3] == ["this", "session", "3"]


async def test_mode_is_told_and_changed(at_desk: Desktop) -> None:
    assert "Mode ask" in await at_desk.does("/mode")
    assert "Mode plan" in await at_desk.does("/mode plan")
    assert at_desk.host.mode == "plan"


async def test_model_is_told_with_what_else_is_usable(at_desk: Desktop) -> None:
    text = await at_desk.does("/model")
    assert text.startswith(f"Talking to {at_desk.model.label}.")


async def test_a_model_that_nobody_has_is_an_error(at_desk: Desktop) -> None:
    with pytest.raises(SightlineError):
        await at_desk.does("/model no-such-endpoint:model")


async def test_compact_folds_the_window(at_desk: Desktop) -> None:
    assert "nothing to fold" in await at_desk.does("/compact")
    await at_desk.says("one", "two", "three", "four")
    assert "Folded" in await at_desk.does("/compact")
    assert "Answer to one" not in await at_desk.does("/context show")


async def test_completing_a_file_never_fails(
    at_desk: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "round").symlink_to("round")
    sources = Sources(at_desk.host)
    assert [offer.text for offer in complete("/export ro", sources)] == ["round"]
    assert complete("/export ~nobody-of-that-name/", sources) == []
    assert complete("/export a\0/", sources) == []


async def test_export_writes_a_new_file_for_the_user_alone(
    at_desk: Desktop, tmp_path: Path
) -> None:
    await at_desk.says("one")
    target = tmp_path / "talk.jsonl"
    assert "Wrote 3 lines" in await at_desk.does(f"/export {target}")
    assert target.read_bytes() == b"".join(at_desk.host.ledger.export(at_desk.host.session.id))
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidInput, match="File exists"):
        await at_desk.does(f"/export {target}")
    assert "Wrote 3 lines" in await at_desk.does(f'/export "{tmp_path}/two words.jsonl"')
    assert (tmp_path / "two words.jsonl").exists()
    with pytest.raises(InvalidInput, match="home directory"):
        await at_desk.does("/export ~nobody-of-that-name/talk.jsonl")


@pytest.mark.parametrize(
    "line",
    ["/tree", "/tree desk/evil", "/apps", "/tail", "/context", "/context show", "/why state",
     "/why desk/evil", "/messages", "/message show 1", "/memo list", "/memo show 1",
     "/session scratchpad", "/state", "/stats", "/diff"],
)  # fmt: skip
async def test_no_command_prints_what_a_terminal_would_obey(tmp_path: Path, line: str) -> None:
    attack = "".join(ATTACKS.values()).encode("utf-8", "replace").decode().replace("\0", "")
    evil = Node.of("evil", "item", properties={"label": attack, attack[:40]: [attack]})
    tree = Node.of("root", "root", properties={"label": attack}, children=[evil])
    app = LiveApp(tree, app_id="desk")
    async with hosted(tmp_path, app=app, app_id="desk") as (host, model):
        ledger, session_id = host.ledger, host.session.id
        model.add(attack + STATE.format(attack))
        await turn(host, attack)
        ledger.memos.save(attack, ["hostile"])
        ledger.scratchpad.replace(session_id, attack)
        out = StringIO()
        await run(line, host, PlainConsole(out, width=60))
        assert out.getvalue()
        assert not FORBIDDEN.intersection(out.getvalue())
