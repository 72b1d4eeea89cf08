"""The bridge's shell: write the current tail to a file, and read it while it is true.

    with BridgeWriter(path) as bridge:
        run_bridge(bridge, source, beat)      # source() is the world now; beat() waits

A reader sees a whole file or none: each writing is a new file that takes the
place of the old one at once. The file is for its owner only, is removed when the
writer stops, and is not trusted once the writer is gone (`projection/bridge.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sightline.context.projection.bridge import (
    BUDGET,
    WINDOW_S,
    BridgeRecord,
    decode_bridge,
    encode_bridge,
    reason_to_drop,
)
from sightline.context.projection.select import select_bounded
from sightline.context.projection.tail import Format, render_tail
from sightline.errors import InvalidInput
from sightline.slop.protocol.world import World


def utc_now() -> datetime:
    """Give the time of now, in UTC."""
    return datetime.now(UTC)


class BridgeWriter:
    """Keeps one file current. `pid` is the process whose life vouches for it.

    The state has at most `budget` tokens, estimated: what matters most of it, as `select`
    chooses.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        form: Format = "text",
        budget: int = BUDGET,
        window_s: float = WINDOW_S,
        pid: int | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.path = Path(path)
        self.window_s = window_s
        self._form: Format = form
        self._budget = budget
        self._pid = os.getpid() if pid is None else pid
        self._started = process_start(self._pid)
        self._clock = clock

    def write(self, world: World) -> None:
        """Put the tail of this world into the file, all at once."""
        now = self._clock().replace(microsecond=0)
        shown = select_bounded(world, self._budget, form=self._form)
        tail = render_tail(shown.world, now, self._form, described=shown.described).text
        record = BridgeRecord(tail, now, self._pid, self._started, self.window_s)
        replace_file(self.path, encode_bridge(record))

    def close(self) -> None:
        """Remove the file: nothing vouches for it any more."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> BridgeWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_bridge(bridge: BridgeWriter, source: Callable[[], World], beat: Callable[[], bool]) -> None:
    """Write the world that `source` gives, again after every `beat` until it says False."""
    bridge.write(source())
    while beat():
        bridge.write(source())


class Reading(NamedTuple):
    """What a bridge file is good for now: its tail, or why it has none."""

    tail: str
    dropped: str | None = None


def read_bridge(
    path: str | Path, now: datetime | None = None, *, window_s: float = WINDOW_S
) -> Reading:
    """Read a bridge file; the tail is empty, and `dropped` says why, unless it is fresh."""
    try:
        record = decode_bridge(Path(path).read_bytes())
    except FileNotFoundError:
        return Reading("", "there is no such file: no bridge is running")
    except OSError as error:
        return Reading("", error.strerror or str(error))
    except InvalidInput as error:
        return Reading("", str(error))
    alive = is_alive(record.pid) and process_start(record.pid) == record.started
    why = reason_to_drop(
        record, utc_now() if now is None else now, writer_is_alive=alive, window_s=window_s
    )
    return Reading("", why) if why else Reading(record.tail)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs, whoever owns it; a zombie has ended."""
    if pid <= 0 or _status(pid)[:1] in (["Z"], ["X"]):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True


def process_start(pid: int) -> str:
    """Say when a process began, in its system's own count; empty where that is not told."""
    return "".join(_status(pid)[19:20])


def _status(pid: int) -> list[str]:
    """What Linux tells of a process from its state on, field 3 of proc_pid_stat(5); or nothing."""
    with suppress(OSError):
        # The name may contain anything, so count from the last parenthesis.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()
    return []


def replace_file(path: Path, data: bytes) -> None:
    """Put a file for its owner only in the place of another, at once. Raises InvalidInput."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
