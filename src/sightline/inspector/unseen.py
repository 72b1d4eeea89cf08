"""What a request did not show the model, each thing with the rule that kept it out (pure).

turns      outside the window, or dropped by the user
messages   that were offered and cut, in whole or in part: the receipt's rules
results    of tools that are cut to their tier, with a hint where the rest is
nodes      of apps for which there was no room
apps       that showed nothing: refused, silent, not connected

Where another rule would have shown it, that is the thing's `wish`, as *What if* takes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from math import ceil
from typing import Final, TypeAlias

import msgspec

from sightline.context.messages.parts import Entry
from sightline.context.messages.replay import CUT_MARKS, cut_from
from sightline.context.projection.select import WHY_CUT
from sightline.context.slots.prompt import RULES, MessageLine, Prompt, Receipt, SlotLine
from sightline.inspector.trees import AppTree
from sightline.slop.protocol.world import World

_NO_ROOM: Final = frozenset({"budget", "stub"})
_STATUSES: Final = {
    "awaiting": "it has shown nothing yet",
    "disconnected": "it is not connected: what it showed last is not current",
}


WishOptions: TypeAlias = dict[str, str | int | float]


class Unseen(msgspec.Struct, frozen=True):
    """One thing that the model did not see: how much of it, and by which rule; `turn` of it.

    `wish` are the options of *What if* with which it would have been seen; none if none would.
    """

    kind: str
    what: str
    amount: str
    rule: str
    turn: int | None = None
    wish: WishOptions = {}


def older_turns(
    groups: Iterable[tuple[int, int, str, int, int]], seq: int, seen: Collection[int], cut: int = 0
) -> Iterator[Unseen]:
    """Name the turns before one (its `seq`) that it did not replay; it did so with those `seen`.

    Groups are seq, id, status, messages and tokens, in order. The newest `cut` of the others were
    within the window: what became of their messages is said of each.
    """
    before = [group for group in groups if group[0] < seq and group[0] not in seen]
    live = [group for group in before if group[2] == "live"]
    replayed = len(seen) + cut
    if older := live[: max(0, len(live) - cut)]:
        numbers = _range(older[0][0] + 1, older[-1][0] + 1)
        rule = f"outside the window: {replayed:,} turns were replayed"
        wish: WishOptions = {"window": len(older) + replayed + 1, "slack": 0}
        yield Unseen("turns", numbers, _weight(older), rule, older[-1][0] + 1, wish)
    for group in before:
        if group[2] == "dropped":
            number = group[0] + 1
            yield Unseen("turns", f"turn {number}", _weight([group]), "dropped by you", number)


def _weight(groups: Iterable[tuple[int, int, str, int, int]]) -> str:
    messages, tokens = (sum(column) for column in list(zip(*groups, strict=True))[3:])
    return f"{messages:,} messages, {tokens:,} tokens"


def _range(first: int, last: int) -> str:
    return f"turn {first}" if first == last else f"turns {first}–{last}"  # noqa: RUF001


def cut_messages(receipt: Receipt) -> Iterator[Unseen]:
    """Name every message that was offered and is not, or not whole, in the prompt."""
    for slot in receipt.slots:
        for number, line in enumerate(slot.messages, 1):
            if line.cut:
                what = f"message {number} of {len(slot.messages)} in {slot.name} ({line.role})"
                amount = f"{line.cut:,} of {line.offered:,} tokens"
                wish = _more_room(receipt, slot, line)
                yield Unseen("message", what, amount, RULES[line.rule], wish=wish)


def _more_room(receipt: Receipt, slot: SlotLine, line: MessageLine) -> WishOptions:
    """The room in which a slot would have kept all that it was offered."""
    if line.rule == "max_ratio" and slot.cut <= receipt.free:
        share = ceil(1_000 * slot.offered / receipt.budget) / 1_000
        return {"of": slot.name, "max_ratio": min(1.0, share)}
    cut = sum(one.cut for one in receipt.slots)
    return {"budget": receipt.budget + 2 * cut, "of": slot.name, "max_ratio": 1.0}


def cut_results(prompt: Prompt, stored: Callable[[int], Entry | None]) -> Iterator[Unseen]:
    """Name every tool result of a prompt that is cut; `stored` reads a message of the session."""
    names = {call.id: call.name for message in prompt.messages for call in message.tool_calls}
    for message in prompt.messages:
        for result in message.tool_results:
            number = cut_from(result.content)
            entry = None if number is None else stored(number)
            if entry is None:
                continue
            whole = sum(len(one.content) for one in entry.message.tool_results)
            what = f"result of {names.get(result.call_id, 'a tool')} (message {entry.id})"
            left = result.content.rindex(CUT_MARKS[1])
            amount = f"{left:,} of {whole:,} characters shown"
            rule = "truncation: older results are cut shorter"
            yield Unseen("result", what, amount, rule, wish={"results": whole})


def cut_nodes(apps: Iterable[AppTree], tail_tokens: int) -> Iterator[Unseen]:
    """Count the nodes of each app that were not shown, by reason.

    `tail_tokens` is what the tail could weigh; what is missing is taken to weigh like the rest.
    """
    for app in apps:
        reasons = Counter(
            reason for reason, kind in zip(app.reasons, app.kinds, strict=True) if kind
        )
        for reason, count in reasons.items():
            amount = f"{count:,} of {len(app.texts):,} nodes"
            shown = max(1, app.kinds.count(0))
            room = ceil(tail_tokens * len(app.texts) / shown / 1_000) * 1_000
            wish: WishOptions = {"tail": room} if reason in _NO_ROOM else {}
            yield Unseen("nodes", app.name, amount, WHY_CUT.get(reason, reason), wish=wish)


def silent_apps(world: World) -> Iterator[Unseen]:
    """Name the apps that showed nothing, with what they, or we, said of it."""
    for app in world.apps:
        if app.status != "connected":
            why = app.reason or _STATUSES[app.status]
            yield Unseen("app", f"{app.name} ({app.id})", app.status, why)
    for other in world.available:
        yield Unseen("app", f"{other.name} ({other.id})", "available", "it is not connected")
