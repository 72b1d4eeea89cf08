"""The table of docs/mcp.md: what each way in costs in tokens over fifty turns, counted again."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from mcp import Client

from sightline import Hub
from sightline.adapters.hook import addition
from sightline.adapters.mcp import AppsServer
from sightline.context.projection.changes import ShownState
from sightline.context.tokens.tokens import default_counter
from sightline.slop.app.local import local_dial
from support.board import AT, TURNS, Board

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
ROW = re.compile(r"^\| [^|]+\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|", re.MULTILINE)


async def test_the_page_says_what_fifty_turns_cost() -> None:
    board, told = Board(), dict[str, list[str]]()
    shown: ShownState | None = None
    async with Hub() as hub:
        hub.add("board", local_dial(board.app))
        await hub.ready()
        count = default_counter().count
        async with AppsServer(hub) as server, Client(server.protocol, mode="legacy") as client:

            async def call(tool: str, **arguments: Any) -> str:
                result = await client.call_tool(tool, arguments)
                return json.dumps(result.structured_content, ensure_ascii=False)

            for turn in range(TURNS):
                text, shown = addition(hub.world, shown, AT + timedelta(seconds=turn), 4_000, count)
                now = {
                    "tail": hub.tail(4_000).text,
                    "plugin": text,
                    "wait": await call("wait", app="board", seconds=0)
                    if turn
                    else await call("look"),
                    "look": await call("look", app="board"),
                }
                for way, said in now.items():
                    told.setdefault(way, []).append(said)
                board.change()
                await hub.query("board")
    snapshot = count(told["tail"][0])
    rows = []
    for way in ("tail", "plugin", "wait", "look"):
        weights = [count(text) for text in told[way]]
        # A tail is for one request; all others stay in the conversation.
        kept = weights[-1] if way == "tail" else sum(weights)
        rest = [sum(weights[: turn + 1]) for turn in range(TURNS)]
        sent = sum(weights) if way == "tail" else sum(rest)
        rows.append((f"{kept:,}", f"{sent:,}", f"{kept / snapshot:.1f}"))
    assert ROW.findall(PAGE.read_text("utf-8")) == rows, rows
