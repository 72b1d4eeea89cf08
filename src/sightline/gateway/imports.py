"""Take what agents wrote down of their own sessions into a ledger, each request once.

A session of a transcript becomes one of the ledger (`kind` *gateway import claude* or *codex*),
with its sub-agents; its requests are exchanges without a body. A file may be read again at any
time: only what is new in it is added. Files are not trusted: links, other users' files and what
is no regular file are left out, lines that are too long or no JSON are counted, and whatever the
size, one line is in memory at a time.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from sightline.context.dialects.drift import extra_price, lifetime_s
from sightline.context.dialects.events import cost
from sightline.context.dialects.profile import Layer
from sightline.context.ledger import Ledger
from sightline.context.ledger.exchanges import NewExchange
from sightline.context.ledger.store import Watch, written
from sightline.context.messages.gate import storable
from sightline.errors import InvalidInput
from sightline.gateway.observer import (
    Passed,
    about_of,
    name_of,
    profile_of,
    short_line,
    stored_usage,
)
from sightline.gateway.transcripts import Reader, Transcribed, loss_in

LINE_BYTES: Final = 32 * 1024 * 1024
BATCH: Final = 500  # requests that are kept in one transaction
QUIET_S: Final = 600.0  # a file that nobody wrote to for so long has no reply under way
PROJECT_CHARS: Final = 1_000
UNREADABLE: Final = "links, or what cannot be opened"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Imported(msgspec.Struct):
    """What an import found: sessions by number, requests, and by reason what was left out."""

    sessions: list[int] = []
    files: int = 0
    new: int = 0
    known: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    passed: list[Passed] = []


def import_transcripts(
    ledger: Ledger, paths: Iterable[Path], watch: Watch | None = None, prices: Sequence[Layer] = ()
) -> Imported:
    """Read transcripts, files or all of some directories, into a ledger.

    `watch` is told of files that were read. Raises `InvalidInput` for a path that is not there.
    """
    done = Imported()
    known = ledger.exchanges.sources()
    files = _in_order(_files(paths, done.skipped))
    for number, path in enumerate(files, 1):
        stream = _opened(path, done.skipped)
        if stream is not None:
            with stream:
                reader = _read(stream, done.skipped)
                quiet = time.time() - os.fstat(stream.fileno()).st_mtime > QUIET_S
            done.files += _keep(ledger, reader, known, done, prices, quiet=quiet)
        if watch is not None:
            watch(number, len(files))
    return done


def _files(paths: Iterable[Path], skipped: Counter[str]) -> Iterator[Path]:
    """List the files to read; a link that somebody names is followed, one that is found is not."""
    for path in paths:
        try:
            found = path.expanduser().resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise InvalidInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if not found.is_dir():
            yield found
            continue

        def unread(_: OSError) -> None:
            skipped[UNREADABLE] += 1

        for folder, below, names in os.walk(found, onerror=unread):
            skipped[UNREADABLE] += sum(Path(folder, name).is_symlink() for name in below)
            for name in names:
                if name.endswith(".jsonl"):
                    yield Path(folder, name)


def _in_order(files: Iterable[Path]) -> list[Path]:
    """Put the oldest first, and sub-agents behind all: a session begins with its main line."""

    def key(path: Path) -> tuple[bool, float, str]:
        try:
            changed = path.lstat().st_mtime
        except OSError:
            changed = 0.0
        return path.name.startswith("agent-"), changed, str(path)

    return sorted(set(files), key=key)


def _opened(path: Path, skipped: Counter[str]) -> BinaryIO | None:
    """Open a regular file of this user's; never wait for it."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        skipped[UNREADABLE] += 1
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        skipped["files that are no regular ones or another user's"] += 1
        return None
    return os.fdopen(descriptor, "rb")


def _read(stream: BinaryIO, skipped: Counter[str]) -> Reader:
    reader = Reader()
    while line := stream.readline(LINE_BYTES):
        if line.endswith(b"\n"):
            if not line.isspace():
                reader.feed(line)
        elif len(line) == LINE_BYTES:
            skipped["lines that are too long"] += 1
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES)
        # Else it is the last one, and somebody is still writing it.
    return reader


def _keep(
    ledger: Ledger, reader: Reader, known: set[str], done: Imported, prices: Sequence[Layer],
    *, quiet: bool,
) -> bool:  # fmt: skip
    """Keep what is new in a transcript; tell whether it was one."""
    if reader.agent is None:
        done.skipped["files that are no transcripts"] += 1
        return False
    done.skipped["lines that cannot be read"] += reader.unread
    done.skipped["requests that a fork copied"] += reader.copied
    if ledger.sessions.find(name_of(reader.session)) is not None:
        done.skipped["files of sessions that a gateway recorded, which knows more"] += 1
        return True
    found = [one for one in reader.requests if one.ended or quiet]
    done.skipped["replies that are under way"] += len(reader.requests) - len(found)
    new = [one for one in found if one.source not in known]
    done.known += len(found) - len(new)
    if not new:
        return True
    session = _session(ledger, reader)
    fresh = iter([_passed(one, prices) for one in new])
    moments = iter([written(datetime.fromtimestamp(one.at, UTC)) for one in new])
    while some := list(islice(fresh, BATCH)):
        ledger.exchanges.add_all(
            session,
            [
                NewExchange(one.api, one.model, (), {}, about_of(one), None, stored_usage(one), at)
                for one, at in zip(some, islice(moments, len(some)), strict=True)
            ],
        )
        done.passed += some
    known.update(one.source for one in new)
    done.new += len(new)
    if session not in done.sessions:
        done.sessions.append(session)
    return True


def _session(ledger: Ledger, reader: Reader) -> int:
    """Find the ledger's session of a transcript's, or begin it."""
    name = name_of(reader.session).replace("gateway", "import", 1)
    found = ledger.sessions.find(name) or ledger.sessions.create(
        name,
        project=storable(reader.project[:PROJECT_CHARS]),
        title=short_line(reader.title),
        kind=f"gateway import {reader.agent}",
    )
    return found.id


def _passed(one: Transcribed, prices: Sequence[Layer] = ()) -> Passed:
    profile = profile_of(one.body, prices)
    before = one.before
    lifetime = (before.lifetime_s if before is not None else 0.0) or lifetime_s(profile.cache.ttl)
    return Passed(
        "",
        one.body.api,
        one.body.model,
        0,
        0,
        0,
        0,
        usage=one.usage,
        cost_usd=cost(one.usage, profile.prices),
        loss=loss_in(one, lifetime, extra_price(profile.prices, one.usage.cache_write_tokens)),
        source=one.source,
    )
