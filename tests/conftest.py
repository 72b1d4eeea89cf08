"""Fixtures that more than one room's tests use."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.circumstances import children, end, start_alike
from support.share import WHOLE
from support.shell import Run, runner

# What a shell starts in its background ignores SIGINT, and so would every program that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: properties have no deadline.
settings.register_profile("sightline", deadline=None, max_examples=100 if WHOLE else 6)
settings.load_profile("sightline")


def pytest_configure() -> None:
    """Begin alike everywhere."""
    start_alike()


def pytest_collection_finish() -> None:
    """Keep what all tests import, the frameworks among it, out of every later collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_child_outlives_its_test() -> Iterator[None]:
    """What a test starts ends with it, also when the test failed or took too long."""
    before = children()
    yield
    for pid in children() - before:
        end(pid)


@pytest.fixture(scope="session", autouse=True)
def nobodys_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes what whoever runs it has, nor does a program that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("DATA", "CONFIG", "STATE", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind.lower())))
        yield


@pytest.fixture
def sightline(tmp_path: Path) -> Run:
    """The command line in an empty directory, without a process of its own."""
    return runner(tmp_path)
