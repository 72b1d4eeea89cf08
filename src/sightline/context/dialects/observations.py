"""The tails that were sent: which of them stay where they were, and what the newest says.

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

With `repeat="turn"` the first tail of a turn is whole and stays; each that follows says what
changed since the one before (`projection.changes`), or that nothing did. With
`repeat="session"` they stay over turns as well, as long as what the user said before them is as
it was: not once the window has folded. Both begin anew with a whole tail when the changes
together would outweigh it. What is no block (the notes of the model and of the user) is said
again where it is another text than last time; under the same heading, the later one holds.

The price: what stands behind a kept tail is evaluated again at the next user turn,
when the tail goes. So it pays while a tool round is shorter than a tail, and wherever
results are cut to their traces at the end of a turn, which rewrites them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from sightline.context.dialects.profile import Profile
from sightline.context.dialects.turns import PromptTurn, place_tail
from sightline.context.messages.parts import File, Message, Part, Reasoning, Text
from sightline.context.projection.changes import ShownState, brief_state, render_changes, timeless
from sightline.context.projection.escape import BLOCK_NAMES

Growing: TypeAlias = Literal["turn", "session"]
Repeat: TypeAlias = Literal["whole", "brief"] | Growing
GROWING: Final[tuple[str, ...]] = get_args(Growing)
OPENINGS: Final = tuple(f"<{name} " for name in BLOCK_NAMES)
_REPLACES: Final = "What follows replaces every state and note above."
_NO_NOTES: Final = "The notes above no longer hold."


class SentTail(msgspec.Struct, frozen=True):
    """A tail that was sent earlier, and how many messages stood before it.

    `repeats` is the number of the observation that it refers to, 0 if it is whole. The newest of
    those that grow says more: `shown`, what the model has been shown once it has read it, `notes`,
    what else it knows, and `behind`, a digest of what the user had said before it.
    """

    after: int
    parts: tuple[Part, ...]
    repeats: int = 0
    shown: ShownState | None = None
    notes: tuple[Part, ...] = ()
    behind: str = ""


def kept_of(
    sent: tuple[SentTail, ...], prefix: Sequence[Message], repeat: Repeat
) -> tuple[SentTail, ...]:
    """Return the tails that still hold: of the running turn, or of the session; else none."""
    return _standing(sent, prefix) if repeat == "session" else running(sent, prefix)


def _standing(sent: tuple[SentTail, ...], prefix: Sequence[Message]) -> tuple[SentTail, ...]:
    """Return the tails if what they stand behind is the same conversation, be it cut elsewhere."""
    if not sent or sent[-1].after > len(prefix):
        return ()
    return sent if sent[-1].behind == digest_of(prefix[: sent[-1].after]) else ()


def digest_of(prefix: Sequence[Message]) -> str:
    """Digest what the user said, and who spoke when: the rest may be cut differently later."""
    outline = [(one.role, one.text if one.role == "user" else "") for one in prefix]
    return blake2b(msgspec.json.encode(outline), digest_size=16).hexdigest()


def running(sent: tuple[SentTail, ...], prefix: Sequence[Message]) -> tuple[SentTail, ...]:
    """Return the tails if they are of the turn that is running; none if the user spoke since.

    None, too, if the conversation is shorter than it was: then they are of another one.
    """
    last_user = max((i for i, message in enumerate(prefix) if message.role == "user"), default=-1)
    return sent if all(last_user < tail.after <= len(prefix) for tail in sent) else ()


def reasoned_until(prefix: Sequence[Message]) -> int:
    """Count the messages up to the last of this turn's that holds reasoning; 0 if none does."""
    for at in reversed(range(len(prefix))):
        if any(isinstance(part, Reasoning) for part in prefix[at].parts):
            return at + 1
        if prefix[at].role == "user":
            break
    return 0


def observe(
    tail: tuple[Part, ...],
    sent: tuple[SentTail, ...],
    after: int,
    *,
    repeat: Repeat,
    bound: int | None = None,
    shown: ShownState | None = None,
    behind: str = "",
) -> tuple[tuple[SentTail, ...], SentTail]:
    """Return the tails that stay, and the newest one as it is to be sent.

    `shown` is what the tail shows of the apps, for those that grow; without it they do not.
    `behind` is the digest of what it stands behind, for those that stay over turns.
    `bound` says that reasoning depends on what stands before it, and how many messages there
    are up to the last that holds some: the tails among these stay. None if nothing is bound.
    """
    if repeat in GROWING:
        notes = tuple(part for part in tail if not is_block(part))
        return _grown(SentTail(after, tail, 0, shown, notes, behind), sent, bound)
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


def _grown(
    newest: SentTail, sent: tuple[SentTail, ...], bound: int | None
) -> tuple[tuple[SentTail, ...], SentTail]:
    """Say what changed since the last tail; all of it, if there is none or that says more."""
    bare = tuple(SentTail(earlier.after, earlier.parts, earlier.repeats) for earlier in sent)
    known = sent[-1] if sent else None
    if known is not None and known.shown is not None and newest.shown is not None:
        changed = render_changes(known.shown, newest.shown)
        blocks = (Text(block) for block in (changed.available, changed.state) if block)
        parts = (*_new_notes(known.notes, newest.notes), *blocks)
        whole = known.repeats or len(sent)
        outdated = (old for old in sent[: whole - 1] if bound is None or old.after >= bound)
        since = sum(_size(earlier.parts) for earlier in (*sent[whole:], *outdated))
        if since + _size(parts) <= _size([*filter(is_block, newest.parts)]):
            return bare, msgspec.structs.replace(newest, parts=parts, repeats=whole)
    stay = tuple(earlier for earlier in bare if bound is not None and earlier.after < bound)
    parts = (Text(_REPLACES), *newest.parts) if stay else newest.parts
    return stay, msgspec.structs.replace(newest, parts=parts)


def _new_notes(known: tuple[Part, ...], notes: tuple[Part, ...]) -> tuple[Part, ...]:
    """Choose the notes to say: those that are new, or all if one is gone that nothing replaces."""
    headings = {_heading(note) for note in notes}
    if all(_heading(note) in headings for note in known):
        return tuple(note for note in notes if note not in known)
    return (Text(_NO_NOTES), *notes)


def _heading(note: Part) -> str:
    if isinstance(note, File):
        return note.uri
    return note.text.split("\n", 1)[0] if isinstance(note, Text) else ""


def is_block(part: Part) -> bool:
    """Whether a part is a block of live state, or of the apps that could be connected."""
    return isinstance(part, Text) and part.text.startswith(OPENINGS)


def _size(parts: Sequence[Part]) -> int:
    return sum(len(part.text) for part in parts if isinstance(part, Text))


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


def with_newest(placed: list[PromptTurn]) -> list[PromptTurn]:
    """Let the newest tail count as one that stays, if it stands last."""
    is_last = bool(placed) and placed[-1].edge is not None
    return [*placed[:-1], _kept(placed[-1])] if is_last else placed


def _kept(turn: PromptTurn) -> PromptTurn:
    return msgspec.structs.replace(turn, parts=turn.parts + turn.tail, tail=(), stable=True)
