"""A loop on the plain OpenAI SDK that sees live apps and acts in them.

    sightline demo                                           # in another terminal: an app
    python examples/openai_loop.py desk "What is unread?"    # an app's id or address, a question

What is Sightline's here is five lines: connect, tools, tail, cached, call.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from openai import AsyncOpenAI

from sightline import ActionQuestion, Hub, cached

MODEL = os.environ.get("MODEL", "gpt-6.1")


async def ask_me(question: ActionQuestion) -> bool:
    """Ask the person at the keyboard."""
    return (await asyncio.to_thread(input, f"{question}? [y/N] ")).strip().lower() == "y"


async def answer(address: str, question: str) -> str:
    """Ask the model until it has no more calls, with the apps' current state each time."""
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncOpenAI() as client, Hub.connect(address) as hub:
        tools = hub.tools()
        while True:
            tail = hub.tail(budget=2_000, counter=MODEL)
            reply = await client.chat.completions.create(
                model=MODEL,
                messages=cached(messages, tail, vendor="openai", model=MODEL),  # type: ignore[arg-type]
                tools=tools.openai(),  # type: ignore[arg-type]
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                if call.type == "function":
                    function = call.function
                    result = await tools.call(function.name, function.arguments, approve=ask_me)
                    messages.append(
                        {"role": "tool", "tool_call_id": call.id, "content": result.content}
                    )


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1], sys.argv[2])))
