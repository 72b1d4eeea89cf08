"""Which JSON library: ours builds nodes with msgspec, the peers plain objects with anything.

    python -m benchmarks --only json_libraries

orjson runs in the peers' environment, on the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.data import as_json, mail_tree
from benchmarks.harness import Row, allocated, measure
from benchmarks.peers import run_peer
from sightline.slop.protocol import codec

__all__ = ["run"]

NODES, QUICK_NODES = 100_000, 1_000
WORK = {
    "read": "read JSON: {} to plain objects, ours to nodes",
    "write": "write JSON: {} from plain objects, ours from nodes",
    "memory": "memory: plain objects of {}, ours as nodes",
}


def run(*, quick: bool = False) -> list[Row]:
    """Measure every candidate; ours is the same in all of its rows."""
    nodes = QUICK_NODES if quick else NODES
    data = as_json(mail_tree(nodes))
    ours = {
        "read": measure(lambda: codec.build(data)),
        "write": measure(partial(codec.encode, codec.build(data))),
        "memory": allocated(lambda: codec.build(bytes(bytearray(data)))),
    }
    libraries = dict(_measured(data))
    if not quick and (found := run_peer("json_peer.py", stdin=data.decode())):
        libraries["orjson"] = found
    return [
        Row(
            f"{what}-{name}", WORK[what].format(name), nodes, ours[what], theirs[what],
            unit="bytes" if what == "memory" else "s",
        )
        for what in WORK
        for name, theirs in libraries.items()
    ]  # fmt: skip


def _measured(data: bytes) -> Iterator[tuple[str, dict[str, float]]]:
    libraries: list[tuple[str, Callable[[bytes], Any], Callable[[Any], bytes]]] = [
        ("json", json.loads, lambda value: json.dumps(value, ensure_ascii=False).encode()),
        ("msgspec", msgspec.json.decode, msgspec.json.encode),
    ]
    for name, loads, dumps in libraries:
        yield (
            name,
            {
                "read": measure(partial(loads, data)),
                "write": measure(partial(dumps, loads(data))),
                "memory": allocated(partial(loads, data)),
            },
        )
