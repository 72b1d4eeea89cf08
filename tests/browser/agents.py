"""An agent's session, recorded by a gateway before a vendor on loopback; hostile all over.

    python -m browser.agents LEDGER

The second request has its tools in another order, the third is refused, the last lacks a tool.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.faults import session

from browser.eventful import HOSTILE
from gateway.conftest import running
from sightline.agent.host.journal import Journal
from sightline.agent.host.sight import SightRules
from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.gateway.observer import Observer
from sightline.gateway.tail import LiveTail
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support.vendors.answers import Answer, Call, Refuses, says
from support.vendors.server import Vendor


def world() -> World:
    """One app, with a hostile text in a node below its root."""
    item = Node.of("item-1", "item", properties={"label": HOSTILE})
    return World((AppState("a", "Board", tree=Node.of("r", "root", children=[item])),))


def bodies() -> list[bytes]:
    """What the agent sends."""
    first, second, third, *_ = session(random.Random(2), "anthropic", 3)
    for body in (first, second, third):
        body["tools"][0]["description"] += HOSTILE
        body["tools"][-1]["name"] += HOSTILE
        body["messages"][0]["content"][-1]["text"] += f" Ship it. {HOSTILE}"
    second["tools"].reverse()
    third["tools"].pop()
    return [json.dumps(body).encode() for body in (first, second, second, third)]


async def record(path: Path) -> None:
    """Send them, and keep what passed."""
    used = Usage(20_000, 9, 15_000, 5_000)
    answers: list[Answer] = [
        says(f"well then {HOSTILE}", Call("Read", {"path": HOSTILE}), usage=used),
        says("again", usage=Usage(20_000, 9, 0, 20_000)),
        Refuses("key", saying=HOSTILE),
        says("at last", usage=used),
    ]
    rules = SightRules(1_000_000, "text", {}, 1_000_000)
    with Vendor(*answers) as vendor, Ledger(path) as ledger, closing(Journal(path)) as journal:
        observer = Observer(ledger, agent="claude")
        tail = LiveTail("whole", world, len, rules, journal)
        async with running({"anthropic": vendor.url}, tail) as run:
            for body in bodies():
                address = f"{run.base}/anthropic/v1/messages"
                await run.client.post(address, content=body, headers={"session-id": "one"})
                observer.observe(await run.passed.get())


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
