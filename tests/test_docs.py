"""The documents cannot lie: what they show is run, what they list is compared."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

import sightline
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.cli.main import cli
from sightline.config import AppSettings, Settings
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message
from sightline.demo import demo_tree
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_tree
from support.live import LiveApp, announced_app
from support.shell import PROGRAM, here
from support.vendors.answers import says
from support.vendors.server import Vendor

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_readme_example_runs_and_prints_what_it_says() -> None:
    [code] = blocks("python")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own document
    assert out.getvalue() in blocks("text")
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 15


def test_the_readme_shows_the_demo_as_it_is() -> None:
    shown = blocks("text")[0].rstrip("\n")
    assert format_tree(demo_tree()).startswith(shown)


def shell(
    script: str, directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script where a reader would: the program is there, and so is who announced himself."""
    path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "SLOP_PROVIDERS": str(directory), **(environment or {})}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=directory, env={**os.environ, **own},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_readme_pipeline_does_what_it_says(tmp_path: Path) -> None:
    [pipeline] = [block for block in blocks("sh") if "make" not in block]
    done = shell(pipeline, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[view] inbox: Inbox (unread=1)" in done.stdout


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE)) <= targets
    assert len(targets) <= 13


def commands(
    group: click.Command = cli, name: str = "sightline"
) -> Iterator[tuple[str, click.Command]]:
    yield name, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for child in group.list_commands(context):
            command = group.get_command(context, child)
            assert command is not None
            yield from commands(command, f"{name} {child}")


# What serves until it is interrupted: tests/cli/test_relay.py runs it.
SERVING = {"sightline relay"}


def examples() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, command in commands():
        shown = (command.epilog or "").partition("Examples:\n")[2]
        found.extend((name, line.strip()) for line in shown.splitlines() if line.strip())
    return found


@pytest.fixture
def example_files(all_examples: Path, tmp_path: Path) -> Path:
    """The files that the examples in --help speak of, for one of them."""
    shutil.copytree(all_examples, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def all_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples in --help speak of."""
    tmp_path = tmp_path_factory.mktemp("examples")
    old = demo_tree()
    new = old.change("/inbox", lambda node: node.with_property("unread", 1))
    ops = '[{"op":"replace","path":"/inbox/properties/unread","value":1}]'
    (tmp_path / "state.json").write_bytes(encode(old))
    (tmp_path / "old.json").write_bytes(encode(old))
    (tmp_path / "new.json").write_bytes(encode(new))
    (tmp_path / "ops.json").write_text(ops)
    world = b'{"apps":[{"id":"desk","name":"Desk","tree":%s}],"available":[{"id":"notes"}]}'
    (tmp_path / "world.json").write_bytes(world % encode(old))
    (tmp_path / "notes.txt").write_text("hello")
    request = '{"budget": 20, "counter": "chars/4", "slots": [{"name": "input", "content": "Hi"}]}'
    (tmp_path / "request.json").write_text(request)
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    tools = [{"name": "run", "description": "Run it.", "parameters": {"type": "object"}}]
    more = [*said, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "why?"}]
    slots = [{"name": "history", "content": said}]
    for name, value in {
        "prompt.json": {"messages": said, "tools": tools, "tail": "<slop-state>…</slop-state>"},
        "next.json": {"messages": more, "tools": tools, "tail": "<slop-state>!</slop-state>"},
        "tools.json": {"tools": tools, "resolve": {}},
        "slots.json": {"budget": 100, "counter": "chars/4", "slots": slots},
    }.items():
        (tmp_path / name).write_text(json.dumps(value))
    (tmp_path / "tail.txt").write_text("<slop-state>…</slop-state>")
    with Ledger(tmp_path / "work.db") as ledger:
        session = ledger.sessions.create("refactoring")
        ledger.append(session.id, [Message.of("user", "hello")], strategy="openai")
        (tmp_path / "talk.jsonl").write_bytes(b"".join(ledger.export(session.id)))
    asyncio.run(talk(tmp_path / "talk.db"))
    return tmp_path


async def talk(path: Path, project: str = "") -> None:
    """Have the conversation that the examples go on with or look at."""
    apps = AppSettings(discover=False, workspace=False)
    model = ScriptedModel(["You have two unread messages."])
    async with Host.open(Settings(apps=apps), model=model, ledger=path, project=project) as host:
        async for _ in host.ask("What is unread?"):
            pass


@pytest.mark.parametrize(("name", "line"), examples(), ids=lambda value: str(value))
def test_every_example_in_help_runs(name: str, line: str, example_files: Path) -> None:
    if " -c " in line:  # goes on with what was said in its directory
        asyncio.run(talk(example_files / "work.db", str(example_files)))
    # The examples with an address speak of the demo app, running; others ask a model.
    with (
        announced_app(example_files, LiveApp(demo_tree(), app_id="desk")),
        Vendor(says("You have two unread messages.")) as vendor,
    ):
        own = {**vendor.environment(), "SIGHTLINE_MODEL": "ollama:test"}
        code, out, err = run_example(line, example_files, own)
    assert code == 0, f"{name}: {err}"
    assert out
    assert err == ""


def run_example(line: str, directory: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a line; only what asks for more of a shell than words is given to one."""
    if not line.startswith("sightline ") or set(line) & set("|<>;$*"):
        done = shell(line, directory, environment)
        return done.returncode, done.stdout, done.stderr
    own = {**os.environ, "SLOP_PROVIDERS": str(directory), **environment}
    ran = here(directory, *shlex.split(line)[1:], env=own)
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


def test_every_command_has_help_and_every_leaf_has_examples() -> None:
    for name, command in commands():
        assert command.help, name
        if not isinstance(command, click.Group) and name not in SERVING:
            assert "Examples:" in (command.epilog or ""), name


def test_the_architecture_lists_every_module_and_nothing_else() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed: set[str] = set()
    room = ""
    for line in text.splitlines():
        if line.startswith("##"):
            names = re.findall(r"`([\w/]+/)`", line)
            room = names[0] if names and names[0] != "sightline/" else ""
        elif match := re.match(r"\| `([\w/.]+)` \|", line):
            listed.add(room + match[1])
    home = Path(sightline.__file__).parent
    modules = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        if path.name != "__init__.py" or path.parent == home
    }
    assert {name for name in listed if name.endswith(".py")} == modules
    assert all((home / name).is_file() for name in listed)
