"""Forget sessions everywhere: what is kept of them is found, told, and then gone for good.

    input history · file checkpoints · wire file · ledger

In this order: who was interrupted finds in the ledger what is left to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from sightline.agent.host.journal import Journal
from sightline.agent.workspace.checkpoints import Checkpoints
from sightline.cli.commands.console import cut
from sightline.cli.history import forget_typed_lines, typed_lines
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.paths import checkpoints_path, journal_path
from sightline.context.ledger.store import Watch, written
from sightline.context.ledger.work import hold_on
from sightline.errors import InvalidInput, LedgerUnavailable, SessionBusy

_AGE: Final = re.compile(r"(\d{1,6}) ?(h|d|w)")
_AGES: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SIZE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?(k|M|G)B?")
_EMPTY: Final = 185_000  # what a ledger and a wire file take with nothing in them
_ABOUT_CHARS: Final = 60
_SIZES: Final = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


class Traces(msgspec.Struct, frozen=True):
    """What is kept of a session and of those that it began, which go with it.

    `bytes` is about what they take: words, requests, files. `copies` are clones, which stay.
    """

    sessions: tuple[Session, ...]
    words: tuple[str, ...]
    messages: int
    requests: int
    files: int
    typed: int
    bytes: int
    copies: tuple[int, ...]

    def __str__(self) -> str:
        first, *others = self.sessions
        counts = [
            _many(self.messages, "message", "messages"),
            _many(len(others), "session that it began", "sessions that it began"),
            _many(self.requests, "request in full", "requests in full"),
            _many(self.files, "file of checkpoints", "files of checkpoints"),
            _many(self.typed, "line of input history", "lines of input history"),
        ]
        kept = f"; its clones stay: {', '.join(map(str, self.copies))}" if self.copies else ""
        held = ", ".join(filter(None, counts)) or "nothing was said in it"
        number = f"session {first.id}"
        head = number if first.name == number else f"{number}, {first.name}"
        return f"{head}: {held}; about {bytes_of(self.bytes)}{kept}"

    @property
    def described(self) -> str:
        """The same for somebody who decides, with what it is about."""
        about = self.sessions[0].title or " ".join(next(iter(self.words), "").split())
        return f"{self}; {cut(about, _ABOUT_CHARS)}" if about else str(self)


def traces_of(ledger: Ledger, session: Session) -> Traces:
    """Find everything that is kept of a session."""
    family = ledger.sessions.family(session.id)
    entries = [entry for one in family for entry in ledger.messages(one.id, whole=False)]
    words = [entry.message.text for entry in entries if entry.role == "user"]
    words += [text for one in family for text in ledger.groups.undone_prompts(one.id)]
    requests = wired = 0
    if journal_path(ledger.path).exists():
        with closing(Journal(ledger.path, read_only=True)) as journal:
            requests, wired = journal.weight([one.id for one in family])
    kept = [_checkpoints(one).weight() for one in family]
    size = sum(ledger.sessions.weight(one.id) for one in family)
    return Traces(
        sessions=tuple(family),
        words=tuple(words),
        messages=len(entries),
        requests=requests,
        files=sum(files for files, _ in kept),
        typed=typed_lines(words),
        bytes=size + wired + sum(weight for _, weight in kept),
        copies=tuple(one.id for one in ledger.sessions.recent() if one.cloned_from == session.uuid),
    )


def forget(ledger: Ledger, found: Iterable[Traces], watch: Watch | None = None) -> None:
    """Leave nothing of sessions; tell `watch` of each. Raises `SessionBusy` while one is in use."""
    found = list(found)
    sessions = [session for traces in found for session in traces.sessions]
    for session in sessions:
        if hold_on(ledger.work, session.id) == "alive":
            raise SessionBusy(f"session {session.id} is in use by another program")
    try:
        forget_typed_lines({text for traces in found for text in traces.words})
        for session in sessions:
            _checkpoints(session).forget()
    except OSError as error:
        raise LedgerUnavailable(f"cannot forget {error.filename}: {error.strerror}") from error
    if journal_path(ledger.path).exists():
        with closing(Journal(ledger.path)) as journal:
            journal.forget([one.id for one in sessions], [one.name for one in sessions])
    for number, session in enumerate(reversed(sessions), 1):
        ledger.sessions.delete(session.id, confirm=session.uuid)
        if watch is not None:
            watch(number, len(sessions))


def chosen_to_prune(ledger: Ledger, before: str | None, max_bytes: int | None) -> Iterator[Traces]:
    """Yield sessions to forget: those not used since a moment, then the oldest, for the room.

    What a session began goes with it and not before it. One that is in use is passed over.
    """
    everything = ledger.sessions.recent()
    known = {session.uuid for session in everything}
    oldest_first = [one for one in reversed(everything) if one.parent not in known]
    size = bytes_in(ledger)
    found = [traces_of(ledger, one) for one in oldest_first] if max_bytes is not None else []
    weight = sum(traces.bytes for traces in found) or 1
    # A database has no room of its own, and compresses.
    whole = max(weight, size - _EMPTY) if ledger.path.exists() else size
    for index, session in enumerate(oldest_first):
        expired = before is not None and session.updated_at < before
        if not expired and (max_bytes is None or size <= max_bytes):
            continue
        if any(
            hold_on(ledger.work, one.id) == "alive" for one in ledger.sessions.family(session.id)
        ):
            continue
        traces = found[index] if found else traces_of(ledger, session)
        # Indexes and seals weigh, too: a session has of the files what it has of the words.
        size -= whole * traces.bytes // weight
        yield traces


def bytes_in(ledger: Ledger) -> int:
    """Say how large the ledger, its wire file and the checkpoints of its sessions are."""
    wire = journal_path(ledger.path)
    beside = [wire, wire.with_name(f"{wire.name}-wal")]
    size = ledger.size() + sum(path.stat().st_size for path in beside if path.exists())
    return size + sum(_checkpoints(one).weight()[1] for one in ledger.sessions.recent())


def moment_before(age: str) -> str:
    """Read `30d`, `12h` or `8w` as the moment so long ago. Raises InvalidInput."""
    found = _AGE.fullmatch(age.strip())
    if found is None:
        raise InvalidInput(f"{age!r:.40} is no age; it is written as 30d, 12h or 8w")
    try:
        return written(datetime.now(UTC) - int(found[1]) * _AGES[found[2]])
    except OverflowError:
        raise InvalidInput(f"{age!r:.40} is before all time") from None


def size_of(text: str) -> int:
    """Read `500MB` or `2G`. Raises InvalidInput."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"{text!r:.40} is no size; it is written as 500MB or 2GB")
    return int(float(found[1]) * _SIZES[found[2]])


def bytes_of(count: int) -> str:
    """Write a size for a person."""
    for unit in ("GB", "MB", "kB"):
        if count >= (one := _SIZES[unit[0]]):
            return f"{count / one:.1f} {unit}"
    return f"{count} bytes"


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}" if count else ""


def _checkpoints(session: Session) -> Checkpoints:
    return Checkpoints(checkpoints_path(), session.uuid)
