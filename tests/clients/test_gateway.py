"""Claude Code and Codex through the gateway: they notice nothing, and everything is kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import pytest

from sightline.context.ledger import Ledger
from sightline.gateway.bodies import api_of, pieces_of
from support.agents import (
    LONGEST_S,
    Agent,
    AiSdk,
    AnthropicAiSdk,
    AnthropicOpenCode,
    BedrockClaude,
    Claude,
    Codex,
    FoundryClaude,
    OpenCode,
    PlainCodex,
    VertexClaude,
    installed,
)
from support.arguments import command_lines
from support.loopback import reserved_port
from support.share import WHOLE
from support.shell import PROGRAM
from support.vendors.answers import Answer, Call, Refuses, says
from support.vendors.server import Seen, Vendor

TURNS = 30 if WHOLE else 3
# What an agent makes up anew in every run.
CHANCE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{6,64}|[0-9]+(?:\.[0-9]+)?")
DONE = says("All is done.")


class Turn(NamedTuple):
    """What a vendor answers in a turn, and whether somebody interrupts it."""

    answers: tuple[Answer, ...]
    interrupted: bool = False


class Outcome(NamedTuple):
    """What a person saw of a turn, and what the vendor was sent in it."""

    code: int
    said: str
    requests: list[tuple[str, str, str]]


def turns(agent: type[Agent]) -> list[Turn]:
    """A working day: tools, an interruption, a vendor that is overloaded, breaks off, refuses."""
    names = ("Bash", "command") if agent is Claude else ("exec_command", "cmd")
    tool = Call(names[0], {names[1]: "echo it is here"})
    kinds = (
        Turn((says("", tool), DONE)),
        Turn((says("never heard", stall=2),), interrupted=True),
        Turn((Refuses("overloaded"), says("half of it is", cut=5), DONE)),
        Turn((Refuses("rate", retry_after="1"), DONE)),
        Turn((says("Two at once.", tool), says("", tool), says("and then", cut=4), DONE)),
        Turn((DONE,)),
    )
    return list(islice(cycle(kinds), TURNS))


def talk(agent: Agent, vendor: Vendor, *through: str) -> Iterator[Outcome]:
    for number, turn in enumerate(turns(type(agent))):
        before = len(vendor.requests)
        vendor.add(*turn.answers)
        vendor.arrived.clear()
        running = agent.begin(vendor, f"This is turn {number}.", *through)
        try:
            if turn.interrupted:
                assert vendor.arrived.wait(LONGEST_S)
                os.killpg(running.pid, signal.SIGINT)  # as a terminal does
            said, _ = running.communicate(timeout=LONGEST_S)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            raise
        code = running.returncode
        agent.turns += 1
        seen = [(one.method, one.path, plain(one.body)) for one in vendor.requests[before:]]
        # How far an interrupted agent comes with its last words is chance.
        words = "" if turn.interrupted else CHANCE.sub("~", said)
        yield Outcome(128 - code if code < 0 else code, words, seen)


def plain(body: bytes) -> str:
    """A body without what is chance in it: ids, times, the order of names."""
    text = json.dumps(json.loads(body), sort_keys=True) if body else ""
    return CHANCE.sub("~", text)


def asked(requests: Sequence[Seen]) -> list[bytes]:
    """The bodies of the requests for an answer."""
    known = ((api_of(one.path), one) for one in requests if one.method != "GET")
    return [one.body for api, one in known if api is not None and api[1]]


@installed
@pytest.mark.timeout(3600 if WHOLE else 300)
@pytest.mark.parametrize("agent", [Claude, Codex, PlainCodex] if WHOLE else [PlainCodex])
def test_an_agent_notices_nothing_and_all_of_it_is_kept(agent: type[Agent], tmp_path: Path) -> None:
    home, apps, db = tmp_path / "home", tmp_path / "apps", tmp_path / "l.db"
    with Ledger(db):
        pass
    empty = db.stat().st_size

    def day(*through: str) -> list[Outcome]:
        home.mkdir()
        outcomes = list(talk(agent(home, apps), vendor, *through))
        home.rename(tmp_path / f"home {len(through)}")  # the other run has the same paths
        return outcomes

    with Vendor() as vendor:
        passed = day(PROGRAM, "gateway", "--db", str(db), "--json", "--")
        sent = asked(vendor.requests)
        if WHOLE:
            for one, direct in zip(passed, day(), strict=True):
                assert one == direct
    for turn, outcome in zip(turns(agent), passed, strict=True):
        refused = any(isinstance(one, Refuses) and one.trouble == "rate" for one in turn.answers)
        if not turn.interrupted and not (refused and agent is PlainCodex):  # which gives up then
            assert (outcome.code, outcome.said) == (0, "All is done.\n")
    with Ledger(db, mode="read") as ledger:
        kept = [one for s in ledger.sessions.recent() for one in ledger.exchanges.list(s.id)]
        assert sorted(ledger.exchanges.request(one.id) for one in kept) == sorted(sent)
    new = {piece for body in sent for piece in pieces_of(body)}
    assert db.stat().st_size - empty <= 1.2 * sum(map(len, new))


@installed
@pytest.mark.parametrize("kind", [OpenCode, AiSdk, AnthropicOpenCode, AnthropicAiSdk])
def test_gateway_records_each_request_when_a_program_uses_the_ai_sdk(
    kind: type[Agent], tmp_path: Path
) -> None:
    home, db = tmp_path / "home", tmp_path / "l.db"
    home.mkdir()
    agent = kind(home, tmp_path / "apps")
    with Vendor(DONE) as vendor:
        for text in ("Begin with a tulip.", *["Continue."] * (9 if WHOLE else 1)):
            running = agent.begin(vendor, text, PROGRAM, "gateway", "--db", str(db), "--")
            said, shown = running.communicate(timeout=LONGEST_S)
            assert (running.returncode, said.strip()[:12]) == (0, "All is done."), shown
            agent.turns += 1
        sent = asked(vendor.requests)
    with Ledger(db, mode="read") as ledger:
        kept = [one for s in ledger.sessions.recent() for one in ledger.exchanges.list(s.id)]
        assert sorted(ledger.exchanges.request(one.id) for one in kept) == sorted(sent)
    assert len(sent) >= agent.turns
    assert b"tulip" in sent[-1]


@installed
@pytest.mark.parametrize("kind", [VertexClaude, FoundryClaude, BedrockClaude])
def test_gateway_records_model_usage_and_price_when_claude_code_uses_a_cloud(
    kind: type[VertexClaude], tmp_path: Path
) -> None:
    db = tmp_path / "l.db"
    agent = kind(tmp_path, tmp_path / "apps")
    with Vendor(DONE) as vendor:
        running = agent.begin(vendor, "Begin.", PROGRAM, "gateway", "--db", str(db), "--")
        said, shown = running.communicate(timeout=LONGEST_S)
        assert (running.returncode, said.strip()) == (0, "All is done."), shown
    with Ledger(db, mode="read") as ledger:
        [session] = ledger.sessions.recent()
        kept = [one for one in ledger.exchanges.list(session.id) if one.about["status"] == 200]
        bodies = [ledger.exchanges.request(one.id) for one in kept]
    answered = [one.body for one in vendor.requests if "/invoke" not in one.path[-7:]]
    assert sorted(bodies) == sorted(body for body in answered if body)
    assert all("claude" in one.model for one in kept)
    assert all(one.about["usage"]["input_tokens"] == 100 for one in kept)
    assert all(one.about["cost_usd"] > 0 for one in kept)
    assert "sent no request" not in shown


@installed
def test_claude_code_passes_the_gateway_when_it_signs_with_aws_keys(tmp_path: Path) -> None:
    agent = BedrockClaude(tmp_path, tmp_path / "apps")
    del agent.environment["AWS_BEARER_TOKEN_BEDROCK"]
    with Vendor(DONE) as vendor:
        through = (PROGRAM, "gateway", "--record", "off", "--")
        running = agent.begin(vendor, "Begin.", *through)
        said, shown = running.communicate(timeout=LONGEST_S)
    assert (running.returncode, said.strip()) == (0, "All is done."), shown
    [signed] = {one.headers["host"] for one in vendor.requests}
    assert signed == vendor.url.removeprefix("http://")
    reason, end = (line for line in shown.splitlines() if "gateway" in line)
    assert "AWS_BEARER_TOKEN_BEDROCK" in reason
    assert "CLAUDE_CODE_USE_BEDROCK" in end


@installed
@pytest.mark.parametrize("kind", [Codex, PlainCodex])
def test_codex_gets_its_address_without_an_argument_and_keeps_its_session(
    kind: type[Agent], tmp_path: Path
) -> None:
    with Vendor(says("Here.")) as vendor:
        agent = kind(tmp_path, tmp_path / "apps")
        through = (PROGRAM, "gateway", "--record", "off", "--json", "--")
        first = agent.begin(vendor, "Remember the word tulip.", *through)
        assert "Here." in first.communicate(timeout=LONGEST_S)[0]
        agent.turns += 1
        vendor.add(says("never heard", stall=2))
        vendor.arrived.clear()
        running = agent.begin(vendor, "Go on.", *through)
        try:
            assert vendor.arrived.wait(LONGEST_S)
            [profile] = (tmp_path / "codex").glob("sightline-*.config.toml")
            [secret] = re.findall(r"http://127\.0\.0\.1:[0-9]+/([\w-]{24})/", profile.read_text())
            lines = command_lines()
        finally:
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=LONGEST_S)
        name = profile.name.removesuffix(".config.toml")
        assert any(f" -p {name} exec " in line for line in lines)
        assert [line for line in lines if secret in line] == []
        assert len(said.splitlines()) >= 1, "the request passed through the gateway"
        assert b"tulip" in asked(vendor.requests)[-1]
        assert not profile.exists()
    files = (tmp_path / "codex").glob("*.toml")
    assert [file.name for file in files if secret in file.read_text()] == []


class Led(Vendor):
    """The addresses of a gateway, in the place of a vendor's."""

    def __init__(self, addresses: dict[str, str]) -> None:  # no server of its own
        self.addresses = addresses

    @property
    def url(self) -> str:
        return self.addresses["OPENAI_BASE_URL"].removesuffix("/v1")

    def environment(self) -> dict[str, str]:
        return super().environment() | self.addresses


