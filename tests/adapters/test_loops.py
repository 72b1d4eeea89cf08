"""A loop of one's own: live state behind a stable prefix, tools, and questions before danger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.shop import act, shelf
from examples import anthropic_loop, openai_loop
from sightline import ActionQuestion, App, Hub
from sightline.context.projection.tools import FIXED_TOOLS
from sightline.errors import InvalidInput, SightlineError, Unreachable
from sightline.slop.app.local import local_dial
from support.vendors.answers import Sends
from support.vendors.server import Vendor

ROUNDS = 4
MARKS = ("cache_control", "prompt_cache_breakpoint")


def openai_reply(number: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": "Four."}
    if number < ROUNDS:
        function = {"name": "slop_invoke", "arguments": json.dumps(act("add", count=1))}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def anthropic_reply(number: int) -> Any:
    block: dict[str, Any] = {"type": "text", "text": "Four."}
    if number < ROUNDS:
        given = act("add", count=1)
        block = {"type": "tool_use", "id": f"t_{number}", "name": "slop_invoke", "input": given}
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [block],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("example", "reply"), [(openai_loop, openai_reply), (anthropic_loop, anthropic_reply)]
)
async def test_every_request_of_the_example_ends_with_the_one_current_state(
    example: Any, reply: Callable[[int], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = shelf()
    kind = "application/json"
    answers = [Sends(json.dumps(reply(n)).encode(), 200, kind) for n in range(ROUNDS + 1)]
    with Vendor(*answers) as vendor:
        for name, value in vendor.environment().items():
            monkeypatch.setenv(name, value)
        async with app.serving(unix=tmp_path / "shop.sock", discoverable=False):
            assert await example.answer(f"unix:{tmp_path}/shop.sock", "How many?") == "Four."
    assert len(vendor.requests) == ROUNDS + 1
    stable: list[str] = []
    for number, request in enumerate(vendor.requests):
        body = json.loads(request.body)
        assert len(body["tools"]) == len(FIXED_TOOLS)
        flat = [
            (message["role"], _unmarked(block))
            for message in body["messages"]
            for block in _blocks(message)
        ]
        *before, (role, tail) = flat
        assert role == "user"
        assert f"apples={number}" in tail["text"]
        assert request.body.count(b"<slop-state ") == 1
        # The prefix of a request is the beginning of the next.
        lines = [json.dumps(item) for item in before]
        assert lines[: len(stable)] == stable
        stable = lines


def _blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return [*texts, *message.get("tool_calls", ())]


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in MARKS}


async def test_what_an_app_calls_dangerous_runs_only_as_it_was_agreed_to() -> None:
    app, stock = shelf()
    questions: list[ActionQuestion] = []
    async with Hub() as hub:
        hub.add("shop", local_dial(app))
        await hub.ready()
        tools = hub.tools()

        async def yes(question: ActionQuestion) -> bool:
            questions.append(question)
            return True

        async def yes_after_a_change(_: ActionQuestion) -> bool:
            await tools.call("slop_invoke", act("add", count=5))
            async for world in hub.changes():
                shown = world.apps[0].tree
                if shown is not None and shown.at("/shelf").properties["apples"] == 5:
                    break
            return True

        refused = await tools.call("slop_invoke", act("clear"))
        assert "needs the user's approval" in refused.content
        denied = await tools.call("slop_invoke", act("clear"), approve=lambda _: False)
        assert "did not approve" in denied.content
        changed = await tools.call("slop_invoke", act("clear"), approve=yes_after_a_change)
        assert 'its "apples": 0 → 5' in changed.content
        assert [refused.ok, denied.ok, changed.ok, stock] == [False, False, False, {"apples": 5}]

        assert (await tools.call("slop_invoke", json.dumps(act("clear")), approve=yes)).ok
        assert stock == {"apples": 0}
        [question] = questions
        assert (question.label, question.dangerous) == ("The shelf", True)
        assert str(question) == "shop: clear on /shelf (The shelf)"

        careful = hub.tools(mode="ask")
        assert "mode ask" in (await careful.call("slop_invoke", act("add", count=1))).content
        assert (await careful.call("slop_query", {"app": "shop"})).ok
        assert "no tool" in (await tools.call("query_db", {"sql": "SELECT 1"})).content
        assert "not a JSON object" in (await tools.call("slop_query", "{")).content
        typo = await tools.call("slop_invoke", act("claer"), approve=yes)
        assert 'mean "clear"' in typo.content
    await app.close()


async def test_a_focused_node_is_shown_whatever_there_is_room_for() -> None:
    app = App("long", "Long", coalesce_s=0)
    names = [f"line-{number}" for number in range(400)]
    app.node("list")(lambda: {"type": "collection", "items": [{"id": name} for name in names]})
    async with Hub() as hub:
        hub.add("long", local_dial(app))
        await hub.ready()
        tools = hub.tools()
        assert "line-399" not in hub.tail(300, "chars/4").text
        assert (await tools.call("slop_focus", {"app": "long", "path": "/list/line-399"})).ok
        tail = hub.tail(budget=300, counter="chars/4")
        assert "line-399" in str(tail)
        assert len(tail.text) <= 300 * 4
        assert tail.message() == {"role": "user", "content": tail.text}
        assert hub.tail(budget=2_000, counter="gpt-6.1").text
    await app.close()


async def test_tools_are_in_every_vendors_form() -> None:
    app, _ = shelf()
    async with Hub() as hub:
        hub.add("shop", local_dial(app))
        await hub.ready()
        tools = hub.tools("dynamic")
        names = [tool.name for tool in FIXED_TOOLS]
        assert [*tools.names[:4]] == names
        assert len(tools.names) == 6
        dynamic = next(name for name in tools.names if name.endswith("add"))
        assert (await tools.call(dynamic, {"count": 2})).ok
        for found in (
            [tool["function"]["name"] for tool in tools.openai()],
            [tool["name"] for tool in tools.openai_responses()],
            [tool["name"] for tool in tools.anthropic() if "input_schema" in tool],
            [tool["name"] for tool in tools.gemini()[0]["functionDeclarations"]],
            [tool["name"] for tool in tools.mcp() if "inputSchema" in tool],
        ):
            assert found == list(tools.names)
    await app.close()


async def test_a_hub_connects_to_addresses_and_ids_and_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))
    notes, (shop, _) = App("notes", "Notes"), shelf()
    async with (
        notes.serving(unix=tmp_path / "n.sock", directory=tmp_path),
        shop.serving(unix=tmp_path / "s.sock", discoverable=False),
    ):
        address = f"unix:{tmp_path}/s.sock"
        async with Hub.connect(address, "notes") as hub:
            assert [(a.id, a.status) for a in hub.world.apps] == [
                ("shop", "connected"), ("notes", "connected"),
            ]  # fmt: skip
            assert await hub.ready() is hub.world
        async with Hub.connect("notes", discover=True) as hub:
            assert [app.id for app in hub.world.apps] == ["notes"]
        async with Hub() as hub:
            hub.add("y", address)
            assert (await hub.ready()).apps[0].tree is not None
            with pytest.raises(InvalidInput, match="not an address"):
                hub.add("z", "shop:/nowhere")


@pytest.mark.parametrize(
    ("address", "error"),
    [("unix:/nowhere/at.all", Unreachable), ("nobody", Unreachable), ("a:b", InvalidInput)],
)
async def test_an_address_that_cannot_be_reached_is_named(
    address: str, error: type[SightlineError]
) -> None:
    with pytest.raises(error, match=address):
        async with Hub.connect(address):
            pass


words = st.text("ab<{é", min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(words, st.integers()), max_size=3), words)
async def test_whatever_a_model_calls_is_a_result(params: list[Any], name: str) -> None:
    async with Hub() as hub:
        tools = hub.tools()
        for tool in (name, "slop_invoke", "slop_query"):
            for arguments in (name, json.dumps(params), {name: params}, None):
                assert not (await tools.call(tool, arguments, approve=lambda _: True)).ok
