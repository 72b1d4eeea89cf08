"""What a handler can know of the invoke that it serves."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.slop.protocol.tree import Node


@dataclass(frozen=True, slots=True)
class Call:
    """One invoke: its node, action and params, and the session that asked.

    A handler's parameter that is annotated with this class gets it, and so does a hook's `call`.
    """

    path: str
    action: str
    params: Mapping[str, Any]
    node: Node
    session: Hashable = None
    placeholders: Mapping[str, str] = field(default_factory=dict)
