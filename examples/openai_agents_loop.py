"""An agent of the OpenAI Agents SDK that sees live apps, acts in them, and remembers in a ledger.

    sightline demo                                                  # in another terminal: an app
    python examples/openai_agents_loop.py desk "What is unread?"    # an app's id or address, …

What is Sightline's here is five lines: connect, apps, tools, filter, session.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agents import Agent, RunConfig, Runner

from sightline import ActionQuestion, Hub, Ledger
from sightline.adapters.openai_agents import LedgerSession, LiveApps

MODEL = os.environ.get("MODEL", "gpt-6.1")


async def ask_me(question: ActionQuestion | None) -> bool:
    """Ask the person at the keyboard."""
    return (await asyncio.to_thread(input, f"{question}? [y/N] ")).strip().lower() == "y"


async def answer(address: str, question: str, ledger_path: str = "agents.db") -> str:
    """Run the agent until it has an answer, with the apps' current state in every request."""
    with Ledger(ledger_path) as ledger:
        async with Hub.connect(address) as hub:
            apps = LiveApps(hub, budget=2_000, counter=MODEL)
            agent = Agent("helper", model=MODEL, tools=[*apps.tools()])
            config = RunConfig(call_model_input_filter=apps)
            session = LedgerSession(ledger, "my thread")
            result = await Runner.run(agent, question, run_config=config, session=session)
            while result.interruptions:
                state = result.to_state()
                for call in result.interruptions:
                    if await ask_me(apps.question(call)):
                        state.approve(call)
                    else:
                        state.reject(call)
                result = await Runner.run(agent, state, run_config=config, session=session)
            return str(result.final_output)


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1], sys.argv[2])))
