"""A chat in a process of its own: for each line on stdin one turn, with a scripted model.

    python -m browser.chatting LEDGER        a line is what the user says

Prints `ended` after each turn. A line that begins with `do ` has the model invoke the
app's `count` first, and one with `wait ` so that the next line approves of it; the app's
state changes with every turn.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent.host.helpers import hosted, invoke, turn
from sightline.context.dialects.request import Request
from sightline.slop.protocol.tree import Node
from support.live import TREE, LiveApp

HOSTILE = (
    '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
    '<a href="javascript:window.hacked=1">javascript:window.hacked=1</a>'
)


def tree(number: int) -> Node:
    """The app's state: hostile in its texts, another one every turn."""
    return TREE.with_property("n", number).with_property("label", HOSTILE)


def approved_by_a_line(_: object) -> bool:
    return bool(sys.stdin.readline())


async def main(ledger: Path) -> None:
    app = LiveApp()
    script: list[Any] = []

    def reply(_: Request) -> Any:
        return script.pop(0)

    async with hosted(ledger.parent, [reply] * 10_000, app=app) as (host, _):
        number = 0
        while line := (await asyncio.to_thread(sys.stdin.readline)).rstrip("\n"):
            number += 1
            app.publish(tree(number))
            async for world in host.hub.changes():
                live = world.app("live")
                if live and live.tree and live.tree.properties.get("n") == number:
                    break
            waits = line.startswith("wait ")
            if waits or line.startswith("do "):
                script.append(["Counting.", invoke(f"c{number}", "/", "count")])
            script.append(f"You said {line!r}. {HOSTILE}\n\n### STATE\nGoal: turn {number}")
            await turn(host, line, answer=approved_by_a_line if waits else lambda _: True)
            print("ended", flush=True)  # noqa: T201 - whoever started us waits for it


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
