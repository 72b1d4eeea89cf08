"""Turns to store, a clock to tell time by, and everything a ledger holds, as one value."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import address_of
from sightline.context.ledger.postgres.connect import connect
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.messages.parts import Draft, File, Message, Text, ToolCall, ToolResult


def file_of(ledger: Ledger) -> SqliteStore:
    """The engine below a ledger, to look at what no other engine has."""
    assert isinstance(ledger._store, SqliteStore)
    return ledger._store


class FakeClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **delta: float) -> None:
        self.moment += timedelta(**delta)


def turn(number: int, *, result: str = "listing", state: str = "", tokens: int = 0) -> list[Draft]:
    """One turn with a tool round: prompt, call, result, answer."""
    answer = f"answer {number}" + (f"\n\n### STATE\nGoal: {state}" if state else "")
    call = ToolCall(f"c{number}", "ls", {"path": f"/{number}"})
    messages = [
        Message.of("user", f"question {number}"),
        Message("assistant", (Text("looking"), call)),
        Message("tool", (ToolResult(f"c{number}", result, "ls"),)),
        Message.of("assistant", answer),
    ]
    return [Draft(message, tokens, "counted") for message in messages]


def file(seed: int, size: int = 5000) -> File:
    """A picture whose bytes are its own, and too many to stand in the message."""
    data = b64encode(random.Random(seed).randbytes(size)).decode()
    return File(f"data:image/png;base64,{data}", "image/png", f"{seed}.png", size, width=9)


def said(*seeds: int) -> Message:
    """A question with pictures."""
    return Message("user", (Text("look"), *map(file, seeds)))


def fill(ledger: Ledger, session_id: int, count: int, *, tokens: int = 0, first: int = 1) -> None:
    """Append `count` turns, each leaving a state with its number."""
    for number in range(first, first + count):
        drafts = turn(number, state=f"goal {number}", tokens=tokens)
        ledger.append(session_id, drafts, strategy="openai")


def prompts(ledger: Ledger, session_id: int, window: Any = None) -> list[str]:
    """The user's messages that a window shows."""
    shown = ledger.window(session_id, window)
    return [entry.message.text for entry in shown if entry.role == "user"]


def group_ids(ledger: Ledger, session_id: int) -> list[int]:
    return [group.id for group in ledger.groups.recent(session_id)]


def contents(
    where: str | Path, *, session_id: int | None = None
) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, or every row of one session."""
    with behind(where) as execute:
        dump = {}
        for table in TABLES:
            own = "id" if table == "sessions" else "session_id"
            if table == "ledger" and isinstance(where, str):
                continue  # which a database has not
            names = ", ".join(TABLES[table].names)
            if session_id is None:
                sql = f"SELECT {names} FROM {table} ORDER BY 1"
            elif table in ("ledger", "llm_memos", "calibrations"):
                continue
            else:
                sql = f"SELECT {names} FROM {table} WHERE {own} = {session_id:d} ORDER BY 1"
            dump[table] = execute(sql).fetchall()
        return dump


def tamper(where: str | Path, sql: str, values: tuple[Any, ...] = ()) -> None:
    """Change a ledger behind its back."""
    with behind(where) as execute:
        execute(sql, *([values] if values else []))


@contextmanager
def behind(where: str | Path) -> Iterator[Callable[..., Any]]:
    """Give what runs SQL on a ledger, past all that the ledger does."""
    if isinstance(where, str):
        address = address_of(where)
        with connect(address) as database, database.transaction():
            settings = "SELECT set_config('sightline.tenant', %s, true)"
            database.execute(settings, (address.tenant,))
            database.execute("SET LOCAL search_path = sightline")
            yield database.execute
        return
    connection = apsw.Connection(str(where))
    try:
        yield connection.execute
    finally:
        connection.close()
