"""Run as a program: a host that asks on a ledger on which another one asks at the same time.

Arguments: the ledger's directory, a name, how many turns in each session, a seed, the
sessions, and `lawless` for a host that takes no notice of who owns a session, says `inside` in
the middle of its first turn and goes on at a line on standard input. Each turn asks, calls a
tool and answers. A turn is told on standard output when it was acknowledged; one that was
refused because the session is in use is asked again.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

from agent.host.helpers import hosted
from sightline.agent.models.scripted import ScriptedModel
from sightline.context.dialects.request import Request
from sightline.context.ledger.work import Owner
from sightline.context.messages.parts import ToolCall
from sightline.errors import SessionBusy
from sightline.events import TurnEnded


def said_by(name: str, number: int) -> str:
    return f"{name}-{number}."


async def ask(
    directory: Path, name: str, turns: int, seed: int, sessions: list[int], *, lawless: bool
) -> None:
    chance = random.Random(seed)
    model = ScriptedModel()

    async def slowly(_: Request) -> ToolCall:
        if lawless and len(model.requests) == 1:
            sys.stdout.write("inside\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(chance.random() * 0.02)
        return ToolCall(f"{name}-{len(model.requests)}", "describe_db", {})

    async with hosted(directory, model, session=sessions[0]) as (host, _):
        for number in range(turns):
            for session in sessions:
                await host.switch(session)
                text, refused, ended, asked = said_by(name, number), 0, None, 0
                while ended is None:
                    model.add(slowly, f"answer {text}")
                    asked = len(model.requests)
                    try:
                        async for event in host.ask(f"question {text}"):
                            ended = event if isinstance(event, TurnEnded) else None
                    except SessionBusy:
                        refused += 1
                        model._script.clear()
                        await asyncio.sleep(chance.random() * 0.01)
                told = {
                    "session": session, "text": text, "refused": refused,
                    "outcome": ended.outcome, "sent": model.requests[asked].data.decode(),
                }  # fmt: skip
                sys.stdout.write(json.dumps(told) + "\n")
                sys.stdout.flush()


def main() -> None:
    directory, name, turns, seed, sessions, *how = sys.argv[1:]
    lawless = how == ["lawless"]
    if lawless:
        Owner.claim = lambda *_: False  # type: ignore[method-assign]
    numbers = [int(number) for number in sessions.split(",")]
    asyncio.run(ask(Path(directory), name, int(turns), int(seed), numbers, lawless=lawless))


if __name__ == "__main__":
    main()
