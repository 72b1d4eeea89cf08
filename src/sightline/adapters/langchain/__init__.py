"""LangChain and LangGraph: live apps for an agent, and the ledger as its checkpointer.

    agent = create_agent(model, middleware=[HubMiddleware(hub)], checkpointer=LedgerSaver(ledger))

Each name is loaded when it is first used, and needs the extra `langchain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily
from sightline.adapters.hub import needs

if TYPE_CHECKING:
    from sightline.adapters.langchain.middleware import HubMiddleware
    from sightline.adapters.langchain.saver import LedgerSaver

__all__ = ["HubMiddleware", "LedgerSaver"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sightline.adapters.langchain.middleware": "HubMiddleware",
        "sightline.adapters.langchain.saver": "LedgerSaver",
    },
    lambda: needs("langchain"),
)
