"""Requests as they were sent: made again from what was recorded, shown, compared, written as curl.

A command goes to where the request went, which the ledger has, with no key in it. Where it has
nothing of that the reader has to say it: what was sent to one's own server is never offered to
a vendor. Which variable has the key is what the settings say of the endpoint that is there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, Final, NamedTuple

import msgspec

from sightline.agent.host.journal import Recorded
from sightline.agent.models.access import address, public_url
from sightline.agent.models.choose import Reach
from sightline.agent.models.vendors import VENDORS, Api
from sightline.context.dialects.drift import Drift, Wire, drift
from sightline.context.dialects.request import CACHED_CONTENT, Request, slot_names
from sightline.context.slots.prompt import Prompt
from sightline.context.tokens.tokens import ESTIMATES

EXCERPT_BYTES: Final = 400
SHARED_BYTES: Final = 120
COUNTED_TEXTS: Final = 4_096
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Anthropic Messages API, Gemini API: a header for the key. The others: RFC 6750 §2.1.
_KEYS: Final[dict[Api, str]] = {"anthropic": "x-api-key: ", "gemini": "x-goog-api-key: "}
_BEARER: Final = "Authorization: Bearer "
_NOWHERE: Final = "where it went was not recorded: set BASE_URL and API_KEY"
_BEDROCK: Final = '"https://bedrock-runtime.$AWS_REGION.amazonaws.com"'


def again(recorded: Recorded) -> Request:
    """Encode a recorded request again; nothing of it is remembered."""
    ESTIMATES.shrink(COUNTED_TEXTS)  # the next request that is looked at is another one
    return recorded.to_request()


def shown(
    recorded: Recorded, request: Request, base_url: str, reach: Reach | None
) -> dict[str, Any]:
    """Show a request: the exact body, laid out for reading, and as a command to where it went."""
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
        "curl": curl(request, base_url, reach),
        "notes": [note.message for note in request.notes],
    }


class PromptPiece(NamedTuple):
    """A message of a request, its tools or its frame.

    `key` is equal for equal content. `reusable` are the tokens that both requests begin with.
    """

    slot: str
    key: str
    tokens: int
    reusable: int


def pieces_of(prompt: Prompt, wire: Wire, common: int) -> list[PromptPiece]:
    """Return the pieces of a request that shares its first `common` bytes with another one.

    A message has as many reusable tokens as its share of bytes before that offset. The tail has
    none: it is built again for each request.
    """
    shares: dict[str | int, float] = {
        span.label if span.message < 0 else span.message: span.share_before(common)
        for span in wire.spans
    }
    # A named resource holds the tools, the instructions and the first messages.
    named = shares.get(CACHED_CONTENT, 0.0)
    receipt, head = prompt.receipt, shares.get("tools", shares.get("toolConfig", named))
    pieces = [
        PromptPiece("frame", "", receipt.overhead, receipt.overhead if common else 0),
        PromptPiece("tools", key_of(prompt.tools), receipt.tools, int(receipt.tools * head)),
    ]
    kept = [one.kept for slot in receipt.slots for one in slot.messages if one.is_present]
    if len(kept) != len(prompt.messages):
        kept = [0] * len(prompt.messages)  # there is no receipt of it
    rows = zip(prompt.messages, slot_names(prompt), kept, strict=True)
    for index, (message, slot, tokens) in enumerate(rows):
        share = shares.get(index, named) if index < prompt.boundary else 0.0
        pieces.append(PromptPiece(slot, key_of(message), tokens, int(tokens * share)))
    return pieces


def key_of(value: object) -> str:
    """Return a text that is equal for equal messages and for equal tools."""
    return blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()


def tokens_as_before(
    old: Sequence[PromptPiece], new: Sequence[PromptPiece]
) -> dict[str, tuple[int, int]]:
    """Return for each slot the tokens that are as before, and those of them that are reusable.

    As before is a message that stands anywhere in the earlier request, and the beginning that both
    requests share. A slot with the same messages is wholly as before. A changed slot never is: if
    only its order or its length changed, its last token counts as new.
    """
    there = {piece.key for piece in old}
    found = {}
    for slot in dict.fromkeys(piece.slot for piece in new):
        pieces = [piece for piece in new if piece.slot == slot]
        most = sum(piece.tokens for piece in pieces)
        same = sum(piece.tokens if piece.key in there else piece.reusable for piece in pieces)
        if [piece.key for piece in pieces] != [piece.key for piece in old if piece.slot == slot]:
            same = min(same, max(0, most - 1))
        found[slot] = same, min(same, sum(piece.reusable for piece in pieces))
    return found


def compared(earlier: tuple[Prompt, Request], later: tuple[Prompt, Request]) -> dict[str, Any]:
    """Compare two requests: the bytes and tokens in common, and the cause of the difference."""
    (old_prompt, old), (prompt, new) = earlier, later
    prices = new.profile.prices
    change = drift(old.wire, new.wire, input_price=prices.input, read_price=prices.cache_read)
    at = change.common_bytes
    as_before = tokens_as_before(
        pieces_of(old_prompt, old.wire, at), pieces_of(prompt, new.wire, at)
    )
    return {
        "kind": change.kind,
        "common_bytes": at,
        "as_before": as_before,
        "common_tokens": sum(reusable for _, reusable in as_before.values()),
        "lost_tokens": change.lost_tokens,
        "cost_usd": change.lost_cost,
        "cause": _cause(change),
        **excerpts(old.wire.data, new.wire.data, at, SHARED_BYTES),
    }


def _cause(change: Drift) -> str:
    if change.first_difference is None:
        return "none: one is the beginning of the other"
    where = change.label + (f", slot {change.slot}" if change.slot else "")
    return f"byte {change.first_difference}, in {where}"


def excerpts(old: bytes, new: bytes, at: int, shared: int) -> dict[str, str]:
    """Show the bytes of two requests around the place to which they agree."""
    end = at + EXCERPT_BYTES
    parts = {"shared": new[max(0, at - shared) : at], "old": old[at:end], "new": new[at:end]}
    return {name: data.decode(errors="replace") for name, data in parts.items()}


def curl(request: Request, base_url: str, reach: Reach | None) -> str:
    """Write a request as a `curl` command, with variables for what is the reader's to know.

    `base_url` is where it went, empty if nobody knows; `reach` is what the settings say of its
    endpoint, which counts only where that is the same address.
    """
    vendor = VENDORS.get(request.profile.endpoint)
    api: Api = "openai" if vendor is None else vendor.api
    if reach is not None and public_url(reach.base_url) != base_url:
        reach = None
    notes: list[str] = []
    if api == "bedrock":
        notes.append("AWS wants a signature, which this command lacks: it is refused as it stands")
    elif api == "local":
        notes.append("the embedded model has no address: this is for a server with its weights")
    elif not base_url:
        notes.append(_NOWHERE)
    url, auth = _url(request, api, base_url, reach), _auth(api, reach)
    return _command(url, auth, request.headers, request.data.decode(), notes)


def curl_anywhere(api: Api, path: str, body: str) -> str:
    """Write what somebody else sent as a command; where it goes is the reader's to say."""
    return _command('"$BASE_URL"' + shlex.quote(path), _auth(api, None), {}, body, [_NOWHERE])


