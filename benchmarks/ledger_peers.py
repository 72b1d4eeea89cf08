"""Run as a program in the peers' own environment: how long they take to read a window.

Arguments: number of messages. Prints JSON: of each peer the processor seconds of
a read after a turn was appended, of one read after another, and of the first by a
store that was just opened (its connection made, nothing read); the best of many,
which is the one that other programs disturbed least.
Each stores the same conversation in a file of its own, in the form it prefers;
only reading is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WINDOW_MESSAGES = 200
READS = 50


def turn(number: int) -> list[tuple[str, str]]:
    """The texts of one turn: prompt, call, result, answer; as in benchmarks/ledger.py."""
    return [
        ("user", f"question {number}: " + "what does this module do, and why? " * 5),
        ("call", json.dumps({"path": f"/src/module_{number}.py"})),
        ("result", f"module {number}: " + "def f(x): return x + 1\n" * 25),
        ("assistant", f"answer {number}: " + "It adds one, because counting starts there. " * 8),
    ]


def timed(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def openai_agents(place: Path, count: int) -> dict[str, float]:
    from agents import SQLiteSession

    def items_of(number: int) -> list[Any]:
        (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
        call = {"type": "function_call", "call_id": f"c{number}", "name": "read"}
        return [
            {"role": "user", "content": question},
            {**call, "arguments": arguments},
            {"type": "function_call_output", "call_id": f"c{number}", "output": output},
            {"role": "assistant", "content": answer},
        ]

    async def measure() -> dict[str, float]:
        session = SQLiteSession("s", place / "agents.db")
        await session.add_items([item for n in range(count // 4) for item in items_of(n)])

        async def read(session: SQLiteSession = session) -> float:
            start = time.process_time()
            found = await session.get_items(limit=WINDOW_MESSAGES)
            taken = time.process_time() - start
            assert len(found) == WINDOW_MESSAGES
            return taken

        async def first_read() -> float:
            fresh = SQLiteSession("s", place / "agents.db")
            await fresh.get_items(limit=1)  # connects, which is no part of the race
            taken = await read(fresh)
            fresh.close()
            return taken

        again, after, first = [], [], []
        for number in range(READS):
            await session.add_items(items_of(count + number))
            after.append(await read())
        for _ in range(READS):
            again.append(await read())
            first.append(await first_read())
        session.close()
        return {"again": min(again), "after a turn": min(after), "first": min(first)}

    return asyncio.run(measure())


def llm(place: Path, count: int) -> dict[str, float]:
    import sqlite_utils
    from llm.logs import LogStore
    from llm.parts import Message, TextPart, ToolCallPart, ToolResultPart

    def messages_of(number: int) -> list[Any]:
        (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
        call, result = ToolCallPart(name="read"), ToolResultPart(name="read")
        call.tool_call_id = result.tool_call_id = f"c{number}"
        call.arguments, result.output = json.loads(arguments), output
        return [
            Message(role="user", parts=[TextPart(text=question)]),
            Message(role="assistant", parts=[call]),
            Message(role="tool", parts=[result]),
            Message(role="assistant", parts=[TextPart(text=answer)]),
        ]

    store = LogStore(sqlite_utils.Database(place / "llm.db"))
    thread = store.create_thread()
    with store.db.atomic():
        store.append(thread, [message for n in range(count // 4) for message in messages_of(n)])

    # It has no window: what a turn needs is read with everything before it.
    def read(store: LogStore = store) -> float:
        return timed(lambda: store.thread_messages(thread)[-WINDOW_MESSAGES:])

    again, after, first = [], [], []
    for number in range(READS // 10):
        store.append(thread, messages_of(count + number))
        after.append(read())
        again.append(read())
        first.append(read(LogStore(sqlite_utils.Database(place / "llm.db"))))
    return {"again": min(again), "after a turn": min(after), "first": min(first)}


def main() -> None:
    count = int(sys.argv[1])
    figures = {}
    for name, measure in (("openai-agents SQLiteSession", openai_agents), ("llm LogStore", llm)):
        with tempfile.TemporaryDirectory() as place:
            figures[name] = measure(Path(place), count)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
