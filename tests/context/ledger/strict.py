"""A second engine: it has what the interface names and nothing else, and notes who asks for what.

Below it is SQLite's, but a ledger cannot see that: no connection, no statement but a plain
SELECT, nothing after the end of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit
from sightline.context.ledger.rows import RowReader, RowWriter
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.store import Clock, Mode, Store, Watch, now_utc
from test_architecture import OWN_WORDS

READING = [name for name in vars(RowReader) if not name.startswith("_")]
CHANGING = [name for name in vars(RowWriter) if not name.startswith("_")]
STORE = sorted(Store.__abstractmethods__ - {"_change"})


class _Block:
    """What a block gives to its caller: the named methods, while it lasts."""

    def __init__(self, db: Any, names: list[str], used: set[str]) -> None:
        self._open = True
        for name in names:
            setattr(self, name, self._checked(name, getattr(db, name), used))

    def _checked(self, name: str, work: Callable[..., Any], used: set[str]) -> Callable[..., Any]:
        def checked(*args: Any, **named: Any) -> Any:
            assert self._open, f"{name} after the end of its block"
            if name in ("fetch", "rows", "scan", "fetch_each"):
                for sql, *values in args if name == "fetch_each" else [args]:
                    assert not OWN_WORDS.search(sql), sql
                    assert sql.count("?") == len(values[0] if values else ()), args
            used.add(name)
            return work(*args, **named)

        return checked

    def end(self) -> None:
        self._open = False


class StrictStore(Store):
    """Keeps a ledger by another engine, held to the interface. `used` is of all of them."""

    used: ClassVar[set[str]] = set()
    damage = SqliteStore.damage
    is_far = True

    def __init__(
        self,
        path: str | Path,
        *,
        mode: Mode = "write",
        clock: Clock = now_utc,
        below: Store | None = None,
    ) -> None:
        self._below = below or SqliteStore(path, mode=mode, clock=clock)
        super().__init__(self._below.path, mode=mode, clock=clock)

    @contextmanager
    def _block(self, db: Any, names: list[str]) -> Iterator[Any]:
        block = _Block(db, names, self.used)
        try:
            yield block
        finally:
            block.end()

    @contextmanager
    def _change(self, *, durable: bool) -> Iterator[RowWriter]:
        with self._below._change(durable=durable) as db, self._block(db, READING + CHANGING) as own:
            yield own

    @contextmanager
    def read(self) -> Iterator[RowReader]:
        self.used.add("read")
        with self._below.read() as db, self._block(db, READING) as own:
            yield own

    def reader(self) -> Self:
        self.used.add("reader")
        return type(self)(self.path, mode="read", clock=self._clock, below=self._below.reader())

    def close(self) -> None:
        self.used.add("close")
        self._below.close()

    def revision(self) -> int:
        self.used.add("revision")
        return self._below.revision()

    def scrub(self, *, shrink: bool = False) -> None:
        self.used.add("scrub")
        self._below.scrub(shrink=shrink)

    def check(self) -> list[str]:
        self.used.add("check")
        return self._below.check()

    def backup(
        self, target: Path, check: Callable[[Store], None], copying: Watch | None = None
    ) -> None:
        self.used.add("backup")
        self._below.backup(
            target, lambda copy: check(StrictStore("", below=copy, mode="read")), copying
        )

    def query(self, sql: str, session_id: int | None, limits: QueryLimits) -> QueryResult:
        self.used.add("query")
        return self._below.query(sql, session_id, limits)

    def find(self, session_id: int, text: str, limit: int, chars: int) -> QueryResult:
        self.used.add("find")
        return self._below.find(session_id, text, limit, chars)

    def search(self, text: str, session_id: int | None, limit: int) -> list[SearchHit]:
        self.used.add("search")
        return self._below.search(text, session_id, limit)

    def attend(self, name: str) -> Callable[[], None]:
        self.used.add("attend")
        return self._below.attend(name)

    def attends(self, name: str) -> bool:
        self.used.add("attends")
        return self._below.attends(name)

    def bury(self, name: str) -> None:
        self.used.add("bury")
        self._below.bury(name)
