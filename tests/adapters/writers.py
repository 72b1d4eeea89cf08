"""What writes to a ledger from many processes at once, through frameworks' own interfaces."""

from __future__ import annotations

from datetime import UTC, datetime

from sightline import Ledger
from sightline.adapters.openai_agents import LedgerSession


async def add_items(number: int, each: int, path: str, name: str) -> None:
    """Add items to one session, most of them one by one; the clock stands still for everybody."""
    with Ledger(path, clock=lambda: datetime(2026, 1, 2, tzinfo=UTC)) as ledger:
        session = LedgerSession(ledger, name)
        for at in range(0, each, 5):
            texts = [f"{number} {at + step}" for step in range(5)]
            for text in texts[:3]:
                await session.add_items([{"role": "assistant", "content": text}])
            await session.add_items([{"role": "user", "content": text} for text in texts[3:]])


async def pop_items(number: int, each: int, path: str, name: str) -> None:
    """Pop items of one session, and keep what was popped in a session of one's own."""
    with Ledger(path) as ledger:
        session, popped = LedgerSession(ledger, name), LedgerSession(ledger, f"{name} {number}")
        for _ in range(each):
            item = await session.pop_item()
            if item is not None:
                await popped.add_items([item])
