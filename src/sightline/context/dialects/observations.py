"""The tails of one user turn: which of them stay where they were, and which are said in a word.

    user │ tail 1 │ call · result │ tail 2 │ call · result │ tail 3

By default a request has one tail, the newest, at its end. With `turn_append` the tails
that were sent since the user last spoke stay in place, numbered, so that inside a tool
loop a request begins with all of the one before it. At the next user turn they are
gone; a host that still hands them over is not believed.

Where a model binds its reasoning to its prefix, a tail stays only if reasoning follows it:
then its bytes are part of what that reasoning depends on. A reply without any needs none.

With `repeat="brief"` a tail that differs from the last whole one in its times only is
sent as a reference to it. What it refers to is in the same request, always: the whole
tail is sent again when anything changed, and where no reasoning is bound
to them the outdated ones leave the request at the same moment.

The price: what stands behind a kept tail is evaluated again at the next user turn,
when the tail goes. So it pays while a tool round is shorter than a tail, and wherever
results are cut to their traces at the end of a turn, which rewrites them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from sightline.context.dialects.profile import Profile
from sightline.context.dialects.turns import PromptTurn, place_tail
from sightline.context.messages.parts import Message, Part, Reasoning, Text
from sightline.context.projection.unchanged import brief_state, timeless

__all__ = ["Repeat", "SentTail", "observe", "reasoned_until", "running", "with_sent"]

Repeat: TypeAlias = Literal["whole", "brief"]


class SentTail(msgspec.Struct, frozen=True):
    """A tail that was sent earlier in this user turn, and how many messages stood before it.

    `repeats` is the number of the observation that it refers to, 0 if it is whole.
    """

    after: int
    parts: tuple[Part, ...]
    repeats: int = 0


def running(sent: tuple[SentTail, ...], prefix: Sequence[Message]) -> tuple[SentTail, ...]:
    """Return the tails if they are of the turn that is running; none if the user spoke since.

    None, too, if the conversation is shorter than it was: then they are of another one.
    """
    last_user = max((i for i, message in enumerate(prefix) if message.role == "user"), default=-1)
    return sent if all(last_user < tail.after <= len(prefix) for tail in sent) else ()


def reasoned_until(prefix: Sequence[Message]) -> int:
    """Count the messages up to the last one of the model's that holds reasoning."""
    reasoned = (
        at
        for at in reversed(range(len(prefix)))
        if any(isinstance(part, Reasoning) for part in prefix[at].parts)
    )
    return next(reasoned, -1) + 1


def observe(
    tail: tuple[Part, ...],
    sent: tuple[SentTail, ...],
    after: int,
    *,
    repeat: Repeat,
    bound: int | None = None,
) -> tuple[tuple[SentTail, ...], SentTail]:
    """Return the tails that stay, and the newest one as it is to be sent.

    `bound` says that reasoning depends on what stands before it, and how many messages there
    are up to the last that holds some: the tails among these stay. None if nothing is bound.
    """
    whole = max((n for n, earlier in enumerate(sent, 1) if not earlier.repeats), default=0)
    if repeat == "brief" and whole and _same(sent[whole - 1].parts[1:], tail):
        heading = f"Observation {len(sent) + 1} of this turn: nothing has changed since {whole}."
        texts = [part.text for part in tail if isinstance(part, Text)]
        blocks = [block for text in texts if (block := brief_state(text, whole))]
        return sent, SentTail(after, (Text(heading), *map(Text, blocks)), whole)
    if bound is not None:
        sent = tuple(earlier for earlier in sent if earlier.after < bound)
    elif repeat == "brief":
        sent = ()
    heading = f"Observation {len(sent) + 1} of this turn; it replaces every earlier one."
    return sent, SentTail(after, (Text(heading), *tail))


def _same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return [*map(_timeless, one)] == [*map(_timeless, other)]


def _timeless(part: Part) -> Part:
    return Text(timeless(part.text)) if isinstance(part, Text) else part


def with_sent(
    turns: Sequence[PromptTurn], sent: Sequence[SentTail], profile: Profile
) -> list[PromptTurn]:
    """Put the earlier tails of this user turn back where this API was sent them, unchanged."""
    placed: list[PromptTurn] = []
    rest = list(turns)
    for tail in sent:
        # A result that came late stands with its call; nothing may come between these.
        later = (turn.origin >= tail.after and turn.role != "tool" for turn in rest)
        at = next((i for i, is_later in enumerate(later) if is_later), len(rest))
        placed, _ = place_tail([*placed, *rest[:at]], tail.parts, profile)
        placed = [turn if turn.stable and not turn.tail else _kept(turn) for turn in placed]
        rest = rest[at:]
    return [*placed, *rest]


def _kept(turn: PromptTurn) -> PromptTurn:
    return msgspec.structs.replace(turn, parts=turn.parts + turn.tail, tail=(), stable=True)
