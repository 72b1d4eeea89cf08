"""What a prompt replays of a conversation, and exactly what of it may change between two requests.

Let R be a replay and R' the next one of the same conversation. Unless the window folded in
between, R' is R with more behind it, up to the first tool result that is cut shorter than it was:

    within a turn     the result that is no longer one of the newest (`Tiers.recent`), …
    the next turn     … and every result of the turn that is over, for good

and only if it is longer than its new limit. No other message changes, and no result of a group
before that. Measured over 30 and 90 turns at vendors' prices this costs less than to let long
results stand until the window folds: what is cut is sent again with every request until then.

With `Tiers.settle` they stand all the same. A result changes its form at a fold, or never:

    ├── shown when the window last folded ──┤── since then ──┤
      tool results as traces                  tool results as they were in their own turn

Results that were never part of a stable prefix need not wait. Those stood behind a tail
that was kept for the length of their turn (`dialects.observations`): when it goes, what
follows it is evaluated again anyway, and as traces that is less.

Tiers
=====
Three: the newest results of the active group in near full, older ones of
the same group shorter, results of finished groups as a trace, each cut one
followed by the query that brings the whole of it back. Truncation is a view;
the ledger keeps everything.

The exact tiers re-cut an old result whenever a new one arrives, which changes
the prompt in its middle. With `settle=True` results are degraded in batches, a
result changes its form once at most, and the groups that ended since the window
last folded are left as they are (`replay`):

    active group, 5 kept, batch 5:   results 1…9 in full; the 10th sends 1…5 to 1000
    the group ends:                  1…5 stay at 1000, the others go to 300; then for good

Isolation
=========
Text goes with the conversation wherever it goes. Tool calls and results are
replayed only to the strategy that made them (`gemini` and `gemini_gca` are one
family, as are `openai` and `openai_chat`), because a chain of calls in another
vendor's manner misleads more than it tells. Parts are neutral here, so
`translate=True` may offer them to anyone.

Whatever leaves, leaves in pairs: in what `isolate` returns every tool call has
its result, after it, and every result its call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from sightline.context.messages.graphemes import cut_at_or_after, cut_at_or_before
from sightline.context.messages.parts import (
    Entry,
    EntryMemory,
    Part,
    ToolCall,
    ToolResult,
    by_group,
)
from sightline.context.messages.window import Window
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


_NONE: Final[Mapping[int, int]] = MappingProxyType({})


def fresh_groups(window: Window, total: int) -> int:
    """Count the newest groups that no fold has caught since they were the active one."""
    if window.slack == 0:
        return min(total, 1)
    if window.size == 0 or total <= window.size + window.slack:
        return total
    return 1 + (total - window.size) % (window.slack + 1)


def replay(
    entries: Sequence[Entry],
    window: Window,
    tiers: Tiers,
    *,
    total: int | None = None,
    loose: Mapping[int, int] = _NONE,
) -> list[Entry]:
    """Window and truncate a conversation, in that order.

    `entries` are all of it, or its newest groups together with the `total` number of
    groups; the last one's turn is not over. With `settle`, groups older than the last
    fold have their results cut as inactive ones, and each newer group keeps the form it
    had while it was active. `loose` names the groups of which a part stood behind a kept
    tail, and the first message of that part; its results are traces once the turn is over.
    """
    groups = list(by_group(entries))
    total = len(groups) if total is None else total
    shown = groups[len(groups) - min(len(groups), window.shown(total)) :]
    if not tiers.settle:
        return truncate([entry for _, group in shown for entry in group], tiers)
    fresh = min(fresh_groups(window, total), len(shown))
    settled = len(shown) - fresh
    replayed = truncate([e for _, group in shown[:settled] for e in group], tiers, active_group=-1)
    for at, (group_id, group) in enumerate(shown[settled:], settled + 1):
        whole = truncate(group, tiers, active_group=group_id)
        first = 0 if at == len(shown) else loose.get(group_id, 0)
        if first:
            traces = truncate(group, tiers, active_group=-1)
            whole = [
                trace if entry.id >= first else entry
                for entry, trace in zip(whole, traces, strict=True)
            ]
        replayed += whole
    return replayed


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
