"""Run as a program in the peers' own environment: durable appends to PostgreSQL by many writers.

Arguments: the address of a database, how many appends each writer makes. Prints JSON: of each peer
what `by_writers` found. Writers are processes, each with a session of its own; an append is the
turn that our own writers append.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any
from uuid import uuid4

WRITERS = 16
HISTORY = 200  # messages
_SOUNDS = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "ru", "st", "tion", "ver", "ly")
_WORDS = ["".join(sounds) for sounds in product(_SOUNDS, repeat=3)]


def turn_of(number: int) -> tuple[tuple[str, str], ...]:
    """Make one turn: four messages, 3.1 kB, which a database can pack no better than prose."""
    chance = Random(number)
    sizes = (("user", 315), *[("assistant", 924)] * 3)
    return tuple((role, " ".join(chance.choices(_WORDS, k=size))[:size]) for role, size in sizes)


TURN = turn_of(0)


def by_writers(work: Callable[[int], Iterator[object]], writers: int = WRITERS) -> dict[str, float]:
    """Run work in so many processes; its first step is not timed, and all wait until it is done.

    Steps a second by the clock, the median and the 99th percentile of a step, and the processor
    time of a step.
    """
    gate_reader, gate = os.pipe()
    pipes = []
    for number in range(writers):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(gate)
            _write_times(work(number), gate_reader, writer)
        os.close(writer)
        pipes.append(reader)
    for reader in pipes:
        os.read(reader, 1)
    start = time.perf_counter()
    os.close(gate)
    found = []
    for reader in pipes:
        with os.fdopen(reader, "rb") as ended:
            found.append(json.loads(ended.read() or "null"))
    clock = time.perf_counter() - start
    os.close(gate_reader)
    for _ in pipes:
        os.wait()
    times = sorted(taken for each in found for taken in each["times"])
    return {
        "steps": len(times),
        "per_s": len(times) / clock,
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
        "cpu": sum(each["cpu"] for each in found) / len(times),
    }


def _write_times(steps: Iterator[object], gate: int, pipe: int) -> None:
    """Take every step, and write how long each took; the process ends with it."""
    try:
        next(steps)
        os.write(pipe, b"r")
        os.read(gate, 1)  # until all are ready
        times = []
        cpu = time.process_time()
        start = time.perf_counter()
        for _ in steps:
            now = time.perf_counter()
            times.append(now - start)
            start = now
        with os.fdopen(pipe, "w") as out:
            json.dump({"times": times, "cpu": time.process_time() - cpu}, out)
    except BaseException as error:  # noqa: BLE001 - a fork must not go on in its parent's place
        print(f"a writer ended: {error!r}", file=sys.stderr)
    os._exit(0)


def openai_agents(address: str, each: int) -> Iterator[None]:
    """Append to a session of openai-agents, as its documentation connects to PostgreSQL."""
    from agents.extensions.memory import SQLAlchemySession

    items: list[Any] = [{"role": role, "content": text} for role, text in TURN]
    with asyncio.Runner() as loop:
        url = address.replace("postgresql://", "postgresql+asyncpg://", 1)
        session = SQLAlchemySession.from_url(uuid4().hex, url=url)
        for _ in range(each + 1):
            loop.run(session.add_items(items))
            yield


def langgraph(address: str, each: int, history: int) -> Iterator[None]:
    """Put checkpoints that have a turn and so many messages before it."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.postgres import PostgresSaver

    turns = (turn_of(number) for number in range(history // len(TURN) + 1))
    messages = [
        (HumanMessage if role == "user" else AIMessage)(text)
        for turn in turns
        for role, text in turn
    ]
    with PostgresSaver.from_conn_string(address) as saver:
        config: Any = {"configurable": {"thread_id": uuid4().hex, "checkpoint_ns": ""}}
        version: Any = None
        for step in range(each + 1):
            version = saver.get_next_version(version, None)
            checkpoint: Any = {
                **empty_checkpoint(),
                "channel_values": {"messages": messages},
                "channel_versions": {"messages": version},
            }
            about: Any = {"source": "loop", "step": step, "parents": {}}
            config = saver.put(config, checkpoint, about, {"messages": version})
            yield


def prepare(address: str) -> None:
    """Make the peers' tables."""
    from agents.extensions.memory import SQLAlchemySession
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(address) as saver:
        saver.setup()

    async def tables() -> None:
        url = address.replace("postgresql://", "postgresql+asyncpg://", 1)
        session = SQLAlchemySession.from_url("first", url=url, create_tables=True)
        await session.add_items([{"role": "user", "content": "first"}])

    asyncio.run(tables())


def main() -> None:
    address, each = sys.argv[1], int(sys.argv[2])
    prepare(address)
    few = max(10, each // 5)
    figures = {
        "openai-agents": by_writers(lambda _: openai_agents(address, few)),
        "langgraph": by_writers(lambda _: langgraph(address, each, 0)),
        "langgraph-200": by_writers(lambda _: langgraph(address, few, HISTORY)),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
