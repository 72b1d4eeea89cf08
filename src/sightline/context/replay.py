"""What a prompt replays of a conversation, so that between two folds no byte of it changes.

    ├── shown when the window last folded ──┤── since then ──┤
      tool results as traces                  tool results as they were in their own turn

A finished group's results are to shrink to a trace. Done when the group ends, that
rewrites the prompt in its middle at every turn with tools. But a window with slack
throws the cache away at its folds anyway, so the shrinking waits for them: a result
changes its form at a fold, or never.

A window without slack folds at every turn; this is then the exact truncation.
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.context.entries import Entry, by_group
from sightline.context.truncate import Tiers, truncate
from sightline.context.window import Window

__all__ = ["fresh_groups", "replay"]


def fresh_groups(window: Window, total: int) -> int:
    """Count the newest groups that no fold has caught since they were the active one."""
    if window.slack == 0:
        return min(total, 1)
    if window.size == 0 or total <= window.size + window.slack:
        return total
    return 1 + (total - window.size) % (window.slack + 1)


def replay(
    entries: Sequence[Entry], window: Window, tiers: Tiers, *, total: int | None = None
) -> list[Entry]:
    """Window and truncate a conversation, in that order.

    `entries` are all of it, or its newest groups together with the `total` number of
    groups. Groups older than the last fold have their results cut as inactive ones;
    each newer group keeps the form it had while it was active.
    """
    groups = list(by_group(entries))
    total = len(groups) if total is None else total
    shown = groups[len(groups) - min(len(groups), window.shown(total)) :]
    fresh = min(fresh_groups(window, total), len(shown))
    settled = len(shown) - fresh
    replayed = truncate([e for _, group in shown[:settled] for e in group], tiers, active_group=-1)
    for group_id, group in shown[settled:]:
        replayed += truncate(group, tiers, active_group=group_id)
    return replayed
