"""What requests weighed and cost, and how their prompts were put together.

A request's weight is a snapshot of the session (std::slop, context management, token
accounting): all input plus all output, the same number for every message that came of
it. It grows from turn to turn and shrinks only when a window folds. Money spent stays
spent: usage survives undo and remove, and what a clone inherits is not counted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from sightline.context.ledger.rows import Row, marks, with_json
from sightline.context.ledger.store import Noun, Transaction
from sightline.context.messages.gate import Gate
from sightline.context.messages.parts import Basis
from sightline.errors import InvalidInput, NotFound


class StoredUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one request used. `cached_tokens` are part of `prompt_tokens`; money in nano-dollars.

    From `cache_write_tokens` on, None is what nobody told. `cache_write_long_tokens` are part of
    the writes; `cache_miss` is the vendor's own word; `outcome` a stop reason or an error's code;
    `reported` the vendor's account as it came, with what none of these columns names.
    """

    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cost_nanousd: int | None = None
    basis: Basis = "reported"
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_miss: str | None = None
    cache_missed_tokens: int | None = None
    address: str | None = None
    outcome: str | None = None
    error: str | None = None
    reported: dict[str, Any] | None = None

    @property
    def snapshot(self) -> int:
        """What the session weighed in the model's memory when the request was made."""
        return self.prompt_tokens + self.completion_tokens


class Totals(msgspec.Struct, frozen=True):
    """Sums over requests. Requests of unknown cost are in `unpriced`, not in the cost."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_nanousd: int
    unpriced: int

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars. None if no request has a known price."""
        return None if 0 < self.requests <= self.unpriced else self.cost_nanousd / 1e9

    def __add__(self, other: Totals) -> Totals:
        """Add up what two sums are of."""
        return Totals(*map(int.__add__, astuple(self), astuple(other)))


class Charge(msgspec.Struct, frozen=True):
    """What one request cost, whose it was and when; None where nobody knows the price."""

    id: int
    session_id: int
    cost_nanousd: int | None
    created_at: str


class StoredReceipt(msgspec.Struct, frozen=True):
    """How one prompt was put together; `body` is the assembler's own account of it."""

    id: int
    group_id: int | None
    usage_id: int | None
    prefix_digest: str
    body: dict[str, Any]
    created_at: str


# One column for each field of `Totals`, of `StoredUsage` and of `StoredReceipt`, in their order.
_SUMS: Final = (
    "count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0), "
    "coalesce(sum(cached_tokens), 0), coalesce(sum(cost_nanousd), 0), "
    "count(*) - count(cost_nanousd)"
)
USAGE_COLUMNS: Final = ", ".join(StoredUsage.__struct_fields__)
_RECEIPT: Final = ", ".join(StoredReceipt.__struct_fields__)
_BODY: Final = StoredReceipt.__struct_fields__.index("body")

_KNOWN: Final = ("prompt_tokens", "completion_tokens", "cached_tokens")
_COUNTS: Final = (
    *_KNOWN, "cost_nanousd", "cache_write_tokens", "cache_write_long_tokens", "reasoning_tokens",
    "cache_missed_tokens",
)  # fmt: skip


