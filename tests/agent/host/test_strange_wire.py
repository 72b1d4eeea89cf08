"""Wire files from strangers: beside a ledger that somebody sent."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from sightline.agent.host.journal import Journal
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import journal_path
from sightline.errors import LedgerUnavailable

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENDLESS = (
    "CREATE VIEW {} AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS session_id, 'x' AS owner FROM n"
)
STRANGE = [
    ["CREATE TRIGGER copy AFTER INSERT ON requests BEGIN SELECT 1; END"],
    ["DROP TABLE tails", ENDLESS.format("tails")],
    ["CREATE UNIQUE INDEX one ON requests (session_id)"],
]


def change(path: Path, *statements: str) -> None:
    """Change a file with SQLite alone."""
    with closing(apsw.Connection(str(path))) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture(params=STRANGE, ids=lambda statements: statements[-1].split(" AS ")[0])
def ledger_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A ledger with a strange wire file beside it."""
    path = tmp_path / "l.db"
    Ledger(path).close()
    Journal(path).close()
    change(journal_path(path), *request.param)
    return path


def test_strange_wire_file_is_begun_again_when_a_host_opens_it(ledger_path: Path) -> None:
    change(journal_path(ledger_path), "INSERT INTO pieces VALUES (x'00', x'00')")
    Journal(ledger_path).close()
    with closing(apsw.Connection(str(journal_path(ledger_path)))) as db:
        assert db.execute("SELECT count(*) FROM pieces").get == 0
    Journal(ledger_path, read_only=True).close()


def test_strange_wire_file_is_not_read_when_the_inspector_opens_it(ledger_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="is not part of a Sightline wire file"):
        Journal(ledger_path, read_only=True)


def test_wire_file_is_kept_when_it_is_a_journal_of_format_1(tmp_path: Path) -> None:
    for end in (".db", ".wire.db"):
        shutil.copy(FIXTURES / f"host-v4{end}", tmp_path / f"l{end}")
    requests = "SELECT count(*) FROM requests"
    with closing(apsw.Connection(str(tmp_path / "l.wire.db"))) as db:
        before = db.execute(requests).get
    Journal(tmp_path / "l.db").close()
    with closing(apsw.Connection(str(tmp_path / "l.wire.db"))) as db:
        assert db.execute(requests).get == before > 0


def test_old_wire_file_with_a_view_without_end_does_not_stop_the_migration(tmp_path: Path) -> None:
    for end in (".db", ".wire.db"):
        shutil.copy(FIXTURES / f"host-v4{end}", tmp_path / f"l{end}")
    change(tmp_path / "l.wire.db", "DROP TABLE owners", ENDLESS.format("owners"))
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.verify().ok
