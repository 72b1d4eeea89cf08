"""A loop on the plain Anthropic SDK that sees live apps and acts in them.

    sightline demo                                              # in another terminal: an app
    python examples/anthropic_loop.py desk "What is unread?"    # an app's id or address, a question

What is Sightline's here is five lines: connect, tools, tail, cached, call.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from anthropic import AsyncAnthropic

from sightline import ActionQuestion, Hub, cached

MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")


async def ask_me(question: ActionQuestion) -> bool:
    """Ask the person at the keyboard."""
    return (await asyncio.to_thread(input, f"{question}? [y/N] ")).strip().lower() == "y"


async def answer(address: str, question: str) -> str:
    """Ask the model until it has no more calls, with the apps' current state each time."""
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncAnthropic() as client, Hub.connect(address) as hub:
        tools = hub.tools()
        while True:
            tail = hub.tail(budget=2_000, counter=MODEL)
            reply = await client.messages.create(
                model=MODEL,
                max_tokens=4_096,
                messages=cached(messages, tail, vendor="anthropic", model=MODEL),  # type: ignore[arg-type]
                tools=tools.anthropic(),  # type: ignore[arg-type]
            )
            messages.append({"role": "assistant", "content": reply.content})
            results: list[dict[str, Any]] = []
            for block in reply.content:
                if block.type == "tool_use":
                    result = await tools.call(block.name, block.input, approve=ask_me)
                    results.append(
                        {"type": "tool_result", "tool_use_id": block.id,
                         "content": result.content, "is_error": not result.ok}
                    )  # fmt: skip
            if not results:
                return "".join(block.text for block in reply.content if block.type == "text")
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1], sys.argv[2])))
