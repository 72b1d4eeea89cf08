"""The simulation behind docs/scale.md: a line is a line, and more machines are no slower."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.capacity import (
    LOADS,
    NOTES_PER_S,
    RELAY_READERS,
    RENEWALS_PER_S,
    Costs,
    in_line,
    needed,
    requests,
)  # fmt: skip

from sightline.agent.host.running import NOTE_EVERY_S
from sightline.context.ledger.postgres.lease import LEASE_S

COSTS = Costs(0.02, 40, 10_000, 0.0002, 0.0002, 0.001, 20e-6, 11_000)


def test_who_comes_first_is_served_first_by_the_core_that_is_free_first() -> None:
    arrivals = [(0.0, 4.0), (1.0, 1.0), (1.0, 1.0), (9.0, 1.0)]
    assert list(in_line(arrivals, 1)) == [4.0, 4.0, 5.0, 1.0]
    assert list(in_line(arrivals, 2)) == [4.0, 1.0, 2.0, 1.0]


def test_a_line_is_as_long_as_the_theory_of_queues_says() -> None:
    """M/M/1: who comes stays 1 / (rate of service - rate of arrival) on average."""
    times = list(in_line(requests(Random(1), 60, 0.01, 40_000, varies=True), 1))
    assert sum(times) / len(times) == pytest.approx(1 / (100 - 60), rel=0.1)


def test_a_load_is_served_the_same_every_time_and_by_what_it_needs() -> None:
    small, large = needed(LOADS[0], COSTS), needed(LOADS[-1], COSTS)
    assert needed.__wrapped__(LOADS[0], COSTS) == small
    assert small.databases < large.databases
    assert large.relays == 10_000_000 / RELAY_READERS
    assert large.p99 >= large.p50 > 0
    assert large.told_p99 > small.told_p99


def test_what_hosts_do_by_the_clock_is_what_is_counted() -> None:
    assert pytest.approx(1 / NOTE_EVERY_S) == NOTES_PER_S
    assert pytest.approx(3 / LEASE_S) == RENEWALS_PER_S
