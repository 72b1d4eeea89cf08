"""The turns of a session, as the inspector lists and judges them.

Whatever is asked costs what is shown: rows are read by their numbers, a verdict by the few
requests before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sightline.agent.host.journal import Journal, RequestLine
from sightline.agent.host.status import by_group
from sightline.context.ledger import Ledger
from sightline.inspector.verdicts import (
    CacheVerdict,
    KeptReceipt,
    SentFacts,
    cache_verdict,
    used_by,
)

__all__ = ["TurnRecords"]

LOOKED_BACK: Final = 8  # requests before one, among which its cache is looked for
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_receipts: Final = msgspec.json.Decoder(KeptReceipt)


class TurnRecords:
    """The turns of a ledger's sessions; `journal` opens the wire journal, if there is one."""

    def __init__(self, ledger: Ledger, journal: Callable[[], Journal | None]) -> None:
        self._ledger = ledger
        self._journal = journal

    def judged(self, lines: Sequence[RequestLine]) -> list[tuple[SentFacts, CacheVerdict]]:
        """Gather what is known of all requests of a turn, and judge what of each was reused."""
        journal = self._journal()
        if journal is None or not lines:
            return []
        earlier = journal.earlier(lines[0], LOOKED_BACK)
        facts = self._facts([*reversed(earlier), *lines])
        judged = []
        for at in range(len(earlier), len(facts)):
            profile, options = journal.made_with(facts[at].line.id)
            verdict = cache_verdict(facts[at], facts[:at][::-1], profile, options.cache_ttl)
            judged.append((facts[at], verdict))
        return judged

    def _facts(self, lines: Sequence[RequestLine]) -> list[SentFacts]:
        """Gather what is known of requests of one session; the last of each turn are among them."""
        session, groups = lines[0].session_id, by_group(lines)
        usages = self._ledger.accounts.of_groups(session, list(groups))
        statuses = self._ledger.groups.statuses(session, list(groups))
        texts = self._ledger.accounts.receipt_texts(
            [line.receipt_id for line in lines if line.receipt_id is not None]
        )
        used = {
            line.id: usage
            for group, turn in groups.items()
            for line, usage in zip(turn, used_by(turn, usages[group]), strict=True)
        }
        return [
            SentFacts(
                line,
                used[line.id],
                _receipt(texts.get(line.receipt_id or 0)),
                statuses.get(line.group_id) in ("undone", "removed"),
            )
            for line in lines
        ]


def _receipt(text: str | None) -> KeptReceipt | None:
    try:
        return None if text is None else _receipts.decode(text)
    except msgspec.DecodeError:
        return None
