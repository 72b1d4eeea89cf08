"""The wire journal: what was sent, in full.

    Journal("work.db")  keeps  work.wire.db  beside the ledger

The ledger keeps the conversation, in which no tail ever stands. This file keeps the rest
of what a request was: the prompt with its tail, the profile and the options it was
encoded with, the world it was made from, when it was sent and how the answer came. From
a recorded request the same bytes can be made again; their digest is in the ledger's receipt.

It is no part of the record, and nothing in it is needed to go on: it can be deleted at any
time, under a host that runs too, and what is missing then is the requests that were sent
before. It forgets its oldest requests beyond a limit, and whatever is wrong with it costs no
turn. Nothing in it but what was sent, in which keys are blanked already; the file is its
owner's alone.

*Cost.* A request is written as its difference from the one before it (`deltas`), so a turn
costs what is new in it. Every so often one is written whole: a chain of differences is
read from such a one on, and forgotten with it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import apsw
import msgspec

from sightline.agent.host.deltas import apply_messages, apply_world, message_delta, world_delta
from sightline.context.dialects import encode
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options, Request
from sightline.context.ledger.paths import journal_path
from sightline.context.ledger.rows import marks
from sightline.context.ledger.sqlite.admission import objects_in, strange_objects
from sightline.context.ledger.sqlite.rows import StepLimit, fetch
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.errors import InvalidInput, LedgerUnavailable, NotFound
from sightline.slop.protocol.world import World

Noted: TypeAlias = Literal["calls", "waits", "answers"]

BUSY_TIMEOUT_MS: Final = 10_000
CHAIN: Final = 64  # requests that are written as differences before one is written whole
_MIB: Final = 1024 * 1024
_UNUSED_PIECES: Final = (
    "DELETE FROM pieces WHERE digest NOT IN "
    "(SELECT tools FROM requests UNION SELECT profile FROM requests)"
)


class Retention(msgspec.Struct, frozen=True):
    """How much is kept; the oldest requests go first, a chain at a time."""

    requests: int = 5_000
    size: int = 256 * _MIB


class Sent(msgspec.Struct, frozen=True):
    """A request on its way. `data` is what the vendor gets."""

    session_id: int
    group_id: int
    turn: int
    number: int
    model: str
    sent_at: str
    prompt: Prompt
    profile: Profile
    options: Options
    world: World
    data: bytes
    receipt_id: int | None = None


class Ended(msgspec.Struct, frozen=True):
    """How a turn ended: as `TurnEnded` says, or `interrupted`.

    `after_ms` is when, since its last request was sent; None if nobody was there to see it.
    """

    outcome: str
    code: str = ""
    after_ms: int | None = None


class RequestLine(msgspec.Struct, frozen=True):
    """A recorded request as it is in lists.

    `outcome` is how it ended, empty while it is open. `timings` are milliseconds since it
    was sent; `calls` and `waits` in them are (name, took, began), without `began` in
    journals of before there was one. `answers` are (id of a call, what was decided on it).
    """

    id: int
    session_id: int
    group_id: int
    turn: int
    number: int
    receipt_id: int | None
    sent_at: str
    model: str
    digest: str
    bytes: int
    outcome: str
    timings: dict[str, Any]

    @property
    def ended(self) -> Ended | None:
        """How its turn ended, if this was the last request of it and its end is known."""
        found = self.timings.get("ended")
        return None if found is None else msgspec.convert(found, Ended)


class Recorded(msgspec.Struct, frozen=True):
    """Everything that a request was made of, and what else its receipt says of it (`about`)."""

    line: RequestLine
    prompt: Prompt
    profile: Profile
    options: Options
    world: World
    about: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes that were sent."""
        return self.line.digest

    def to_request(self) -> Request:
        """Encode the request again, from the prompt, profile and options that it was made of."""
        return encode(self.prompt, self.profile, self.options)


class _Base(msgspec.Struct, frozen=True):
    """A session's last request; the next is stored as a difference to it, one deeper in a chain."""

    row: int
    segment: int
    depth: int
    prompt: Prompt
    world: World


