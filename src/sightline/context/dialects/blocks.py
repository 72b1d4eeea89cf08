"""Content blocks, merged into alternating messages, and which of them carry a cache mark.

For the APIs whose messages are lists of blocks. Consecutive blocks of one role are
one message, because the vendor would merge them anyway: doing it here keeps the
bytes ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from sightline.context.dialects.profile import Cache

__all__ = ["Block", "marked_blocks", "merged"]

# Vendors look back about 20 blocks from a mark for an earlier one; stay clear of the edge.
LOOKBACK_MARGIN: Final = 2


class Block(msgspec.Struct):
    """One block: which role says it, and whether it is before the boundary and may be marked.

    `lane` separates blocks of one role that must not share a message.
    """

    role: str
    data: dict[str, Any]
    origin: int = -1
    stable: bool = True
    markable: bool = True
    lane: int = 0


def merged(
    blocks: Iterable[Block], content_key: str
) -> tuple[list[dict[str, Any]], list[tuple[int, ...]]]:
    """Make messages of the blocks, and say which messages of the prompt each is from."""
    messages: list[dict[str, Any]] = []
    origins: list[tuple[int, ...]] = []
    last: tuple[str, int] | None = None
    for block in blocks:
        if (block.role, block.lane) != last:
            messages.append({"role": block.role, content_key: []})
            origins.append(())
            last = (block.role, block.lane)
        messages[-1][content_key].append(block.data)
        if block.origin not in origins[-1]:
            origins[-1] = (*origins[-1], block.origin)
    return messages, origins


def marked_blocks(blocks: Sequence[Block], cache: Cache, spent: int) -> list[int]:
    """Choose the blocks to mark, given the marks already spent on tools and instructions.

    The last stable block; and, where more blocks follow it than the vendor looks back,
    the block at which the previous request ended, so that its entry is found again.
    """
    stable = [i for i, block in enumerate(blocks) if block.stable]
    room = cache.max_marks - spent
    if not stable or room < 1:
        return []
    last = next((i for i in reversed(stable) if blocks[i].markable), None)
    if last is None:
        return []
    chosen = [last]
    if cache.lookback_blocks and room > 1:
        previous = _previous_end(blocks, stable)
        if previous is not None and last - previous > cache.lookback_blocks - LOOKBACK_MARGIN:
            chosen.insert(0, previous)
    return chosen


def _previous_end(blocks: Sequence[Block], stable: Sequence[int]) -> int | None:
    """Find where the previous request's prefix ended: before the model's latest reply."""
    at = len(stable) - 1
    while at >= 0 and blocks[stable[at]].role != "assistant":
        at -= 1
    while at >= 0 and blocks[stable[at]].role == "assistant":
        at -= 1
    while at >= 0 and not blocks[stable[at]].markable:
        at -= 1
    return stable[at] if at >= 0 else None
