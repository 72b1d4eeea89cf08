"""What became of a turn, as far as its requests tell.

    answered     the model said its last word
    running      somebody runs it now
    interrupted  its program ended in the middle of it
    cancelled    it was stopped by whoever had asked
    failed       there is no answer, or only the beginning of one
    limit        a limit ended it: rounds, tokens, the length of a reply
    unanswered   nothing was sent, and nothing was said after the user's words

The end that was written down counts. Where there is none (the program was killed, or is
of a time when ends were not written down) the last request and the session's owner tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sightline.agent.host.journal import RequestLine
from sightline.context.ledger.work import Hold

# By the outcome of a last request; every other outcome is the code of an error.
_WITHOUT_AN_END: Final = {
    "": "interrupted",
    "tool_calls": "interrupted",
    "cancelled": "cancelled",
    "length": "limit",
}


def by_group(lines: Iterable[RequestLine]) -> dict[int, list[RequestLine]]:
    """Put the requests of a session together by the group they belong to."""
    groups: dict[int, list[RequestLine]] = {}
    for line in lines:
        groups.setdefault(line.group_id, []).append(line)
    return groups


def status_of(
    lines: Sequence[RequestLine], hold: Hold, *, replied: bool = False, outcome: str = ""
) -> str:
    """Name what became of a turn.

    `hold` is that of its session for the newest turn of it, and `none` for all others: a
    session runs one turn at a time. Of a turn whose requests are not known, `outcome` is how
    the ledger says that the last of them ended, if it does, and `replied` tells whether
    there is anything after the user's words.
    """
    last = lines[-1] if lines else None
    ended = None if last is None else last.ended
    if ended is not None:
        return ended.outcome
    outcome = outcome if last is None else last.outcome
    if outcome == "end":
        return "answered"
    if hold != "none":
        return "running" if hold == "alive" else "interrupted"
    if last is None and not outcome:
        return "answered" if replied else "unanswered"
    return _WITHOUT_AN_END.get(outcome, "failed")
