"""A tail in a file, for hosts that can only read one: its format, and when not to trust it.

Some agents let a hook put text before a request but cannot be a consumer. A bridge
writes the current tail to a file, again and again; the hook reads it. State that
may be outdated must never look current, so a reader drops the file when

    it is older than its freshness window (10 seconds unless the writer says less),
    it claims to be from the future by more than the window, or
    the process that wrote it is gone.

The file is one JSON object: `{"format", "written_at", "window_s", "pid", "started",
"tail"}`. `started` is when the writing process began, as its system counts it, so
that a reused process number does not vouch for a dead one; empty where unknown.
A hook that places the block before the history pays for it with the prompt cache
(every request departs from the last at its beginning); see docs/tail.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from sightline.context.projection.moment import format_moment, parse_moment
from sightline.errors import InvalidInput
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

BUDGET: Final = 4_000  # tokens of state, unless the writer is told otherwise
WINDOW_S: Final = 10.0
_FORMAT: Final = "sightline-bridge/1"


@dataclass(frozen=True, slots=True)
class BridgeRecord:
    """One writing of a tail: what, when, for how long, and by whom."""

    tail: str
    written_at: datetime
    pid: int
    started: str = ""
    window_s: float = WINDOW_S


class _Wire(msgspec.Struct):
    format: str
    written_at: str
    window_s: float
    pid: int
    started: str
    tail: str


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wires: Final = msgspec.json.Decoder(_Wire)


def encode_bridge(record: BridgeRecord) -> bytes:
    """Write a record as the content of a bridge file."""
    return msgspec.json.encode(
        _Wire(
            _FORMAT,
            format_moment(record.written_at),
            record.window_s,
            record.pid,
            record.started,
            record.tail,
        )
    )


def decode_bridge(data: bytes) -> BridgeRecord:
    """Read the content of a bridge file. Raises InvalidInput if it is not one."""
    if nests_deeper(data, NESTING):
        raise InvalidInput(f"not a bridge file: nested deeper than {NESTING} levels")
    try:
        wire = _wires.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a bridge file: {error}") from None
    if wire.format != _FORMAT:
        raise InvalidInput(f"a bridge file of an unknown format: {wire.format[:40]!r}")
    return BridgeRecord(
        wire.tail, parse_moment(wire.written_at), wire.pid, wire.started, wire.window_s
    )


def reason_to_drop(
    record: BridgeRecord, now: datetime, *, writer_is_alive: bool, window_s: float = WINDOW_S
) -> str | None:
    """Say why a record must not be shown at this moment, or None if it may be.

    The narrower of the writer's and the reader's window counts.
    """
    # SLOP, context injection, conformance 2: within a bounded freshness window, and dropped if the
    # bridge appears stalled or dead.
    window = min(record.window_s, window_s)
    age = (now - record.written_at).total_seconds()
    if not writer_is_alive:
        return f"its writer, process {record.pid}, is gone"
    if age > window:
        return f"it is {age:.1f} s old, over the window of {window:g} s: the writer has stalled"
    if age < -window:
        return f"it claims to be {-age:.1f} s from the future: the clocks disagree"
    return None
