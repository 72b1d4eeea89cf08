"""What can be tried of any consumer that connects, by a provider that keeps to a script. Pure.

A consumer shows what it made of a message by whether it asks again: with a gap in `seq` it
must, and with none it must not. So a batch that was not unwrapped, a snapshot that was not taken
as the new base and an old patch that was counted all show as a question that nobody should
ask. Where the gap itself goes unnoticed, those are not shown at all. A patch that cannot be read
comes last and alone, for the one after it would be a gap to everybody.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Literal

from sightline.slop.conform.trial import Message, NotShown, Say, Trial, TrialKind, Verdict

HELLO: Final[Message] = {
    "type": "hello",
    "provider": {
        "id": "conform",
        "name": "Conformance",
        "slop_version": "0.1",
        "capabilities": ["state", "patches", "affordances", "attention", "windowing"],
    },
}
_CLAUSES: Final = (
    "gap.resubscribe", "consumer.unknown-type", "batch.order", "rebase.taken", "gap.drop-old",
    "seq.optional", "gap.unreadable",
)  # fmt: skip


class _Script:
    """The scripted provider's side of one subscription: its id, version and seq."""

    def __init__(self, subscription: str) -> None:
        self.subscription = subscription
        self.version = 0
        self.seq = 0

    def snapshot(self) -> Message:
        """A snapshot of a later version, the base of what follows."""
        self.version += 10
        self.seq = 0
        tree = {"id": "conform", "type": "root", "properties": {"n": self.version}}
        base = {"type": "snapshot", "id": self.subscription, "version": self.version, "seq": 0}
        return {**base, "tree": tree}

    def patch(self, *, skip: int = 0) -> Message:
        """The patch that follows; `skip` leaves out so many before it."""
        self.version += 1 + skip
        self.seq += 1 + skip
        return self.old_patch(0, self.seq)

    def uncounted_patches(self) -> list[Message]:
        """Two patches that follow, as a provider sends them that knows no `seq`."""
        patches = [self.patch(), self.patch()]
        return [{key: patch[key] for key in patch if key != "seq"} for patch in patches]

    def old_patch(self, age: int, seq: int) -> Message:
        """A patch of a version that the last snapshot holds already."""
        version = self.version - age
        ops = [{"op": "replace", "path": "/properties/n", "value": version}]
        head = {"type": "patch", "subscription": self.subscription, "version": version, "seq": seq}
        return {**head, "ops": ops}

    def asks_again(
        self, tries: str, *messages: Message, silence: Literal["answers", "hoped"] = "hoped"
    ) -> Generator[Say, list[Message], bool]:
        """Say something, and see whether the consumer asks again; it is then given a new base."""
        heard = yield Say(messages, _is_subscribe, silence, tries)
        ids = [message["id"] for message in heard if _is_subscribe(message)]
        if ids:
            self.subscription = ids[-1]
        return bool(ids)


def _is_subscribe(message: Message) -> bool:
    return message.get("type") == "subscribe" and isinstance(message.get("id"), str)


def following() -> Trial:
    """Leave a gap; then send what leaves none, and see that nobody asks."""
    [*_, first] = yield Say((HELLO,), _is_subscribe)
    script = _Script(first["id"])
    ask = script.asks_again
    if (yield from ask(_CLAUSES[0], script.snapshot(), script.patch())):
        raise NotShown("it asks again although nothing was missed")
    if not (yield from ask("gap.resubscribe", script.patch(skip=4), silence="answers")):
        why = "it does not notice what is missing"
        unseen = [Verdict(clause, None, why) for clause in _CLAUSES[1:]]
        return [Verdict("gap.resubscribe", False, why), *unseen]
    verdicts = [Verdict("gap.resubscribe", True)]

    fresh = script.snapshot()
    late = script.old_patch(1, 1), script.old_patch(0, 1)
    resubscribed = yield from ask("gap.drop-old", fresh, *late, script.patch())
    verdicts.append(Verdict("gap.drop-old", not resubscribed))

    again = (script.snapshot(),) if resubscribed else ()
    unknown: Message = {"type": "sightline-conform-no-such-type", "id": script.subscription}
    event: Message = {"type": "event", "name": "conform"}
    messages = (*again, unknown, event, script.patch())
    resubscribed = yield from ask("consumer.unknown-type", *messages)
    verdicts.append(Verdict("consumer.unknown-type", not resubscribed))

    again = (script.snapshot(),) if resubscribed else ()
    outer = script.patch()
    inner: Message = {"type": "batch", "messages": [script.patch()]}
    batch: Message = {"type": "batch", "messages": [outer, inner]}
    resubscribed = yield from ask("batch.order", *again, batch, script.patch())
    verdicts.append(Verdict("batch.order", not resubscribed))

    if resubscribed:
        yield from ask("rebase.taken", script.snapshot())
    resubscribed = yield from ask("rebase.taken", script.snapshot(), script.patch())
    verdicts.append(Verdict("rebase.taken", not resubscribed))

    again = (script.snapshot(),) if resubscribed else ()
    resubscribed = yield from ask("seq.optional", *again, *script.uncounted_patches())
    verdicts.append(Verdict("seq.optional", not resubscribed))

    fresh = script.snapshot()
    unreadable = {**script.patch(), "ops": None}
    resubscribed = yield from ask("gap.unreadable", fresh, unreadable, silence="answers")
    return [*verdicts, Verdict("gap.unreadable", resubscribed)]


CONSUMER_TRIALS: Final = (TrialKind("following", _CLAUSES, following),)
