"""Where apps say that they are there, and how to see it.

Two directories hold descriptors: a lasting one in the user's home, and an ephemeral one
under /tmp, which all users share and which is one user's if that user came first. A file counts
only if it could not have been put there by somebody else: its directory is opened by
`transports.owned`, the file belongs to the user under this one name, and nobody else can write
it. Files are opened, written and removed relative to the directory that was checked, without
following links. Whoever is named by a pid that no longer runs is gone.

Nobody is kept from serving by a directory of somebody else: an app is announced in the first one
that is safe, the ephemeral one before the lasting one, and consumers of the user look at both.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from sightline.errors import InvalidInput, SightlineError
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES, Descriptor, Nats
from sightline.slop.transports.background import end_tasks
from sightline.slop.transports.link import why
from sightline.slop.transports.nats_url import NatsUrl, nats_module
from sightline.slop.transports.owned import open_owned, open_regular, write_private

if TYPE_CHECKING:
    from sightline.slop.discovery.broker import FoundOnBroker


POLL_S: Final = 2.0
_MAX_FILES: Final = 1000
_log: Final = logging.getLogger(__name__)
_ID_CHARS: Final = 120  # what a number can be put behind, and is still an id


def standard_directories() -> tuple[Path, ...]:
    """Return the lasting and the ephemeral directory.

    SLOP_PROVIDERS names others instead, separated like the directories of PATH.
    """
    named = os.environ.get("SLOP_PROVIDERS")
    if named:
        return tuple(Path(item) for item in named.split(os.pathsep) if item)
    # The protocol's own place; every file in it is checked before it is believed.
    return Path.home() / ".slop" / "providers", Path("/tmp/slop/providers")  # noqa: S108 - see above


class Ignored(msgspec.Struct, frozen=True):
    """A file in a directory of descriptors that is not believed, and why."""

    path: Path
    reason: str


class FoundApps(msgspec.Struct, frozen=True):
    """What is there now: one descriptor for each id, and what was not believed."""

    descriptors: tuple[Descriptor, ...] = ()
    ignored: tuple[Ignored, ...] = ()


class Discovery:
    """Finds the apps that announce themselves in directories, once or continually.

    Those on `brokers`, which are addresses of NATS's, are found while it watches. Raises
    InvalidInput for what is no such address, MissingExtra without the library for them.
    """

    def __init__(
        self,
        directories: Sequence[Path] | None = None,
        *,
        brokers: Sequence[str] = (),
        poll_s: float = POLL_S,
    ) -> None:
        paths = standard_directories() if directories is None else directories
        self._directories = [Directory(path) for path in paths]
        self._on_brokers: dict[str, list[Descriptor]] = {address: [] for address in brokers}
        for address in brokers:
            NatsUrl.read(address)
            nats_module("nats_link")
        self._poll_s = poll_s

    def look(self) -> FoundApps:
        """Return what is there now. The first directory wins where two name one id."""
        found: dict[str, Descriptor] = {}
        ignored: list[Ignored] = []
        here = [directory.entries() for directory in self._directories]
        for item in chain(*here, *self._on_brokers.values()):
            if isinstance(item, Ignored):
                ignored.append(item)
            else:
                found.setdefault(item.id, item)
        ordered = tuple(found[app_id] for app_id in sorted(found))
        return FoundApps(ordered, tuple(ignored))

    async def watch(self) -> AsyncIterator[FoundApps]:
        """Give what is there, and again whenever it changed."""
        last: FoundApps | None = None
        listening = [asyncio.create_task(self._listen(address)) for address in self._on_brokers]
        try:
            async with contextlib.aclosing(self._ticks()) as ticks:
                async for _ in ticks:
                    found = await asyncio.to_thread(self.look)
                    if found != last:
                        last = found
                        yield found
        finally:
            await end_tasks(*listening)

    async def _listen(self, address: str) -> None:
        """Keep the list of the apps on a broker up to date; the next tick shows it."""
        from sightline.slop.discovery.broker import apps_on

        reason = ""
        while True:
            try:
                async for found in apps_on(address):
                    self._on_brokers[address] = list(_on_broker(address, found))
                    reason = ""
            except SightlineError as error:
                self._on_brokers[address] = []
                if str(error) != reason:
                    reason = str(error)
                    _log.warning("%s", reason)
            await asyncio.sleep(self._poll_s)

    async def _ticks(self) -> AsyncGenerator[None]:
        """Tick now and when something may have changed; at the latest after the poll time.

        A process that dies changes no file, so there are ticks without any change to files.
        """
        yield
        watchfiles = _watchfiles()
        present = [entry.path for entry in self._directories if entry.is_safe]
        if watchfiles is None or not present:
            while True:
                await asyncio.sleep(self._poll_s)
                yield
        changes = watchfiles.awatch(
            *present,
            recursive=False,
            rust_timeout=int(self._poll_s * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with contextlib.aclosing(changes) as stream:
            async for _ in stream:
                yield


class Directory:
    """One directory of descriptors."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_safe(self) -> bool:
        """Whether it is there, and nobody else could have put anything in it."""
        try:
            with open_owned(self.path):
                return True
        except (OSError, InvalidInput):
            return False

    def entries(self) -> Iterator[Descriptor | Ignored]:
        """Give every descriptor that counts, and the reason for each that does not."""
        try:
            with open_owned(self.path) as handle:
                listed = os.listdir(handle)  # noqa: PTH208 - of what was opened, not of a name
                names = sorted(name for name in listed if name.endswith(".json"))
                for name in names[:_MAX_FILES]:
                    yield self._entry(handle, name)
                if len(names) > _MAX_FILES:
                    yield Ignored(self.path, f"only the first {_MAX_FILES} files are looked at")
        except FileNotFoundError:
            return
        except OSError as error:
            yield Ignored(self.path, why(error))
        except InvalidInput as error:
            yield Ignored(self.path, str(error))

    def register(self, descriptor: Descriptor) -> Path:
        """Write a descriptor: whole or not at all, for the user's eyes only. Raises InvalidInput.

        What was there under its name is replaced, if it is the user's.
        """
        target = f"{descriptor.id}.json"
        try:
            with open_owned(self.path, create=True) as handle:
                write_private(handle, target, descriptor.write())
        except OSError as error:
            raise InvalidInput(f"{self.path}: {why(error)}") from error
        except InvalidInput as error:
            raise InvalidInput(f"{self.path}: {error}") from None
        return self.path / target

    def unregister(self, descriptor: Descriptor) -> None:
        """Remove a descriptor, unless another app has taken its place since."""
        target = f"{descriptor.id}.json"
        with contextlib.suppress(OSError, InvalidInput), open_owned(self.path) as handle:
            if Descriptor.read(_read_own(handle, target)) == descriptor:
                os.unlink(target, dir_fd=handle)

    def _entry(self, directory: int, name: str) -> Descriptor | Ignored:
        path = self.path / name
        try:
            data = _read_own(directory, name)
            descriptor = Descriptor.read(data)
        except OSError as error:
            return Ignored(path, error.strerror or str(error))
        except InvalidInput as error:
            return Ignored(path, str(error))
        if f"{descriptor.id}.json" != name:
            return Ignored(path, f"names itself {descriptor.id!r}")
        if descriptor.pid is not None and not _is_running(descriptor.pid):
            return Ignored(path, f"process {descriptor.pid} is gone")
        return descriptor


