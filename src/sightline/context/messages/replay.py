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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sightline.context.messages.parts import Entry, by_group
from sightline.context.messages.truncate import Tiers, truncate
from sightline.context.messages.window import Window

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
