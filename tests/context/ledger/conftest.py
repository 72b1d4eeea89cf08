"""A ledger in a temporary place, with a clock that only moves when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from context.ledger.helpers import FakeClock
from sightline.context.ledger import Ledger, Session


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: FakeClock) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.sessions.create("work", project="/p")
