"""Which tool traffic a model may see again, and in whole pairs only.

Text goes with the conversation wherever it goes. Tool calls and results are
replayed only to the strategy that made them (`gemini` and `gemini_gca` are one
family, as are `openai` and `openai_chat`), because a chain of calls in another
vendor's manner misleads more than it tells. Parts are neutral here, so
`translate=True` may offer them to anyone.

Whatever leaves, leaves in pairs: in what `isolate` returns every tool call has
its result, after it, and every result its call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sightline.context.messages.parts import Entry, ToolCall, ToolResult

# std::slop, context management §2, tool isolation: `gemini` and `gemini_gca` are compatible.
# Strategies that read each other's tool traffic, by the name of their family.
FAMILIES: Final = {
    "gemini": "gemini",
    "gemini_gca": "gemini",
    "openai": "openai",
    "openai_chat": "openai",
}


def compatible(stored: str, active: str) -> bool:
    """Say whether tool traffic of one strategy can be replayed to the other."""
    return FAMILIES.get(stored, stored) == FAMILIES.get(active, active)


def isolate(entries: Sequence[Entry], strategy: str, *, translate: bool = False) -> list[Entry]:
    """Leave out the tool traffic that `strategy` did not make, and whatever has no partner."""
    if not translate:
        entries = [
            entry
            for entry in entries
            if compatible(entry.parsing_strategy, strategy) or not entry.is_tool_traffic
        ]
    return paired(entries)


def paired(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out calls without a later result, results without an earlier call, and repeats.

    An entry left without parts leaves too.
    """
    entries = list(entries)
    pairs, alone = _pairs(entries)
    if not alone:
        return entries
    shown: list[Entry] = []
    for index, entry in enumerate(entries):
        if entry.is_tool_traffic:
            parts = [
                part
                for position, part in enumerate(entry.message.parts)
                if not isinstance(part, ToolCall | ToolResult) or (index, position) in pairs
            ]
            if not parts:
                continue
            entry = entry.with_parts(parts)
        shown.append(entry)
    return shown


def _pairs(entries: Sequence[Entry]) -> tuple[set[tuple[int, int]], int]:
    """Find calls and results that have their partner, by entry and part; count what may leave."""
    open_calls: dict[str, tuple[int, int]] = {}
    found: set[tuple[int, int]] = set()
    traffic = 0
    for index, entry in enumerate(entries):
        traffic += not entry.message.parts
        for position, part in enumerate(entry.message.parts):
            if isinstance(part, ToolCall):
                traffic += 1
                open_calls[part.id] = (index, position)
            elif isinstance(part, ToolResult):
                traffic += 1
                if part.call_id in open_calls:
                    found |= {open_calls.pop(part.call_id), (index, position)}
    return found, traffic - len(found)