class Journal:
    """The journal of one ledger; safe to use from threads. Raises `LedgerUnavailable`."""

    def __init__(
        self, ledger_path: Path, *, retention: Retention | None = None, read_only: bool = False
    ) -> None:
        self.path = journal_path(ledger_path)
        self._retention = retention or Retention()
        self._lock = threading.RLock()
        self._bases: dict[int, _Base] = {}
        self._read_only = read_only
        with translated(self.path):
            self._open()

    def _open(self) -> None:
        self._connection = open_journal(self.path, read_only=self._read_only)
        self._file = self.path.stat().st_ino

    def _find_again(self) -> None:
        """Begin a new file if the one that is open was deleted."""
        with self._lock, translated(self.path):
            if self.is_gone:
                self._connection.close()
                self._bases.clear()
                self._open()

    @property
    def is_gone(self) -> bool:
        """Whether the file that is open here is no longer the one with its name."""
        try:
            return self.path.stat().st_ino != self._file
        except OSError:
            return True

    def close(self) -> None:
        """Close the file."""
        with self._lock, translated(self.path):
            self._connection.close()

    # Requests.

    def record(self, sent: Sent) -> int:
        """Write a request down, in a new file if the old one was deleted; return its number."""
        self._find_again()
        with self._writing() as db:
            base = self._base(db, sent.session_id)
            if base is None or base.depth >= CHAIN:
                self._forget_old(db)
                [(segment,)] = fetch(db, "SELECT coalesce(max(segment), 0) + 1 FROM requests")
                base = _Base(0, segment, -1, _NOTHING, World())
            pieces = [
                self._piece(db, msgspec.json.encode(sent.prompt.tools)),
                self._piece(db, msgspec.json.encode(sent.profile)),
            ]
            prompt = message_delta(base.prompt.messages, sent.prompt.messages)
            world = world_delta(base.world, sent.world)
            options = msgspec.json.encode(sent.options)
            receipt = sent.prompt.receipt.encode() if sent.receipt_id is None else None
            size = len(prompt) + len(world) + len(options) + len(receipt or b"")
            db.execute(
                "INSERT INTO requests (session_id, group_id, turn, number, receipt_id, segment, "
                "base, place, sent_at, model, digest, bytes, boundary, prompt, tools, profile, "
                "options, world, receipt, size, outcome, timings) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?)",
                (
                    sent.session_id, sent.group_id, sent.turn, sent.number, sent.receipt_id,
                    base.segment, base.row or None, base.depth + 1, sent.sent_at, sent.model,
                    sha256(sent.data).hexdigest(), len(sent.data), sent.prompt.boundary,
                    prompt, *pieces, options, world, receipt, size, b"{}",
                ),
            )  # fmt: skip
            row = db.last_insert_rowid()
        self._bases[sent.session_id] = _Base(
            row, base.segment, base.depth + 1, sent.prompt, sent.world
        )
        return row

    def finish(self, row: int, outcome: str, timings: dict[str, Any]) -> None:
        """Write down how a request ended."""

        def finished(_: str, known: dict[str, Any]) -> str:
            known.update(timings)
            return outcome

        self._amend(row, finished)

    def note(self, row: int, kind: Noted, *values: str | int) -> None:
        """Write down what happened behind a request.

        Of `calls` and `waits`: which or for what, how long it took and when it began; of
        `answers`: which call, and what was decided on it, in words.
        """

        def add(outcome: str, timings: dict[str, Any]) -> str:
            timings.setdefault(kind, []).append(values)
            return outcome

        self._amend(row, add)

    def end_turn(self, row: int, ended: Ended) -> None:
        """Write down with its last request how a turn ended; the first word on that stays."""

        def end(outcome: str, timings: dict[str, Any]) -> str:
            timings.setdefault("ended", msgspec.to_builtins(ended))
            return outcome or ended.outcome

        self._amend(row, end)

    def _amend(self, row: int, change: Callable[[str, dict[str, Any]], str]) -> None:
        """Change the timings of a request in place, and its outcome to what is returned."""
        with self._writing() as db:
            found = fetch(db, "SELECT outcome, timings FROM requests WHERE id = ?", (row,))
            for outcome, data in found:
                timings = msgspec.json.decode(data)
                new = change(outcome, timings)
                db.execute(
                    "UPDATE requests SET outcome = ?, timings = ? WHERE id = ?",
                    (new, msgspec.json.encode(timings), row),
                )

    def requests(self, session_id: int, turn: int | None = None) -> list[RequestLine]:
        """List the requests of a session, or of one turn, that are still known, in order."""
        where = "session_id = ?1 AND (?2 IS NULL OR turn = ?2) ORDER BY id"
        return self._lines(where, session_id, turn)

    def of_turns(self, session_id: int, turns: Sequence[int]) -> list[RequestLine]:
        """List the requests of some turns that are still known, in order."""
        where = f"session_id = ? AND turn IN ({marks(turns)}) ORDER BY id"
        return self._lines(where, session_id, *turns)

    def earlier(self, line: RequestLine, most: int) -> list[RequestLine]:
        """List the requests of a session that were sent before one, the nearest first."""
        # By row and not by session: the index would have them all read and sorted.
        where = "+session_id = ? AND id < ? ORDER BY id DESC LIMIT ?"
        return self._lines(where, line.session_id, line.id, most)

    def counts(self, session_id: int) -> dict[int, int]:
        """Count the requests of every turn of a session."""
        counted = "SELECT turn, max(number) FROM requests WHERE session_id = ? GROUP BY turn"
        return dict(self._select(counted, session_id))

    def made_with(self, rows: Sequence[int]) -> dict[int, tuple[Profile, Options]]:
        """Read the profiles and the options that some requests were encoded with, by row id."""
        found = self._select(
            "SELECT id, (SELECT data FROM pieces WHERE digest = profile), options FROM requests "
            f"WHERE id IN ({marks(rows)})",
            *rows,
        )
        profiles = {data: _profiles.decode(data) for data in {profile for _, profile, _ in found}}
        return {row: (profiles[data], _options.decode(options)) for row, data, options in found}

    def before(self, line: RequestLine) -> tuple[int, int] | None:
        """Find the request that was sent to the same model before this one: turn and number."""
        rows = self._select(
            "SELECT turn, number FROM requests WHERE session_id = ? AND model = ? AND id < ? "
            "ORDER BY id DESC LIMIT 1",
            line.session_id, line.model, line.id,
        )  # fmt: skip
        return rows[0] if rows else None

    def row(self, session_id: int, turn: int, number: int = 1) -> int:
        """Return the row id of a turn's request, of its latest sending. Raises `NotFound`."""
        latest = "SELECT max(id) FROM requests WHERE session_id = ? AND turn = ? AND number = ?"
        [(row,)] = self._select(latest, session_id, turn, number)
        if row is None:
            raise NotFound(
                f"session {session_id}, turn {turn}, request {number} is not in {self.path}"
            )
        return int(row)

    def request(self, session_id: int, turn: int, number: int = 1) -> Recorded:
        """Read a turn's request whole, by its latest sending. Raises `NotFound`."""
        with self._lock, translated(self.path):
            return self._read(self._connection, self.row(session_id, turn, number))

    def recorded(self, row: int) -> Recorded:
        """Read a request whole by its row id. Raises `NotFound`."""
        with self._lock, translated(self.path):
            if not self._select("SELECT id FROM requests WHERE id = ?", row):
                raise NotFound(f"request {row} is not in {self.path}")
            return self._read(self._connection, row)

    def weight(self, session_ids: Sequence[int]) -> tuple[int, int]:
        """Count the requests of sessions and the bytes that are kept of them."""
        [(requests, size)] = self._select(
            "SELECT count(*), coalesce(sum(size), 0) FROM requests "
            f"WHERE session_id IN ({marks(session_ids)})",
            *session_ids,
        )
        return requests, size

    # Tails that a gateway put into requests of others: `gateway.tail`.

    def keep_tail(self, session: str, sent_at: str, data: bytes) -> None:
        """Keep what was put into a request of a session, by its name; the oldest are forgotten."""
        self._find_again()
        with self._writing() as db:
            row = (session, sent_at, data)
            db.execute("INSERT INTO tails (session, sent_at, data) VALUES (?, ?, ?)", row)
            oldest = db.last_insert_rowid() - self._retention.requests
            db.execute("DELETE FROM tails WHERE id <= ?", (oldest,))

    def tails(self, session: str) -> list[bytes]:
        """Read what was put into requests of a session, in order."""
        wanted = "SELECT data FROM tails WHERE session = ? ORDER BY id"
        return [data for (data,) in self._select(wanted, session)]

    def forget(self, session_ids: Sequence[int], names: Sequence[str] = ()) -> None:
        """Drop the requests of sessions, and leave nothing of anything dropped in the file.

        `names` are those of sessions of a gateway, whose tails go with them.
        """
        with self._writing() as db:
            db.execute(f"DELETE FROM tails WHERE session IN ({marks(names)})", names)
            db.execute(
                f"DELETE FROM requests WHERE session_id IN ({marks(session_ids)})", session_ids
            )
            db.execute(_UNUSED_PIECES)
        with self._lock, translated(self.path):
            self._connection.execute("VACUUM")
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def revision(self) -> int:
        """Return a number that is another one whenever another program has written here."""
        [(revision,)] = self._select("PRAGMA data_version")
        return int(revision)

    def latest(self, session_id: int) -> Recorded | None:
        """Read the request that was sent last in a session, if it is known."""
        with self._lock, translated(self.path):
            [(row,)] = self._select(_LATEST, session_id)
            return None if row is None else self._read(self._connection, row)

    def _lines(self, where: str, *values: object) -> list[RequestLine]:
        rows = self._select(f"SELECT {_LINE} FROM requests WHERE {where}", *values)
        return [_line(row) for row in rows]

    def _select(self, sql: str, *values: Any) -> list[Any]:
        """Read rows. What SQL returns has no better type."""
        with self._lock, translated(self.path):
            return fetch(self._connection, sql, values)

    def _base(self, db: apsw.Connection, session_id: int) -> _Base | None:
        """The last request of the session, unless somebody has forgotten it meanwhile."""
        [(row,)] = fetch(db, _LATEST, (session_id,))
        if row is None:
            return None
        known = self._bases.get(session_id)
        if known is not None and known.row == row:
            return known
        try:
            recorded = self._read(db, row)
        except (msgspec.DecodeError, InvalidInput):
            return None  # what cannot be read is nothing to build on
        segment, depth = fetch(db, "SELECT segment, place FROM requests WHERE id = ?", (row,))[0]
        return _Base(row, segment, depth, recorded.prompt, recorded.world)

    def _read(self, db: apsw.Connection, row: int) -> Recorded:
        chain: list[tuple[bytes, ...]] = []
        link: int | None = row
        while link is not None:
            wanted = "SELECT base, prompt, world FROM requests WHERE id = ?"
            [(link, *deltas)] = fetch(db, wanted, (link,))
            chain.append(tuple(deltas))
        messages: tuple[Any, ...] = ()
        world = World()
        for prompt_delta, delta in reversed(chain):
            messages = apply_messages(messages, prompt_delta)
            world = apply_world(world, delta)
        line = _line(fetch(db, f"SELECT {_LINE} FROM requests WHERE id = ?", (row,))[0])
        boundary, tools, profile, options, receipt = fetch(
            db,
            "SELECT boundary, (SELECT data FROM pieces WHERE digest = tools), "
            "(SELECT data FROM pieces WHERE digest = profile), options, receipt "
            "FROM requests WHERE id = ?",
            (row,),
        )[0]
        prompt = Prompt(
            messages,
            boundary,
            _NO_RECEIPT if receipt is None else Receipt.decode(receipt),
            tuple(msgspec.json.decode(tools, type=list[dict[str, Any]])),
        )
        return Recorded(line, prompt, _profiles.decode(profile), _options.decode(options), world)

    @staticmethod
    def _piece(db: apsw.Connection, data: bytes) -> bytes:
        digest = sha256(data).digest()
        db.execute("INSERT OR IGNORE INTO pieces VALUES (?, ?)", (digest, data))
        return digest

    def _forget_old(self, db: apsw.Connection) -> None:
        """Drop the oldest chains until the rest is within its limits."""
        rows = fetch(
            db,
            "SELECT segment, count(*), sum(size) FROM requests GROUP BY segment "
            "ORDER BY segment DESC",
        )
        kept = size = 0
        for segment, requests, weight in rows:
            kept, size = kept + requests, size + weight
            if kept > self._retention.requests or size > self._retention.size:
                db.execute("DELETE FROM requests WHERE segment <= ?", (segment,))
                db.execute(_UNUSED_PIECES)
                db.execute("PRAGMA incremental_vacuum")
                return

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._lock, translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


