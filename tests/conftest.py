"""Fixtures that more than one room's tests use."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.shell import Run, runner

# What a shell starts in its background ignores SIGINT, and so would every program that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: properties have no deadline.
settings.register_profile("sightline", deadline=None)
settings.load_profile("sightline")


@pytest.fixture(scope="session", autouse=True)
def nobodys_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the ledger of whoever runs it, nor does a program that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def sightline(tmp_path: Path) -> Run:
    """The command line, in an empty directory."""
    return runner(tmp_path)
