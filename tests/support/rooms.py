"""Floors, rooms and who imports whom; the picture in ARCHITECTURE.md is made from it.

python tests/support/rooms.py     draw it anew
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_AGENT = ("policy", "turn", "models", "plugins", "toolbox", "workspace", "host", "bridge")

# From left to right, floor by floor: a room may import from what comes before it.
FLOORS: list[list[str]] = [
    ["_amounts", "_distribution", "_keywords", "_lazy", "errors", "events", "telemetry"],
    [f"slop/{room}" for room in ("protocol", "conform", "transports", "discovery", "app", "hub")],
    [
        f"context/{room}"
        for room in ("projection", "messages", "tokens", "slots", "dialects", "ledger")
    ],
    ["config"],
    [f"agent/{room}" for room in _AGENT],
    ["testing"],
    ["gateway", "inspector", "adapters", "demo", "cli"],
    ["__main__"],
]
PURE = {
    "_amounts", "_keywords", "errors", "events",
    "slop/protocol", "slop/conform", "context/projection", "context/messages",
    "context/tokens", "context/slots", "context/dialects", "agent/policy", "agent/turn",
}  # fmt: skip
_ROOMS = {room for floor in FLOORS for room in floor}


def room_of(parts: tuple[str, ...]) -> str | None:
    """Return the room of a module, from its names below the package."""
    return next((room for room in ("/".join(parts[:2]), parts[0]) if room in _ROOMS), None)


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Return all that a source is made of; the rules of the house all ask for it."""
    return tuple(ast.walk(ast.parse(source)))


@cache
def imports_of(source: str) -> frozenset[str]:
    """Return every module that a source imports from, function bodies included."""
    names: set[str] = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return frozenset(names)


def edges(package: Path) -> dict[str, set[str]]:
    """Return which rooms each room imports from."""
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        room = room_of(path.relative_to(package).with_suffix("").parts)
        if room is None:
            continue
        for name in imports_of(path.read_text(encoding="utf-8")):
            other = room_of(tuple(name.split(".")[1:])) if name.startswith("sightline.") else None
            if other is not None and other != room:
                found.setdefault(room, set()).add(other)
    return found


def picture(graph: Mapping[str, set[str]]) -> str:
    """Draw the rooms floor by floor, each with those it imports from directly."""
    lines = ["```mermaid", "flowchart LR"]
    for floor in FLOORS[1:-1]:
        title = floor[0].partition("/")[0]
        inside = [room for room in floor if "/" in room]
        if inside:
            lines.append(f"  subgraph {title}")
            lines += [f"    {_name(room)}[{room.partition('/')[2]}]" for room in inside]
            lines.append("  end")
    for room in (room for floor in FLOORS[1:-1] for room in floor):
        needed = graph.get(room, set()) - set(FLOORS[0])
        # Whoever is reached through another is not drawn twice.
        direct = needed - {far for near in needed for far in _reach(graph, near)}
        lines += [f"  {_name(other)} --> {_name(room)}" for other in sorted(direct)]
    return "\n".join([*lines, "```"])


def _reach(graph: Mapping[str, set[str]], room: str) -> set[str]:
    seen: set[str] = set()
    waiting = [room]
    while waiting:
        for other in graph.get(waiting.pop(), set()) - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def _name(room: str) -> str:
    return room.rpartition("/")[2]


if __name__ == "__main__":
    repository = Path(__file__).parents[2]
    page = repository / "ARCHITECTURE.md"
    drawn = picture(edges(repository / "src" / "sightline"))
    text = page.read_text(encoding="utf-8")
    page.write_text(
        re.sub(r"```mermaid\n.*?```", lambda _: drawn, text, count=1, flags=re.DOTALL),
        encoding="utf-8",
    )
