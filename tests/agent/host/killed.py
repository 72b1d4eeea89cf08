"""Run as a program: get into the middle of a turn, say so, and wait to be killed.

Arguments: a directory, where to be (`streaming`, `calling`, `approval`, `building`, `delegating`,
`late`), and the ledger if it is not one in the directory. Who is `late` answers once a line comes
in, and tells how the turn ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent.host.helpers import hosted, invoke
from sightline.agent.models.scripted import Stall
from sightline.config import DelegateSettings
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.events import TurnEnded
from support.live import LiveApp


async def answer_late(_: Request) -> str:
    """Have nothing to say until somebody wants to hear it."""
    await asyncio.to_thread(sys.stdin.readline)
    return "Too late."


SCRIPTS: dict[str, list[Any]] = {
    "streaming": [[ToolCall("c0", "describe_db", {})], Stall("I was about to say ")],
    "calling": [
        ["On it.", ToolCall("c0", "describe_db", {}), invoke("c1", "/", "hang"),
         invoke("c2", "/", "count")],
    ],
    "approval": [["May I?", invoke("c1", "/", "count")]],
    "building": [Stall()],
    "late": [answer_late],
    "delegating": [
        [ToolCall("d1", "delegate", {"task": "one"}), ToolCall("d2", "delegate", {"task": "two"})],
        Stall("So far "), Stall("So far "),
    ],
}  # fmt: skip


async def main(directory: Path, where: str, url: str | None = None) -> None:
    mode = "auto" if where == "calling" else "ask"
    offered = DelegateSettings(offer=where == "delegating")
    async with hosted(
        directory, SCRIPTS[where], app=LiveApp(), mode=mode, delegate=offered, url=url
    ) as (host, _):
        ledger = host.ledger

        def is_there() -> bool:
            work = ledger.work.open(host.session.id)
            return {
                "streaming": work.text != "",
                "calling": work.calls.get("c1") == "running",
                "approval": work.calls.get("c1") == "asked",
                "building": work.group_id > 0,
                "late": work.group_id > 0,
                "delegating": all(ledger.work.open(child).text for child in (2, 3)),
            }[where]

        async def wait() -> None:
            while not is_there():
                await asyncio.sleep(0)
            sys.stdout.write("there\n")
            sys.stdout.flush()

        waiting = asyncio.create_task(wait())
        async for event in host.ask("please"):
            if isinstance(event, TurnEnded):
                sys.stdout.write(f"{event.outcome} {event.code}\n")
                sys.stdout.flush()
        await waiting


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
