"""What a command, git and the record get to see of the host's keys: planted, and looked for.

A secret of no shape that could be guessed stands in the environment, under a name that a
vendor, a cloud or nobody uses, as the configured key or beside it. Commands print all they
have; a file has the secret in it, and a command reads it out; git is asked with every trace
switched on. It is looked for in the answer, in the tree, in the ledger's files.

The gateway gives its address, which has a secret part, to a program named codex with arguments,
profiles and configurations of many forms. It is looked for in the arguments of each process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

from context.ledger.planted import append_result, append_text, bytes_of
from proof.claim import Claim, Trial
from sightline.agent.models.keys import Key, know_secrets
from sightline.agent.toolbox import Bench, SessionRecords, Toolbox
from sightline.agent.workspace import Workspace
from sightline.agent.workspace.git import Git
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.messages.parts import ToolCall
from sightline.slop.hub.hub import Hub
from support.arguments import command_lines, fake_codex
from support.traps import ordinary

NAMES = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN",
    "GITLAB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET",
    "GOOGLE_API_KEY", "NPM_TOKEN", "TWINE_PASSWORD", "PGPASSWORD", "DATABASE_URL", "REDIS_URL",
    "SENTRY_DSN", "SLACK_WEBHOOK", "DOCKER_AUTH", "VAULT_TOKEN", "HF_TOKEN", "STRIPE_KEY",
    "SIGNING_KEY", "GH_PAT", "DB_PWD", "WORK_KEY",
)  # fmt: skip
# What nobody can tell for a secret by its name; the user's configuration names them as keys.
UNLIKELY = ("WORK", "MODEL_ACCESS", "X1", "TEAM_PASSPHRASE", "OPEN_SESAME")
WAYS_OUT = (
    "env", "printenv; false", "cat /proc/self/environ | tr '\\0' '\\n'",
    "sh -c env; python3 -c 'import os; print(dict(os.environ))' 2>/dev/null || true",
    "cat kept.txt", "cat kept.txt >&2; exit 3", "tr -d 'q' < kept.txt",
    "yes '-' | head -c 32764; cat kept.txt; yes | head -c 100000",
)  # fmt: skip
ALPHABET = string.ascii_lowercase.replace("q", "") + string.digits + "$&%!"


def planted(trial: Trial) -> None:
    """Plant a secret for every round, and let everything that may run have a look."""
    asyncio.run(_rounds(trial))
    for _ in range(trial.times(20, least=2)):
        _address(trial)
    secret = "".join(trial.random.choices(ALPHABET, k=24))
    shown = subprocess.run(
        ["/bin/sh", "-c", "env"], env={**os.environ, "WORK_KEY": secret},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "-c",
         f"openai_base_url=http://127.0.0.1:1/{secret}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        program.stdout.readline()  # its arguments can be read when it has begun
        lines = command_lines()
        program.communicate(b"\n")
    trial.control(
        secret in shown and any(secret in line for line in lines),
        "a command that inherits the environment prints the secret, and one in an argument is seen",
    )


def _address(trial: Trial) -> None:
    """Run a program named codex through the gateway. Search the arguments of all processes."""
    place = trial.directory("address")
    home = place / "home"
    home.mkdir()
    own = "http://127.0.0.1:9/v1"
    settings = [
        [], ["-c", f'openai_base_url="{own}"'], [f"-copenai_base_url={own}"],
        [f"--config=openai_base_url={own}"], ["-c", "features.x=true"],
        ["-c", "features.enable_request_compression=true"],
    ]  # fmt: skip
    profiles = [[], ["-p", "work"], ["--profile=work"], ["-pwork"]]
    (home / "work.config.toml").write_text(f'openai_base_url = "{own}"\n')
    if trial.random.random() < 0.5:
        (home / "config.toml").write_text(f'openai_base_url = "{own}"\n')
    command = trial.random.choice(["exec", "resume", "app-server", "fix it"])
    words = [
        *trial.random.choice(settings), *trial.random.choice(profiles), command,
        *trial.random.choice(settings),
    ]  # fmt: skip
    gateway = [str(Path(sys.executable).with_name("sightline")), "gateway", "--record", "off", "--"]
    done = subprocess.run(
        [*gateway, fake_codex(place), *words], capture_output=True, check=True,
        env={**os.environ, "CODEX_HOME": str(home), "XDG_STATE_HOME": str(place / "state")},
    )  # fmt: skip
    seen = json.loads(done.stdout)
    secret = seen["address"].split("/")[3]
    is_led = secret in str(seen["config"].get("openai_base_url"))
    is_shown = any(secret in line for line in seen["lines"])
    left = [path.name for path in home.iterdir() if path.name.startswith("sightline-")]
    trial.check(
        is_led and not is_shown and len(seen["lines"]) == 3 and not left,
        f"{words}: led {is_led}, in an argument {is_shown}, left {left}",
    )


async def _rounds(trial: Trial) -> None:
    for number in range(trial.times(100, least=6)):
        secret = "".join(trial.random.choices(ALPHABET, k=trial.random.randrange(8, 60)))
        name = trial.random.choice(NAMES + UNLIKELY)
        place = trial.directory("environment")
        root = ordinary(place / "root")
        (root / "kept.txt").write_text(f"before {secret} after\n")
        env = {**os.environ, name: secret}
        if name in UNLIKELY:
            Key(secret, name)
        know_secrets(env)
        leaks = await _leaks(place, root, env, WAYS_OUT[number % len(WAYS_OUT)], secret)
        trial.check(not leaks, f"{name} by {WAYS_OUT[number % len(WAYS_OUT)]!r}: seen in {leaks}")
        shutil.rmtree(place)


async def _leaks(
    place: Path, root: Path, env: dict[str, str], command: str, secret: str
) -> list[str]:
    """Run a command through a model's tools; name everything in which the secret is seen."""
    seen: dict[str, Any] = {}
    workspace = Workspace(root, env=env)
    with Ledger(place / "ledger" / "l.db") as ledger:
        session = ledger.sessions.create("s")
        async with Hub() as hub:
            hub.add("workspace", workspace.dial, own=True)
            bench = Bench(
                hub, SessionRecords(ledger, session.id, MemoShelf({"project": ledger.memos}))
            )
            call = {
                "app": "workspace",
                "path": "/",
                "action": "run",
                "params": {"command": command},
            }
            ran = await Toolbox(bench).run(ToolCall("c", "slop_invoke", call))
            seen["the result"] = ran.content
            seen["the tree"] = str(await hub.query("workspace"))
            seen["the output"] = workspace.output_of("run-1")
            append_text(ledger, session.id, ran.content)
            append_result(ledger, session.id, f"a tool says {secret}")
            seen["the ledger"] = bytes_of(ledger).decode(errors="replace")
    await workspace.close()
    traced = {**env, "GIT_TRACE2_EVENT": str(place / "trace"), "GIT_TRACE2_ENV_VARS": ",".join(env)}
    before = dict(os.environ)
    os.environ.update(traced)
    try:
        seen["git"] = str(Git(root).look())
    finally:
        os.environ.clear()
        os.environ.update(before)
    seen["git's trace"] = "".join(path.read_text() for path in place.glob("trace*"))
    return [where for where, text in seen.items() if secret in str(text)]


CLAIMS = (
    Claim("environment", "planted secrets reach no command, no git, no answer and no record",
          planted),
)  # fmt: skip
