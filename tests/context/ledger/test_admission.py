"""Ledger files from strangers: their schema is compared, and their statements have a limit."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import apsw
import pytest

from context.ledger.helpers import file_of, fill, tamper
from context.ledger.hostile_files import FIXTURE, SCHEMAS, make_hostile, observe
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import own_ledgers_path, user_path
from sightline.context.ledger.sqlite import admission, steps
from sightline.context.ledger.store import Mode
from sightline.errors import LedgerDamaged
from support.shell import Run

INDEX = "CREATE INDEX mine ON messages (role)"
NAMED = "index 'mine' on messages is not part of a Sightline ledger"
TRIGGER = "CREATE TRIGGER copy AFTER INSERT ON messages BEGIN SELECT 1; END"
STRANGE = "trigger 'copy' on messages is not part of a Sightline ledger"
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) SELECT {} FROM n"


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of a user who has no ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def own(state_home: Path, tmp_path: Path) -> Path:  # noqa: ARG001 - for its effect
    """A ledger that this user's program made."""
    with Ledger(tmp_path / "own.db") as ledger:
        fill(ledger, ledger.sessions.create("s").id, 2)
    return tmp_path / "own.db"


@pytest.fixture
def strangers(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same ledger for a different user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other state"))
    return own


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcomes of a ledger whose schema nobody changed."""
    path = tmp_path_factory.mktemp("healthy") / "ledger.db"
    shutil.copy(FIXTURE, path)
    outcomes = observe(path, "--no-comparison", seconds=120)
    assert outcomes["end"] == "0"
    return outcomes


@pytest.fixture(params=[schema["name"] for schema in SCHEMAS])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with one of the hostile schemas."""
    [schema] = [schema for schema in SCHEMAS if schema["name"] == request.param]
    return make_hostile(tmp_path / "hostile.db", schema)


def test_hostile_schemas_are_fifteen_and_a_quarter_has_a_different_author() -> None:
    authors = [schema["author"] for schema in SCHEMAS]
    assert len(authors) == 15
    assert authors.count("blind") >= 4


@pytest.mark.parametrize("mode", ["write", "read"])
def test_hostile_file_is_rejected_and_unchanged_when_opened(hostile: Path, mode: Mode) -> None:
    before = hostile.read_bytes()
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(hostile, mode=mode)
    assert "\n" not in str(rejected.value)
    assert hostile.read_bytes() == before


def test_hostile_file_does_harm_when_schemas_are_not_compared(
    hostile: Path, healthy: dict[str, str]
) -> None:
    assert observe(hostile, "--no-comparison", seconds=8) != healthy


def test_rejection_names_the_object_when_a_trigger_was_added(tmp_path: Path) -> None:
    hostile = make_hostile(tmp_path / "l.db", SCHEMAS[0])
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(hostile)
    assert str(rejected.value).startswith(f"{hostile}: {STRANGE}")


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("DROP INDEX groups_live", "index 'groups_live' on groups is missing"),
        (
            "ALTER TABLE owners ADD COLUMN more TEXT",
            "table 'owners' is not as Sightline makes it",
        ),
        (
            'CREATE TABLE "two\nlines" (a)',
            r"table 'two\nlines' is not part of a Sightline ledger",
        ),
    ],
)
def test_rejection_names_the_object_in_one_line(
    tmp_path: Path, statement: str, difference: str
) -> None:
    shutil.copy(FIXTURE, tmp_path / "l.db")
    tamper(tmp_path / "l.db", statement)
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(tmp_path / "l.db")
    assert difference in str(rejected.value)


@pytest.mark.parametrize(
    "command",
    [
        ["ledger", "verify"],
        ["ledger", "sessions"],
        ["ledger", "search", "question"],
        ["ledger", "query", "SELECT 1"],
        ["ledger", "export", "1"],
        ["ledger", "backup", "copy.db"],
        ["ledger", "prune", "--older-than", "1d"],
        ["context", "1"],
        ["ask", "hello"],
        ["inspect"],
    ],
    ids=" ".join,
)
def test_command_rejects_a_strangers_trigger_in_one_line(
    sightline: Run, tmp_path: Path, command: list[str]
) -> None:
    hostile = make_hostile(tmp_path / "hostile.db", SCHEMAS[0])
    ran = sightline(*command, "--db", str(hostile))
    assert ran.returncode == 8, ran.stderr
    assert STRANGE in ran.stderr.decode()
    assert "Traceback" not in ran.stderr.decode()


