"""Run as a program in the peers' own environment: orjson on the JSON that comes by stdin.

Prints JSON: processor seconds to read and to write, the best of five, and the bytes that
the plain objects hold.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import orjson


def best_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        gc.collect()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    data = sys.stdin.buffer.read()
    times = {
        "read": best_s(lambda: orjson.loads(data)),
        "write": best_s(partial(orjson.dumps, orjson.loads(data))),
    }
    gc.collect()
    tracemalloc.start()
    kept = orjson.loads(data)
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    del kept
    print(json.dumps({**times, "memory": memory}))


if __name__ == "__main__":
    main()