@contextlib.contextmanager
def announced(descriptor: Descriptor, directory: Path | None = None) -> Iterator[Path]:
    """Keep a descriptor registered while the block runs; by default in the ephemeral directory.

    Where that is not safe, or not the user's to write, the lasting one is taken. Where the id
    is that of another process that still runs, a number is put behind it: `mail-2`. Raises
    InvalidInput where there is no place for it, and says why not.
    """
    choice = [directory] if directory is not None else [*reversed(standard_directories())]
    homes = [Directory(path) for path in choice]
    others = {
        item.id
        for home in homes
        for item in home.entries()
        if isinstance(item, Descriptor) and item.pid not in {None, descriptor.pid}
    }
    descriptor = replace(descriptor, id=_free(descriptor.id, others))
    home, path = _register(homes, descriptor)
    try:
        yield path
    finally:
        home.unregister(descriptor)


def _register(homes: Sequence[Directory], descriptor: Descriptor) -> tuple[Directory, Path]:
    problems: list[str] = []
    for home in homes:
        try:
            return home, home.register(descriptor)
        except InvalidInput as error:
            problems.append(str(error))
    raise InvalidInput("; ".join(problems))


def _free(app_id: str, taken: Collection[str]) -> str:
    names = (f"{app_id[:_ID_CHARS]}-{number}" for number in count(2))
    return app_id if app_id not in taken else next(name for name in names if name not in taken)


def _read_own(directory: int, name: str) -> bytes:
    """Read a file that only the user can have written."""
    with open_regular(name, within=directory) as (file, found):
        if found.st_uid != os.getuid():
            raise InvalidInput("belongs to another user")
        # Others may link a file of ours to where it was never meant to be read.
        if found.st_nlink != 1:
            raise InvalidInput("has another name (a hard link)")
        if found.st_mode & 0o022:
            raise InvalidInput("others can write to it")
        if found.st_size > DESCRIPTOR_BYTES:
            raise InvalidInput(f"a descriptor has at most {DESCRIPTOR_BYTES} bytes")
        return file.read(DESCRIPTOR_BYTES + 1)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _on_broker(address: str, found: Iterable[FoundOnBroker]) -> Iterator[Descriptor]:
    """Make descriptors of what apps say of themselves, where that can be believed."""
    url = NatsUrl.read(address)
    for item in found:
        with contextlib.suppress(InvalidInput):
            yield Descriptor(item.id, item.name, Nats(url.of_app(item.id).whole))


def _watchfiles() -> Any:  # an optional library without which we poll
    try:
        return importlib.import_module("watchfiles")
    except ImportError:
        return None
