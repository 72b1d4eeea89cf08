"""Run as a program: get into the middle of a turn, say so, and wait to be killed.

Arguments: a directory, and where to be: `streaming`, `calling`, `approval`, `building`,
`delegating`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent.host.helpers import hosted, invoke
from sightline.agent.models.scripted import Stall
from sightline.config import DelegateSettings
from sightline.context.messages.parts import ToolCall
from support.live import LiveApp

SCRIPTS: dict[str, list[Any]] = {
    "streaming": [[ToolCall("c0", "describe_db", {})], Stall("I was about to say ")],
    "calling": [
        ["On it.", ToolCall("c0", "describe_db", {}), invoke("c1", "/", "hang"),
         invoke("c2", "/", "count")],
    ],
    "approval": [["May I?", invoke("c1", "/", "count")]],
    "building": [Stall()],
    "delegating": [
        [ToolCall("d1", "delegate", {"task": "one"}), ToolCall("d2", "delegate", {"task": "two"})],
        Stall("So far "), Stall("So far "),
    ],
}  # fmt: skip


async def main(directory: Path, where: str) -> None:
    mode = "auto" if where == "calling" else "ask"
    offered = DelegateSettings(offer=where == "delegating")
    async with hosted(directory, SCRIPTS[where], app=LiveApp(), mode=mode, delegate=offered) as (
        host,
        _,
    ):
        ledger = host.ledger

        def is_there() -> bool:
            work = ledger.work.open(host.session.id)
            return {
                "streaming": work.text != "",
                "calling": work.calls.get("c1") == "running",
                "approval": work.calls.get("c1") == "asked",
                "building": work.group_id > 0,
                "delegating": all(ledger.work.open(child).text for child in (2, 3)),
            }[where]

        async def wait() -> None:
            while not is_there():
                await asyncio.sleep(0)
            sys.stdout.write("there\n")
            sys.stdout.flush()

        waiting = asyncio.create_task(wait())
        async for _ in host.ask("please"):
            pass
        await waiting


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
