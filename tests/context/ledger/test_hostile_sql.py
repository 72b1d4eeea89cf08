"""Nothing that a model sends as SQL writes, leaves the file, hangs or fills the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from context.ledger.helpers import contents, fill
from context.ledger.hostile import HOSTILE
from sightline.context.ledger import Ledger
from sightline.context.ledger.retrieval import QueryLimits
from sightline.errors import QueryRefused

# Short, so that the suite is; the statements that hang do so whatever the limit.
LIMITS = QueryLimits(seconds=0.3, memory_mib=16)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger(tmp_path_factory.mktemp("hostile") / "l.db") as opened:
        session = opened.sessions.create("s")
        fill(opened, session.id, 20)
        yield opened


@pytest.fixture(scope="module")
def before(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    return contents(ledger.path)


def test_there_are_at_least_sixty_of_them() -> None:
    assert len({sql for sql, _ in HOSTILE}) >= 60


@pytest.mark.parametrize(("sql", "reason"), HOSTILE, ids=lambda value: ascii(value)[1:40])
def test_hostile_sql_gets_a_clear_error_and_changes_nothing(
    ledger: Ledger,
    before: dict[str, list[tuple[object, ...]]],
    tmp_path: Path,
    sql: str,
    reason: str,
) -> None:
    out = tmp_path / "out"
    beside = sorted(path.name for path in ledger.path.parent.iterdir())
    with pytest.raises(QueryRefused, match=reason) as caught:
        ledger.query(sql.replace("{out}", str(out)), session_id=1, limits=LIMITS)
    assert len(str(caught.value)) < 300
    assert not out.exists()
    assert sorted(path.name for path in ledger.path.parent.iterdir()) == beside
    assert contents(ledger.path) == before


def test_after_a_query_was_stopped_the_next_one_runs(ledger: Ledger) -> None:
    hanging = HOSTILE[[reason for _, reason in HOSTILE].index("took longer")][0]
    with pytest.raises(QueryRefused, match="took longer"):
        ledger.query(hanging, session_id=1, limits=LIMITS)
    assert ledger.query("SELECT count(*) FROM messages", session_id=1).rows == ((80,),)
