"""The peer's side of `benchmarks.slots`: langchain-core, in an environment of its own.

Reads conversations by size from stdin, writes its best times in milliseconds to stdout.
Annotations are not postponed here: `trim_messages` looks at them to learn whether a
counter takes one message or a list.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import toktok
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)

BUDGET = 128_000
ENCODING = "o200k_base"
remembered: dict[str, int] = {}


def message(row: dict[str, str]) -> BaseMessage:
    if row["kind"] == "user":
        return HumanMessage(row["text"])
    if row["kind"] == "call":
        call = {"name": "search", "args": {"q": "x"}, "id": row["id"]}
        return AIMessage("", tool_calls=[call])
    if row["kind"] == "result":
        return ToolMessage(row["text"], tool_call_id=row["id"])
    return AIMessage(row["text"])


def count(given: BaseMessage) -> int:
    tokens: int = toktok.batch_count([str(given.content)], ENCODING, threads=1)[0]
    return tokens


def recall(given: BaseMessage) -> int:
    text = str(given.content)
    if text not in remembered:
        remembered[text] = count(given)
    return remembered[text]


def best_ms(history: list[BaseMessage], counter: Callable[[BaseMessage], int]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        trim_messages(
            history,
            max_tokens=BUDGET,
            token_counter=counter,
            strategy="last",
            include_system=True,
            start_on="human",
        )
        best = min(best, time.process_time() - start)
    return best * 1000


def main() -> None:
    conversations: dict[str, Any] = json.load(sys.stdin)
    times = {}
    for size, rows in conversations.items():
        history = [SystemMessage("You are a helpful assistant."), *map(message, rows)]
        times[f"plain {size}"] = best_ms(history, count)
        times[f"remembered {size}"] = best_ms(history, recall)
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main()
