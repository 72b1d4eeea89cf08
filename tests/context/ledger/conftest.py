"""A ledger in a temporary place, with a clock that only moves when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from context.ledger.helpers import FakeClock
from sightline.context.ledger import Ledger, Session
from support import postgres


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what a ledger does on both engines, unless a test is about the file of one."""
    if "engine" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("of_a_file") is None
        metafunc.parametrize(
            "engine", ["sqlite", "postgres"] if both else ["sqlite"], scope="session"
        )


@pytest.fixture(scope="session")
def server(engine: str) -> Iterator[postgres.Server | None]:
    """The database, where one is asked for."""
    if engine == "sqlite":
        yield None
        return
    if reason := postgres.lacks():
        pytest.skip(reason)
    with postgres.server() as running:
        yield running


@pytest.fixture
def where(server: postgres.Server | None, tmp_path: Path) -> str | Path:
    """The address of a ledger that is not there yet."""
    if server is None:
        return tmp_path / "ledger.db"
    server.restart_numbers()
    return server.url(uuid4().hex)


@pytest.fixture
def ledger(where: str | Path, clock: FakeClock) -> Iterator[Ledger]:
    with Ledger(where, clock=clock) as opened:
        yield opened


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.sessions.create("work", project="/p")