class Accounts(Noun):
    """The usage and the receipts of a ledger's sessions."""

    def record(self, session_id: int, usage: StoredUsage, *, group_id: int | None = None) -> int:
        """Store a request that brought no message (a failed or a background one); return its id."""
        with self._store.write() as tx:
            return add_usage(tx, self._gate, tx.session(session_id), usage, group_id)

    def requests(self, session_id: int) -> list[StoredUsage]:
        """List the requests of a session in order."""
        sql = f"SELECT {USAGE_COLUMNS} FROM usage WHERE session_id = ? ORDER BY id"
        return [StoredUsage(*with_json(row, -1)) for row in self._fetch_of(sql, session_id)]

    def totals(self, session_id: int | None = None) -> Totals:
        """Sum up a session, or the whole ledger; inherited requests are left out."""
        chosen, values = ("", ()) if session_id is None else (" AND session_id = ?", (session_id,))
        [sums] = self._fetch(f"SELECT {_SUMS} FROM usage WHERE inherited = 0{chosen}", *values)
        return Totals(*sums)

    def charges(self, *, after: int = 0, since: str = "") -> list[Charge]:
        """List what requests of all sessions cost, the newest first.

        Reading ends at the request with the id `after`, or at the first before the moment `since`.
        """
        with self._store.read() as db:
            newest_first = db.scan(
                "SELECT id, session_id, cost_nanousd, created_at FROM usage "
                "WHERE id > ? AND inherited = 0 ORDER BY id DESC",
                (after,),
            )
            charges = (Charge(*row) for row in newest_first)
            return list(takewhile(lambda charge: charge.created_at >= since, charges))

    def by_group(self, session_id: int) -> dict[int, Totals]:
        """Sum up the requests of every group of a session that made any."""
        rows = self._fetch_of(
            f"SELECT group_id, {_SUMS} FROM usage "
            "WHERE session_id = ? AND group_id IS NOT NULL GROUP BY group_id",
            session_id,
        )
        return {group: Totals(*sums) for group, *sums in rows}

    def of_groups(self, session_id: int, group_ids: Sequence[int]) -> dict[int, list[StoredUsage]]:
        """List the requests of some groups of a session, in order."""
        found: dict[int, list[StoredUsage]] = {group_id: [] for group_id in group_ids}
        chosen = f"session_id = ? AND group_id IN ({marks(group_ids)})"
        sql = f"SELECT group_id, {USAGE_COLUMNS} FROM usage WHERE {chosen} ORDER BY id"
        for group_id, *columns in self._fetch(sql, session_id, *group_ids):
            found[group_id].append(StoredUsage(*with_json(columns, -1)))
        return found

    def by_turn_and_model(self, session_id: int) -> list[tuple[int | None, str, Totals]]:
        """Sum up the requests of a session by group and model, in order; None is beside a turn."""
        rows = self._fetch_of(
            f"SELECT group_id, model, {_SUMS} FROM usage WHERE session_id = ? "
            "GROUP BY group_id, model ORDER BY group_id IS NULL, group_id, min(id)",
            session_id,
        )
        return [(group, model, Totals(*sums)) for group, model, *sums in rows]

    def outcomes(self, session_id: int) -> dict[int, str]:
        """Tell how the last request of every group ended of which that is known."""
        rows = self._fetch(
            "SELECT group_id, outcome FROM usage WHERE outcome IS NOT NULL AND id IN "
            "(SELECT max(id) FROM usage WHERE session_id = ? AND group_id IS NOT NULL "
            " GROUP BY group_id)",
            session_id,
        )
        return dict(rows)

    def add_receipt(
        self,
        session_id: int,
        body: dict[str, Any],
        *,
        prefix_digest: str,
        group_id: int | None = None,
        usage_id: int | None = None,
    ) -> int:
        """Store a prompt's receipt; return its id."""
        row: Row = {
            "group_id": group_id,
            "usage_id": usage_id,
            "prefix_digest": self._gate.line(prefix_digest, "a receipt's digest"),
            "body": self._gate.json(body, "the receipt", self._gate.limits.receipt),
        }
        with self._store.write() as tx:
            return tx.insert(tx.session(session_id), "receipts", {**row, "created_at": tx.now})

    def receipts(self, session_id: int) -> list[StoredReceipt]:
        """List the receipts of a session in order."""
        sql = f"SELECT {_RECEIPT} FROM receipts WHERE session_id = ? ORDER BY id"
        return [StoredReceipt(*with_json(row, _BODY)) for row in self._fetch_of(sql, session_id)]

    def loose(self, session_id: int, first_group: int) -> dict[int, int]:
        """Tell for each group where its part behind a kept tail begins, by its last receipt.

        By message, 0 if there is none; see `context.messages.replay`. It only helps caches,
        so a receipt that says nothing of it, or nonsense, counts as 0.
        """
        found: dict[int, int] = {}
        with self._store.read() as db:
            newest_first = db.scan(
                "SELECT group_id, body FROM receipts "
                "WHERE session_id = ? AND group_id IS NOT NULL ORDER BY id DESC",
                (session_id,),
            )
            for group_id, body in newest_first:
                if group_id < first_group:
                    break
                if group_id not in found:
                    found[group_id] = _loose_of(body)
        return found

    def receipt(self, receipt_id: int) -> StoredReceipt:
        """Read one receipt."""
        rows = self._fetch(f"SELECT {_RECEIPT} FROM receipts WHERE id = ?", receipt_id)
        if not rows:
            raise NotFound(f"no receipt {receipt_id}")
        return StoredReceipt(*with_json(rows[0], _BODY))

    def receipt_texts(self, receipt_ids: Sequence[int]) -> dict[int, str]:
        """Read the bodies of some receipts as JSON, for who needs little of each."""
        sql = f"SELECT id, body FROM receipts WHERE id IN ({marks(receipt_ids)})"
        return dict(self._fetch(sql, *receipt_ids))


class _AboutRequest(msgspec.Struct):
    loose: int = 0


class _Body(msgspec.Struct):
    """The one field that `loose` reads of a receipt; decoding skips the others."""

    request: _AboutRequest = msgspec.field(default_factory=_AboutRequest)


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_bodies: Final = msgspec.json.Decoder(_Body)


def _loose_of(body: str) -> int:
    try:
        return _bodies.decode(body).request.loose
    except msgspec.DecodeError:
        return 0


def add_usage(
    tx: Transaction,
    gate: Gate,
    session: Row,
    usage: StoredUsage,
    group_id: int | None,
    *,
    inherited: bool = False,
) -> int:
    """Check and store a request; return its id."""
    row: Row = msgspec.structs.asdict(usage)
    for field in _COUNTS:
        if row[field] is not None or field in _KNOWN:
            gate.count(row[field], field)
    for field in ("cache_miss", "address", "outcome", "error"):
        if row[field] is not None:
            row[field] = gate.text(row[field], field, gate.limits.error)
    if usage.reported is not None:
        row["reported"] = gate.json(usage.reported, "what was reported", gate.limits.error)
    if usage.cached_tokens > usage.prompt_tokens:
        raise InvalidInput("cached_tokens are part of prompt_tokens and cannot be more")
    if usage.basis not in ("counted", "estimated", "reported"):
        raise InvalidInput(f"a basis is counted, estimated or reported; not {usage.basis!r}")
    row["model"] = gate.line(usage.model, "a model's name")
    return tx.insert(
        session,
        "usage",
        {**row, "group_id": group_id, "inherited": int(inherited), "created_at": tx.now},
    )
