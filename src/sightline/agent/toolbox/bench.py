"""What the tools work on: one session's ledger, apps, memos and attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sightline.agent.toolbox.attention import Attention
from sightline.context.ledger import Ledger, MemoShelf
from sightline.slop.hub.hub import Hub

__all__ = ["Bench"]

INVOKE_S: Final = 30.0


@dataclass(slots=True)
class Bench:
    """What the tools of one session work on. `attention` is swapped by focus and unfocus."""

    ledger: Ledger
    session_id: int
    hub: Hub
    memos: MemoShelf
    attention: Attention = field(default_factory=Attention)
    invoke_s: float = INVOKE_S
