"""What each way in costs in tokens of state, over 50 turns in which 5 % of it change.

    python -m proof.costs

Prints the table of docs/mcp.md. Every way is the program's own: a tail, what the hook says, the
results of the MCP server's tools, the gateway's requests. What is kept in a conversation stands in
every later request; a tail stands in one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from mcp import Client

from sightline import Hub
from sightline.adapters.hook import addition
from sightline.adapters.hub import LiveTools
from sightline.adapters.mcp import AppsServer
from sightline.agent.host.sight import SightRules
from sightline.context.projection.changes import ShownState
from sightline.context.tokens.tokens import default_counter
from sightline.gateway.observer import Passing
from sightline.gateway.tail import LiveTail, Mode
from sightline.slop.app.local import local_dial
from support.board import AT, TURNS, Board

__all__ = ["standing", "table"]

BUDGET = 4_000
LIBRARY = "library: a tail in every request"
ADAPTER = "adapter: the same, by the framework's own extension point"
WHOLE = "gateway, `--tail whole`: a state in every request"
SESSION = "gateway, `--tail session`: a snapshot, then changes, put back in every request"
PLUGIN = "plugin: a snapshot, then changes"
WAIT = "MCP: one `look`, then `wait` or `act` in every turn"
LOOK = "MCP: `look` in every turn"
DEPLOYED = "a hook that tells the whole state in every turn, as deployed SLOP plugins do"
PASSES = (LIBRARY, ADAPTER, WHOLE, SESSION)  # what a request has is all there is of it
KEPT = (PLUGIN, WAIT, LOOK, DEPLOYED)  # in the conversation, for every later request


async def standing() -> dict[str, list[int]]:
    """Count the tokens of state in each turn's request, by the way in."""
    board, count = Board(), cache(default_counter().count)
    shown: ShownState | None = None
    found: dict[str, list[int]] = {way: [] for way in (*PASSES, *KEPT)}
    async with Hub() as hub:
        hub.add("board", local_dial(board.app))
        await hub.ready()
        live, agent = LiveTools(hub, BUDGET, None, "auto"), _Agent(hub)
        async with AppsServer(hub) as server, Client(server.protocol, mode="legacy") as client:
            for turn in range(TURNS):
                now = AT + timedelta(seconds=turn)
                whole = hub.tail(BUDGET).text
                told, shown = addition(hub.world, shown, now, BUDGET, count)
                texts = {
                    LIBRARY: [whole],
                    ADAPTER: [live.tail().text],
                    **agent.requests(now),
                    PLUGIN: [told],
                    WAIT: [await _result(client, "wait", app="board", seconds=0)
                           if turn else await _result(client, "look")],
                    LOOK: [await _result(client, "look", app="board")],
                    DEPLOYED: [whole],
                }  # fmt: skip
                for way, parts in texts.items():
                    before = found[way][-1] if way in KEPT and turn else 0
                    found[way].append(before + sum(map(count, parts)))
                board.change()
                await hub.query("board")
    return found


async def _result(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    return json.dumps(result.structured_content, ensure_ascii=False)


class _Agent:
    """An agent behind the gateway, whose conversation grows by two messages a turn."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._now = AT
        self._messages: list[dict[str, str]] = []
        self._tails = {WHOLE: self._tail("whole"), SESSION: self._tail("session")}

    def _tail(self, mode: Mode) -> LiveTail:
        rules = SightRules(BUDGET, "text", {}, BUDGET)
        count = default_counter().count
        return LiveTail(mode, lambda: self._hub.world, count, rules, clock=lambda: self._now)

    def requests(self, now: datetime) -> dict[str, list[str]]:
        """Send the next one each way; give the states that the vendor is sent."""
        self._now = now
        self._messages.append({"role": "user", "content": "And now?"})
        body = {"model": "gpt-5.5", "tools": [{}], "messages": self._messages}
        sent = {}
        for way, tail in self._tails.items():
            data = json.dumps(body).encode()
            passing = Passing("openai-chat", "/v1/chat/completions", {}, data, 0.0, 0.0)
            spliced = tail.splice_into(self._hub.world, passing, "http://127.0.0.1").data
            texts = [message["content"] for message in json.loads(spliced)["messages"]]
            sent[way] = [text for text in texts if "<slop-state " in text]
        self._messages.append({"role": "assistant", "content": "So it is."})
        return sent


def table(found: dict[str, list[int]]) -> Iterator[str]:
    """Write what stands in the last request, what all carried, and the former in snapshots."""
    snapshot = found[LIBRARY][0]
    yield "| way | in the last request | in all requests | snapshots |"
    yield "| --- | ---: | ---: | ---: |"
    for way, tokens in found.items():
        yield f"| {way} | {tokens[-1]:,} | {sum(tokens):,} | {tokens[-1] / snapshot:.1f} |"


if __name__ == "__main__":
    print("\n".join(table(asyncio.run(standing()))))
