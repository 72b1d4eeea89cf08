"""What other agents asked their vendors, as the page shows it: recorded by a gateway, or imported.

The ledger keeps what was found out about each request when it passed. Here it is only read.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, cast

import msgspec

from sightline.context.dialects.drift import common_start
from sightline.context.dialects.events import Stopped
from sightline.context.dialects.missed import Loss
from sightline.context.dialects.usage import Usage, cost
from sightline.context.ledger import Ledger
from sightline.context.ledger.exchanges import Exchange
from sightline.errors import InvalidInput, NotFound
from sightline.gateway.bodies import Api, Unit, read_body
from sightline.gateway.observer import profile_of
from sightline.gateway.otherwise import AgentWishes, Shared, otherwise, shared_by
from sightline.inspector.records import parts_of

__all__ = ["AgentRecords"]

NEAR: Final = 8  # earlier requests among which the one is looked for that a request goes on from
SHARED_BYTES: Final = 200
EXCERPT_BYTES: Final = 400
MOST_ASKED: Final = 100  # requests that are looked at for one question
_AS_IT_WAS: Final = AgentWishes()
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wishes: Final = msgspec.json.Decoder(AgentWishes)


class _Known(msgspec.Struct):
    """What was found out about a request."""

    usage: Usage | None = None
    cost_usd: float | None = None
    loss: Loss | None = None
    status: int = 0
    stop: str = ""
    error: str = ""
    source: str = ""
    total_ms: int = 0


class AgentRecords:
    """The exchanges of other agents in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def requests(self, session: int) -> dict[str, Any]:
        """List the requests of a session as they were sent: what each used, cost and lost."""
        listed = sorted(self._ledger.exchanges.list(session), key=lambda one: one.sent_at)
        return {"requests": [_figures(one) for one in listed]}

    def request(self, session: int, number: int) -> dict[str, Any]:
        """Show one request as it was sent, its reply, and where it departs from the one before."""
        listed = self._ledger.exchanges.list(session)
        at = next((at for at, one in enumerate(listed) if one.id == number), None)
        if at is None:
            raise NotFound(f"session {session} has no exchange {number}")
        data = self._ledger.exchanges.request(number)
        return {
            **_figures(listed[at]),
            "request": _pretty(data) if data else None,
            "reply": _reply(self._ledger.exchanges.reply(number)),
            "drift": self._drift(data, listed[max(0, at - NEAR) : at]) if data else None,
        }

    def what_if(self, session: int, number: int, body: bytes) -> dict[str, Any]:
        """Say what a request would weigh and share if it and those before it were otherwise.

        Of the newest requests of the session together if `number` is 0.
        """
        try:
            wishes = _wishes.decode(body)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"what if: {error}") from error
        listed = self._ledger.exchanges.list(session)
        last = next((at for at, one in enumerate(listed) if one.id == number), len(listed) - 1)
        first = last if number else max(0, last + 1 - MOST_ASKED)
        sums, usd = [Shared(0, 0)] * 2, [0.0, 0.0]
        earlier: deque[list[tuple[Unit, ...]]] = deque(maxlen=NEAR)
        counted, changed = 0, False
        for at in range(max(0, first - NEAR), last + 1):
            one = listed[at]
            read = read_body(cast(Api, one.api), self._ledger.exchanges.request(one.id))
            used = msgspec.convert(one.about, _Known).usage
            if read is None:
                continue
            ways = [otherwise(read, way) for way in (_AS_IT_WAS, wishes)]
            changed = changed or ways[0] != ways[1]
            size = sum(unit.size for unit in ways[0])
            if at >= first and used is not None and size:
                counted += 1
                prices = profile_of(msgspec.structs.replace(read, model=one.model)).prices
                for way, units in enumerate(ways):
                    near = (ways[way] for ways in earlier)
                    shared = shared_by(units, near, used.input_tokens / size)
                    sums[way] += shared
                    spent = Usage(shared.prompt, cache_read_tokens=shared.reused)
                    usd[way] += cost(spent, prices) or 0.0
            earlier.append(ways)
        if not counted:
            raise NotFound("what was sent, or what the vendor counted of it, is not known")
        notes = ["estimated: tokens by the bytes of what was sent, and no vendor was asked"]
        if not changed:
            notes.append("nothing of it would be different")
        return {
            "requests": counted,
            "rows": [
                ["prompt tokens", *(way.prompt for way in sums)],
                ["begin like an earlier request", *(way.reused for way in sums)],
                ["evaluated", *(way.prompt - way.reused for way in sums)],
            ],
            "usd": usd if any(usd) else [None, None],
            "notes": notes,
            "how": wishes.how,
        }

    def _drift(self, data: bytes, near: list[Exchange]) -> dict[str, Any] | None:
        """Find the earlier request that this one begins most like, and where they part."""
        earlier = [(one.id, self._ledger.exchanges.request(one.id)) for one in reversed(near)]
        if not earlier:
            return None
        common, number, old = max(
            ((common_start(data, old), number, old) for number, old in earlier),
            key=lambda found: found[0],
        )
        return {
            "with": number,
            "common_bytes": common,
            "shared": _text(data[max(0, common - SHARED_BYTES) : common]),
            "old": _text(old[common : common + EXCERPT_BYTES]),
            "new": _text(data[common : common + EXCERPT_BYTES]),
        }


def _figures(one: Exchange) -> dict[str, Any]:
    known = msgspec.convert(one.about, _Known)
    usage, loss = known.usage, known.loss
    return {
        "id": one.id,
        "sent_at": one.sent_at,
        "api": one.api,
        "model": one.model,
        # A transcript tells neither.
        "bytes": None if known.source else one.bytes,
        "duration_ms": None if known.source else known.total_ms,
        "prompt_tokens": None if usage is None else usage.input_tokens,
        "cached_tokens": None if usage is None else usage.cache_read_tokens,
        "written_tokens": None if usage is None else usage.cache_write_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "cost_usd": known.cost_usd,
        "ended": known.error or known.stop,
        "loss": None
        if loss is None
        else {
            "tokens": loss.tokens,
            "cost_usd": loss.cost,
            "words": loss.words,
            "advice": loss.advice,
            "path": loss.path,
            "before": loss.before,
            "now": loss.now,
        },
    }


def _reply(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """Show a reply's parts; as JSON where it cannot be read."""
    if not kept:
        return []
    try:
        return list(parts_of(msgspec.convert(kept, Stopped).message))
    except msgspec.ValidationError:
        return [{"kind": "json", "text": _pretty(msgspec.json.encode(kept))}]


def _pretty(data: bytes) -> str:
    try:
        return _text(msgspec.json.format(data))
    except msgspec.DecodeError:
        return _text(data)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
