"""`sightline models` and `sightline doctor`: what can be asked here, and what is wrong here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sightline.agent.models.vendors import VENDORS
from sightline.agent.workspace import sandbox
from sightline.context.ledger import Ledger
from support.shell import PROGRAM, here

CANARY = "canary-7f3a9c51e2d84b06"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with nothing in it."""
    return tmp_path


def bare(home: Path) -> dict[str, str]:
    """An environment where nothing is set that a program could do without."""
    return {
        "HOME": str(home), "PATH": os.environ["PATH"], "SLOP_PROVIDERS": str(home / "providers"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def run(home: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run in an environment where nothing is set but what is given."""
    done = here(home, *args, env={**bare(home), **env})
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def lines(home: Path, command: str, **env: str) -> dict[str, dict[str, Any]]:
    done = run(home, command, "--json", **env)
    assert done.stderr == ""
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row.get("endpoint") or row["check"]: row for row in rows}


def test_every_endpoint_is_listed_with_the_reason(home: Path) -> None:
    listed = lines(home, "models", GROQ_API_KEY=CANARY)
    assert list(listed) == list(VENDORS)
    assert (listed["groq"]["usable"], listed["groq"]["why"]) == (True, "key from GROQ_API_KEY")
    assert listed["groq"]["default"]
    assert listed["xai"]["why"] == "no key: set XAI_API_KEY"
    assert listed["local"]["window_tokens"] == 8192


def test_the_table_marks_what_is_used_when_nobody_says_which(home: Path) -> None:
    shown = run(home, "models").stdout.splitlines()
    assert [line for line in shown if line.startswith("*")] == [
        "* yes local:smollm2-135m-instruct             runtime and weights are installed"
    ]


def test_the_settings_decide_what_is_the_default(home: Path) -> None:
    file = home / "mine.toml"
    file.write_text('model = "work:big"\n[endpoints.work]\nbase_url = "https://h"\nmodel = "big"\n')
    done = run(home, "models", "--file", str(file))
    assert done.stdout.splitlines()[0].split() == ["*", "yes", "work:big", "no", "key", "needed",
                                                   "at", "h"]  # fmt: skip


def test_no_key_is_ever_shown(home: Path) -> None:
    keys = {name: CANARY for vendor in VENDORS.values() for name in vendor.keys}
    for command in ("models", "doctor"):
        for form in ((), ("--json",)):
            done = run(home, command, *form, **keys)
            assert CANARY not in done.stdout + done.stderr


def test_a_healthy_place_has_no_failure(home: Path) -> None:
    found = lines(home, "doctor")
    assert {row["level"] for row in found.values()} == {"ok"}
    assert found["local model"]["level"] == "ok"
    assert found["ledger"]["found"].startswith("none yet")
    assert run(home, "doctor").returncode == 0
    assert not any(home.rglob("ledger.db")), "looking has made something"


def test_it_says_whether_commands_run_in_a_sandbox(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(why: str, wanted: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: why)
        file = home / "c.toml"
        file.write_text(f'[workspace]\nsandbox = "{wanted}"\n')
        row = lines(home, "doctor", SIGHTLINE_CONFIG=str(file))["sandbox"]
        return (
            row["level"],
            row["found"],
            run(home, "doctor", SIGHTLINE_CONFIG=str(file)).returncode,
        )

    without = "commands run without one: "
    assert told("", "auto") == ("ok", "commands run in bubblewrap", 0)
    assert told("", "off") == ("ok", f"{without}workspace.sandbox is off", 0)
    assert told("no bwrap", "auto") == ("ok", f"{without}no bwrap", 0)
    assert told("no bwrap", "require") == ("fail", "no bwrap", 2)


def test_a_key_is_present_and_that_is_all_that_is_told(home: Path) -> None:
    found = lines(home, "doctor", OPENAI_API_KEY=CANARY)
    assert found["keys"]["found"] == "present: OPENAI_API_KEY"
    assert found["model"]["found"] == "openai-responses:gpt-6.1-sol"


def test_a_broken_configuration_fails_with_2(home: Path) -> None:
    file = home / "mine.toml"
    file.write_text("windw = 3\n")
    done = run(home, "doctor", SIGHTLINE_CONFIG=str(file))
    assert done.returncode == 2
    assert f"fail config {file}: there is no 'windw'" in " ".join(done.stdout.split())


def test_a_directory_that_wants_too_much_is_a_warning(home: Path) -> None:
    (home / ".sightline.toml").write_text('model = "theirs:model"\n')
    assert lines(home, "doctor")["config"]["level"] == "warn"


def test_a_model_that_cannot_be_asked_fails_with_3(home: Path) -> None:
    done = run(home, "doctor", SIGHTLINE_MODEL="anthropic")
    assert done.returncode == 3
    assert "fail model anthropic: no key. Set ANTHROPIC_API_KEY" in " ".join(done.stdout.split())


def test_the_doctor_fails_where_a_question_would(home: Path) -> None:
    asked = run(home, "ask", "hi", SIGHTLINE_MODEL="claude-sonnet-5-5")
    examined = run(home, "doctor", "--json", SIGHTLINE_MODEL="claude-sonnet-5-5")
    assert (asked.returncode, examined.returncode) == (3, 3)
    [found] = [line for line in examined.stdout.splitlines() if '"check":"model"' in line]
    assert f"sightline: {json.loads(found)['found']}\n" == asked.stderr


def test_a_model_that_only_the_settings_name_is_the_one_that_is_judged(home: Path) -> None:
    file = home / "mine.toml"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        file.write_text(
            f'model = "fake:m"\n[endpoints.fake]\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        )
        found = lines(home, "doctor", SIGHTLINE_CONFIG=str(file))
        listed = lines(home, "models", SIGHTLINE_CONFIG=str(file))
    assert (found["model"]["level"], found["model"]["found"]) == ("ok", "fake:m")
    assert [row["reference"] for row in listed.values() if row["default"]] == ["fake:m"]
    assert listed["fake"]["usable"]


def test_a_default_that_is_no_model_is_told_beside_the_list(home: Path) -> None:
    done = run(home, "models", SIGHTLINE_MODEL="nope")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "no endpoint is known to have 'nope'" in done.stderr
    assert not any(line.startswith("*") for line in done.stdout.splitlines())


def test_a_ledger_is_looked_at_and_verified_when_asked(home: Path) -> None:
    path = home / "work.db"
    with Ledger(path) as ledger:
        ledger.sessions.create("one")
    env = {"SIGHTLINE_LEDGER": str(path)}
    assert lines(home, "doctor", **env)["ledger"]["found"] == str(path)
    verified = run(home, "doctor", "--verify", **env)
    assert f"ok ledger {path}, every row verified" in " ".join(verified.stdout.split())
    path.chmod(0o644)
    assert lines(home, "doctor", **env)["ledger"]["level"] == "warn"


def test_what_is_no_ledger_fails_with_its_code(home: Path) -> None:
    path = home / "notes.txt"
    path.write_text("not a ledger, and longer than a header of SQLite would be" * 20)
    assert run(home, "doctor", SIGHTLINE_LEDGER=str(path)).returncode in (2, 8)


def test_an_app_that_is_not_believed_is_a_warning(home: Path) -> None:
    providers = home / "providers"
    providers.mkdir(mode=0o700)
    (providers / "bad.json").write_text("{")
    done = run(home, "doctor")
    assert "warn  discovery" in done.stdout
    assert "bad.json" in done.stdout


def test_a_terminal_that_cannot_write_the_text_is_a_warning(home: Path) -> None:
    env = {**bare(home), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([PROGRAM, "doctor"], env=env, cwd=home, capture_output=True, check=False)
    assert b"warn  terminal" in done.stdout
