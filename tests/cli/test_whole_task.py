"""A whole task in a real repository: at a terminal, and headless as NDJSON.

Read the instructions, search, plan, have it accepted, edit three files, run a test that fails
and hangs, be stopped, be asked, fix, pass, commit, undo, redo.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from support.person import Person, environment
from support.shell import PROGRAM, here
from support.vendors.answers import Answer, Call, Says, says
from support.vendors.server import Vendor

CHECK = """\
echo checking
[ "$(sh duck.sh)" = "ducks fly" ] && echo all is well && exit 0
echo FAIL: "$(sh duck.sh)"
[ ! -p begun ] || echo hangs > begun
sleep 30
exit 1
"""
FILES = {
    "AGENTS.md": "Check with `sh check.sh`, then commit.\n",
    "duck.sh": "echo ducks walk\n",
    "README.md": "Here ducks walk.\n",
    "notes.txt": "they walk\n",
    "check.sh": CHECK,
}
RULES = """
[workspace]
instructions = "always"

[[policy]]
app = "workspace"
action = "edit*"
file = "**"
decision = "approve"

[[policy]]
app = "workspace"
command = "sh check.sh"
decision = "approve"

[[policy]]
app = "workspace"
command = "git commit -qam 'Let ducks fly'"
decision = "approve"
"""


def does(action: str, **params: Any) -> Says:
    call = {"app": "workspace", "path": "/", "action": action, "params": params}
    return Says(calls=(Call("slop_invoke", call),))


FOUND = does("search", query="walk")
PLAN = says("### PLAN\n\n1. Have them swim in three files.\n2. Check.")
EDITED = does("edit_many", edits=[
    {"path": name, "old": "walk", "new": "swim"} for name in ("duck.sh", "README.md", "notes.txt")
])  # fmt: skip
CHECKED = does("run", command="sh check.sh")
FIXED = does("edit", path="duck.sh", old="swim", new="fly")
COMMITTED = does("run", command="git commit -qam 'Let ducks fly'")
DONE = says("They fly now.")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "add", ".")
    git(root, "commit", "-qm", "Begin")
    return root


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def told(vendor: Vendor, text: str) -> list[bool]:
    """In which requests the model was told something."""
    return [text in request.body.decode() for request in vendor.requests]


def test_at_a_terminal(tmp_path: Path, project: Path) -> None:
    own = {"HOME": str(tmp_path), "SIGHTLINE_LEDGER": str(tmp_path / "work.db")}
    script = (FOUND, PLAN, EDITED, CHECKED, FIXED, CHECKED, COMMITTED, DONE)
    with Vendor(*script) as vendor:
        person = Person(project, vendor, "chat", size=(50, 100), **own)
        try:
            person.sees("/help lists commands")
            person.sees("AGENTS.md")
            answers(person, "follow them")
            person.types("/plan have ducks swim\r")
            person.sees("Have them swim")
            answers(person, "carry out this plan?")
            person.sees("edit_many on workspace")
            answers(person, "do it?")
            person.sees("run on workspace")
            answers(person, "do it?")
            person.sees("    FAIL: ducks swim")
            person.types("\x1b")
            person.sees("stopped by the user after")
            person.sees("■ stopped")
            person.types("it hangs, and they should fly\r")
            for action in ("edit", "run", "run"):
                person.sees(f"{action} on workspace")
                answers(person, "do it?")
            person.sees("They fly now.")
            assert (project / "duck.sh").read_text() == "echo ducks fly\n"
            assert git(project, "log", "--format=%s") == "Let ducks fly\nBegin\n"
            assert git(project, "status", "--porcelain") == ""
            person.types("/undo\r")
            answers(person, "Bring these files back, too?")
            person.sees("back as before: duck.sh")
            assert (project / "duck.sh").read_text() == "echo ducks swim\n"
            person.types("/redo\r")
            answers(person, "Bring these files back, too?")
            person.sees("as that turn left them: duck.sh")
            assert git(project, "status", "--porcelain") == ""
            assert person.leaves() == 0
        finally:
            person.child.close(force=True)
    assert all(told(vendor, "Check with `sh check.sh`"))
    assert told(vendor, "## Plan mode") == [True] * 2 + [False] * 6
    assert "duck.sh:1: echo ducks walk" in vendor.requests[1].body.decode()
    assert told(vendor, "stopped by the user after") == [False] * 4 + [True] * 4
    assert told(vendor, "all is well") == [False] * 6 + [True] * 2


KEYS = cycle("yY")


def answers(person: Person, question: str) -> None:
    """Say yes to a question when it is there; the same key again so soon would count as held."""
    person.sees(question)
    person.types(next(KEYS))


def test_headless(tmp_path: Path, project: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    own = {
        "HOME": str(tmp_path), "SIGHTLINE_LEDGER": str(tmp_path / "work.db"),
        "SIGHTLINE_CONFIG": str(tmp_path / "rules.toml"),
    }  # fmt: skip

    def asks(vendor: Vendor, script: tuple[Answer, ...], *arguments: str) -> list[dict[str, Any]]:
        vendor.add(*script)
        env = environment(tmp_path, vendor, **own)
        done = here(project, "ask", "--json", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    with Vendor() as vendor:
        events = asks(vendor, (FOUND, PLAN), "--mode", "plan", "have ducks swim")
        assert events[-1]["plan"].startswith("1. Have them swim")
        stopped = stop_at_the_hanging_check(vendor, project, environment(tmp_path, vendor, **own))
        assert [one["outcome"] for one in stopped if one["event"] == "turn_ended"] == ["cancelled"]
        assert "stopped by the user after" in stopped[-2]["content"]
        assert (project / "notes.txt").read_text() == "they swim\n"
        script = (FIXED, CHECKED, COMMITTED, DONE)
        events = asks(vendor, script, "-c", "it hangs, and they should fly")
        assert events[-1]["text"] == "They fly now."
        assert [one["ok"] for one in events if one["event"] == "call_finished"] == [True] * 3
        assert all(told(vendor, "Check with `sh check.sh`"))
        assert "approval_asked" not in {one["event"] for one in (*events, *stopped)}
        assert git(project, "log", "--format=%s") == "Let ducks fly\nBegin\n"
        [undone] = asks(vendor, (), "-c", "--yes", "/undo")
        assert "back as before: duck.sh" in undone["text"]
        assert (project / "duck.sh").read_text() == "echo ducks swim\n"
        asks(vendor, (), "-c", "--yes", "/redo")
        assert git(project, "status", "--porcelain", "-uno") == ""


def stop_at_the_hanging_check(
    vendor: Vendor, project: Path, env: dict[str, str]
) -> list[dict[str, Any]]:
    """Have the plan carried out in a process of its own, and interrupt it when the check hangs."""
    os.mkfifo(project / "begun")
    begun = os.open(project / "begun", os.O_RDONLY | os.O_NONBLOCK)
    vendor.add(EDITED, CHECKED)
    with subprocess.Popen(
        [PROGRAM, "ask", "--json", "-c", "/plan accept"], cwd=project, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert select.select([begun], [], [], 60)[0]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    os.close(begun)
    assert process.returncode == 130
    return [json.loads(line) for line in out.splitlines()]
