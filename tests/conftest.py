"""Fixtures that more than one room's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.shell import Run, runner


@pytest.fixture
def sightline(tmp_path: Path) -> Run:
    """The command line, in an empty directory."""
    return runner(tmp_path)
