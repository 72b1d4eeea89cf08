"""What another agent and its vendor said to each other: requests as what is new in them, replies.

A conversation is sent again with every request. So a request is kept as passages of an earlier
one and what stands between them, packed against that one too: a mark that moved on costs some
bytes. Every so often one is kept whole. Another agent's words, as they were sent, with keys
blanked; under no seal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.ledger.rows import Row, RowReader, with_json
from sightline.context.ledger.store import Noun, Store, Transaction
from sightline.context.ledger.usage import StoredUsage, add_usage
from sightline.context.messages.gate import Gate
from sightline.errors import NotFound

CHAIN: Final = 64  # requests that are kept as what is new in them before one is kept whole
LEAST: Final = 24  # a passage that is shorter is not looked for
KEPT: Final = 8  # requests that are kept at hand, for those that go on from them
# RFC 1950 and RFC 1951: a dictionary is of use within a window of 32 KiB.
WINDOW: Final = 32_768


class NewExchange(msgspec.Struct, frozen=True):
    """A request and its reply, to be kept. `like` is the earlier exchange that it goes on from.

    One that is not in the session, or not any more, is not built on. With `sent_at` it was sent
    then, by somebody else's account: what it cost is not counted as spent here and now.
    """

    api: str
    model: str
    pieces: tuple[bytes, ...]
    reply: dict[str, Any]
    about: dict[str, Any]
    like: int | None = None
    usage: StoredUsage | None = None
    sent_at: str = ""


class Exchange(msgspec.Struct, frozen=True):
    """An exchange as it is in lists. `about` is what was found out about it."""

    id: int
    session_id: int
    sent_at: str
    api: str
    model: str
    bytes: int
    usage_id: int | None
    about: dict[str, Any]


class Exchanges(Noun):
    """The exchanges of a ledger's sessions."""

    def __init__(self, store: Store, gate: Gate) -> None:
        super().__init__(store, gate)
        self._known: dict[int, tuple[bytes, int]] = {}

    def add(self, session_id: int, new: NewExchange) -> int:
        """Keep an exchange, and what it used; return its id. Durable when this returns."""
        with self._store.write() as tx:
            number, body, depth = self._add(tx, tx.session(session_id), new)
        self._remember(number, body, depth)
        return number

    def add_all(self, session_id: int, new: Iterable[NewExchange]) -> None:
        """Keep exchanges, all or none."""
        with self._store.write() as tx:
            session = tx.session(session_id)
            for one in new:
                self._add(tx, session, one)

    def _add(self, tx: Transaction, session: Row, new: NewExchange) -> tuple[int, bytes, int]:
        usage_id = None
        if new.usage is not None:
            elsewhere = bool(new.sent_at)
            usage_id = add_usage(tx, self._gate, session, new.usage, None, inherited=elsewhere)
        base, depth = b"", CHAIN
        here = "SELECT 1 FROM exchanges WHERE id = ? AND session_id = ?"
        if new.like is not None and tx.db.fetch(here, (new.like, session["id"])):
            base, depth = self._body(tx.db, new.like)
        if depth >= CHAIN:
            base, depth = b"", -1
        body, data = _packed(base, new.pieces, self._gate)
        number = tx.db.next_id("exchanges")
        tx.db.insert(
            "exchanges",
            {
                "id": number,
                "session_id": session["id"],
                "created_at": new.sent_at or tx.now,
                "api": self._gate.line(new.api, "an API's name"),
                "model": self._gate.line(new.model or "unknown", "a model's name"),
                "bytes": len(body),
                "base": new.like if depth >= 0 else None,
                "depth": depth + 1,
                "request": data,
                "usage_id": usage_id,
                "reply": zlib.compress(self._gate.json_text(msgspec.json.encode(new.reply))),
                "about": self._gate.json_text(msgspec.json.encode(new.about)).decode(),
            },
        )
        return number, body, depth + 1

    def _body(self, db: RowReader, number: int) -> tuple[bytes, int]:
        """Read a request, and how many earlier ones that takes."""
        links: list[bytes] = []
        at: int | None = number
        body, depth = b"", -1
        while at is not None:
            if at in self._known:
                body, depth = self._known[at]
                break
            rows = db.fetch("SELECT base, request FROM exchanges WHERE id = ?", (at,))
            if not rows:
                raise NotFound(f"no exchange {at}")
            at, data = rows[0]
            links.append(data)
        for data in reversed(links):
            body, depth = _unpacked(body, data), depth + 1
        self._remember(number, body, depth)
        return body, depth

    def _remember(self, number: int, body: bytes, depth: int) -> None:
        self._known[number] = body, depth
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)), None)

    def list(self, session_id: int) -> list[Exchange]:
        """List the exchanges of a session, in order."""
        rows = self._fetch_of(
            "SELECT id, session_id, created_at, api, model, bytes, usage_id, about "
            "FROM exchanges WHERE session_id = ? ORDER BY id",
            session_id,
        )
        return [Exchange(*with_json(row, -1)) for row in rows]

    def sources(self) -> set[str]:
        """Name the sources of all exchanges that were taken from transcripts."""
        with self._store.read() as db:
            rows = db.scan("SELECT about FROM exchanges WHERE bytes = 0")
            found = {_abouts.decode(about).source for (about,) in rows}
        return found - {""}

    def count(self, session_id: int) -> int:
        """Count the exchanges of a session."""
        sql = "SELECT count(*) FROM exchanges WHERE session_id = ?"
        return int(self._fetch(sql, session_id)[0][0])

    def request(self, number: int) -> bytes:
        """Read a request's body as it was sent, keys blanked. Raises `NotFound`."""
        with self._store.read() as db:
            return self._body(db, number)[0]

    def reply(self, number: int) -> dict[str, Any]:
        """Read what was answered. Raises `NotFound`."""
        rows = self._fetch("SELECT reply FROM exchanges WHERE id = ?", number)
        if not rows:
            raise NotFound(f"no exchange {number}")
        return msgspec.json.decode(zlib.decompress(rows[0][0]), type=dict[str, Any])