def test_copy_command_rejects_a_strangers_trigger_in_source_and_target(
    sightline: Run, own: Path, tmp_path: Path
) -> None:
    hostile = make_hostile(tmp_path / "hostile.db", SCHEMAS[0])
    for source, target in ((hostile, tmp_path / "new.db"), (own, hostile)):
        ran = sightline("ledger", "copy", str(source), str(target))
        assert (ran.returncode, STRANGE in ran.stderr.decode()) == (8, True), ran.stderr


@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize("version", range(1, steps.FORMAT + 1))
def test_friends_ledger_of_any_format_opens_with_a_limit(tmp_path: Path, version: int) -> None:
    path = tmp_path / "friend.db"
    shutil.copy(FIXTURE.with_name(f"ledger-v{version}.db"), path)
    for _ in range(2):  # the first time migrates
        with Ledger(path) as ledger:
            assert file_of(ledger)._connection.exec_trace is not None
            assert ledger.verify().findings == ()


def test_own_ledger_keeps_an_added_index_and_verify_names_it(own: Path, sightline: Run) -> None:
    tamper(own, INDEX)
    tamper(own, "CREATE VIEW users AS SELECT * FROM messages WHERE role = 'user'")
    with Ledger(own) as ledger:
        fill(ledger, 1, 1)
        report = ledger.verify()
        assert report.ok
        assert NAMED in report.additions
    ran = sightline("ledger", "verify", "--db", str(own))
    assert ran.returncode == 0
    assert f"added by you: {NAMED}" in ran.stdout.decode()


def test_copy_of_an_own_ledger_is_own(own: Path, tmp_path: Path) -> None:
    tamper(own, INDEX)
    with Ledger(own) as ledger:
        ledger.backup(tmp_path / "copy.db")
    with Ledger(tmp_path / "copy.db") as copy:
        assert copy.verify().additions == (NAMED,)


def test_strangers_ledger_with_an_added_index_is_rejected(strangers: Path) -> None:
    Ledger(strangers).close()
    tamper(strangers, INDEX)
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(strangers)
    assert str(rejected.value) == f"{strangers}: {NAMED}"


def test_own_ledger_with_an_added_trigger_is_rejected(own: Path) -> None:
    tamper(own, TRIGGER)
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(own)
    assert str(rejected.value) == f"{own}: {STRANGE}"


def test_own_ledger_with_a_trigger_in_place_of_an_index_is_rejected(own: Path) -> None:
    with closing(apsw.Connection(str(own))) as db:
        db.execute("DROP INDEX sessions_by_activity")  # as many objects as before
    tamper(own, TRIGGER)
    with pytest.raises(LedgerDamaged) as rejected:
        Ledger(own)
    assert STRANGE in str(rejected.value)


def test_verify_finds_a_changed_table_of_an_own_ledger(own: Path) -> None:
    with Ledger(own) as ledger:
        tamper(own, "ALTER TABLE owners ADD COLUMN more TEXT")
        assert f"{own}: table 'owners' is not as Sightline makes it" in ledger.verify().findings
    with pytest.raises(LedgerDamaged, match="table 'owners' is not as Sightline makes it"):
        Ledger(own)


def test_verify_finds_a_trigger_that_was_added_under_an_open_ledger(own: Path) -> None:
    with Ledger(own) as ledger:
        tamper(own, TRIGGER)
        assert f"{own}: {STRANGE}" in ledger.verify().findings


@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize("version", [1, 6, 11])
def test_ledger_at_the_default_path_becomes_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    user_path().parent.mkdir(mode=0o700, parents=True)
    shutil.copy(FIXTURE.with_name(f"ledger-v{version}.db"), user_path())
    tamper(user_path(), INDEX)
    with Ledger(user_path()) as ledger:
        assert ledger.verify().additions == (NAMED,)
    shutil.move(user_path(), tmp_path / "moved.db")
    with Ledger(tmp_path / "moved.db") as ledger:
        assert ledger.verify().additions == (NAMED,)


