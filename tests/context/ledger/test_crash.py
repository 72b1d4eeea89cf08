"""Killed processes and crowds of them: all that was acknowledged is there, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from context.ledger.helpers import turn
from sightline.context.ledger import Ledger

HERE = Path(__file__).parent
KILLS = int(os.environ.get("SIGHTLINE_TEST_KILLS", "100"))
PROCESSES = 8
APPENDS = 100


def test_no_kill_loses_what_was_acknowledged(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, HERE / "kill_batch.py", tmp_path / "l.db", str(KILLS), "7"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["kills"] == KILLS
    assert summary["messages"] > KILLS
    assert summary["lost"] == 0
    assert summary["gapless"]
    assert summary["clean"]
    # A kill between commit and acknowledgement may leave one message more each time.
    assert summary["unacknowledged"] <= KILLS


def test_eight_processes_append_to_one_file_without_losing_or_waiting_in_vain(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.db"
    with Ledger(path) as ledger:
        session = ledger.sessions.create("crowd")
    arguments = [sys.executable, str(HERE / "append_many.py"), str(path), str(session.id)]
    crowd = [
        subprocess.Popen(
            [*arguments, f"p{number}", str(APPENDS)], stderr=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    complaints = [process.communicate()[1] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * PROCESSES, complaints

    heard: dict[str, list[int]] = defaultdict(list)
    with Ledger(path) as ledger:
        entries = list(ledger.messages(session.id))
        assert ledger.verify().ok
    for entry in entries:
        name, number = entry.message.text.split()
        heard[name].append(int(number))
    assert [entry.seq for entry in entries] == list(range(PROCESSES * APPENDS))
    assert dict(heard) == {f"p{n}": list(range(APPENDS)) for n in range(PROCESSES)}


def test_processes_that_make_the_same_ledger_at_once_make_one(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    code = "import sys; from sightline.context.ledger import Ledger; Ledger(sys.argv[1]).close()"
    crowd = [
        subprocess.Popen([sys.executable, "-c", code, path], stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    complaints = [process.communicate()[1] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 6, complaints
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        sessions = [ledger.sessions.create(f"t{number}").id for number in range(4)]

        def talk(session_id: int) -> list[str]:
            shown: list[str] = []
            for number in range(25):
                ledger.append(session_id, turn(number), strategy="s")
                shown = [e.message.text for e in ledger.window(session_id) if e.role == "user"]
                assert shown == [f"question {n}" for n in range(number + 1)]
            return shown

        with ThreadPoolExecutor(4) as threads:
            assert all(len(shown) == 25 for shown in threads.map(talk, sessions))
        assert ledger.verify().ok
