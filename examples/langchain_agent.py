"""An agent of LangChain that sees live apps, asks before danger, and remembers in a ledger.

    pip install '.[langchain]' langchain-openai
    sightline demo                                              # in another terminal: an app
    python examples/langchain_agent.py desk "What is unread?"   # an app's id or address, a question

What is Sightline's here is three lines: connect, middleware, checkpointer.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - its own
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from sightline import Hub, Ledger
from sightline.adapters.langchain import HubMiddleware, LedgerSaver

MODEL = os.environ.get("MODEL", "openai:gpt-6.1")


async def ask_me(question: dict[str, Any]) -> dict[str, str]:
    """Ask the person at the keyboard."""
    answer = await asyncio.to_thread(input, f"{question['description']}? [y/N] ")
    return {"type": "approve" if answer.strip().lower() == "y" else "reject"}


async def answer(address: str, question: str, path: str = "agent.db") -> str:
    """Ask the agent; a thread of it goes on where it stopped, in this program or the next."""
    thread: RunnableConfig = {"configurable": {"thread_id": "example"}}
    with Ledger(path) as ledger:
        async with Hub.connect(address) as hub:
            agent: Any = create_agent(
                MODEL,
                middleware=[HubMiddleware(hub, budget=2_000)],
                checkpointer=LedgerSaver(ledger),
            )
            given: Any = {"messages": [{"role": "user", "content": question}]}
            while True:
                done = await agent.ainvoke(given, thread)
                if not (questions := done.get("__interrupt__")):
                    return str(done["messages"][-1].text)
                given = Command(resume={each.id: await ask_me(each.value) for each in questions})


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1], sys.argv[2])))