_NO_RECEIPT: Final = Receipt(0, "", "estimated", 0, 0, 0, 0, 0, "", ())
_NOTHING: Final = Prompt((), 0, _NO_RECEIPT)
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_profiles: Final = msgspec.json.Decoder(Profile)
_options: Final = msgspec.json.Decoder(Options)
_LINE: Final = ", ".join(RequestLine.__struct_fields__)
_LATEST: Final = "SELECT max(id) FROM requests WHERE session_id = ?"


def _line(row: Sequence[Any]) -> RequestLine:
    return RequestLine(*(*row[:-1], msgspec.json.decode(row[-1])))


# The file: opened for its owner alone, begun anew if it is no good.

APPLICATION_ID: Final = int.from_bytes(b"SLGW", "big")
FORMAT: Final = 2

_SCHEMA: Final = """
CREATE TABLE requests (
    id INTEGER PRIMARY KEY, session_id INTEGER, group_id INTEGER, turn INTEGER, number INTEGER,
    receipt_id INTEGER, segment INTEGER, base INTEGER, place INTEGER, sent_at TEXT, model TEXT,
    digest TEXT, bytes INTEGER, boundary INTEGER, prompt BLOB, tools BLOB, profile BLOB,
    options BLOB, world BLOB, receipt BLOB, size INTEGER, outcome TEXT, timings BLOB);
CREATE INDEX requests_by_place ON requests (session_id, turn, number);
CREATE INDEX requests_by_segment ON requests (segment);
CREATE TABLE pieces (digest BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID;
"""
# Beside the requests, in files of before there were any too: nobody else looks for them.
_TAILS: Final = """
CREATE TABLE IF NOT EXISTS tails (
    id INTEGER PRIMARY KEY, session TEXT, sent_at TEXT, data BLOB);
CREATE INDEX IF NOT EXISTS tails_by_session ON tails (session);
"""
# Format 1 held what is in the ledger since its format 5 (`ledger.sqlite.steps` takes it over).
_WITHOUT_WORK: Final = """
DROP TABLE partials;
DROP TABLE calls;
DROP TABLE owners;
DROP TABLE strategy_states;
DROP TABLE notes;
"""


