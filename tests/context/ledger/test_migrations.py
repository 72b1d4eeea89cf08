"""Every ledger ever made opens, migrates and verifies."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from context.ledger.helpers import prompts
from sightline.context.ledger import Ledger
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite import steps
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.store import Mode
from sightline.context.messages.parts import Message
from sightline.context.messages.window import TokenWindow
from sightline.errors import LedgerDamaged, LedgerUnusable

FIXTURES = Path(__file__).parents[2] / "fixtures"
VERSIONS = range(1, steps.FORMAT + 1)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.fixture
def old(version: int, tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / f"ledger-v{version}.db", path)
    return path


def format_of(path: Path) -> int:
    connection = apsw.Connection(str(path))
    try:
        return steps.format_of(connection)
    finally:
        connection.close()


def test_there_is_a_fixture_of_every_format(old: Path, version: int) -> None:
    assert format_of(old) == version


def test_a_ledger_of_any_format_opens_migrates_and_verifies(old: Path) -> None:
    with Ledger(old) as ledger:
        assert ledger.verify().findings == ()
    assert format_of(old) == steps.FORMAT


def test_what_an_old_ledger_holds_is_all_there(old: Path, version: int) -> None:
    undone = version >= 2  # its fixture has the last turn undone
    with Ledger(old) as ledger:
        first, second = sorted(ledger.sessions.recent(), key=lambda session: session.id)
        last = 5 if undone else 6
        assert prompts(ledger, first.id) == [f"question {n}" for n in range(3, last + 1)]
        assert ledger.states.current(first.id) == f"### STATE\nGoal: goal {last}"
        assert ledger.scratchpad.read(first.id) == "- [ ] plan"
        assert prompts(ledger, second.id) == ["größer: 日本語 👩‍👩‍👧"]
        assert [memo.tags for memo in ledger.memos.recent()] == [
            ("gotcha",),
            ("arch-decision", "ports"),
        ]
        if undone:
            ledger.groups.redo(first.id)
            assert prompts(ledger, first.id)[-1] == "question 6"
            assert ledger.accounts.totals().cost_nanousd == 1_500_000


def test_what_later_formats_added_works_on_an_old_ledger(old: Path) -> None:
    with Ledger(old) as ledger:
        first = ledger.sessions.resolve("first")
        # Each turn weighs 40: what was back-filled must cut where it would have from the start.
        assert len(prompts(ledger, first.id, TokenWindow(80, step=0))) == 2
        assert [memo.id for memo in ledger.memos.relevant("which ports does the arch use?")] == [1]
        assert [memo.id for memo in ledger.memos.relevant("does it recurse")] == [2]
        assert [memo.id for memo in ledger.memos.relevant("parsers, recursing")] == [2]
        assert [memo.id for memo in ledger.memos.tagged(["port", "gotchas"])] == [2, 1]
        ledger.append(first.id, [Message.of("user", "go on")], strategy="openai")
        assert ledger.verify().ok


def test_an_append_key_still_holds_after_migration(old: Path) -> None:
    messages = [Message.of("user", "größer: 日本語 👩‍👩‍👧"), Message.of("assistant", "ja")]
    with Ledger(old) as ledger:
        second = ledger.sessions.resolve("second")
        before = list(ledger.messages(second.id))
        ledger.append(second.id, messages, strategy="gemini", key="once")
        assert list(ledger.messages(second.id)) == before


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / "ledger-v1.db", path)
    broken = (*steps.MIGRATIONS[:2], "CREATE TABLE half (a); SELECT broken FROM nowhere")
    monkeypatch.setattr(steps, "MIGRATIONS", broken)
    with pytest.raises(LedgerDamaged, match="no such table: nowhere"):
        Ledger(path)
    monkeypatch.undo()
    assert format_of(path) == 2
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_damaged_memo_of_an_old_ledger_is_found_when_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / "ledger-v6.db", path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE llm_memos SET tags = 'x' WHERE id = 1")
    connection.close()
    with Ledger(path) as ledger:
        assert "memo 1 was altered" in ledger.verify().findings
        assert [memo.id for memo in ledger.memos.relevant("does it recurse")] == [2]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memo_text_config SET v = 99 WHERE k = 'version'",
        "DELETE FROM memo_text_config",
        "DROP TABLE memo_text_config",
    ],
)
def test_an_old_ledger_whose_index_of_words_is_damaged_says_so(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / "ledger-v6.db", path)
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    with pytest.raises(LedgerDamaged, match=r"old\.db: .*(fts5|memo_text)") as caught:
        Ledger(path)
    assert caught.value.exit_code == 8
    assert format_of(path) == 6


def test_tables_that_are_not_as_they_were_made_are_a_finding(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "l.db")
    connection = apsw.Connection(str(store.path))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_master WHERE name = 'sqlite_sequence'")
    connection.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE x (' WHERE name = 'undone'")
    connection.close()
    assert store.check() != []
    with pytest.raises(LedgerDamaged, match="malformed database schema"):
        SqliteStore(store.path)
    store.close()


def test_an_older_format_is_not_read_without_migrating(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copy(FIXTURES / "ledger-v1.db", path)
    with pytest.raises(LedgerUnusable, match="older format 1"):
        Ledger(path, mode="read")
    assert format_of(path) == 1


def test_a_newer_format_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    connection = apsw.Connection(str(path))
    steps.migrate(connection)
    connection.pragma("user_version", steps.FORMAT + 1)
    connection.close()
    before = path.read_bytes()
    modes: list[Mode] = ["write", "read"]
    for mode in modes:
        with pytest.raises(LedgerUnusable, match=f"format {steps.FORMAT + 1}"):
            Ledger(path, mode=mode)
    assert path.read_bytes() == before


def test_the_description_of_the_format_is_the_format(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "l.db"))
    steps.migrate(connection)
    for name, table in TABLES.items():
        real = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
        assert [(column.name, column.type) for column in table.columns] == [
            (row[1], row[2]) for row in real
        ]
    connection.close()
