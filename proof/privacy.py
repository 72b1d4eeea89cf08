"""What must not be read or written: hostile SQL."""

from __future__ import annotations

import re

from context.ledger.helpers import contents, fill
from context.ledger.hostile import HOSTILE
from proof.claim import Claim, Trial
from sightline.context.ledger import Ledger
from sightline.context.ledger.retrieval import QueryLimits
from sightline.errors import QueryRefused

LIMITS = QueryLimits(seconds=0.3, memory_mib=16)


def hostile_sql(trial: Trial) -> None:
    """Ask for everything that a model must not have."""
    chosen = trial.random.sample(HOSTILE, min(len(HOSTILE), trial.times(len(HOSTILE), least=20)))
    out = trial.place / "out"
    with Ledger(trial.directory("sql") / "l.db") as ledger:
        session = ledger.sessions.create("s").id
        fill(ledger, session, 20)
        before = contents(ledger.path)
        beside = sorted(ledger.path.parent.iterdir())
        for sql, reason in chosen:
            try:
                ledger.query(sql.replace("{out}", str(out)), session_id=session, limits=LIMITS)
            except QueryRefused as error:
                trial.check(re.search(reason, str(error)), f"{sql[:60]!r}: {error}")
            else:
                trial.check(False, f"{sql[:60]!r} was answered")
            trial.check(
                contents(ledger.path) == before
                and not out.exists()
                and sorted(ledger.path.parent.iterdir()) == beside,
                f"{sql[:60]!r} left a trace",
            )
        rows = ledger.query("SELECT count(*) FROM messages", session_id=session).rows
        trial.check(rows == ((80,),), "the next honest query is not answered")


CLAIMS = (
    Claim("sql", "hostile SQL: a clear error, nothing changed, nothing written", hostile_sql),
)
