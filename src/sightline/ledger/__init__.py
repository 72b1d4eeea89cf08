"""The durable record of conversations; docs/ledger.md describes its file."""

from __future__ import annotations

from sightline.ledger.gate import Limits
from sightline.ledger.groups import Group
from sightline.ledger.ledger import Ledger
from sightline.ledger.memos import Memos
from sightline.ledger.sessions import Session
from sightline.ledger.shelf import MemoShelf
from sightline.ledger.usage import Receipt, Totals, Usage

__all__ = [
    "Group",
    "Ledger",
    "Limits",
    "MemoShelf",
    "Memos",
    "Receipt",
    "Session",
    "Totals",
    "Usage",
]