def _command(url: str, auth: str, headers: Mapping[str, str], body: str, notes: list[str]) -> str:
    """Write a command that has no key in an argument, where other users could read it."""
    lines = [
        f'printf %s "{auth}" | curl {url}' if auth else f"curl {url}",
        "-H 'Content-Type: application/json'",
        *(["-H @-"] if auth else []),
        *(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()),
        f"--data-raw {shlex.quote(body)}",
    ]
    return "\n".join([*(f"# {note}" for note in notes), " \\\n  ".join(lines)])


def _url(request: Request, api: Api, base_url: str, reach: Reach | None) -> str:
    if base_url:
        base = base_url.rstrip("/")
        return shlex.quote(address(base, request.path) if api == "openai" else base + request.path)
    unknown = _BEDROCK if api == "bedrock" and reach is not None else '"$BASE_URL"'
    return unknown + shlex.quote(request.path)


def _auth(api: Api, reach: Reach | None) -> str:
    """Return the header with the key as a variable of the shell, or nothing."""
    if api in ("bedrock", "local") or (reach is not None and not reach.key_variable):
        return ""
    named = "" if reach is None else reach.key_variable
    variable = named if _VARIABLE.fullmatch(named) else "API_KEY"
    return f"{_KEYS.get(api, _BEARER)}${variable}"
