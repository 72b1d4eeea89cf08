"""An agent of Pydantic AI that sees live apps, acts in them, and remembers in a ledger.

    sightline demo                                                # in another terminal: an app
    python examples/pydantic_ai_loop.py desk "What is unread?"    # an app's id or address, …

What is Sightline's here is five lines: connect, apps, store, load, save.
"""

from __future__ import annotations

import asyncio
import os
import sys

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ToolCallPart

from sightline import Hub, Ledger
from sightline.adapters.pydantic_ai import LedgerStore, LiveApps

MODEL = os.environ.get("MODEL", "openai:gpt-6.1")
THREAD = "my thread"


async def answer(address: str, question: str, ledger_path: str = "agents.db") -> str:
    """Run the agent until it has an answer, with the apps' current state in every request."""
    with Ledger(ledger_path) as ledger:
        async with Hub.connect(address) as hub:
            apps, store = LiveApps(hub, budget=2_000), LedgerStore(ledger)

            async def ask_me(call: ToolCallPart) -> bool:
                """Ask the person at the keyboard."""
                said = await asyncio.to_thread(input, f"{apps.question(call)}? [y/N] ")
                return said.strip().lower() == "y"

            async def ask_all(
                _: RunContext[object], requests: DeferredToolRequests
            ) -> DeferredToolResults:
                calls = requests.approvals
                return requests.build_results(
                    approvals={call.tool_call_id: await ask_me(call) for call in calls}
                )

            agent = Agent(MODEL, capabilities=[apps, HandleDeferredToolCalls(ask_all)])
            conversation = await store.load(THREAD) or Conversation(conversation_id=THREAD)
            result = await agent.run(question, conversation=conversation)
            await store.save(result)
            return result.output


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1], sys.argv[2])))
