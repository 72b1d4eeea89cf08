"""A recorded turn as it was: the conversation that it saw, and the counter that weighed it.

    what the request replayed   is what the turn saw, group by group
    the ledger                  has the same groups whole, dropped ones too, but not those undone
    before the first of them    the ledger as it is now: the turn did not see that far

So a group that was seen is taken from the ledger where it is still there, as the host took
it, and from the request, as it was sent, where it is not. A group that is in the ledger and
was not seen (dropped then, restored since) stays out.

An estimate is corrected by what a vendor reports, and the correction is kept nowhere. But
the receipt has every weight that came of it:

    weight = fixed + ⌈estimate x factor⌉      so factor is in ((kept - 1) / n, kept / n]

All messages of a request together leave an interval so small that any factor in it weighs
them alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sightline.agent.host import stage
from sightline.agent.host.journal import Recorded, RequestLine
from sightline.context.dialects.profile import Profile
from sightline.context.messages.parts import Entry, Message, by_group
from sightline.context.slots.prompt import Prompt
from sightline.context.tokens.estimate import Calibration
from sightline.context.tokens.tokens import Counter

_GONE: Final = "-"  # instead of a time: the ledger no longer has it


@dataclass(frozen=True, slots=True)
class Past:
    """What was said before a turn: what it saw, what is older, and how many groups have gone.

    `dropped` are groups that it saw and that no turn sees any more; of those, `removed`
    are in no ledger.
    """

    seen: list[list[Entry]]
    older: list[list[Entry]]
    dropped: int = 0
    removed: int = 0


def past_of(
    replayed: Sequence[Message], stored: Iterable[Entry], line: RequestLine, dialect: str
) -> Past:
    """Find what a request replayed in what the ledger has of the session, up to its turn."""
    groups = [entries for group, entries in by_group(stored) if group < line.group_id]
    seen: list[list[Entry]] = []
    dropped = removed = 0
    end = len(groups)
    for number, sent in reversed(list(enumerate(_groups(replayed)))):
        at = next((i for i in reversed(range(end)) if _begins_with(groups[i], sent[0])), None)
        if at is None:
            removed += 1
            seen.append([entry_of(message, line, dialect, -1 - number) for message in sent])
            continue
        end = at
        dropped += groups[at][0].status == "dropped"
        seen.append(groups[at])
    older = [group for group in groups[:end] if group[0].status != "dropped"]
    return Past(seen[::-1], older, dropped + removed, removed)


def _groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Split at what the user said; what stands before the first of it lost its beginning."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            groups.append([])
        if groups:
            groups[-1].append(message)
    return groups


def _begins_with(group: Sequence[Entry], message: Message) -> bool:
    return group[0].message == message


def entry_of(message: Message, line: RequestLine, dialect: str, group: int) -> Entry:
    """Make an entry of a message that was sent and that the ledger does not have."""
    return Entry(0, line.session_id, group, 0, message, "complete", dialect, 0, "estimated", _GONE)


def counter_of(profile: Profile, calibration: Calibration | None = None) -> Counter:
    """Return the counter of a model for one look: what is looked at does not come again."""
    return stage.counter_of(profile, calibration).alone()


def counter_as_then(recorded: Recorded) -> Counter:
    """Return the counter of a recorded request, corrected as it was."""
    plain = counter_of(recorded.profile)
    weighed = _weighed(recorded.prompt)
    once, twice = (
        counter_of(recorded.profile, Calibration(start=factor)).weigh([m for m, _ in weighed])
        for factor in (1.0, 2.0)
    )
    least, most = 0.0, math.inf
    for (_, weight), one, two in zip(weighed, once, twice, strict=True):
        estimate, corrected = two - one, weight - (2 * one - two)
        if estimate > 0:
            least = max(least, (corrected - 1) / estimate)
            most = min(most, corrected / estimate)
    if not least < most < math.inf:
        return plain  # its counter is not one that is corrected
    return counter_of(recorded.profile, Calibration(start=(least + most) / 2))


def _weighed(prompt: Prompt) -> list[tuple[Message, int]]:
    """The messages that are in a prompt as they were offered, with their weights."""
    lines = [line for slot in prompt.receipt.slots for line in slot.messages if line.is_present]
    if len(lines) != len(prompt.messages):
        return []
    placed = zip(prompt.messages, lines, strict=True)
    return [(message, line.kept) for message, line in placed if not line.cut]
