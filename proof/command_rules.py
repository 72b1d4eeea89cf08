"""Rules for commands and calls in a loop, through a real host without a sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from proof.claim import Trial
from sightline.agent import policy
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.agent.turn import steps
from sightline.config import AppSettings, PolicyRule, Settings
from sightline.config.settings import WorkspaceSettings
from sightline.context.messages.parts import ToolCall
from sightline.events import ApprovalAsked, CallFinished, TurnEnded
from support.rule_lines import ROWS, SAFE_ROWS, Row, approves, fill_repository

EQUAL_CALLS = 24


def command_rules(trial: Trial) -> None:
    """Try lines with more words than their rule, and calls that a model repeats."""
    with _careless():
        ran = len(SAFE_ROWS) - len(_asked(trial, SAFE_ROWS))
        repeated = _repeated(trial, "touch x")
    trial.note("control of rules and loops", f"{ran} lines ran, and one call {repeated} times")
    if ran < len(SAFE_ROWS) or repeated < EQUAL_CALLS:
        trial.fail("the harness is blind: a host that reads prefixes and counts nothing asked")
    rows = trial.random.sample(ROWS, trial.times(len(ROWS), least=4))
    asked = _asked(trial, rows)
    for number, row in enumerate(rows):
        trial.check(number in asked, f"{row.line!r} ran by the rule {row.rule!r}")
    for _ in range(trial.times(20)):
        line = f"touch {trial.random.randrange(10**6)}"
        count = _repeated(trial, line)
        trial.check(count == steps.MAX_EQUAL, f"{line!r} ran {count} times")


@contextmanager
def _careless() -> Iterator[None]:
    """A host that reads a rule as a prefix of words, and counts no equal results."""
    with (
        patch.object(policy, "_is_exact", lambda *_: False),
        patch.object(steps, "MAX_EQUAL", 10 * EQUAL_CALLS),
    ):
        yield


def _asked(trial: Trial, rows: Sequence[Row]) -> set[int]:
    """Have a model run lines by rules. Return the numbers of the lines that needed approval."""
    calls = [_call(f"c{number}", row.line) for number, row in enumerate(rows)]
    asked: set[int] = set()

    def reject(event: ApprovalAsked) -> bool:
        asked.add(int(event.call_id.removeprefix("c")))
        return False

    _turn(trial, [calls, "Done."], [approves(row.rule) for row in rows], reject)
    return asked


def _repeated(trial: Trial, line: str) -> int:
    """Have a model repeat a call, with a user who approves everything. Count how often it ran."""
    calls = [_call(f"c{number}", line) for number in range(EQUAL_CALLS)]
    return _turn(trial, [*calls, "Done."], [], lambda _: True)


def _call(own: str, line: str) -> ToolCall:
    arguments = {"app": "workspace", "path": "/", "action": "run", "params": {"command": line}}
    return ToolCall(own, "slop_invoke", arguments)


def _turn(
    trial: Trial,
    script: Sequence[Any],
    rules: Sequence[PolicyRule],
    answer: Callable[[ApprovalAsked], bool],
) -> int:
    """Run one turn in a new repository. Return how many calls ran."""
    place = trial.directory("rules")
    (place / "outside").mkdir()
    fill_repository(place / "root", place / "outside" / "marker")
    before = Path.cwd()
    os.chdir(place / "root")  # the workspace of a host is its current directory
    try:
        return asyncio.run(_follow(place, script, rules, answer))
    finally:
        os.chdir(before)


async def _follow(
    place: Path,
    script: Sequence[Any],
    rules: Sequence[PolicyRule],
    answer: Callable[[ApprovalAsked], bool],
) -> int:
    settings = Settings(
        apps=AppSettings(discover=False), policy=tuple(rules),
        workspace=WorkspaceSettings(sandbox="off"),
    )  # fmt: skip
    ran = 0
    async with Host.open(settings, model=ScriptedModel(script), ledger=place / "work.db") as host:
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                host.answer(event.call_id, answer(event))
            ran += isinstance(event, CallFinished) and "exit_code" in event.content
            if isinstance(event, TurnEnded) and event.outcome == "failed":
                raise RuntimeError(event.detail)
    return ran