class _Source(msgspec.Struct):
    """The one field that `sources` reads of what was found out; decoding skips the others."""

    source: str = ""


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_abouts: Final = msgspec.json.Decoder(_Source)


Passage: TypeAlias = tuple[int, int] | bytes  # where it stands in the base and how long; or new
_passages: Final = msgspec.msgpack.Decoder(list[tuple[int, int] | bytes])


def _packed(base: bytes, pieces: Sequence[bytes], gate: Gate) -> tuple[bytes, bytes]:
    """Return a body with keys blanked, and the same as passages of the base and what is new."""
    passages: list[Passage] = []
    body: list[bytes] = []
    at = 0
    for piece in pieces:
        found = _found(base, piece, at)
        if found < 0:
            new = gate.json_text(piece)
            passages.append(new)
            body.append(new)
            continue
        last = passages[-1] if passages else b""
        if isinstance(last, tuple) and sum(last) == found:
            passages[-1] = (last[0], last[1] + len(piece))
        else:
            passages.append((found, len(piece)))
        body.append(piece)
        at = found + len(piece)
    near = _near(passages)
    window = _window(base, near)
    packer = zlib.compressobj(zdict=window) if window else zlib.compressobj()
    data = msgspec.msgpack.encode(passages)
    return b"".join(body), near.to_bytes(8, "big") + packer.compress(data) + packer.flush()


def _found(base: bytes, piece: bytes, at: int) -> int:
    """Find a piece in the base, first where the last one ended."""
    if base.startswith(piece, at):
        return at
    return base.find(piece) if len(piece) >= LEAST else -1


def _near(passages: Sequence[Passage]) -> int:
    """Tell where in the base the first new passage would stand: it is packed against that."""
    at = 0
    for passage in passages:
        if isinstance(passage, bytes):
            break
        at = sum(passage)
    return at


def _window(base: bytes, near: int) -> bytes:
    start = max(0, near - WINDOW // 4)
    return base[start : start + WINDOW]


def _unpacked(base: bytes, data: bytes) -> bytes:
    window = _window(base, int.from_bytes(data[:8], "big"))
    opener = zlib.decompressobj(zdict=window) if window else zlib.decompressobj()
    passages = _passages.decode(opener.decompress(data[8:]) + opener.flush())
    return b"".join(
        passage if isinstance(passage, bytes) else base[passage[0] : passage[0] + passage[1]]
        for passage in passages
    )
