"""Run as a program in the peers' own environment: how long they take to read a window.

Arguments: number of messages. Prints JSON: the median milliseconds of each peer.
Each stores the same conversation in a file of its own, in the form it prefers;
only reading is measured.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WINDOW_MESSAGES = 200
READS = 30


def turn(number: int) -> list[tuple[str, str]]:
    """The texts of one turn: prompt, call, result, answer; as in benchmarks/ledger.py."""
    return [
        ("user", f"question {number}: " + "what does this module do, and why? " * 5),
        ("call", json.dumps({"path": f"/src/module_{number}.py"})),
        ("result", f"module {number}: " + "def f(x): return x + 1\n" * 25),
        ("assistant", f"answer {number}: " + "It adds one, because counting starts there. " * 8),
    ]


def median_ms(read: Callable[[], Any], reads: int) -> float:
    read()
    times = []
    for _ in range(reads):
        start = time.perf_counter()
        read()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def openai_agents(place: Path, count: int) -> float:
    from agents import SQLiteSession

    items: list[dict[str, Any]] = []
    for number in range(count // 4):
        (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
        call = {"type": "function_call", "call_id": f"c{number}", "name": "read"}
        items += [
            {"role": "user", "content": question},
            {**call, "arguments": arguments},
            {"type": "function_call_output", "call_id": f"c{number}", "output": output},
            {"role": "assistant", "content": answer},
        ]

    async def measure() -> float:
        session = SQLiteSession("s", place / "agents.db")
        await session.add_items(items)
        times = []
        for _ in range(READS + 1):
            start = time.perf_counter()
            found = await session.get_items(limit=WINDOW_MESSAGES)
            times.append((time.perf_counter() - start) * 1e3)
            assert len(found) == WINDOW_MESSAGES
        session.close()
        return statistics.median(times[1:])

    return asyncio.run(measure())


def llm(place: Path, count: int) -> float:
    import sqlite_utils
    from llm.logs import LogStore
    from llm.parts import Message, TextPart, ToolCallPart, ToolResultPart

    store = LogStore(sqlite_utils.Database(place / "llm.db"))
    thread = store.create_thread()
    messages = []
    for number in range(count // 4):
        (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
        call, result = ToolCallPart(name="read"), ToolResultPart(name="read")
        call.tool_call_id = result.tool_call_id = f"c{number}"
        call.arguments, result.output = json.loads(arguments), output
        messages += [
            Message(role="user", parts=[TextPart(text=question)]),
            Message(role="assistant", parts=[call]),
            Message(role="tool", parts=[result]),
            Message(role="assistant", parts=[TextPart(text=answer)]),
        ]
    with store.db.atomic():
        store.append(thread, messages)
    assert len(store.thread_messages(thread)) == len(messages)
    # It has no window: what a turn needs is read with everything before it.
    return median_ms(lambda: store.thread_messages(thread)[-WINDOW_MESSAGES:], 5)


def main() -> None:
    count = int(sys.argv[1])
    figures = {}
    for name, measure in (("openai-agents SQLiteSession", openai_agents), ("llm LogStore", llm)):
        with tempfile.TemporaryDirectory() as place:
            figures[name] = measure(Path(place), count)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
