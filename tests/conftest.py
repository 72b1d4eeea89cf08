"""Fixtures that more than one room's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from support.shell import Run, runner

# A busy machine is no failure: properties have no deadline.
settings.register_profile("sightline", deadline=None)
settings.load_profile("sightline")


@pytest.fixture
def sightline(tmp_path: Path) -> Run:
    """The command line, in an empty directory."""
    return runner(tmp_path)
