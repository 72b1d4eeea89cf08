"""What a check of `sightline doctor` found."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Level: TypeAlias = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `remedy` is what to do; `exit_code` counts if it failed."""

    check: str
    level: Level
    found: str
    remedy: str = ""
    exit_code: int = 0
