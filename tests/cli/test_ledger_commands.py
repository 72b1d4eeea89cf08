"""`sightline ledger …`: answers on stdout, one line of complaint on stderr, stable exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from context.ledger.helpers import fill, tamper
from sightline.agent.host.journal import Journal
from sightline.cli.main import run
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with one session, which is the default one."""
    path = tmp_path / "l.db"
    with Ledger(path) as ledger:
        fill(ledger, ledger.sessions.create("talk").id, 2, tokens=5)
    monkeypatch.setenv("SIGHTLINE_LEDGER", str(path))
    return path


def ask(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["ledger", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_path_names_the_ledger_and_the_option_wins(
    db: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ask(capfd, "path") == (0, f"{db}\n", "")
    assert ask(capfd, "path", "--db", "other.db") == (0, "other.db\n", "")


def test_search_says_where_something_was_said(db: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ask(capfd, "search", "QUESTION 2")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("session 1, group 2, ")
    assert out.endswith(", user: question 2\n")
    code, out, _ = ask(capfd, "search", "--json", "--session", "talk", "quest")
    assert [json.loads(line)["group_id"] for line in out.splitlines()] == [2, 1]
    code, _, err = ask(capfd, "search", "*")
    assert (code, err.count("\n")) == (2, 1)
    db.chmod(0o400)
    assert ask(capfd, "search", "QUESTION 2")[0] == 0


def test_sessions_are_listed_by_what_they_are_about_and_single_questions_only_if_wanted(
    db: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Ledger(db) as ledger:
        fill(ledger, ledger.sessions.create(kind="ask").id, 1)
    _, out, _ = ask(capfd, "sessions")
    assert [line.split()[0] for line in out.splitlines()] == ["ID", "1"]
    assert "talk: question 1" in out
    _, out, _ = ask(capfd, "sessions", "--all", "--json")
    assert [json.loads(line)["title"] for line in out.splitlines()] == ["question 1"] * 2


@pytest.fixture
def settled(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same ledger, named by nothing but the user's settings."""
    settings = tmp_path / "mine.toml"
    settings.write_text(f'[ledger]\npath = "{db}"\n')
    monkeypatch.setenv("SIGHTLINE_CONFIG", str(settings))
    monkeypatch.delenv("SIGHTLINE_LEDGER")
    return db


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ledger path", "l.db"),
        ("ledger sessions", "talk"),
        ("ledger export talk", '"kind":"session"'),
        ("inspect --export 1 --output -", "<html"),
    ],
)
def test_the_ledger_of_the_settings_is_the_one_that_is_opened(
    capfd: pytest.CaptureFixture[str], command: str, shown: str
) -> None:
    code = run(command.split())
    out, err = capfd.readouterr()
    assert (code, err) == (0, "")
    assert shown in out


def test_context_looks_into_the_ledger_of_the_settings(
    settled: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Journal(settled).close()
    assert run(["context"]) == 2
    assert "knows no requests of session 1" in capfd.readouterr().err


def test_a_directory_does_not_choose_the_ledger(
    settled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / ".sightline.toml").write_text('[ledger]\npath = "theirs.db"\n')
    monkeypatch.chdir(tmp_path)
    assert ask(capfd, "path") == (0, f"{settled}\n", "")


def test_the_environment_and_the_option_win_over_broken_settings(
    settled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine.toml").write_text("[ledger\n")
    code, out, err = ask(capfd, "path")
    assert (code, out) == (2, "")
    assert "mine.toml: not TOML" in err
    assert ask(capfd, "path", "--db", "other.db") == (0, "other.db\n", "")
    monkeypatch.setenv("SIGHTLINE_LEDGER", str(settled))
    assert ask(capfd, "path") == (0, f"{settled}\n", "")


@pytest.mark.usefixtures("db")
def test_verify_says_ok(capfd: pytest.CaptureFixture[str]) -> None:
    assert ask(capfd, "verify") == (0, "1 session, 2 groups, 8 messages, 0 memos: ok\n", "")
    code, out, _ = ask(capfd, "verify", "--json")
    assert code == 0
    assert json.loads(out)["findings"] == []


@pytest.mark.usefixtures("db")
def test_verify_since_passes_over_what_has_not_changed(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seals = tmp_path / "seals.json"
    since = ("verify", "--since", str(seals))
    assert ask(capfd, *since) == (0, "1 session, 2 groups, 8 messages, 0 memos: ok\n", "")
    assert ask(capfd, *since) == (0, "1 session, 0 groups, 0 messages, 0 memos: ok\n", "")
    seals.write_text("[]")
    code, out, err = ask(capfd, *since)
    assert (code, out) == (2, "")
    assert "no file of `ledger verify --since`" in err


def test_verify_of_a_damaged_ledger_lists_findings_and_exits_8(
    db: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tamper(db, "UPDATE messages SET content = 'forged' WHERE id = 3")
    code, out, err = ask(capfd, "verify")
    assert code == 8
    assert "DAMAGED\n  session 1: message 3 (seq 2) was altered" in out
    assert err.startswith("sightline: session 1: message 3")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("db")
def test_query_prints_one_object_a_row_and_hints_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code, out, err = ask(
        capfd, "query", "--rows", "1", "SELECT id, role FROM messages ORDER BY id DESC"
    )
    assert (code, json.loads(out)) == (0, {"id": 8, "role": "assistant"})
    assert err.startswith("[more rows; continue with")
    code, out, _ = ask(capfd, "query", "--session", "talk", "SELECT count(*) AS n FROM messages")
    assert json.loads(out) == {"n": 8}


@pytest.mark.usefixtures("db")
def test_query_reads_stdin(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS one"))
    assert ask(capfd, "query", "-") == (0, '{"one":1}\n', "")


def test_a_session_goes_out_to_a_file_and_comes_back(
    db: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "talk.jsonl"
    assert ask(capfd, "export", "talk", "-o", str(file))[0] == 0
    _, out, _ = ask(capfd, "export", "1")
    assert out.encode() == file.read_bytes()
    assert ask(capfd, "import", str(file), "--name", "copy") == (0, "2\n", "")
    with Ledger(db) as ledger:
        assert len(ledger.window(2)) == 8
    code, _, err = ask(capfd, "export", "talk", "-o", str(file))
    assert (code, err) == (2, f"sightline: {file}: File exists\n")


def test_backup_prints_where_it_is(
    capfd: pytest.CaptureFixture[str], db: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"
    assert ask(capfd, "backup", str(target)) == (0, f"{target}\n", "")
    code, _, err = ask(capfd, "backup", str(target))
    assert code == 2
    assert "never overwrites" in err
    assert ask(capfd, "verify", "--db", str(target))[0] == 0
    assert db.exists()


@pytest.mark.usefixtures("db")
def test_sessions_are_listed_renamed_cloned_and_deleted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert ask(capfd, "sessions", "rename", "talk", "chat")[0] == 0
    assert ask(capfd, "sessions", "clone", "chat", "--name", "twin")[0] == 0
    _, out, _ = ask(capfd, "sessions")
    assert [line.split()[6] for line in out.splitlines()[1:]] == ["twin:", "chat:"]
    assert ask(capfd, "sessions", "delete", "twin", "--yes")[0] == 0
    _, out, _ = ask(capfd, "sessions", "--json")
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["chat"]


def test_deleting_asks_first_and_takes_no_for_an_answer(
    db: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, out, err = ask(capfd, "sessions", "delete", "1")
    assert (code, out) == (130, "")
    assert "Delete this session for good?" in err
    with Ledger(db) as ledger:
        assert ledger.sessions.get(1).name == "talk"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["export", "nobody"], "no session 'nobody'"),
        (["query", "DROP TABLE messages"], "only a query"),
        (["query", "SELECT a FROM nowhere"], "no such table: nowhere"),
        (["query", "--session", "9", "SELECT 1"], "no session '9'"),
        (["verify", "--db", "missing.db"], "there is no ledger at missing.db"),
        (["verify", "--db", "~nobody-of-that-name/x.db"], "home directory is not known"),
        (["backup", "~nobody-of-that-name/x.db"], "home directory is not known"),
        (["sessions", "rename", "1", "a\nb"], "one line of printable text"),
        (["import", "missing.jsonl"], "No such file"),
        (["verify", "--loud"], "No such option"),
    ],
)
@pytest.mark.usefixtures("db")
def test_bad_input_is_one_line_on_stderr_and_exit_2(
    capfd: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    code, out, err = ask(capfd, *arguments)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("db")
def test_a_bad_import_names_the_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"kind":"session","format":1,"name":"n"}\nnonsense\n')
    code, _, err = ask(capfd, "import", str(tmp_path / "bad.jsonl"))
    assert code == 2
    assert "line 2: " in err


def test_what_a_shell_prints_of_a_conversation_has_no_control_characters(
    db: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Ledger(db) as ledger:
        ledger.append(1, [Message.of("user", "\x1b]0;title\x07 \u202e")], strategy="s")
    _, out, _ = ask(capfd, "query", "SELECT content FROM messages ORDER BY id DESC LIMIT 1")
    assert "\x1b" not in out
