"""The installed program on the embedded model: real weights, no key, nobody to ask.

What a tiny model says is its own business; that it answers, what it was shown and what it
did not have to read again is ours. `short.py` stands for the standing texts where they are
not the point: they are most of what there is to read, and reading is what takes time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sightline.agent.models.local import why_not
from sightline.context.ledger import Ledger
from support.person import Person, environment
from support.share import WHOLE
from support.shell import PROGRAM, here

MISSING = why_not("smollm2-135m-instruct")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

SHORT = """
def on_context_build(ctx):
    ctx.slots.add("system", "Answer in one short sentence.", role="system", stability="frozen")
    ctx.slots.add("history", list(ctx.history))
    ctx.slots.add("input", ctx.input)
    ctx.slots.add("state", ctx.layers.state, stability="volatile")
"""


def around(directory: Path, *lines: str, output: int) -> dict[str, str]:
    """An environment without a key, and settings that keep the model from talking for long."""
    (directory / "short.py").write_text(SHORT)
    file = directory / "config.toml"
    profile = f'[profiles."local:*"]\nmax_output_tokens = {output}\n'
    # A tail of some 160 tokens: of the demo's inbox there is a line.
    file.write_text("\n".join([*lines, "[tail]", "max_share = 0.02", profile]))
    return environment(directory, None, SIGHTLINE_CONFIG=str(file))


def test_a_pipe_is_answered_and_only_what_is_new_is_read(tmp_path: Path) -> None:
    """What `make chat` runs: two questions, and between them the app changes.

    Its standing texts are read where laws are tried whole; else a quarter of so many words.
    """
    env = around(tmp_path, *[] if WHOLE else ['strategy = "short.py"'], output=6)
    (tmp_path / "short.py").write_text(SHORT.replace('"Answer', '45 * "Answer'))
    lines = "How many are unread?\n/invoke desk/inbox/msg-104 archive\nAnd now?\n"
    chat = subprocess.run(
        [PROGRAM, "chat", "--demo"], input=lines, capture_output=True, text=True, timeout=600,
        check=False, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert chat.returncode == 0, chat.stderr
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        said = [(entry.role, entry.message.text) for entry in ledger.messages(1)]
        used = ledger.query("SELECT * FROM usage ORDER BY id", session_id=1)
        first, second = (dict(zip(used.columns, row, strict=True)) for row in used.rows)
    assert [role for role, _ in said] == ["user", "assistant"] * 2
    answers = [text for role, text in said if role == "assistant"]
    assert all(answer.strip() in chat.stdout for answer in answers)
    assert all(answer.strip() for answer in answers)
    assert first["model"].startswith("local:")  # nobody chose it: there was no key

    # The runtime's own count: all that stands before the first tail was not read again.
    assert second["cached_tokens"] > first["prompt_tokens"] // 2
    assert second["prompt_tokens"] - second["cached_tokens"] < first["prompt_tokens"] // 2

    before, after = (state_of(tmp_path, env, turn) for turn in (1, 2))
    assert "38 messages, 2 unread" in before
    assert "37 messages, 1 unread" in after


def state_of(directory: Path, env: dict[str, str], turn: int) -> str:
    """What the apps showed in the request of a turn, which is proved to be the one sent."""
    shown = here(directory, "context", "1", "--turn", str(turn), "--json", env=env)
    told = json.loads(shown.stdout)
    assert told["verified"] is True
    last: str = told["request"]["messages"][-1]["content"]
    return last.rpartition("<slop-state")[2]


def test_a_person_reads_its_answer_at_a_terminal(tmp_path: Path, people: list[Person]) -> None:
    env = around(tmp_path, 'strategy = "short.py"', output=4)
    person = Person(tmp_path, None, "chat", "--demo", SIGHTLINE_CONFIG=env["SIGHTLINE_CONFIG"])
    people.append(person)
    person.sees("/help lists commands")
    person.types("Who wrote first?\r")
    person.types("/compact\r")  # which waits for the turn to end
    person.sees("nothing to fold")
    person.sees("local:smollm2")
    assert person.leaves() == 0
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        [asked, answered] = [entry.message.text for entry in ledger.messages(1)]
    assert asked == "Who wrote first?"
    assert answered.split()[0] in person.seen.partition("Who wrote first?")[2]


def test_no_network_is_needed(tmp_path: Path) -> None:
    """In a namespace of its own a program has no network, not even loopback."""
    alone = ["unshare", "--map-root-user", "--net"]
    if not shutil.which(alone[0]) or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this machine gives no network namespaces")
    env = around(
        tmp_path, 'strategy = "short.py"', "[apps]", "workspace = false", "discover = false",
        output=64,
    )  # fmt: skip
    done = subprocess.run(
        [*alone, PROGRAM, "ask", "--json", "What is the capital of France?"], capture_output=True,
        stdin=subprocess.DEVNULL, timeout=600, check=False, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [used] = [event for event in events if event["event"] == "usage"]
    assert used["input_tokens"] > 0 < used["output_tokens"]
    assert events[-1]["outcome"] == "answered"
    assert "Paris" in events[-1]["text"]
