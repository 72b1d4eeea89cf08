"""An invoke is checked in the protocol's order, and the handler runs last or not at all."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.parameters import Call
from sightline.slop.protocol.consumer import InvokeAnswered, MirrorChanged
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.tree import Node
from sightline.testing import Client, connect


class Door:
    """An app with one door, and a list of what was really done to it."""

    def __init__(self, **options: Any) -> None:
        self.open = False
        self.there = True
        self.done: list[str] = []
        self.app = App("house", "House", coalesce_s=0, **options)
        self.app.node("door")(self.door)
        self.app.action("door", "shut", when=lambda props: props["open"])(self.shut)
        self.app.action("door", "knock", guard=self.may_knock)(self.knock)

    def door(self) -> dict[str, Any] | None:
        return {"type": "control", "props": {"open": self.open}} if self.there else None

    def shut(self, hard: bool = False) -> None:
        self.done.append("shut hard" if hard else "shut")
        self.open = False

    def knock(self, times: int) -> dict[str, Any]:
        self.done.append(f"knock {times}")
        return {"heard": times > 1}

    def may_knock(self) -> str | None:
        return "the door is open, just come in" if self.open else None


async def code_of(client: Client, path: str, action: str, **params: Any) -> tuple[str, str]:
    with pytest.raises(ActionError) as caught:
        await client.invoke(path, action, **params)
    return caught.value.code, caught.value.message


async def test_the_five_refusals_come_in_their_order_and_the_handler_never_runs() -> None:
    house = Door()

    @house.app.authorize
    def only_one_knock(call: Call) -> bool:
        return bool(call.params.get("times", 0) < 10)

    async with connect(house.app) as client:
        assert await code_of(client, "/window", "knock", times=1) == (
            "not_found", "/window: / has no child 'window'",
        )  # fmt: skip
        assert await code_of(client, "/door", "shut") == (
            "not_found", "/door does not offer 'shut' now",
        )  # fmt: skip
        assert await code_of(client, "/door", "knock", times="many") == (
            "invalid_params", '/times: "many" is not of type "integer"',
        )  # fmt: skip
        assert await code_of(client, "/door", "knock", times=10) == (
            "unauthorized", "not allowed to knock here",
        )  # fmt: skip
        house.open = True
        assert await code_of(client, "/door", "knock", times=1) == (
            "conflict", "the door is open, just come in",
        )  # fmt: skip
        # Params are looked at before the caller, and the caller before the state.
        assert (await code_of(client, "/door", "knock", times="x"))[0] == "invalid_params"
        assert (await code_of(client, "/door", "knock", times=10))[0] == "unauthorized"
    assert house.done == []


async def test_what_the_caller_saw_may_be_past() -> None:
    house = Door()
    house.open = True
    async with connect(house.app) as client:
        house.open = False  # and nobody said so
        code, message = await code_of(client, "/door", "shut")
        assert (code, message) == ("conflict", "/door does not allow 'shut' any more")
        assert client.tree.at("/door").properties == {"open": False}
        house.there = False
        assert (await code_of(client, "/door", "knock", times=1))[0] == "conflict"
        assert client.tree.child("door") is None
    assert house.done == []


async def test_the_patches_come_before_the_result() -> None:
    house = Door()
    house.open = True
    async with connect(house.app) as client:
        happened: list[object] = []
        receive = client.consumer.receive

        def note(data: bytes | str) -> Any:
            events = receive(data)
            happened.extend(events)
            return events

        object.__setattr__(client, "consumer", _Noting(client.consumer, note))
        await client.invoke("/door", "shut", hard=True)
        assert [type(event) for event in happened] == [MirrorChanged, InvokeAnswered]
        assert client.tree.at("/door").properties == {"open": False}
    assert house.done == ["shut hard"]


class _Noting:
    """A consumer that also notes what happened."""

    def __init__(self, consumer: Any, receive: Any) -> None:
        self._consumer = consumer
        self.receive = receive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@dataclass
class Report:
    pages: int


async def test_any_json_result_comes_back() -> None:
    app = App("a", "A", coalesce_s=0)
    results: dict[str, Any] = {
        "text": "x", "list": [1, None], "report": Report(3), "zero": 0, "no": None,
    }  # fmt: skip
    for name, value in results.items():
        app.action("/", name)(functools.partial(lambda value: value, value))
    async with connect(app) as client:
        assert await client.invoke("/", "text") == "x"
        assert await client.invoke("/", "list") == [1, None]
        assert await client.invoke("/", "report") == {"pages": 3}
        assert await client.invoke("/", "zero") == 0
        assert await client.invoke("/", "no") is None


async def test_sync_handlers_run_beside_the_loop_and_async_ones_in_it() -> None:
    app = App("a", "A", coalesce_s=0)
    app.action("/", "sync")(lambda: threading.current_thread() is threading.main_thread())

    @app.action("/", "async")
    async def in_loop() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    @app.action("/", "mixed")
    def returns_a_coroutine() -> Any:
        return in_loop()

    async with connect(app) as client:
        assert await client.invoke("/", "sync") is False
        assert await client.invoke("/", "async") is True
        assert await client.invoke("/", "mixed") is True


async def test_errors_that_carry_a_code_reach_the_caller() -> None:
    app = App("a", "A", coalesce_s=0)

    @app.action("/", "fail")
    def fail(code: str) -> None:
        raise ActionError(code, "because")

    async with connect(app) as client:
        for code in ("conflict", "unauthorized", "not_found", "invalid_params", "internal"):
            assert await code_of(client, "/", "fail", code=code) == (code, "because")
        assert await code_of(client, "/", "fail", code="teapot") == ("internal", "because")


async def test_an_unexpected_error_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    app = App("a", "A", coalesce_s=0)
    state = {"n": 0}
    app.node("state")(lambda: {"props": dict(state)})

    @app.action("state", "fail")
    def fail() -> None:
        state["n"] = 1
        raise KeyError("the password is hunter2")

    app.action("/", "odd")(lambda: object())
    async with connect(app) as client:
        with caplog.at_level(logging.ERROR):
            assert await code_of(client, "/state", "fail") == (
                "internal", "the app failed to do this",
            )  # fmt: skip
        assert "hunter2" in caplog.text
        assert "Traceback" in caplog.text
        assert client.tree.at("/state").properties == {"n": 1}
        assert (await code_of(client, "/", "odd"))[0] == "internal"


async def test_an_action_that_takes_too_long_is_given_up() -> None:
    app = App("a", "A", coalesce_s=0, invoke_timeout_s=0.05)
    release = threading.Event()
    cancelled = asyncio.Event()
    app.action("/", "stuck")(lambda: release.wait())

    @app.action("/", "slow")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    app.action("/", "quick")(lambda: "done")
    async with connect(app) as client:
        assert await code_of(client, "/", "slow") == ("internal", "took longer than 0.05 s")
        await cancelled.wait()
        assert (await code_of(client, "/", "stuck"))[0] == "internal"
        app._invoker.timeout_s = 60  # however busy the machine is
        assert await client.invoke("/", "quick") == "done"
        release.set()


async def test_sync_handlers_run_one_at_a_time() -> None:
    app = App("a", "A", coalesce_s=0)
    at_work: list[int] = []
    together: list[int] = []

    @app.action("/", "work")
    def work() -> None:
        at_work.append(1)
        together.append(len(at_work))
        at_work.pop()

    async with connect(app) as client:
        await asyncio.gather(*(client.invoke("/", "work") for _ in range(20)))
    assert together == [1] * 20


async def test_an_action_is_finished_even_if_its_caller_has_gone() -> None:
    app = App("a", "A", coalesce_s=0)
    started, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.action("/", "save")
    async def save() -> None:
        started.set()
        await go_on.wait()
        done.set()

    async with connect(app) as client:
        asking = asyncio.create_task(client.result("/", "save"))
        await started.wait()
        await client.close()
        with pytest.raises(ActionError, match="not answered"):
            await asking
    go_on.set()
    await done.wait()


async def test_holes_in_a_path_are_parameters_of_the_handler() -> None:
    app = App("a", "A", coalesce_s=0)
    app.node("boards")(lambda: {"items": [{"id": "b", "items": [{"id": "c", "type": "item"}]}]})

    @app.action("boards/{board}/{card}", "move")
    def move(board: str, card: str, to: str) -> str:
        return f"{board}/{card} to {to}"

    @app.action("boards/b/{card}", "move")
    def special(card: str, to: str) -> str:
        return f"special {card} to {to}"

    async with connect(app) as client:
        assert await client.invoke("/boards/b/c", "move", to="x") == "special c to x"


async def test_a_descriptor_can_hang_actions_on_its_own_items() -> None:
    app = App("a", "A", coalesce_s=0)
    items = {"x": 1, "y": 2}

    def drop(key: str) -> None:
        del items[key]

    @app.node("list")
    def shown() -> dict[str, Any]:
        return {
            "items": [
                {
                    "id": key,
                    "actions": {
                        "drop": {
                            "handler": functools.partial(drop, key),
                            "dangerous": True,
                            "label": "Drop",
                        },
                        "double": functools.partial(double, key),
                    },
                }
                for key in items
            ],
            "actions": {"find": {"handler": lambda query: query, "params": {"query": "string"}}},
        }

    def double(key: str, by: int = 2) -> int:
        return items[key] * by

    async with connect(app) as client:
        [action, _] = client.tree.at("/list/x").affordances
        assert (action.action, action.dangerous, action.label) == ("drop", True, "Drop")
        assert await client.invoke("/list/y", "double", by=5) == 10
        await client.invoke("/list/x", "drop")
        assert [child.id for child in client.tree.at("/list").children] == ["y"]
        assert await client.invoke("/list", "find", query="z") == "z"


async def test_an_action_may_say_what_it_touches() -> None:
    app = App("a", "A", coalesce_s=0)
    asked: list[str] = []

    def shown(name: str) -> dict[str, Any]:
        asked.append(name)
        return {"type": "item"}

    app.node("one")(functools.partial(shown, "one"))
    app.node("two")(functools.partial(shown, "two"))
    app.action("one", "touch", refreshes=["one"])(lambda: asked.append("touched"))
    async with connect(app) as client:
        asked.clear()
        await client.invoke("/one", "touch")
        assert asked == ["one", "touched", "one"]


async def test_an_affordance_that_nothing_does_is_not_found() -> None:
    app = App("a", "A", coalesce_s=0)
    app.register("x", Node.of("x", "item", affordances=[{"action": "vanish"}]))
    async with connect(app) as client:
        assert await code_of(client, "/x", "vanish") == ("not_found", "nothing does 'vanish' here")


async def test_a_hook_takes_the_call_by_its_name_whatever_the_caller_says() -> None:
    app = App("a", "A", coalesce_s=0)
    asked: list[object] = []

    @app.authorize
    def may(call):  # type: ignore[no-untyped-def] # as an author may write it
        asked.append(call)
        return call.action != "stop"

    app.action("/", "go", guard=lambda call: None if call.path == "/" else "no")(lambda **_: "went")
    app.action("/", "stop")(lambda: "stopped")
    async with connect(app) as client:
        assert await client.invoke("/", "go", call="mine") == "went"
        assert (await code_of(client, "/", "stop"))[0] == "unauthorized"
    assert [type(one) for one in asked] == [Call, Call]


async def test_an_async_guard_and_an_actions_own_authorize_are_asked() -> None:
    app = App("a", "A", coalesce_s=0)
    verdicts: dict[str, Any] = {"allowed": True, "possible": True}

    async def possible(call: Call) -> Any:
        assert call.action == "go"
        return verdicts["possible"]

    async def allowed(session: Any) -> bool:
        assert session is None
        return bool(verdicts["allowed"])

    app.action("/", "go", guard=possible, authorize=allowed)(lambda: "went")
    async with connect(app) as client:
        assert await client.invoke("/", "go") == "went"
        verdicts["possible"] = False
        assert await code_of(client, "/", "go") == ("conflict", "'go' is not possible now")
        verdicts["allowed"] = False
        assert (await code_of(client, "/", "go"))[0] == "unauthorized"


def test_a_condition_that_fails_hides_its_action(caplog: pytest.LogCaptureFixture) -> None:
    app = App("a", "A")
    app.register("x", {"type": "item"})
    app.action("x", "go", when=lambda props: props["missing"])(lambda: None)
    app.action("x", "stay")(lambda: None)
    assert [item.action for item in app.tree().at("/x").affordances] == ["stay"]
    assert "it is not offered" in caplog.text


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "result",
    [
        float("nan"), {"x": float("inf")}, "\ud800", {"\udfff": 1}, 10**5000, object(),
        nested(100_000), nested(600), "x" * 3000,
    ],
    ids=["nan", "infinity", "surrogate", "key", "digits", "object", "abyss", "deep", "long"],
)  # fmt: skip
async def test_a_result_that_cannot_be_sent_is_answered_all_the_same(
    result: object, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("a", "A", coalesce_s=0, limits=ProviderLimits(snapshot_bytes=2000))
    app.action("/", "give")(lambda: result)
    async with connect(app) as client:
        assert (await code_of(client, "/", "give"))[0] == "internal"
        assert client.tree.id == "a"
    assert "JSON" in caplog.text or isinstance(result, str)


async def test_keys_that_are_numbers_are_sent_as_json_has_them() -> None:
    app = App("a", "A", coalesce_s=0)
    app.action("/", "give")(lambda: {1: {2: None}})
    async with connect(app) as client:
        assert await client.invoke("/", "give") == {"1": {"2": None}}


async def test_a_reason_that_is_not_text_is_told_as_far_as_it_is() -> None:
    app = App("a", "A", coalesce_s=0)

    @app.action("/", "open")
    def open_file() -> None:
        raise ActionError("not_found", "no such file: caf\udce9.txt")

    async with connect(app) as client:
        assert await code_of(client, "/", "open") == ("not_found", "no such file: caf?.txt")


async def test_an_event_that_is_not_json_is_refused_where_it_is_made() -> None:
    app = App("a", "A", coalesce_s=0)
    for data in (float("nan"), "\ud800", object()):
        with pytest.raises(InvalidInput, match="not JSON"):
            app.emit("tick", data)
