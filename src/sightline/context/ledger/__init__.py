"""The durable record of conversations; docs/ledger.md describes its file."""

from __future__ import annotations

from sightline.context.ledger.groups import Group
from sightline.context.ledger.ledger import Ledger
from sightline.context.ledger.memos import Memos, MemoShelf
from sightline.context.ledger.retrieval import SearchHit
from sightline.context.ledger.sessions import Session, SessionOverview
from sightline.context.ledger.usage import StoredReceipt, StoredUsage, Totals
from sightline.context.messages.gate import LedgerLimits

__all__ = [
    "Group",
    "Ledger",
    "LedgerLimits",
    "MemoShelf",
    "Memos",
    "SearchHit",
    "Session",
    "SessionOverview",
    "StoredReceipt",
    "StoredUsage",
    "Totals",
]
