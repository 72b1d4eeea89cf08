"""Records Claude Code, Codex and our host at the same small work; `benchmarks.sessions` keeps it.

Each runs as its users run it, in a project of four files, and asks a vendor on loopback whose
answers are scripted: it reads two files, runs a command, says something, twelve times over. Each
turn is a process of its own that goes on with the session. Between two turns somebody writes a
line in a file, and in the calendar of the demo app, which our host alone is shown.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.data import WORDS
from benchmarks.sessions import Session, shape
from sightline.gateway.bodies import RequestBody, api_of, read_body

# The vendor and the agents are the tests' own.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support.agents import CLAUDE, CODEX, LONGEST_S, Agent, Claude, Codex
from support.shell import PROGRAM
from support.vendors.answers import Answer, Call, says
from support.vendors.server import Vendor

__all__ = ["Host", "question", "record", "record_all"]

TURNS = 12
FILES = ("src/reader.py", "src/writer.py", "tests/test_reader.py", "notes.md")


class Host(Agent):
    """Our own: `sightline ask`, which goes on with its latest session."""

    def own_environment(self) -> dict[str, str]:
        """Its ledger is not in the project."""
        return {"HOME": str(self.home.parent)}

    def command(self, vendor: Vendor, text: str) -> list[str]:
        """One question to a model of Anthropic's."""
        going_on = ["-c"] if self.turns else []
        return [PROGRAM, "ask", "--model", "anthropic:claude-opus-5", "--yes", *going_on, text]


def question(turn: int) -> str:
    """What is asked in a turn."""
    one, other = _files(turn)
    return f"Question {turn}: do {one} and {other} agree, and how long is the first?"


def _files(turn: int) -> tuple[str, str]:
    return FILES[turn % len(FILES)], FILES[(turn * 3 + 1) % len(FILES)]


def _answers(kind: type[Agent], project: Path, turn: int) -> Iterator[Answer]:
    rng = random.Random(turn)

    def text(count: int) -> str:
        return " ".join(rng.choices(WORDS, k=count))

    one, other = _files(turn)
    for number, path in enumerate((one, other)):
        yield says(text(15), _reads(kind, project, path, f"call_{turn}_{number}"))
    yield says("", _runs(kind, f"wc -l {one}", f"call_{turn}_2"))
    state = f"\n\n### STATE\nGoal: {text(8)}\nContext: {one}\nResolved: {text(6)}\nAnchors: none"
    yield says(text(80) + (state if kind is Host else ""))  # as our instructions ask


def _reads(kind: type[Agent], project: Path, path: str, call: str) -> Call:
    if kind is Claude:
        return Call("Read", {"file_path": str(project / path)}, call)
    if kind is Codex:
        return _runs(kind, f"cat {path}", call)
    return _invokes("read", {"path": path}, call)


def _runs(kind: type[Agent], command: str, call: str) -> Call:
    if kind is Claude:
        return Call("Bash", {"command": command, "description": "Count lines"}, call)
    if kind is Codex:
        return Call("exec_command", {"cmd": command}, call)
    return _invokes("run", {"command": command}, call)


def _invokes(action: str, params: dict[str, str], call: str) -> Call:
    asked = {"app": "workspace", "path": "/", "action": action, "params": params}
    return Call("slop_invoke", asked, call)


@contextmanager
def _demo(agent: Agent) -> Iterator[None]:
    """Have the demo app where our host looks for apps."""
    with subprocess.Popen([PROGRAM, "demo"], env=agent.environment, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        try:
            yield
        finally:
            demo.terminate()


def bodies(kind: type[Agent], turns: int = TURNS) -> Iterator[RequestBody]:
    """Run an agent, and give its requests as they arrived."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        project = Path(directory) / "project"
        for path in FILES:
            file = project / path
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = (" ".join(rng.choices(WORDS, k=rng.randrange(12))) for _ in range(60))
            file.write_text("\n".join(lines) + "\n")
        free = ("--permission-mode", "bypassPermissions") if kind is Claude else ()
        agent = kind(project, Path(directory) / "apps", *free)
        vendor = stack.enter_context(Vendor(says("")))
        if kind is Host:
            stack.enter_context(_demo(agent))
        for turn in range(turns):
            vendor.add(*_answers(kind, project, turn))
            with agent.begin(vendor, question(turn)) as running:
                try:
                    out, err = running.communicate(timeout=LONGEST_S)
                except BaseException:
                    os.killpg(running.pid, signal.SIGKILL)  # its children, too
                    raise
            assert running.returncode == 0, f"{out}\n{err}"
            agent.turns += 1
            with (project / FILES[-1]).open("a") as notes:
                notes.write(f"{turn} " + " ".join(rng.choices(WORDS, k=8)) + "\n")
            if kind is Host:
                event = f'{{"title": "Review {turn}", "start": "{9 + turn}:15", "minutes": 30}}'
                agent.run(PROGRAM, "invoke", "desk", "/calendar", "add_event", "--params", event)
        for seen in vendor.requests:
            api = api_of(seen.path)
            if api is not None and api[1]:
                body = read_body(api[0], seen.body)
                assert body is not None
                yield body


def record(kind: type[Agent], turns: int = TURNS) -> Session:
    """Run an agent, and keep the shape of its session."""
    name, program = {
        Claude: ("Claude Code", CLAUDE), Codex: ("Codex", CODEX), Host: ("Sightline", PROGRAM),
    }[kind]  # fmt: skip
    told = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    [version] = re.findall(r"\d+\.\d+\.\d+", told.stdout)
    return shape(name, version, bodies(kind, turns))


def record_all() -> Iterator[Session]:
    """Record all three."""
    return map(record, (Claude, Codex, Host))
