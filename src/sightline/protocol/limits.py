"""How large a tree may be.

A string, an id and the nesting of one value are always bounded: what is within
them can be handled without surprises. How many levels and nodes a tree may have
matters where it crosses a wire, so those two are open until `WIRE` sets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sightline.protocol.ids import ID_BYTES

__all__ = ["DEFAULT", "WIRE", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, all settable. None is no bound."""

    levels: int | None = None
    nodes: int | None = None
    id_bytes: int = ID_BYTES
    string_bytes: int = 256 * 1024
    value_levels: int = 64


DEFAULT: Final = Limits()
WIRE: Final = Limits(levels=64, nodes=50_000)