@installed
@pytest.mark.skipif(not WHOLE, reason="LAWS=whole")
@pytest.mark.parametrize("kind", [Claude, Codex])
def test_an_agent_goes_on_when_a_killed_gateway_is_back_and_no_record_is_lost(
    kind: type[Agent], tmp_path: Path
) -> None:
    db = tmp_path / "l.db"

    def gateway() -> tuple[subprocess.Popen[str], Led]:
        server = stack.enter_context(
            subprocess.Popen(
                [PROGRAM, "gateway", "--db", str(db), "--json", "--port", str(port)], text=True,
                env={**os.environ, **vendor.environment(), "XDG_STATE_HOME": str(tmp_path)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        stack.callback(server.kill)
        assert server.stdout is not None
        lines = [server.stdout.readline().strip().removeprefix("export ") for _ in range(3)]
        return server, Led(dict(line.split("=", 1) for line in lines))

    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        vendor, agent = stack.enter_context(Vendor(DONE)), kind(tmp_path, tmp_path / "apps")
        server, led = gateway()
        assert "All is done." in agent.begin(led, "Begin.").communicate(timeout=LONGEST_S)[0]
        assert server.stderr is not None
        told = json.loads(server.stderr.readline())["exchange"]
        agent.turns += 1
        vendor.add(says("half of it is", stall=2))
        vendor.arrived.clear()
        running = agent.begin(led, "Go on.")
        stack.callback(running.kill)
        assert vendor.arrived.wait(LONGEST_S)
        server.kill()
        server.wait()
        vendor.add(DONE)
        gateway()
        assert "All is done." in running.communicate(timeout=LONGEST_S)[0]
        assert running.returncode == 0
    with Ledger(db, mode="read") as ledger:
        kept = [one.id for s in ledger.sessions.recent() for one in ledger.exchanges.list(s.id)]
    assert told in kept
    assert len(kept) >= 2
