"""Moments as the blocks write them: RFC 3339, UTC, with a `Z`.

format_moment(parse_moment(text)) is the same moment, whatever its offset was
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from sightline.errors import InvalidInput

_RFC_3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_moment(text: str) -> datetime:
    """Read an RFC 3339 timestamp as UTC. Raises InvalidInput."""
    if _RFC_3339.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise InvalidInput(f"not an RFC 3339 timestamp, such as 2026-04-28T10:30:00Z: {text[:80]!r}")


def format_moment(moment: datetime) -> str:
    """Write a moment in UTC, with a `Z`; fractions of a second only where there are any.

    Raises InvalidInput where it has no time zone: whose clock it was would be a guess.
    """
    if moment.tzinfo is None:
        raise InvalidInput("a moment without a time zone cannot be written as UTC")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
