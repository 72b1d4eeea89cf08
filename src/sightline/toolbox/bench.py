"""What the tools work on: one session's ledger, apps, memos and attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sightline.hub.hub import Hub
from sightline.ledger import Ledger, MemoShelf
from sightline.toolbox.attention import Attention

__all__ = ["Bench"]

INVOKE_S: Final = 30.0


@dataclass(slots=True)
class Bench:
    """Everything a tool may touch. `attention` is swapped by focus and unfocus."""

    ledger: Ledger
    session_id: int
    hub: Hub
    memos: MemoShelf
    attention: Attention = field(default_factory=Attention)
    invoke_s: float = INVOKE_S
