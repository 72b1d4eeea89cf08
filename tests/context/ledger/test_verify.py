"""Verify finds what was changed behind the ledger's back, wherever it was changed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import apsw
import pytest

from context.ledger.damage import is_found, make_sound, sqlite_finds
from context.ledger.helpers import contents, fill, tamper
from sightline.context.ledger import Ledger
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.rows import fetch
from sightline.context.ledger.sqlite.steps import NUMBERED
from sightline.context.messages.parts import Message
from sightline.errors import LedgerDamaged, SightlineError


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with something in every table."""
    path = tmp_path_factory.mktemp("sound") / "l.db"
    make_sound(path)
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    path = tmp_path / "copy.db"
    shutil.copy(sound, path)
    return path


def findings(path: Path) -> tuple[str, ...]:
    with Ledger(path) as ledger:
        return ledger.verify().findings


def test_whoever_watches_is_told_how_many_messages_were_read_of_all(copy: Path) -> None:
    told: list[tuple[int, int]] = []
    with Ledger(copy) as ledger:
        report = ledger.verify(lambda read, whole: told.append((read, whole)))
        ledger.backup(copy.with_name("second.db"), lambda read, whole: told.append((read, whole)))
    assert told[len(told) // 2 - 1] == told[-1] == (report.messages, report.messages)


def test_what_changed_since_is_verified_and_what_lies_still_is_passed_over(ledger: Ledger) -> None:
    sessions = [ledger.sessions.create(f"{number}").id for number in range(3)]
    for number, session in enumerate(sessions):
        fill(ledger, session, number + 1)
    whole = ledger.verify()
    assert sorted(whole.seals) == sessions
    again = ledger.verify(since=whole.seals)
    assert (again.sessions, again.messages, again.seals) == (3, 0, whole.seals)
    ledger.states.set(sessions[1], "### STATE\nGoal: more")
    fill(ledger, ledger.sessions.create("new").id, 1)
    later = ledger.verify(since=whole.seals)
    assert later.ok
    new = [len(list(ledger.messages(number))) for number in later.seals if number != sessions[0]]
    assert later.messages == new[0] + new[2]
    assert later.seals == ledger.verify().seals


@pytest.mark.parametrize("changed", [True, False])
def test_damage_in_what_changed_is_found_and_its_seal_is_not_kept(
    copy: Path, changed: bool
) -> None:
    with Ledger(copy) as ledger:
        seals = ledger.verify().seals
        if changed:
            ledger.append(1, [Message.of("user", "more")], strategy="s")
    tamper(copy, "UPDATE messages SET content = 'changed' WHERE session_id = 1")
    with Ledger(copy) as ledger:
        since = ledger.verify(since=seals)
        assert since.ok is not changed
        assert (1 in since.seals) is not changed
        assert not ledger.verify().ok


CHANGED = {"TEXT": "'changed'", "INTEGER": "{old} + 1", "BLOB": "zeroblob(32)"}
# A value that the column's own rule allows, where it has one.
ALLOWED = {
    ("groups", "status"): "CASE status WHEN 'live' THEN 'dropped' ELSE 'live' END",
    ("messages", "role"): "CASE role WHEN 'user' THEN 'tool' ELSE 'user' END",
    ("messages", "dropped"): "1 - dropped",
    ("groups", "salt"): "zeroblob(16)",
    ("llm_memos", "tags"): "'[\"other\"]'",
}
COLUMNS = [
    (table, column.name)
    for table, described in TABLES.items()
    if described.is_sealed
    for column in described.columns
    if column.name not in ("status", "id") or (table, column.name) == ("groups", "status")
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_any_changed_column_of_any_row_is_found(copy: Path, table: str, column: str) -> None:
    kind = {c.name: c.type for c in TABLES[table].columns}[column]
    value = ALLOWED.get((table, column), CHANGED[kind]).format(old=f"coalesce({column}, 0)")
    last = f"SELECT max(rowid) FROM {table}"
    tamper(copy, f"UPDATE {table} SET {column} = {value} WHERE rowid = ({last})")
    assert findings(copy)


@pytest.mark.parametrize("table", [name for name, told in TABLES.items() if told.is_sealed])
@pytest.mark.parametrize("which", ["min", "max"])
def test_any_missing_row_is_found(copy: Path, table: str, which: str) -> None:
    tamper(copy, f"DELETE FROM {table} WHERE rowid = (SELECT {which}(rowid) FROM {table})")
    try:
        assert findings(copy)
    except SightlineError:
        assert table == "ledger"  # without its own row a ledger does not even open


@pytest.mark.parametrize(
    "sql",
    [
        # two messages change places
        "UPDATE messages SET seq = CASE seq WHEN 0 THEN 1000 WHEN 1 THEN 0 END "
        "WHERE session_id = 1 AND seq < 2; UPDATE messages SET seq = 1 WHERE seq = 1000",
        # the last group, or message, was never there
        "DELETE FROM messages WHERE group_id = 5; DELETE FROM groups WHERE id = 5",
        "DELETE FROM messages WHERE session_id = 1 AND seq = "
        "(SELECT max(seq) FROM messages WHERE session_id = 1)",
        # a whole session, with all it held
        "DELETE FROM messages WHERE session_id = 1; DELETE FROM groups WHERE session_id = 1;"
        "DELETE FROM session_state WHERE session_id = 1; DELETE FROM usage WHERE session_id = 1;"
        "DELETE FROM receipts WHERE session_id = 1; DELETE FROM undone WHERE session_id = 1;"
        "DELETE FROM sessions WHERE id = 1",
        # a whole session but its row
        "DELETE FROM sessions WHERE id = 1",
        # a message comes back from the dead, or from nowhere
        "INSERT INTO messages SELECT id + 500, session_id, group_id, seq + 500, role, content, "
        "parts, outcome, dropped, parsing_strategy, tool_call_id, tokens, tokens_basis, "
        "created_at, append_key, digest, usage_id FROM messages WHERE id = 1",
        "UPDATE messages SET group_id = 3 WHERE group_id = 1",
        "UPDATE messages SET session_id = 99 WHERE session_id = 1",
        "UPDATE usage SET session_id = 99",
        "DELETE FROM memo_words",
        # dropped, consistently
        "UPDATE groups SET status = 'live' WHERE status = 'dropped';"
        "UPDATE messages SET dropped = 0 WHERE dropped = 1",
    ],
)
def test_rows_out_of_order_missing_or_added_are_found(copy: Path, sql: str) -> None:
    tamper(copy, sql)
    assert findings(copy)


def test_every_flipped_bit_is_found_or_changed_nothing(sound: Path, tmp_path: Path) -> None:
    """70 bits in the text of messages, and 60 anywhere in the file."""
    original = sound.read_bytes()
    chance = random.Random(70)
    words = [m for m in range(len(original)) if original.startswith((b"question", b"answer "), m)]
    places = [chance.choice(words) + chance.randrange(8) for _ in range(70)]
    places += [chance.randrange(len(original)) for _ in range(60)]
    reference = contents(sound)
    seen_by_sqlite = 0
    path = tmp_path / "flipped.db"
    for number, place in enumerate(places):
        flipped = bytearray(original)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        found = is_found(path)
        if number < 70:
            assert found, f"bit flip at byte {place} was not found"
            seen_by_sqlite += sqlite_finds(path)
        elif not found:
            assert contents(path) == reference, f"bit flip at byte {place} changed something"
    assert seen_by_sqlite < 10  # which is why there is a verify of our own


def test_text_that_is_no_longer_text_is_found_and_named(copy: Path) -> None:
    tamper(copy, "UPDATE messages SET content = CAST(x'ff41' AS TEXT) WHERE id = 4")
    assert any("message 4 " in finding for finding in findings(copy))
    tamper(copy, "UPDATE sessions SET name = CAST(x'ff41' AS TEXT) WHERE id = 1")
    assert any("sessions cannot be read" in finding for finding in findings(copy))


def test_the_finding_names_the_session_and_the_message(copy: Path) -> None:
    tamper(copy, "UPDATE messages SET content = 'forged' WHERE id = 1")
    first = findings(copy)[0]
    assert first.startswith("session 1: message 1 (seq 0) was altered")
    with Ledger(copy) as ledger, pytest.raises(LedgerDamaged, match="message 1"):
        ledger.verify().raise_if_damaged()


def test_a_report_counts_what_it_looked_at(sound: Path) -> None:
    with Ledger(sound, mode="read") as ledger:
        report = ledger.verify()
    assert (report.sessions, report.groups, report.messages, report.memos) == (2, 12, 34, 2)
    report.raise_if_damaged()


def test_a_ledger_that_was_never_used_verifies(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.verify().ok


def test_a_broken_index_is_found(copy: Path) -> None:
    index = "FROM sqlite_schema WHERE name = 'groups_by_weight'"
    statements = (
        f"CREATE TABLE kept AS SELECT * {index}",
        f"DELETE {index}",
        "UPDATE groups SET tokens_before = tokens_before + 1",
        "INSERT INTO sqlite_schema SELECT * FROM kept",
        "DROP TABLE kept",
    )
    for statement in statements:  # SQLite reads the schema once for each connection
        connection = apsw.Connection(str(copy))
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement)
        connection.close()
    assert any(finding.startswith("SQLite:") for finding in findings(copy))


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger whose memos' words fill several pages, some of them changed and deleted."""
    path = tmp_path_factory.mktemp("wordy") / "l.db"
    chance = random.Random(4)
    with Ledger(path) as ledger:
        for number in range(40):
            words = " ".join(f"w{chance.randrange(4000)}" for _ in range(150))
            ledger.memos.save(f"zebra{number} port {words}", ["net"])
        for number in range(1, 40, 3):
            ledger.memos.edit(number, content=f"edited{number} port")
            ledger.memos.delete(number + 1)
        assert ledger.verify().findings == ()
    return path


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("memo_words", "DELETE FROM memo_words WHERE memo_id = 3"),
        ("memo_words", "INSERT INTO memo_words VALUES ('net', 2)"),
        ("memo_content_words", "DELETE FROM memo_content_words"),
        ("memo_content_words", "DELETE FROM memo_content_words"
         " WHERE memo_id = 3 AND word = 'port'"),
        ("memo_content_words", "UPDATE memo_content_words SET word = 'ports' WHERE word = 'port'"),
        ("memo_content_words", "UPDATE memo_content_words SET memo_id = 2 WHERE memo_id = 3"),
        ("memo_content_words", "INSERT INTO memo_content_words VALUES ('port', 1000)"),
        ("memo_content_words", "UPDATE memo_content_words SET memo_id = 7 WHERE memo_id = 3"
         " AND word LIKE 'w%'"),
        ("sqlite_sequence", "DELETE FROM sqlite_sequence"),
        ("sqlite_sequence", "UPDATE sqlite_sequence SET seq = seq - 1"),
        ("sqlite_sequence", "UPDATE sqlite_sequence SET seq = 'many'"),
        ("sqlite_sequence", "UPDATE sqlite_sequence SET name = 'memos'"),
        ("sqlite_sequence", "INSERT INTO sqlite_sequence SELECT * FROM sqlite_sequence"),
    ],
)  # fmt: skip
def test_damage_to_what_no_seal_covers_is_found(
    wordy: Path, tmp_path: Path, table: str, change: str
) -> None:
    path = tmp_path / "copy.db"
    shutil.copy(wordy, path)
    tamper(path, change)
    with Ledger(path, mode="read") as ledger:
        assert any(table in finding for finding in ledger.verify().findings)


def test_every_table_that_sqlite_numbers_is_compared_with_its_highest_number(sound: Path) -> None:
    connection = apsw.Connection(str(sound))
    numbered = fetch(connection, "SELECT name FROM sqlite_schema WHERE instr(sql, 'AUTOINCREMENT')")
    connection.close()
    assert {name for (name,) in numbered} == set(NUMBERED)


def test_a_schema_that_is_no_longer_understood_is_named(copy: Path) -> None:
    content = copy.read_bytes()
    assert b"WITHOUT ROWID" in content
    copy.write_bytes(content.replace(b"WITHOUT ROWID", b"WITHOUT ROWIT"))
    with pytest.raises(LedgerDamaged, match="ROWIT"):
        Ledger(copy)


def test_a_long_list_of_findings_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger(path) as ledger:
        session = ledger.sessions.create("s")
        messages = [Message.of("user", str(n)) for n in range(1100)]
        ledger.append(session.id, messages, strategy="s")
    tamper(path, "UPDATE messages SET content = 'x'")
    assert len(findings(path)) == 1000
