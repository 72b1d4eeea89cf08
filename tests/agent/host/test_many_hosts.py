"""One store, many machines: any host opens any session, one at a time, and everybody can look.

The database is real, hosts that die or sleep are processes, and a machine is whatever has a data
directory of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from agent.host.helpers import check_ledger, ended, hosted, of_kind, turn
from context.ledger.helpers import fill
from context.ledger.test_postgres import expire
from inspector.test_server import browsing
from sightline.agent.host.stage import HostStage
from sightline.cli.ledger import ledger as ledger_command
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import address_of
from sightline.context.ledger.postgres import steps
from sightline.context.ledger.postgres.connect import connect
from sightline.context.ledger.postgres.store import PostgresStore
from sightline.context.messages.parts import Message, ToolCall
from sightline.errors import LedgerUnusable, NotFound, SessionBusy
from sightline.events import Noticed
from sightline.inspector.reader import RecordReader
from sightline.slop.transports import health
from support import postgres
from support.live import command_of
from support.shell import here

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if reason := postgres.lacks():
        pytest.skip(reason)
    with postgres.server() as running:
        yield running


@pytest.fixture
def url(server: postgres.Server) -> str:
    server.restart_numbers()
    return server.url(uuid4().hex)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process is a machine of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "here"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    return tmp_path


@contextmanager
def elsewhere(directory: Path, where: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """A host on another machine, in the middle of a turn of session 1; killed at the end."""
    env = {**os.environ, "XDG_DATA_HOME": str(directory / "there")}
    with subprocess.Popen(
        command_of("agent.host.killed", str(directory), where, url),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "there\n"
            yield process
        finally:
            process.kill()


async def test_a_host_that_dies_is_taken_over_when_its_lease_is_over_and_not_before(
    machine: Path, url: str
) -> None:
    with elsewhere(machine, "calling", url):
        pass
    async with hosted(machine, ["I am back."], session=1, url=url) as (host, model):
        with pytest.raises(SessionBusy):
            await turn(host, "where were we?")
        expire(url)
        events = await turn(host, "where were we?")
        assert ended(events).text == "I am back."
        assert "2 open calls" in of_kind(events, Noticed)[0].message
        assert "while it ran" in model.requests[0].data.decode()
    check_ledger(machine, url=url)


@pytest.mark.parametrize("engine", ["file", "database"])
async def test_a_turn_appends_at_the_first_try_and_reads_once_for_a_request(
    machine: Path, url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, made, reads, inside = [0], [0], [0], [0]

    def count(kind: Any, name: str, counter: list[int]) -> None:
        work = getattr(kind, name)

        def counted(*given: Any, **named: Any) -> Any:
            counter[0] += 1
            return work(*given, **named)

        monkeypatch.setattr(kind, name, counted)

    calls = [[ToolCall("c1", "describe_db", {})], [ToolCall("c2", "describe_db", {})], "done"]
    there = url if engine == "database" else None
    async with hosted(machine, [*calls, *calls], url=there) as (host, _):
        store = type(host.ledger._store)
        read = store.read

        @contextmanager
        def noted(self: Any) -> Iterator[Any]:
            reads[0] += inside[0] == 1 and self is host.ledger._store
            inside[0] += bool(inside[0])
            with read(self) as db:
                yield db
            inside[0] -= bool(inside[0])

        gather = HostStage._inputs

        def gathered(*given: Any) -> Any:
            inside[0] = 1
            try:
                return gather(*given)
            finally:
                inside[0] = 0

        await turn(host, "first")
        monkeypatch.setattr(store, "read", noted)
        monkeypatch.setattr(HostStage, "_inputs", gathered)
        count(store, "append", made)
        count(PostgresStore, "_append", tried)
        await turn(host, "again")
    assert made == [6]
    assert reads == [3]  # one for each request
    assert tried == (made if engine == "database" else [0])
    check_ledger(machine, url=there)


async def test_a_host_that_slept_through_its_lease_writes_no_more(machine: Path, url: str) -> None:
    with elsewhere(machine, "late", url) as slow:
        assert slow.stdin is not None
        assert slow.stdout is not None
        slow.send_signal(signal.SIGSTOP)
        async with hosted(machine, ["Mine now."], session=1, url=url) as (host, _):
            expire(url)
            await turn(host, "anybody?")
        slow.send_signal(signal.SIGCONT)
        slow.stdin.write("go on\n")
        slow.stdin.flush()
        assert slow.stdout.readline() == "failed session_busy\n"
    with Ledger(url, mode="read") as ledger:
        said = [entry.message.text for entry in ledger.messages(1)]
        assert said == ["please", "anybody?", "Mine now."]
        assert ledger.verify().findings == ()


# Every subcommand of `sightline ledger`, one after the other; LEDGER is the one that is tried.
WALK = (
    "path --db LEDGER",
    "sessions --db LEDGER --json",
    "sessions --db LEDGER rename 1 beetles",
    "sessions --db LEDGER clone 1 --name again",
    "search --db LEDGER question",
    "query --db LEDGER --session 1 'SELECT role, content FROM messages'",
    "export 1 --db LEDGER -o talk.jsonl",
    "import talk.jsonl --db LEDGER --name back",
    "backup copy.db --db LEDGER",
    "copy LEDGER other.db",
    "verify --db LEDGER --json",
    "sessions --db LEDGER delete again --yes",
    "prune --db LEDGER --max-size 1kB --yes",
    "verify --db LEDGER",
)
VARIES = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|[\d.]+ (?:kB|bytes)"
)


def walked(directory: Path, ledger: str) -> list[tuple[str, int, str]]:
    """What every subcommand says, with what differs by nature made the same."""
    directory.mkdir()
    with Ledger(directory / ledger if "://" not in ledger else ledger) as opened:
        fill(opened, opened.sessions.create("talk").id, 2, tokens=5)
    found: list[tuple[str, int, str]] = []
    for line in WALK:
        done = here(directory, "ledger", *shlex.split(line.replace("LEDGER", f"'{ledger}'")))
        told = f"{done.stdout.decode()}{done.stderr.decode()}".replace(ledger, "LEDGER")
        found.append((line, done.returncode, VARIES.sub("…", told)))
    return found


def test_every_ledger_command_says_of_a_database_what_it_says_of_a_file(
    machine: Path, url: str
) -> None:
    named = {word for line in WALK for word in line.split()}
    assert set(ledger_command.commands) <= named
    in_database = walked(machine / "database", url)
    for ours, file in zip(in_database, walked(machine / "file", "work.db"), strict=True):
        assert ours == file
    assert [code for _, code, _ in in_database] == [0] * len(WALK)


async def test_the_inspector_shows_sessions_of_any_machine(
    machine: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(machine, ["Hello to you."], url=url) as (host, _):
        await turn(host, "hi there")
    with Ledger(url, mode="read") as ledger:
        async with browsing(RecordReader(ledger)) as client:
            about = f"{client.base_url}api/sessions"
            for path in ("", "/1/turns", "/1/overview", "/1/ledger", "/1/turns/1/1"):
                assert (await client.get(about + path)).status_code == 200, path
            shown = (await client.get(f"{about}/1/ledger")).json()
            page = (await client.get("/export/1.html", timeout=60)).text
    assert shown["path"] == address_of(url).name
    assert "Hello to you." in page
    assert page.endswith("</html>")
    monkeypatch.setenv("XDG_DATA_HOME", str(machine / "there"))
    with Ledger(url, mode="read") as ledger:
        reader = RecordReader(ledger)
        [row] = reader.turns(1)["turns"]
        assert (row["status"], row["text"], row["requests"]) == ("answered", "hi there", 0)
        with pytest.raises(NotFound, match="nothing was recorded"):
            reader.request(1, 1, 1)


def test_the_oldest_sessions_of_a_database_go_until_the_rest_takes_no_more(
    machine: Path, url: str
) -> None:
    with Ledger(url) as ledger:
        for number in range(6):
            session = ledger.sessions.create(f"s{number}").id
            for _ in range(3):  # the half of it can be compressed
                said = Random(number).randbytes(1_000).hex() + "a" * 2_000
                ledger.append(session, [Message("user", said)])
        most = ledger.size() * 11 // 20
        done = here(
            machine, "ledger", "prune", "--db", url, "--max-size", f"{most / 1000}kB", "--yes"
        )
        assert done.returncode == 0, done.stderr
        left = [session.name for session in ledger.sessions.recent()]
        assert left == ["s5", "s4", "s3"]
        assert ledger.size() <= most


def test_hosts_go_on_while_a_newer_version_adds_to_the_tables(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url("a").replace("/ledgers?", "/rolling?")
    with psycopg.connect(server.dsn("postgres", "postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE rolling OWNER sightline")
    with Ledger(url) as older:
        session = older.sessions.create("s").id
        older.append(session, [Message("user", "before")])
        adding = "ALTER TABLE sessions ADD extra text; ALTER TABLE messages ADD extra text;"
        with monkeypatch.context() as newer:
            newer.setattr(steps, "MIGRATIONS", (*steps.MIGRATIONS, adding))
            newer.setattr(steps, "FORMAT", steps.FORMAT + 1)
            with connect(address_of(url)) as connection:
                steps.migrate(connection, url, upto=steps.FORMAT)
        for text in ("after", "and again"):
            older.append(session, [Message("user", text)])
        older.sessions.rename(session, "still mine")
        spoken = [entry.message.text for entry in older.window(session)]
        assert spoken == ["before", "after", "and again"]
        with pytest.raises(LedgerUnusable, match="reads up to"):
            Ledger(url)


def test_what_the_page_says_to_watch_can_be_asked(server: postgres.Server, url: str) -> None:
    Ledger(url).close()
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```sql\n(-- .*?)^```$", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(server.dsn("postgres", "ledgers")) as connection:
        for statement in block.split(";\n"):
            if statement.strip():
                assert connection.execute(statement).fetchall() is not None


async def test_an_inspector_is_ready_while_its_database_is_there(
    monkeypatch: pytest.MonkeyPatch, server: postgres.Server, url: str
) -> None:
    monkeypatch.setattr(health, "_FRESH_S", 0.0)
    monkeypatch.setattr(health, "_PATIENCE_S", 60.0)
    Ledger(url).close()
    with Ledger(url, mode="read") as ledger:
        async with browsing(RecordReader(ledger)) as client:
            base = str(client.base_url).removesuffix("room/")

            async def status(name: str) -> int:
                return (await client.get(f"{base}{name}", timeout=60)).status_code

            found = [await status("readyz")]
            server.kill()
            found += [await status("readyz"), await status("healthz")]
            server.start()
            found.append(await status("readyz"))
    assert found == [200, 503, 200, 200]
