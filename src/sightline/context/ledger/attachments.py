"""The bytes of large files: in the ledger itself, or in an object store if it has one.

A file in the ledger is a row of `attachments` and is called `SESSION'S NUMBER/SHA-256`; one in an
object store is called `SESSION'S UUID/SHA-256`. Either name stands in the message, under its
seal, and says what the bytes must be.

    keep_row(db, session, data)      in the transaction of the message that names it: both or none
    fetching(db, objects, names)     the bytes as of the moment at which the messages were read
    entries_of(db, objects, rows)    messages whole

A file belongs to one session, whoever else has the same one: a row goes with the last message
there that names it, an object with the session. In an object store (`Attachments`)

    keep(owner, data)    before the message that names it is stored: no message lacks its files
    get(name)            the bytes that were kept, or `LedgerDamaged`: the name says what they are
    sweep(owner, used)   while nobody can write to the session; who appends looks again, and keeps
                         what was swept meanwhile

A store that does not answer is `LedgerUnavailable`: nothing was stored or removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import sightline.errors as errors
from sightline.context.ledger.codec import entry_of, kept_in, parts_of
from sightline.context.ledger.rows import Row, RowReader, RowWriter, marks, portions
from sightline.context.messages.parts import Entry

if TYPE_CHECKING:
    from obstore.store import ObjectStore


_SCHEMES: Final = ("s3", "gs", "az", "file")
_OWNER: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME: Final = re.compile(rf"{_OWNER}/[0-9a-f]{{64}}")
_ROW: Final = re.compile(r"[0-9]{1,18}/[0-9a-f]{64}")
_QUERY: Final = re.compile(r"\?\S*")  # of an address in an error: it may be signed
_ERROR_CHARS: Final = 300


class Attachments:
    """The attachments of a ledger's sessions, at the URL of an object store; without one, none."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self._store = _opened(url) if url else None
        self._directory = _directory(url) if url.startswith("file:") else None

    @property
    def is_open(self) -> bool:
        """Whether there is a store that takes attachments."""
        return self._store is not None

    def keep(self, owner: str, data: bytes) -> str:
        """Keep bytes for a session, durably, and return their name; what is there stays."""
        name = _checked(f"{owner}/{sha256(data).hexdigest()}")
        with self._connection() as store:
            if not self.has(name, len(data)):
                store.put(name, data, use_multipart=False)
                if self._directory is not None:
                    file = self._directory / name
                    sync(file, file.parent, self._directory)
        return name

    def get(self, name: str) -> bytes:
        """Read what was kept. Raises `LedgerDamaged` where it is lost or was altered."""
        with self._connection() as store:
            try:
                data = bytes(store.get(_checked(name)).bytes())
            except FileNotFoundError:
                raise errors.LedgerDamaged([f"attachment {name} is not in {self.url}"]) from None
        if sha256(data).hexdigest() != name.partition("/")[2]:
            raise errors.LedgerDamaged([f"attachment {name} in {self.url} was altered"])
        return data

    def sweep(self, owner: str, used: Collection[str] = ()) -> None:
        """Delete what is kept for a session, but what is used."""
        with self._connection() as store:
            _checked(f"{owner}/{'0' * 64}")
            there = [str(meta["path"]) for page in store.list(f"{owner}/") for meta in page]
            if gone := [name for name in there if name not in used]:
                with suppress(FileNotFoundError):  # gone already
                    store.delete(gone)

    def has(self, name: str, size: int | None = None) -> bool:
        """Tell whether something is kept under a name; of this size, if one is given."""
        with self._connection() as store:
            try:
                found = store.head(_checked(name))["size"]
            except FileNotFoundError:
                return False
            return size is None or found == size

    @contextmanager
    def _connection(self) -> Iterator[ObjectStore]:
        if self._store is None:
            raise errors.LedgerUnusable(
                "this ledger has attachments in an object store: say which by ledger.attachments"
            )
        # Imported here: only who has such a store needs the package.
        from obstore.exceptions import BaseError

        try:
            yield self._store
        except (BaseError, OSError) as error:
            raise errors.LedgerUnavailable(f"attachments at {self.url}: {_line(error)}") from error