@pytest.mark.usefixtures("state_home")
def test_ledger_at_the_default_path_is_a_strangers_when_others_can_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    user_path().parent.mkdir(parents=True)
    user_path().parent.chmod(0o777)
    shutil.copy(FIXTURE, user_path())
    tamper(user_path(), INDEX)
    with pytest.raises(LedgerDamaged, match="'mine'"):
        Ledger(user_path())


def _make(path: Path) -> str:
    with Ledger(path) as ledger:
        return str(file_of(ledger)._connection.execute("SELECT uuid FROM ledger").get)


def test_list_of_own_ledgers_is_private_and_complete_when_processes_write_together(
    state_home: Path, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        made = list(pool.map(_make, [tmp_path / f"{number}.db" for number in range(12)]))
    path = own_ledgers_path()
    assert path.is_relative_to(state_home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(path.read_text().split()) == set(made)


@pytest.mark.usefixtures("state_home")
def test_list_of_own_ledgers_is_bounded() -> None:
    own_ledgers_path().parent.mkdir(mode=0o700, parents=True)
    own_ledgers_path().write_text("\n".join(f"id-{number}" for number in range(5_000)))
    admission.remember_own("new")
    kept = own_ledgers_path().read_text().split()
    assert (len(kept), kept[0], kept[-1]) == (1_000, "id-4001", "new")


@pytest.mark.usefixtures("state_home")
def test_list_of_own_ledgers_has_no_temporary_ledger() -> None:
    with Ledger(":memory:") as ledger:
        fill(ledger, ledger.sessions.create("s").id, 1)
    assert not own_ledgers_path().exists()


def test_ledger_is_made_when_there_can_be_no_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        with Ledger(tmp_path / "l.db") as ledger:
            assert ledger.verify().ok


@pytest.fixture
def connection(strangers: Path) -> Iterator[apsw.Connection]:
    """The connection of a stranger's ledger."""
    with Ledger(strangers) as ledger:
        yield file_of(ledger)._connection


def test_statement_without_end_is_interrupted_when_a_ledger_is_a_strangers(
    strangers: Path,
) -> None:
    with Ledger(strangers) as ledger, pytest.raises(LedgerDamaged, match="more steps"):
        ledger.sessions._fetch(NUMBERS.format("", "count(*)"))


def test_scan_without_end_is_interrupted_when_queries_run_between_its_rows(
    connection: apsw.Connection,
) -> None:
    connection.execute("BEGIN")
    with pytest.raises(apsw.InterruptError):
        _read_each(connection, f"SELECT * FROM ({NUMBERS.format('', 'i')})")
    connection.execute("COMMIT")


def _read_each(connection: apsw.Connection, query: str) -> None:
    for _ in connection.execute(query):
        connection.execute("SELECT count(*) FROM messages").fetchall()


def test_each_statement_has_a_limit_of_its_own(connection: apsw.Connection) -> None:
    half = NUMBERS.format(" WHERE i < 1000000", "count(*)")
    for _ in range(3):
        assert connection.execute(half).get == 1_000_000


def test_own_ledger_has_no_limit(own: Path) -> None:
    with Ledger(own) as ledger:
        many = NUMBERS.format(" WHERE i < 3000000", "count(*)")
        assert file_of(ledger)._connection.execute(many).get == 3_000_000


def test_digest_of_the_current_schema_is_known() -> None:
    with closing(apsw.Connection(":memory:")) as made:
        steps.migrate(made)
        assert admission.schema_digest(made) == admission.SCHEMA, (
            "a new format has a new digest: write it into SCHEMA"
        )


def test_schema_of_an_own_ledger_stays_the_same_when_its_room_is_given_back(own: Path) -> None:
    with Ledger(own) as ledger:
        ledger.shrink()
    with closing(apsw.Connection(str(own))) as db:
        assert admission.compare_schema(db, steps.FORMAT) == {}
        assert admission.schema_digest(db) == admission.SCHEMA
