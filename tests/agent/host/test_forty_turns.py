"""Forty turns with each API, read from the bytes that a vendor got: what std::slop's context
document (§1 to §3) and SLOP's context-injection rules say is true of every request.

Two departures, which are measured here as well: the layers that change stand behind the history
instead of before it (`strategy = "classic"` has them before), and the built-in window, which
nobody asked for by a number, shows up to 25 groups more before it folds.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import ALONE, NOW, turn
from agent.models.conftest import WAYS
from context.projection.requirements import proves
from sightline.agent.host import Host
from sightline.agent.models.choose import open_model
from sightline.config import Settings, load
from sightline.context.dialects.drift import common_start
from sightline.context.messages.parts import Entry, Message, ToolCall, ToolResult
from sightline.context.messages.window import Window
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.tree import Node
from support.live import TREE, LiveApp, served
from support.vendors.answers import Answer, Call, says
from support.vendors.server import KEY, Vendor

EARLIER, TURNS = 40, 40  # groups that were there before; turns that are read
LONG_TURN, LONG_ROUNDS = 20, 8
SIZES = (150, 800, 3_000, 9_000)
STATE = "<slop-state generated_at"
ANCHOR = "## The state you wrote last"
PLAN = "1. look 2. act"
ASKED = re.compile(r"question (-?\d+)\?")
MARKS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
HINT = re.compile(
    r"\.\.\. \[TRUNCATED\. Use query_db\(sql=\"SELECT content FROM messages WHERE id=(\d+)\"\) "
    r"to see full output\]"
)
# What is no content: marks, and what a vendor is asked about its cache.
NO_CONTENT = re.compile(
    rb',"(cache_control|prompt_cache_breakpoint|diagnostics)":\{[^}]*\}'
    rb'|,\{"cachePoint":\{[^}]*\}\}|,"comparison_response_id":"[^"]*"'
)


class Reader(LiveApp):
    """An app whose reads are long, and count: its state is another one after each."""

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        if request.action != "echo":
            return await super().invoke(connection, request)
        self.publish(self.tree.with_property("n", self.tree.properties["n"] + 1))
        name, size = request.params["name"], request.params["size"]
        text = f"{name}|" + "".join(f"{at:04} " for at in range(size // 5))
        return connection.send_result(request.id, {"text": text})


def rounds_of(number: int) -> list[int]:
    """The sizes of what the tools of a turn return, one round each."""
    if number == LONG_TURN:
        return [SIZES[at % 4] for at in range(LONG_ROUNDS)]
    return [SIZES[number // 5 % 4]] if number % 5 == 0 else []


def answers() -> Iterator[tuple[int, int, Answer]]:
    """What the vendor says: the turn, the calls of that turn so far, the answer."""
    for number in range(1, TURNS + 1):
        sizes = rounds_of(number)
        for at, size in enumerate(sizes):
            params = {"name": f"R{number}x{at}", "size": size}
            given = {"app": "live", "path": "/", "action": "echo", "params": params}
            yield number, at, says("Reading.", Call("slop_invoke", given, f"call_{number}_{at}"))
        said = f"Answer {number}.\n\n### STATE\nGoal: goal {number}"
        yield number, len(sizes), says(said)


@asynccontextmanager
async def talking(
    directory: Path, vendor: Vendor, way: str, settings: Settings, tree: Node = TREE
) -> AsyncIterator[Host]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(Hub())
        dial = await stack.enter_async_context(served("memory", directory, Reader(tree)))
        hub.add("live", dial)
        async for world in hub.changes():
            if world.apps and world.apps[0].status == "connected":
                break
        model = open_model(WAYS[way], settings, vendor.environment())
        stack.push_async_callback(model.close)
        host = await stack.enter_async_context(
            Host.open(
                settings, model=model, ledger=directory / "work.db", hub=hub, clock=lambda: NOW
            )
        )
        yield host


def said_earlier() -> list[Message]:
    """Groups of an earlier time; the last has the tool traffic of another vendor."""
    said: list[Message] = []
    for number in range(1 - EARLIER, 1):
        said += [Message.of("user", f"question {number}?"), Message.of("assistant", f"A{number}.")]
    foreign = ToolCall("foreign", "slop_query", {"app": "live"})
    said.append(Message("assistant", (foreign,)))
    said.append(Message("tool", (ToolResult("foreign", "FOREIGN RESULT", "slop_query"),)))
    said.append(Message.of("assistant", "Told by another vendor."))
    return said


@dataclass(frozen=True)
class Read:
    """One request as the vendor got it: the turn it is of, and the calls of that turn so far."""

    turn: int
    calls: int
    body: bytes

    @property
    def texts(self) -> list[str]:
        """Every text in it, in order."""
        return list(leaves(json.loads(self.body)))

    @property
    def results(self) -> dict[str, str]:
        """What it says of each of our results, by name."""
        found = ((re.search(r"R\d+x\d+(?=\|)", text), text) for text in self.texts)
        return {name[0]: text for name, text in found if name and STATE not in text}

    @property
    def acted(self) -> int:
        """How often the app had been used before."""
        return sum(len(rounds_of(number)) for number in range(1, self.turn)) + self.calls

    def tier(self, name: str) -> int:
        """How many characters the document lets a result have in this request."""
        number, at = map(int, name[1:].split("x"))
        if number != self.turn:
            return 300
        return 5_000 if at >= self.calls - 5 else 1_000


def leaves(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from leaves(item)
        case dict():
            for item in value.values():
                yield from leaves(item)


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    with Vendor(*(answer for *_, answer in answers())) as serving:
        for name, value in serving.environment().items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield serving


@proves("CI-1", "CI-2", "CI-4", "CI-5", "CI-5c")
@pytest.mark.parametrize("way", WAYS)
async def test_every_request_is_what_the_documents_say(
    tmp_path: Path, vendor: Vendor, way: str
) -> None:
    async with talking(tmp_path, vendor, way, Settings(apps=ALONE, mode="auto")) as host:
        host.ledger.append(host.session.id, said_earlier(), strategy="another-vendor")
        host.ledger.scratchpad.replace(host.session.id, PLAN)
        for number in range(1, TURNS + 1):
            await turn(host, f"question {number}?")
            assert host.ledger.states.current(host.session.id) is not None
            assert f"goal {number}" in (host.ledger.states.current(host.session.id) or "")
        stored = list(host.ledger.messages(host.session.id))
    places = [(number, at) for number, at, _ in answers()]
    assert len(vendor.requests) == len(places)
    seen = [
        Read(*place, request.body) for place, request in zip(places, vendor.requests, strict=True)
    ]
    whole = {
        name[0]: (entry, result.content)
        for entry in stored
        for result in entry.message.tool_results
        if (name := re.search(r"R\d+x\d+", result.content))
    }
    assert len(whole) == sum(len(rounds_of(number)) for number in range(1, TURNS + 1))
    for request in seen:
        check_window(request)
        check_isolation(request)
        check_tiers(request, whole)
        check_layers(request)
        check_state(request, way)
        check_marks(request)
    changes = [check_prefix(before, now, way) for before, now in pairwise(seen)]
    assert changes.count("fold") == 1
    assert changes.count("tier") >= (1 if way == "ollama" else 6)
    assert changes.count("appended") > 40


def check_window(request: Read) -> None:
    """§1: the last N groups, in strict order. The built-in 50 may be up to 75 (a departure)."""
    asked = [int(number) for text in request.texts for number in ASKED.findall(text)]
    total = EARLIER + request.turn
    assert asked == list(range(request.turn - len(asked) + 1, request.turn + 1))
    assert len(asked) == Window(50, 25).shown(total)
    assert 0 <= len(asked) - min(total, 50) <= 25


def check_isolation(request: Read) -> None:
    """§2: texts stay when the vendor changes, tool traffic of another one is left out."""
    body = request.body.decode()
    assert "FOREIGN RESULT" not in body
    assert body.count("Told by another vendor.") == 1


def check_tiers(request: Read, whole: dict[str, tuple[Entry, str]]) -> None:
    """§2: 5000 characters, 1000, 300 once the turn is over; a cut names the query for the rest."""
    expected = {
        f"R{number}x{at}"
        for number in range(1, request.turn + 1)
        for at in range(len(rounds_of(number)) if number < request.turn else request.calls)
    }
    assert set(request.results) == expected
    for name, shown in request.results.items():
        entry, content = whole[name]
        limit = request.tier(name)
        if len(content) <= limit:
            assert shown == content
            continue
        hint = HINT.search(shown)
        assert hint is not None
        assert int(hint[1]) == entry.id
        assert limit - 10 < hint.start() <= limit
        assert hint.end() == len(shown)


def check_layers(request: Read) -> None:
    """§3: all five layers, the anchor being the latest state; the order is a departure."""
    body = request.body.decode()
    asked = ASKED.search(body)
    assert asked is not None
    places = [
        body.index("You work for one user."), body.index("## Your history"),
        asked.start(),
        body.index(ANCHOR) if request.turn > 1 else body.index(PLAN), body.index(PLAN),
        body.index(STATE),
    ]  # fmt: skip
    assert places == sorted(places)
    goals = re.findall(r"goal (\d+)", body)
    assert goals == ([str(request.turn - 1)] if request.turn > 1 else [])


def check_state(request: Read, way: str) -> None:
    """One state, the current one, behind everything stored, and said by nobody else."""
    body = request.body.decode()
    assert body.count(STATE) == 1
    assert re.findall(r"\(n=(\d+)\)", body) == [str(request.acted)]
    stored = [f"question {request.turn}?"]
    if request.calls and way != "ollama":  # whose template wants it in the user's message
        stored.append(f"R{request.turn}x{request.calls - 1}|")
    assert all(body.rindex(text) < body.index(STATE) for text in stored)
    assert KEY not in body


def check_marks(request: Read) -> None:
    """Where there are cache marks, the last one is right before the tail; none is behind it."""
    body = request.body.decode()
    places = [found.start() for mark in MARKS for found in re.finditer(f'"{mark}"', body)]
    if places:
        newest = f"R{request.turn}x{request.calls - 1}|" if request.calls else "question "
        assert body.rindex(newest) < max(places) < body.index(PLAN)
        assert 2 <= len(places) <= 4


def check_prefix(before: Read, now: Read, way: str) -> str:
    """Law 6: the bytes of the request before, up to its tail, a result of another tier, or a fold.

    Say which it was.
    """
    one, other = (NO_CONTENT.sub(b"", request.body) for request in (before, now))
    common = common_start(one, other)
    total = EARLIER + now.turn
    if before.turn < now.turn and Window(50, 25).shown(total) <= Window(50, 25).shown(total - 1):
        assert common >= one.index(b"## Your history")
        return "fold"
    cut = [
        name
        for name, shown in before.results.items()
        if now.tier(name) < before.tier(name) and shown != now.results[name]
    ]
    stored = f"question {before.turn}?".encode()
    if cut:
        first = min(one.index(f"{name}|".encode()) for name in cut)
        assert common >= (one.rindex(stored) if way == "ollama" else first)
        return "tier" if common < one.index(STATE.encode()) else "appended"
    assert common >= one.rindex(stored) + len(stored)
    if before.calls and way != "ollama":
        assert common >= one.rindex(f"R{before.turn}x{before.calls - 1}|".encode())
    return "appended"


async def test_a_window_of_three_shows_three_groups(tmp_path: Path, vendor: Vendor) -> None:
    (tmp_path / "own.toml").write_text('mode = "auto"\n[apps]\ndiscover = false\nworkspace = false')
    given = load(tmp_path / "own.toml", {"SIGHTLINE_WINDOW": "3"}, {}, project=None).settings
    async with talking(tmp_path, vendor, "chat", given) as host:
        for number in range(1, 8):
            await turn(host, f"question {number}?")
    for request in vendor.requests:
        asked = [int(n) for n in re.findall(rb"question (\d+)\?", request.body)]
        assert asked == list(range(max(1, asked[-1] - 2), asked[-1] + 1))


@pytest.mark.parametrize("way", ["anthropic", "responses"])
async def test_the_classic_layers_stand_in_the_documents_order(
    tmp_path: Path, vendor: Vendor, way: str
) -> None:
    given = Settings(apps=ALONE, mode="auto", strategy="classic")
    async with talking(tmp_path, vendor, way, given) as host:
        host.ledger.scratchpad.replace(host.session.id, PLAN)
        for number in range(1, 4):
            await turn(host, f"question {number}?")
    body = vendor.requests[-1].body.decode()
    layers = ("You work for one user.", "## Your history", ANCHOR, PLAN, STATE, "question 1?")
    places = [body.index(text) for text in layers]
    assert places == sorted(places)
    behind = body[body.index(STATE) :]
    assert not any(f'"{mark}"' in behind for mark in MARKS)
    assert any(f'"{mark}"' in body for mark in MARKS)
