"""What runs is what was shown and agreed to (law 11); what is remembered is a rule in words."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import NOW, check_ledger, ended, hosted, invoke, of_kind, turn
from sightline.agent.host import Host
from sightline.config import AppSettings, PolicyRule
from sightline.config.settings import WorkspaceSettings
from sightline.errors import InvalidInput, NotFound
from sightline.events import ApprovalAnswered, ApprovalAsked, CallFinished, CallStarted, HostEvent
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.unix import connect_unix, serve_unix
from support.live import LiveApp

DRAFT = "/docs/d1"
DELETE = {"action": "delete", "dangerous": True, "description": "Deletes it for good"}
KEY = "sk-ant-api03-" + "Ab1" * 30


def documents(label: str = "old draft", **changes: Any) -> Node:
    item: dict[str, Any] = {
        "id": "d1", "type": "document", "properties": {"label": label, "pages": 3},
        "meta": {"summary": "three pages", "salience": 0.5}, "affordances": [DELETE],
    }  # fmt: skip
    docs = {"id": "docs", "type": "collection", "children": [{**item, **changes}]}
    return from_value({"id": "app", "type": "root", "children": [docs]})


def used_by(user: str, tree: Node) -> Node:
    """The same documents, in the context of a user."""
    return tree.with_child(Node.of("me", "context", properties={"user": user}))


class Documents(LiveApp):
    """An app that remembers what it deleted, as it was at that moment."""

    def __init__(self, tree: Node | None = None) -> None:
        super().__init__(tree or documents())
        self.deleted: list[str] = []

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        if request.action == "delete":
            self.deleted.append(self.tree.at(request.path).properties["label"])
        await super().invoke(connection, request)


async def seen(host: Host, tree: Node) -> None:
    """Wait until the host sees a tree."""
    async for world in host.hub.changes():
        if world.apps and world.apps[0].tree == tree:
            return


async def shows(host: Host, app: LiveApp, tree: Node) -> None:
    app.publish(tree)
    await seen(host, tree)


CHANGES = {
    "label": documents("TAX RETURNS 2026"),
    "a property": documents(properties={"label": "old draft", "pages": 300}),
    "summary": documents(meta={"summary": "the only copy"}),
    "type": documents(type="archive"),
    "the action": documents(affordances=[{**DELETE, "description": "Deletes all documents"}]),
    "its danger": documents(affordances=[{"action": "delete"}]),
    "no action": documents(affordances=[]),
    "its content": documents(content_ref={"type": "text", "mime": "text/plain", "uri": "slop://x",
                                          "summary": "s"}),
    "no node": documents(id="d2"),
    "a field of its own": documents(colour="red"),
    "the context": used_by("the boss", documents()),
}  # fmt: skip


@pytest.mark.parametrize("tree", CHANGES.values(), ids=CHANGES)
async def test_what_changed_before_the_yes_is_asked_about_again(tmp_path: Path, tree: Node) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        asked: list[ApprovalAsked] = []
        events: list[HostEvent] = []
        async for event in host.ask("delete the old draft"):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                if len(asked) == 1:
                    await shows(host, app, tree)
                host.answer(event.call_id, approved=len(asked) == 1)
    first, again = asked
    assert first.differences == ()
    assert len(again.differences) >= 1
    assert app.deleted == []
    assert len(of_kind(events, CallStarted)) == 1
    assert [answer.approved for answer in of_kind(events, ApprovalAnswered)] == [True, False]
    assert "did not approve" in of_kind(events, CallFinished)[0].content
    check_ledger(tmp_path)


async def test_the_card_shows_the_node_and_the_difference(tmp_path: Path) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Done."], app=app) as (host, _):
        asked: list[ApprovalAsked] = []
        async for event in host.ask("delete the old draft"):
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                if len(asked) == 1:
                    await shows(host, app, documents("TAX RETURNS 2026"))
                host.answer(event.call_id, approved=True)
    first, again = asked
    assert (first.name, first.origin, first.type) == ("Live", "this process", "document")
    assert (first.label, first.summary, first.about) == (
        "old draft", "three pages", "Deletes it for good",
    )  # fmt: skip
    assert first.properties == {"label": "old draft", "pages": 3}
    assert again.label == "TAX RETURNS 2026"
    assert again.differences == ('its "label": "old draft" → "TAX RETURNS 2026"',)
    # The second yes was to what is there.
    assert app.deleted == ["TAX RETURNS 2026"]


async def test_the_card_shows_the_context_and_that_it_changed(tmp_path: Path) -> None:
    app = Documents(used_by("ana", documents()))
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        asked: list[ApprovalAsked] = []
        async for event in host.ask("delete the old draft"):
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                if len(asked) == 1:
                    await shows(host, app, used_by("the boss", documents()))
                host.answer(event.call_id, approved=len(asked) == 1)
    first, again = asked
    assert (first.context, again.context) == ({"user": "ana"}, {"user": "the boss"})
    assert again.differences == ('the "user" around it: "ana" → "the boss"',)
    assert app.deleted == []


async def test_what_an_app_finds_urgent_is_no_other_node(tmp_path: Path) -> None:
    app = Documents()

    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Done."], app=app) as (host, _):
        asked = 0
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                asked += 1
                urgent = {"summary": "three pages", "salience": 1.0, "urgency": "high"}
                await shows(host, app, documents(meta=urgent))
                host.answer(event.call_id, approved=True)
    assert (asked, app.deleted) == (1, ["old draft"])


async def test_what_is_blanked_is_compared_too(tmp_path: Path) -> None:
    def holding(key: str) -> Node:
        return documents(properties={"label": "old draft", "key": key})

    app = Documents(holding(KEY))
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        asked: list[ApprovalAsked] = []
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                if len(asked) == 1:
                    await shows(host, app, holding(KEY.replace("Ab1", "Xy2")))
                host.answer(event.call_id, approved=len(asked) == 1)
    assert KEY not in str(asked)
    assert asked[1].differences == ("something that is not shown here has changed",)
    assert app.deleted == []


async def test_an_app_that_never_stands_still_cannot_hold_a_turn(tmp_path: Path) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Oh."], app=app) as (
        host,
        _,
    ):
        asked = 0
        events: list[HostEvent] = []
        async for event in host.ask("delete it"):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                asked += 1
                await shows(host, app, documents(f"draft {asked}"))
                host.answer(event.call_id, approved=True)
    assert (asked, app.deleted) == (3, [])
    assert "kept changing" in of_kind(events, CallFinished)[0].content
    assert ended(events).text == "Oh."
    check_ledger(tmp_path)


async def test_another_app_in_its_place_is_asked_about_again(tmp_path: Path) -> None:
    app, impostor = Documents(), Documents()
    path = str(tmp_path / "other.sock")
    async with (
        hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _),
        serve_unix(impostor.handle, path),
    ):
        asked: list[ApprovalAsked] = []
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                if len(asked) == 1:
                    await host.hub.remove("live")
                    host.hub.add("live", lambda: connect_unix(path))
                    await host.hub.client("live")
                    await seen(host, impostor.tree)
                host.answer(event.call_id, approved=len(asked) == 1)
    assert asked[1].origin.startswith(f"unix:{path}")
    assert f"the app's origin: this process → {asked[1].origin}" in asked[1].differences
    assert app.deleted == impostor.deleted == []


async def test_a_rule_that_was_agreed_to_for_something_else_is_not_kept(tmp_path: Path) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        asked = 0
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                asked += 1
                if asked == 1:
                    await shows(host, app, documents(meta={"summary": "the only copy"}))
                host.answer(event.call_id, approved=asked == 1, remember=asked == 1)
        assert asked == 2
        assert host.rules == ()
    assert app.deleted == []


async def test_a_rule_dies_with_another_origin(tmp_path: Path) -> None:
    app, other = Documents(), Documents()
    path = str(tmp_path / "other.sock")
    script = [
        invoke("c1", DRAFT, "delete"), invoke("c2", DRAFT, "delete"), "Twice.",
        invoke("c3", DRAFT, "delete"), "Kept.",
    ]  # fmt: skip
    async with hosted(tmp_path, script, app=app) as (host, _), serve_unix(other.handle, path):
        asked = []
        async for event in host.ask("delete it twice"):
            if isinstance(event, ApprovalAsked):
                asked.append(event.call_id)
                host.answer(event.call_id, approved=True, remember=1)
        assert asked == ["c1"]
        assert len(app.deleted) == 2
        await host.hub.remove("live")
        host.hub.add("live", lambda: connect_unix(path))
        await host.hub.client("live")
        await seen(host, other.tree)
        events = await turn(host, answer=lambda _: False)
        assert len(of_kind(events, ApprovalAsked)) == 1
    assert other.deleted == []


async def test_there_is_no_rule_beyond_those_that_are_offered(tmp_path: Path) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                assert len(event.rules) == 1
                for number in (2, -1):
                    with pytest.raises(InvalidInput, match="there is no rule"):
                        host.answer(event.call_id, approved=True, remember=number)
                host.answer(event.call_id, approved=False, remember=1)
        [rule] = host.rules
        assert rule.decision == "deny"
        with pytest.raises(NotFound, match="no rule 2"):
            host.forget(2)
        assert host.forget(1) == rule
        assert host.rules == ()
    assert app.deleted == []


async def test_a_rule_that_is_forgotten_while_a_turn_begins_stays_forgotten(
    tmp_path: Path,
) -> None:
    app = Documents()
    delete = invoke("c1", DRAFT, "delete"), invoke("c2", DRAFT, "delete")
    loop = asyncio.get_running_loop()
    waiting: list[Coroutine[Any, Any, None]] = []

    def clock() -> datetime:
        """Let something happen while a thread stores what the user says, and dates it."""
        if waiting and threading.current_thread() is not threading.main_thread():
            asyncio.run_coroutine_threadsafe(waiting.pop(), loop).result()
        return NOW

    script = [delete[0], "Done.", delete[1], "Done."]
    async with hosted(tmp_path, script, app=app, clock=clock) as (host, _):
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                host.answer(event.call_id, approved=True, remember=1)
        [rule] = host.rules
        assert rule.decision == "approve"

        async def forget() -> None:
            host.forget(1)

        waiting.append(forget())
        events = await turn(host, answer=lambda _: False)
        assert not waiting
        assert len(of_kind(events, ApprovalAsked)) == 1
        assert host.rules == ()
    assert len(app.deleted) == 1


# In the workspace, with commands that really run.

HERE = AppSettings(discover=False, workspace=True)


def run(call_id: str, command: str) -> Any:
    return invoke(call_id, "/", "run", app="workspace", command=command)


async def asked_for(
    host: Host, rules: dict[str, int], *, approved: bool = True
) -> tuple[list[str], list[HostEvent]]:
    """Ask once, answering yes and remembering by number; which calls were asked about."""
    asked: list[str] = []
    events: list[HostEvent] = []
    async for event in host.ask("go"):
        events.append(event)
        if isinstance(event, ApprovalAsked):
            asked.append(event.call_id)
            host.answer(event.call_id, approved, rules.get(event.call_id, 0))
    return asked, events


async def test_always_on_one_command_is_for_its_words_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("here")
    rm = f"rm {shlex.quote(str(victim))}"
    lines = ["ls", "ls", f"ls; {rm}", f"ls && {rm}", f"ls\n{rm}", f"ls $({rm})", rm]
    script = [[run(f"c{n}", line) for n, line in enumerate(lines)], "Done."]
    off = WorkspaceSettings(sandbox="off")
    async with hosted(tmp_path, script, apps=HERE, workspace=off) as (host, _):
        asked: list[str] = []
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                asked.append(event.call_id)
                assert event.origin == "our own"
                yes = event.call_id == "c0"
                if yes:
                    assert event.rules[0].endswith("for exactly the command: ls")
                host.answer(event.call_id, yes, int(yes))
    assert asked == ["c0", "c2", "c3", "c4", "c5", "c6"]
    assert victim.exists()


async def test_the_configuration_takes_the_same_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def create(call_id: str, path: str) -> Any:
        return invoke(call_id, "/", "create", app="workspace", path=path, content="x")

    rules = (
        PolicyRule(app="workspace", command="echo hello", decision="approve"),
        PolicyRule(app="workspace", action="create", file="notes/*", decision="approve"),
    )
    calls = [
        run("c0", "echo hello"), run("c1", "echo bye"), create("c2", "notes/a.md"),
        create("c3", "elsewhere.md"), create("c4", "notes/.hidden"),
    ]  # fmt: skip
    async with hosted(tmp_path, [calls, "Done."], apps=HERE, policy=rules) as (host, _):
        asked, _ = await asked_for(host, {}, approved=False)
    assert asked == ["c1", "c3", "c4"]
    assert (tmp_path / "notes" / "a.md").exists()


async def test_a_rule_of_the_configuration_that_could_fit_nothing_is_told(tmp_path: Path) -> None:
    rules = (PolicyRule(command="ls | sh", decision="approve"),)
    with pytest.raises(InvalidInput, match="policy, rule 1"):
        async with hosted(tmp_path, policy=rules):
            pass


async def test_no_app_but_our_own_is_taken_for_the_workspace(tmp_path: Path) -> None:
    class Named(Documents):
        """An app whose `run` is not ours."""

    tree = from_value(
        {"id": "app", "type": "root", "affordances": [{"action": "run", "dangerous": True}]}
    )
    rules = (PolicyRule(command="ls", decision="approve"),)
    call = invoke("c1", "/", "run", command="ls")
    async with hosted(tmp_path, [call, "Done."], app=Named(tree), policy=rules) as (host, _):
        asked, _ = await asked_for(host, {}, approved=False)
    assert asked == ["c1"]


async def test_an_answer_that_comes_twice_is_one_answer(tmp_path: Path) -> None:
    app = Documents()
    async with hosted(tmp_path, [invoke("c1", DRAFT, "delete"), "Kept."], app=app) as (host, _):
        asked = 0
        async for event in host.ask("delete it"):
            if isinstance(event, ApprovalAsked):
                asked += 1
                if asked == 1:
                    await shows(host, app, documents("TAX RETURNS 2026"))
                    host.answer(event.call_id, approved=True)
                    host.answer(event.call_id, approved=True)
                    await asyncio.sleep(0)
                else:
                    host.answer(event.call_id, approved=False)
    assert (asked, app.deleted) == (2, [])


async def test_a_changed_action_is_asked_about_once_when_it_is_allowed_again(
    tmp_path: Path,
) -> None:
    app = Documents()
    changed = documents(affordances=[{**DELETE, "description": f"Deletes it with {KEY}"}])
    script = [part for n in range(4) for part in (invoke(f"c{n}", DRAFT, "delete"), "Done.")]
    async with hosted(tmp_path, script, app=app) as (host, _):
        first, _ = await asked_for(host, {"c0": 1})
        await shows(host, app, changed)
        asked: list[ApprovalAsked] = []
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                host.answer(event.call_id, approved=True, remember=1)
        third, _ = await asked_for(host, {})
        assert len(host.rules) == 1  # the answer took the place of the one that lapsed
        await shows(host, app, documents())
        fourth, _ = await asked_for(host, {}, approved=False)
    assert (first, [event.call_id for event in asked], third, fourth) == (
        ["c0"],
        ["c1"],
        [],
        ["c3"],
    )
    assert "describes it differently" in asked[0].reason
    [difference] = asked[0].differences
    assert difference.startswith(
        'the action\'s description: "Deletes it for good" → "Deletes it with'
    )
    assert KEY not in difference
    assert len(app.deleted) == 3
