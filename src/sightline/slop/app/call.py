"""Who asks for what: the circumstances of one invoke."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.slop.protocol.tree import Node

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """One invoke. Whoever annotates a parameter so gets it; so does a hook's `call`."""

    path: str
    action: str
    params: Mapping[str, Any]
    node: Node
    session: Hashable = None
    placeholders: Mapping[str, str] = field(default_factory=dict)
