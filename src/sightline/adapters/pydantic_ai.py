"""Pydantic AI: live state in every model request, the apps' tools, the ledger as a store.

    apps, store = LiveApps(hub), LedgerStore(ledger)
    agent = Agent("openai:gpt-6.1", output_type=[str, DeferredToolRequests], capabilities=[apps])
    conversation = await store.load("thread 1") or Conversation(conversation_id="thread 1")
    result = await agent.run("What is unread?", conversation=conversation)
    await store.save(result)

What needs the user's approval is deferred, as the framework does it; `apps.question(call)` says
what it would do. The state is in no history: in no result's messages, and not in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily
from sightline.adapters.hub import needs

if TYPE_CHECKING:
    from sightline.adapters.pydantic_live import LiveApps
    from sightline.adapters.pydantic_store import LedgerStore

__all__ = ["LedgerStore", "LiveApps"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sightline.adapters.pydantic_live": "LiveApps",
        "sightline.adapters.pydantic_store": "LedgerStore",
    },
    lambda: needs("pydantic-ai"),
)
