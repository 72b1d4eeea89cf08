"""Claude Code and Codex with the live tail: what their models know is what is there."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import pytest

from clients.test_plugins import whole_of
from gateway.conftest import Running, running
from gateway.test_tail import LISTS, check_bytes, known_from, states
from sightline.agent.host.sight import SightRules
from sightline.context.tokens.tokens import default_counter
from sightline.gateway.bodies import Api, message_units
from sightline.gateway.tail import LiveTail, Mode
from sightline.slop.app.local import local_dial
from sightline.slop.hub.hub import Hub
from support.agents import LONGEST_S, Agent, Claude, Codex, installed
from support.board import Board
from support.share import WHOLE
from support.vendors.answers import Answer, Call, Refuses, says
from support.vendors.server import Vendor

TURNS = 30 if WHOLE else 4
# What a vendor says before it does what was asked; somebody interrupts what is never heard.
NEVER = says("never heard", stall=2)
TROUBLE: list[list[Answer]] = [
    [], [Refuses("overloaded"), says("half of it is", cut=5)], [Refuses("rate", retry_after="1")],
    [], [NEVER] if WHOLE else [],
]  # fmt: skip
INTERRUPT = {"subtype": "interrupt"}
RULES = SightRules(1_000_000, "text", {}, 1_000_000)
# Of each agent one part is tried in every run, all with `LAWS=whole`.
CASES: list[tuple[type[Agent], Mode, Mode, list[str]]] = [(Codex, "whole", "whole", [])]
if WHOLE:
    CASES += [
        # Its model binds what it thinks to what stands before it: nothing may leave.
        (Claude, "whole", "session", []),
        (Claude, "whole", "whole", ["--model", "claude-haiku-4-5"]),
        (Codex, "session", "session", []),
    ]


class Talk:
    """An agent led through a gateway, one turn after the other."""

    def __init__(self, agent: Agent, vendor: Vendor, led: Running) -> None:
        self._agent = agent
        self._vendor = vendor
        self._led = led
        self._claude: Process | None = None
        self._environment = {
            **agent.environment, **vendor.environment(),
            "ANTHROPIC_BASE_URL": f"{led.base}/anthropic",
        }  # fmt: skip

    async def turn(self, text: str) -> None:
        """Say something; the model calls a tool, and is done, whatever its vendor says before."""
        name, argument = ("Bash", "command")
        if isinstance(self._agent, Codex):
            name, argument = ("exec_command", "cmd")
        call = Call(name, {argument: "echo it is here"}, f"c{self._agent.turns}")
        trouble = TROUBLE[self._agent.turns % len(TROUBLE)]
        self._vendor.add(*trouble, says("", call), says("All done."))
        self._vendor.arrived.clear()
        say = self._say if isinstance(self._agent, Claude) else self._run
        for interrupted in [True, False] if NEVER in trouble else [False]:
            async with asyncio.timeout(LONGEST_S):
                await say(text, interrupted=interrupted)
        self._agent.turns += 1

    async def _run(self, text: str, *, interrupted: bool) -> None:
        led = f"{self._led.base}/openai"
        words = [w.replace(self._vendor.url, led) for w in self._agent.command(self._vendor, text)]
        process = await self._start(words, DEVNULL)
        if interrupted:
            await asyncio.to_thread(self._vendor.arrived.wait, LONGEST_S)
            process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert interrupted or b"All done." in out, err.decode()

    async def _say(self, text: str, *, interrupted: bool) -> None:
        """Claude Code takes one turn after the other from its input."""
        if self._claude is None:
            words = self._agent.command(self._vendor, text)
            words.remove(text)
            form = "stream-json"
            flags = ["--verbose", "--input-format", form, "--output-format", form]
            self._claude = await self._start([*words, *flags, "--allowedTools", "Bash"], PIPE)
        assert self._claude.stdin is not None
        assert self._claude.stdout is not None
        message = {"type": "user", "message": {"role": "user", "content": text}}
        self._claude.stdin.write(json.dumps(message).encode() + b"\n")
        if interrupted:
            await asyncio.to_thread(self._vendor.arrived.wait, LONGEST_S)
            stop = {"type": "control_request", "request_id": "1", "request": INTERRUPT}
            self._claude.stdin.write(json.dumps(stop).encode() + b"\n")
        async for line in self._claude.stdout:
            if json.loads(line)["type"] == "result":
                assert interrupted or b"All done." in line
                return
        raise AssertionError("it left")

    async def _start(self, words: list[str], stdin: int) -> Process:
        return await asyncio.create_subprocess_exec(
            *words, env=self._environment, cwd=self._agent.home, stdin=stdin, stdout=PIPE,
            stderr=PIPE, limit=2**24,
        )  # fmt: skip

    async def end(self) -> None:
        if self._claude is not None and self._claude.returncode is None:
            assert self._claude.stdin is not None
            self._claude.stdin.close()
            await self._claude.communicate()


@asynccontextmanager
async def talking(
    agent: Agent, vendor: Vendor, tail: LiveTail
) -> AsyncIterator[tuple[Talk, Running]]:
    async with running({"anthropic": vendor.url, "openai": vendor.url}, tail) as led:
        talk = Talk(agent, vendor, led)
        try:
            yield talk, led
        finally:
            await talk.end()


def values(api: Api, data: bytes) -> list[object]:
    """The messages of a request as its vendor reads them."""
    found = json.loads(data)[LISTS[api]]
    return [[unit.digest for unit in message_units(json.dumps(one).encode())] for one in found]


def interruptions() -> list[int]:
    """The requests that somebody interrupts, by their number."""
    given = [*chain(*((*TROUBLE[n % len(TROUBLE)], None, None) for n in range(TURNS)))]
    return [number for number, answer in enumerate(given, 1) if answer is NEVER]


@installed
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "mode", "expected", "options"), CASES)
async def test_a_real_agent_s_model_knows_what_is_there_and_its_prefix_is_intact(
    kind: type[Agent], mode: Mode, expected: Mode, options: list[str], tmp_path: Path
) -> None:
    api: Api = "anthropic" if kind is Claude else "openai-responses"
    board, requests, cut = Board(), 0, interruptions()
    before, texts = list[object](), list[str]()
    async with Hub() as hub:
        hub.add("board", local_dial(board.app))
        await hub.ready()
        tail = LiveTail(mode, lambda: hub.world, default_counter().count, RULES)
        with Vendor(says("All done.")) as vendor:
            agent = kind(tmp_path, tmp_path, *options)
            async with talking(agent, vendor, tail) as (talk, led):
                for number in range(TURNS):
                    await talk.turn(f"Turn {number}.")
                    while requests < len(vendor.requests):
                        passing, body = await led.passed.get(), vendor.requests[requests].body
                        check_bytes(api, passing.data, body)
                        texts = states(api, body)
                        assert known_from(texts) == known_from([whole_of(board)])
                        now = values(api, body)
                        if expected == "whole":
                            assert len(texts) == 1
                            now = values(api, passing.data)
                        assert now[: len(before)] == before
                        before, requests = now, requests + 1
                        if kind is Claude and requests in cut:
                            del before[-2:]  # it writes what was said last anew
                    board.change()
                    await hub.query("board")
    assert requests == sum(2 + len(TROUBLE[number % len(TROUBLE)]) for number in range(TURNS))
    assert expected == "whole" or TURNS >= len(texts) > 1
