"""Which JSON library: msgspec, orjson and the standard library on the tree that is raced.

    python -m benchmarks.json_libraries

orjson is not a dependency; install it to see its rows. Prints a Markdown table.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from benchmarks.data import as_json, mail_tree
from benchmarks.harness import allocated, measure
from sightline.protocol import codec

NODES = 100_000


def main() -> None:
    """Measure every candidate that is installed."""
    data = as_json(mail_tree(NODES))
    print("| library | to plain objects | their memory | plain objects to JSON |")
    print("| --- | ---: | ---: | ---: |")
    for name, loads, dumps in _candidates():
        cells = [
            _ms(measure(partial(loads, data))),
            _mb(allocated(partial(loads, data))),
            _ms(measure(partial(dumps, loads(data)))),
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    root = codec.build(data)
    cells = [
        _ms(measure(lambda: codec.build(data))),
        _mb(allocated(lambda: codec.build(bytes(bytearray(data))))),
        _ms(measure(lambda: codec.encode(root))),
    ]
    print(f"| msgspec, straight to our nodes | {' | '.join(cells)} |")


def _candidates() -> list[tuple[str, Callable[[bytes], Any], Callable[[Any], bytes]]]:
    found: list[tuple[str, Callable[[bytes], Any], Callable[[Any], bytes]]] = [
        ("json", json.loads, lambda value: json.dumps(value, ensure_ascii=False).encode()),
        ("msgspec", msgspec.json.decode, msgspec.json.encode),
    ]
    try:
        orjson = importlib.import_module("orjson")
    except ModuleNotFoundError:
        return found
    return [*found, ("orjson", orjson.loads, orjson.dumps)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
