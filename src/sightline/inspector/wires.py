"""Requests as they were sent: made again from what was recorded, shown, compared."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

from sightline.agent.host.journal import Recorded
from sightline.agent.models.choose import Reach
from sightline.context.dialects.drift import Drift, drift
from sightline.context.dialects.request import Request
from sightline.context.tokens.tokens import ESTIMATES
from sightline.inspector.curl import curl

__all__ = ["again", "compared", "shown"]

EXCERPT_BYTES: Final = 400
SHARED_BYTES: Final = 120
COUNTED_TEXTS: Final = 4_096


def again(recorded: Recorded) -> Request:
    """Encode a recorded request again; nothing of it is remembered."""
    ESTIMATES.cache.shrink(COUNTED_TEXTS)  # the next request that is looked at is another one
    return recorded.made_again()


def shown(recorded: Recorded, request: Request, reach: Reach | None) -> dict[str, Any]:
    """Show a request: the exact body, laid out for reading, and as a command."""
    data = request.data
    endpoint = recorded.line.model.partition(":")[0]
    return {
        "method": "POST",
        "url": f"{endpoint}: {request.path}",
        "bytes": len(data),
        "digest": recorded.digest,
        "reproduced": sha256(data).hexdigest() == recorded.digest,
        "body": data.decode(),
        "pretty": msgspec.json.format(data, indent=2).decode(),
        "curl": curl(request, endpoint, reach),
        "notes": [note.message for note in request.notes],
    }


def compared(old: Request, new: Request) -> dict[str, Any]:
    """Compare two requests: how far they agree, who ended it, and the bytes around the place."""
    prices = new.profile.prices
    change = drift(old.wire, new.wire, input_price=prices.input, read_price=prices.cache_read)
    at = change.common_bytes
    before, now = old.wire.data, new.wire.data
    return {
        "kind": change.kind,
        "common_bytes": at,
        "common_tokens": change.common_tokens,
        "lost_tokens": change.lost_tokens,
        "cost_usd": change.lost_cost,
        "cause": _cause(change),
        "shared": _text(now[max(0, at - SHARED_BYTES) : at]),
        "old": _text(before[at : at + EXCERPT_BYTES]),
        "new": _text(now[at : at + EXCERPT_BYTES]),
    }


def _cause(change: Drift) -> str:
    if change.first_difference is None:
        return "none: one is the beginning of the other"
    where = change.label + (f", slot {change.slot}" if change.slot else "")
    return f"byte {change.first_difference}, in {where}"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