NOWHERE: Final = Attachments()


def _checked(name: str) -> str:
    """Give a name that leads to an object of one session; raise `LedgerDamaged` for any other."""
    if not _NAME.fullmatch(name):
        raise errors.LedgerDamaged([f"{name[:120]!r} is no name of an attachment"])
    return name


def _opened(url: str) -> ObjectStore:
    if urlsplit(url).scheme not in _SCHEMES:
        raise errors.InvalidInput(f"{url}: attachments go to s3://…, gs://…, az://… or file:///…")
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ModuleNotFoundError as error:
        from sightline._distribution import install

        raise errors.MissingExtra(
            f"attachments in an object store need {error.name}: {install('attachments')}"
        ) from error
    try:
        if url.startswith("file:"):
            directory = _directory(url)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return LocalStore(directory, automatic_cleanup=True)
        return from_url(
            url,
            client_options={
                "connect_timeout": "5s",
                "timeout": "60s",
                "allow_http": os.environ.get("AWS_ALLOW_HTTP") == "true",
            },
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=15)},
        )
    except (BaseError, OSError, ValueError) as error:
        raise errors.LedgerUnusable(f"attachments cannot be at {url}: {_line(error)}") from error


def _line(error: Exception) -> str:
    """What the store's client says first: what follows is for its developers."""
    return _QUERY.sub("", str(error).partition("\n")[0])[:_ERROR_CHARS]


def _directory(url: str) -> Path:
    address = urlsplit(url)
    if address.netloc or not address.path.startswith("/"):
        raise errors.InvalidInput(f"{url}: a directory is written as file:///path")
    return Path(unquote(address.path))


def sync(*paths: Path) -> None:
    """Bring files, and the names in directories, to the disk; syncing a file syncs no name."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_row(name: str) -> bool:
    """Tell whether a file of this name is in the ledger itself."""
    return _ROW.fullmatch(name) is not None


def keep_row(db: RowWriter, session_id: int, data: bytes) -> str:
    """Store bytes for a session, unless they are there, and return their name."""
    digest = sha256(data).hexdigest()
    row: Row = {"session_id": session_id, "sha256": digest, "size": len(data), "data": data}
    db.insert_once("attachments", row)
    return f"{session_id}/{digest}"


def fetching(db: RowReader, objects: Attachments, names: Iterable[str]) -> Callable[[str], bytes]:
    """Read the named files that are in the ledger; give what returns these, and any object.

    It raises `LedgerDamaged` for a file that is lost or was altered.
    """
    rows = sorted({name for name in names if is_row(name)})
    if not rows:
        return objects.get
    found = dict(_read(db, rows))

    def fetch(name: str) -> bytes:
        if not is_row(name):
            return objects.get(name)
        if name not in found:
            raise errors.LedgerDamaged([f"attachment {name} is not in the ledger"])
        size, data = found[name]
        if size != len(data) or sha256(data).hexdigest() != name.partition("/")[2]:
            raise errors.LedgerDamaged([f"attachment {name} in the ledger was altered"])
        return data

    return fetch


def entries_of(db: RowReader, objects: Attachments, rows: Sequence[tuple[Any, ...]]) -> list[Entry]:
    """Make entries of rows of `ENTRY_COLUMNS`, with the bytes of their files."""
    fetch = fetching(db, objects, names_in(parts_of(rows)))
    return [entry_of(row, fetch) for row in rows]


def names_in(parts: Iterable[str | None]) -> Iterator[str]:
    """Name the files that are kept apart from the messages with these parts."""
    return (name for text in parts for name in kept_in(text))


def _read(db: RowReader, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Read rows by their names, which are in order: of each its size and its bytes."""
    for session, files in groupby(names, lambda name: name.partition("/")[0]):
        for digests in portions([name.partition("/")[2] for name in files]):
            rows = db.fetch(
                "SELECT sha256, size, data FROM attachments "
                f"WHERE session_id = ? AND sha256 IN ({marks(digests)})",
                (int(session), *digests),
            )
            for digest, size, data in rows:
                yield f"{session}/{digest}", (size, data)