def open_journal(path: Path, *, read_only: bool) -> apsw.Connection:
    """Open the file; one that is damaged or of another format is begun anew."""
    if read_only:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.absolute().as_uri()}?mode=ro", flags=flags)
        # SQLite, WAL: who opens the file first or closes it last has it alone for a moment.
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        return _checked(connection)
    try:
        return _configured(path)
    except (*_STRANGE, OtherFormatError):
        path.unlink(missing_ok=True)
        return _configured(path)


# Errors of SQLite for a schema that is not a journal's. InterruptError: it has too many objects.
_STRANGE: Final = (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, apsw.InterruptError)


class OtherFormatError(Exception):
    """The file is not a journal of this format, or has more than a journal."""


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise whatever goes wrong with the file as one error, in one sentence."""
    try:
        yield
    except (apsw.Error, OSError, msgspec.DecodeError, OtherFormatError) as error:
        raise LedgerUnavailable(f"{path}: {error}") from error


def _configured(path: Path) -> apsw.Connection:
    if not path.exists():
        # A ledger in a database has no directory here that somebody would have made.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The log of a file that was deleted is no log of the one that is made now.
        for end in ("-wal", "-shm"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        StepLimit(connection)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # Survives the death of the program; the power may take the last second of it.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        _found(connection)
        _checked(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _checked(connection: apsw.Connection) -> apsw.Connection:
    """Return the connection. Raises OtherFormatError for a schema that is not a journal's."""
    limit = StepLimit(connection)
    with contextlib.closing(apsw.Connection(":memory:")) as reference:
        reference.execute(_SCHEMA + _TAILS)
        if strange := strange_objects(connection, objects_in(reference)):
            connection.close()
            raise OtherFormatError(next(iter(strange)).replace("ledger", "wire file"))
    limit.remove(connection)
    return connection


def _found(connection: apsw.Connection) -> None:
    """Make the tables of a new file; raise if there are others."""
    [(version,)] = fetch(connection, "PRAGMA user_version")
    [(tables,)] = fetch(connection, "SELECT count(*) FROM sqlite_schema")
    if version == FORMAT:
        connection.execute(_TAILS)
        return
    if version == 1:
        connection.execute(_WITHOUT_WORK)
    elif version or tables:
        raise OtherFormatError
    else:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(_SCHEMA)
    connection.execute(_TAILS)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
