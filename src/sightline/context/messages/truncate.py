"""How much of a tool's output a prompt replays.

Three tiers: the newest results of the active group in near full, older ones of
the same group shorter, results of finished groups as a trace, each cut one
followed by the query that brings the whole of it back. Truncation is a view;
the ledger keeps everything.

The exact tiers re-cut an old result whenever a new one arrives, which changes
the prompt in its middle. With `settle=True` results are degraded in batches, a
result changes its form once at most, and the groups that ended since the window
last folded are left as they are (`replay`):

    active group, 5 kept, batch 5:   results 1…9 in full; the 10th sends 1…5 to 1000
    the group ends:                  1…5 stay at 1000, the others go to 300; then for good
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from sightline.context.messages.graphemes import cut_at_or_after, cut_at_or_before
from sightline.context.messages.parts import Entry, EntryMemory, Part, ToolResult, by_group
from sightline.errors import InvalidInput

_MARK: Final = "\n[…]\n"
# std::slop, context management §2, dynamic tool truncation: the hint, word for word.
_HINT: Final = (
    '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id={id}")'
    " to see full output]"
)
# One of these stands where the text of a cut result first departs from the whole.
CUT_MARKS: Final = (_MARK, _HINT[: _HINT.index("{")])
_NUMBER: Final = re.compile(re.escape(CUT_MARKS[1]) + r"([0-9]{1,18})")


class Tiers(msgspec.Struct, frozen=True):
    """The limits, in characters of the result kept; the retrieval hint comes on top.

    `tail_share` of a cut result is its end, the rest its beginning; 0 keeps the
    beginning only.
    """

    # std::slop, context management §2, dynamic tool truncation: 5 recent, 5000, 1000, 300.
    recent: int = 5
    recent_chars: int = 5000
    degraded_chars: int = 1000
    inactive_chars: int = 300
    tail_share: float = 0.25
    settle: bool = False
    batch: int = 5

    def __post_init__(self) -> None:
        for name in ("recent", "recent_chars", "degraded_chars", "inactive_chars"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} must not be negative")
        if not 0 <= self.tail_share < 1:
            raise InvalidInput("tail_share is a share of the kept text, from 0 to below 1")
        if self.batch < 1:
            raise InvalidInput("batch must be at least 1")

    def limits(self, results: int, *, active: bool) -> list[int]:
        """List the limit of each of a group's results, oldest first."""
        if self.settle:
            ripe = max(0, results - self.recent)
            degraded = ripe - ripe % self.batch
        else:
            degraded = max(0, results - self.recent) if active else 0
        rest = self.recent_chars if active else self.inactive_chars
        return [self.degraded_chars] * degraded + [rest] * (results - degraded)


def hint_for(message_id: int) -> str:
    """Name the query that brings a cut result back whole."""
    return _HINT.format(id=message_id)


def cut_from(text: str) -> int | None:
    """Tell which message a cut result is a part of, by its hint; None for one that is whole."""
    found = _NUMBER.findall(text)
    return int(found[-1]) if found else None


def truncate(
    entries: Sequence[Entry], tiers: Tiers | None = None, *, active_group: int | None = None
) -> list[Entry]:
    """Cut the tool results of a history to their tiers; nothing else changes.

    The active group is the last one shown unless `active_group` says otherwise
    (a group id, or -1 if the turn is over and every group is inactive).
    """
    tiers = tiers or Tiers()
    if active_group is None and entries:
        active_group = entries[-1].group_id
    shown: list[Entry] = []
    for group_id, group in by_group(entries):
        counts = [len(entry.message.tool_results) for entry in group]
        limits = tuple(tiers.limits(sum(counts), active=group_id == active_group))
        at = 0
        for entry, count in zip(group, counts, strict=True):
            shown.append(_shown(entry, limits[at : at + count], tiers) if count else entry)
            at += count
    return shown


_CUT: Final = EntryMemory()


def _shown(entry: Entry, limits: tuple[int, ...], tiers: Tiers) -> Entry:
    results = entry.message.tool_results
    sizes = [len(result.content) for result in results]
    if all(size <= limit for size, limit in zip(sizes, limits, strict=True)):
        return entry

    def cut() -> Entry:
        left = iter(limits)
        return entry.with_parts(
            _cut(part, entry.id, next(left), tiers) if isinstance(part, ToolResult) else part
            for part in entry.message.parts
        )

    return _CUT.of(entry, (limits, tiers), sum(sizes), cut)


def _cut(result: ToolResult, message_id: int, limit: int, tiers: Tiers) -> Part:
    if len(result.content) <= limit:
        return result
    kept = _head_and_tail(result.content, limit, tiers.tail_share)
    return msgspec.structs.replace(result, content=kept + hint_for(message_id))


def _head_and_tail(text: str, limit: int, tail_share: float) -> str:
    """Keep at most `limit` characters: the beginning, a mark, and the end."""
    room = limit - len(_MARK)
    tail = int(room * tail_share)
    if tail <= 0:
        return text[: cut_at_or_before(text, limit)]
    head_end = cut_at_or_before(text, room - tail)
    tail_start = cut_at_or_after(text, len(text) - tail)
    return f"{text[:head_end]}{_MARK}{text[tail_start:]}"
