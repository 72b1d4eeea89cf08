"""What is forgotten is gone from every file that we keep, and everything else is as it was."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory

from agent.host.helpers import hosted, turn
from context.ledger.helpers import FakeClock, fill
from sightline.agent.host.journal import Journal
from sightline.agent.models.scripted import Reply
from sightline.agent.workspace.changes import FileChange
from sightline.agent.workspace.checkpoints import Checkpoints
from sightline.cli.history import history_path
from sightline.cli.main import run
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import checkpoints_path
from sightline.context.ledger.work import Owner
from sightline.context.messages.parts import Message, ToolCall

SECRET = "xylotomous"  # a word that stands nowhere else


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds everything that is kept."""
    for kind in ("DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("SIGHTLINE_LEDGER", str(tmp_path / "work.db"))
    history_path().parent.mkdir(parents=True)
    return tmp_path


async def talk(directory: Path, word: str) -> None:
    """Leave a word wherever a session leaves anything."""
    note = ToolCall("c1", "manage_scratchpad", {"action": "append", "content": f"{word} note"})
    look = ToolCall("c2", "query_db", {"sql": f"SELECT '{word}'"})
    script = [
        Reply(text=f"The {word} beetle.", reasoning=f"{word}?", calls=(note, look)),
        f"It is {word}.\n\n### STATE\nGoal: {word}\n", "Taken back.",
    ]  # fmt: skip
    async with hosted(directory, script) as (host, _):
        typed = FileHistory(str(history_path()))
        for text in (f"what is {word}?", f"and @{word}.txt?"):
            typed.store_string(text)
            await turn(host, text if "@" not in text else f"{text}\n\nits content")
        host.ledger.groups.undo(host.session.id)
        host.ledger.search(word)
        host.ledger.sessions.set_title(host.session.id, f"on {word}")
        change = FileChange((f"{word}.txt",), b"before", f"now {word}".encode())
        Checkpoints(checkpoints_path(), host.session.uuid).keep(1, directory, [change])
        child = host.ledger.sessions.create(f"{word} child", parent=host.session.uuid)
        fill(host.ledger, child.id, 1)


def where(word: str, directory: Path) -> set[str]:
    """The kinds of files that have a word in them."""
    found = [path for path in directory.rglob("*") if path.is_file()]
    kinds = {path.name.split(".", 1)[-1] for path in found if word.encode() in path.read_bytes()}
    return kinds | {"name" for path in found if word in path.name}


async def test_nothing_of_a_forgotten_session_is_left_anywhere(
    kept: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await talk(kept, SECRET)
    await talk(kept, "sylvan")
    kinds = where(SECRET, kept)
    assert {"history", "jsonl"} < kinds
    assert {kind.split("-")[0] for kind in kinds} > {"db", "wire.db"}

    assert run(["ledger", "sessions", "delete", "1", "--yes"]) == 0
    assert capfd.readouterr().out.startswith(
        "deleted session 1: 9 messages, 1 session that it began, 3 requests in full, "
        "2 files of checkpoints, 2 lines of input history; about "
    )
    assert where(SECRET, kept) == set()
    assert run(["ledger", "verify"]) == 0
    with Ledger(kept / "work.db") as ledger:
        assert [session.id for session in ledger.sessions.recent()] == [4, 3]
        assert len(ledger.search("sylvan")) == 4
    journal = Journal(kept / "work.db", read_only=True)
    assert b"sylvan" in journal.request(3, 1, 2).to_request().data
    journal.close()
    assert "what is sylvan?" in history_path().read_text()
    assert len(list(checkpoints_path().iterdir())) == 1


def aged(directory: Path, *, days: int, turns: int = 1) -> int:
    """Leave a session that nobody has used for so long."""
    clock = FakeClock()
    clock.moment = datetime.now(UTC) - timedelta(days=days)
    with Ledger(directory / "work.db", clock=clock) as ledger:
        session = ledger.sessions.create()
        fill(ledger, session.id, turns)
        ledger.append(session.id, [Message.of("user", "x" * 50_000)])
    return session.id


def left(directory: Path) -> list[int]:
    with Ledger(directory / "work.db", mode="read") as ledger:
        assert ledger.verify().ok
        return sorted(session.id for session in ledger.sessions.recent())


def test_old_sessions_go_with_what_they_began_and_new_ones_stay(
    kept: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (90, 31, 29):
        aged(kept, days=days)
    with Ledger(kept / "work.db") as ledger:
        old, _, new = reversed(ledger.sessions.recent())
        ledger.sessions.create("of old", parent=old.uuid)
    aged_child = aged(kept, days=90)
    with Ledger(kept / "work.db") as ledger, ledger._store.write() as tx:
        tx.session(aged_child)["parent"] = new.uuid

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run(["ledger", "prune", "--older-than", "30d"]) == 130
    err = capfd.readouterr().err
    assert "session 1: 5 messages, 1 session that it began" in err
    assert "Forget 2 sessions for good?" in err
    assert err.splitlines()[0].endswith("; question 1")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["ledger", "prune", "--older-than", "30d"]) == 7
    assert "nobody can be asked here; --yes agrees" in capfd.readouterr().err
    assert left(kept) == [1, 2, 3, 4, 5]
    assert run(["ledger", "prune", "--older-than", "30d", "--yes"]) == 0
    assert capfd.readouterr().out.splitlines()[2].startswith("forgot 2 sessions; ")
    assert left(kept) == [3, 5]
    assert run(["ledger", "prune", "--older-than", "30d", "--yes"]) == 0
    assert capfd.readouterr().out == "nothing to forget\n"


def test_the_oldest_go_until_the_rest_fits_and_the_room_is_given_back(
    kept: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for days in (4, 3, 2, 1):
        aged(kept, days=days, turns=3)
    size = (kept / "work.db").stat().st_size
    limit = size - 75_000
    assert run(["ledger", "prune", "--max-size", f"{limit / 1000}kB", "--yes"]) == 0
    assert left(kept) == [3, 4]
    assert (kept / "work.db").stat().st_size <= limit
    out = capfd.readouterr().out
    assert "forgot 2 sessions; " in out
    assert out.count("; about 50.") == 2


def test_a_session_in_use_stays(kept: Path, capfd: pytest.CaptureFixture[str]) -> None:
    aged(kept, days=90)
    with Ledger(kept / "work.db") as ledger:
        owner = Owner(ledger.work)
        owner.claim(1)
        assert run(["ledger", "prune", "--older-than", "30d", "--yes"]) == 0
        assert run(["ledger", "sessions", "delete", "1", "--yes"]) == 4
        assert "in use by another program" in capfd.readouterr().err
        owner.close()
    assert left(kept) == [1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "say what is to go"),
        (["--older-than", "soon"], "no age"),
        (["--max-size", "much"], "no size"),
        (["--older-than", "999999w"], "before all time"),
    ],
)
@pytest.mark.usefixtures("kept")
def test_what_is_no_limit_is_refused(
    capfd: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert run(["ledger", "prune", *arguments]) == 2
    assert reason in capfd.readouterr().err


@pytest.mark.parametrize("words", [["prune", "--older-than", "30d"], ["sessions", "delete", "1"]])
def test_a_ledger_that_is_not_there_is_told_and_not_made(kept: Path, words: list[str]) -> None:
    assert run(["ledger", *words]) == 2
    assert not (kept / "work.db").exists()
