"""148 pairs of a rule and a line that does harm: none runs unasked, and the sandbox contains them.

`rule_lines.jsonl` has a row for each pair. 72 rows come from an author who had not seen the code.
The reading of a rule before the repair was a prefix of words, on which each row is tried, too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from agent.host.helpers import hosted, invoke, of_kind
from agent.workspace.test_sandbox import needs_sandbox
from sightline.agent.policy import Facts, check_rules, decide, rules_for
from sightline.agent.workspace import Workspace
from sightline.config import AppSettings, PolicyRule
from sightline.config.settings import WorkspaceSettings
from sightline.events import ApprovalAsked, CallFinished, HostEvent, Noticed
from sightline.testing import Client, connect
from support.rule_lines import ROWS, SAFE_ROWS, Row, approves, fill_repository

HERE = AppSettings(discover=False)


def command(line: str, *, sandboxed: bool = False) -> Facts:
    return Facts(
        app="workspace", origin="our own", is_ours=True, action="run", dangerous=True,
        params={"command": line}, sandboxed=sandboxed,
    )  # fmt: skip


def runs_unasked(row: Row, *, sandboxed: bool) -> bool:
    """Return True if the written rule, or one that a user accepted, lets the line run."""
    facts = command(row.line, sandboxed=sandboxed)
    written = decide(facts, "ask", [approves(row.rule)])
    accepted = rules_for(command(row.rule, sandboxed=sandboxed))
    remembered = decide(facts, "ask", (), accepted)
    return "approve" in (written.verdict, remembered.verdict)


def has_words_of(row: Row) -> bool:
    """Return True if the words of the rule are in the line, in their order: a careless reading."""
    at = 0
    for word in row.rule.replace("'", "").split():
        at = row.line.find(word, at) + 1
        if not at:
            return False
    return True


def test_rule_lines_are_148_pairs_and_a_quarter_is_of_a_blind_author() -> None:
    assert len(set(ROWS)) == 148
    assert sum(row.author == "blind" for row in ROWS) >= 37
    check_rules(approves(row.rule) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row.line)[1:60])
def test_rule_without_sandbox_does_not_approve_a_line_with_more(row: Row) -> None:
    assert not runs_unasked(row, sandboxed=False)
    assert has_words_of(row), "the control, a careless reading of the rule, does not approve it"


def test_prefix_reading_approves_most_lines_which_is_the_control() -> None:
    # With a sandbox a rule is read as before the repair: that reading lets these lines run.
    assert sum(runs_unasked(row, sandboxed=True) for row in ROWS) == 129


@asynccontextmanager
async def workspaces(sandbox: Literal["off", "require"]) -> AsyncIterator[Reach]:
    """Open a workspace in a directory that the private /tmp of a sandbox does not hide."""
    # A sandbox has a /tmp of its own: there it would hide the directory outside.
    top = Path(tempfile.mkdtemp(prefix="sightline-rules-", dir="/var/tmp"))
    reach = Reach(top)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(reach.home)}
    workspace = Workspace(reach.root, sandbox=sandbox, env=environment, wait_s=30)
    try:
        async with connect(workspace.app) as reach.client:
            yield reach
    finally:
        await workspace.close()
        shutil.rmtree(top)


class Reach:
    """A repository with files for the lines, and a directory and a home outside of it."""

    client: Client

    def __init__(self, top: Path) -> None:
        self.root, self.outside, self.home = (top / name for name in ("root", "outside", "home"))
        for directory in (self.root, self.outside, self.home):
            directory.mkdir()
        (self.outside / "kept").write_text("kept")
        self.template = top / "template"
        fill_repository(self.template, top / "outside" / "marker")
        self.changed_inside = 0

    def _seen(self, *tops: Path) -> list[tuple[str, int, bytes]]:
        return [
            (str(path), path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for top in tops
            for path in sorted(top.rglob("*"))
            if ".git" not in path.parts
        ]

    async def run(self, line: str) -> bool:
        """Run a line in a fresh copy of the repository; return True if it wrote outside."""
        for entry in self.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        shutil.copytree(self.template, self.root, dirs_exist_ok=True, symlinks=True)
        before = self._seen(self.root), self._seen(self.outside, self.home)
        line = line.replace("/tmp/sl-", f"{self.outside}/sl-")  # noqa: S108 - of the blind rows
        await self.client.invoke("/", "run", command=line, timeout_s=5)
        after = self._seen(self.root), self._seen(self.outside, self.home)
        self.changed_inside += before[0] != after[0]
        for path in self.outside.iterdir():
            if path.name != "kept":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (self.outside / "kept").write_text("kept")
        return before[1] != after[1]


@needs_sandbox
async def test_sandbox_contains_each_line_that_a_rule_approves_in_it() -> None:
    lines = [row.line for row in ROWS if runs_unasked(row, sandboxed=True)]
    async with workspaces("require") as reach:
        assert [line for line in lines if await reach.run(line)] == []
        # It does not contain writes in the workspace, by `find . -delete` for example.
        assert reach.changed_inside > 0


async def test_lines_write_outside_of_the_workspace_without_a_sandbox_which_is_the_control() -> (
    None
):
    async with workspaces("off") as reach:
        assert sum([await reach.run(row.line) for row in SAFE_ROWS]) >= 20


async def test_host_without_sandbox_asks_about_each_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = [
        invoke(f"c{number}", "/", "run", app="workspace", command=row.line)
        for number, row in enumerate(ROWS)
    ]
    rules = tuple(approves(row.rule) for row in ROWS)
    off = WorkspaceSettings(sandbox="off")
    asked: list[str] = []
    finished: list[HostEvent] = []
    async with hosted(tmp_path, [[*calls], "Done."], apps=HERE, policy=rules, workspace=off) as (
        host,
        _,
    ):
        async for event in host.ask("go"):
            finished.append(event)
            if isinstance(event, ApprovalAsked):
                asked.append(event.call_id)
                host.answer(event.call_id, approved=False)
    assert asked == [call.id for call in calls]
    assert not any(call.ok for call in of_kind(finished, CallFinished))


def ordinary() -> Iterator[tuple[str, str]]:
    """Give lines that a user runs every day, each after a rule that a user accepts for them."""
    yield "git status --short", "git status --short"
    yield "git log", "git log --oneline -5"
    yield "git diff", "git diff HEAD~1 -- notes.txt"
    yield "ls", "ls -la src"
    yield "cat", "cat notes.txt src/a.py"
    yield "grep -n", "grep -n more notes.txt"
    yield "python3 -c pass", "python3 -c pass"
    yield "wc", "wc -l notes.txt"


@needs_sandbox
@pytest.mark.parametrize("sandbox", ["off", "require"])
async def test_rule_runs_ordinary_lines_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Literal["off", "require"]
) -> None:
    root = tmp_path / "root"
    fill_repository(root, tmp_path / "marker")
    monkeypatch.chdir(root)
    pairs = list(ordinary())
    # Without a sandbox the exact line is the rule, and runs as often as the model writes it.
    rules = tuple(approves(rule if sandbox == "require" else line) for rule, line in pairs)
    calls = [
        invoke(f"c{number}", "/", "run", app="workspace", command=line)
        for number, (_, line) in enumerate(pairs)
    ]
    events: list[HostEvent] = []
    chosen = WorkspaceSettings(sandbox=sandbox)
    async with hosted(tmp_path, [[*calls], "Done."], apps=HERE, policy=rules, workspace=chosen) as (
        host,
        _,
    ):
        events += [event async for event in host.ask("go")]
    assert not of_kind(events, ApprovalAsked)
    finished = of_kind(events, CallFinished)
    assert len(finished) == len(pairs)
    assert all('"exit_code":0' in call.content for call in finished)
    notices = [event.message for event in of_kind(events, Noticed) if event.code == "rules"]
    assert len(notices) == (sandbox == "off")


async def test_host_names_each_rule_that_approves_an_exact_line_only_in_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = (
        approves("git diff"), approves("ls -l"), PolicyRule(command="rm", decision="deny"),
        PolicyRule(action="read", decision="approve"),
    )  # fmt: skip
    off = WorkspaceSettings(sandbox="off")
    async with hosted(tmp_path, ["Hi."], apps=HERE, policy=rules, workspace=off) as (host, _):
        notices = [
            event.message
            async for event in host.ask("hi")
            if isinstance(event, Noticed) and event.code == "rules"
        ]
    told = "Rules for commands approve only the exact line without a sandbox, with no words after"
    assert notices == [f"{told} it: git diff; ls -l"]
