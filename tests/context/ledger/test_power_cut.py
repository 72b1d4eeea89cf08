"""Nothing acknowledged is lost when the power goes, at whatever write or sync it goes.

The same harness must find losses with `synchronous=NORMAL`; else it proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from context.ledger.disk import Disk
from context.ledger.storm import CUTS, lost, run_with_cuts


@pytest.fixture(params=range(3))
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    made = Disk(f"power-{request.param}", seed=request.param)
    yield made
    made.unregister()


def test_nothing_acknowledged_is_lost_with_our_settings(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "cuts").mkdir()
    cuts = run_with_cuts(disk, tmp_path / "l.db", tmp_path / "cuts", "FULL")
    assert len(cuts) == CUTS
    assert max(acknowledged for _, acknowledged in cuts) > 3
    assert lost(cuts) == 0


def test_the_same_harness_finds_losses_with_synchronous_normal(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "cuts").mkdir()
    # More of them: a loss needs a cut between two checkpoints, behind an append.
    cuts = run_with_cuts(disk, tmp_path / "l.db", tmp_path / "cuts", "NORMAL", 3 * CUTS)
    assert lost(cuts) > 0
