"""Who takes more than a share waits, and who does not stop is let go."""

from __future__ import annotations

import pytest

from sightline.errors import LetGo
from sightline.slop.protocol.patience import Patience, PatienceLeft

PATIENCE = Patience(busy_s=2, busy_share=0.25, held_s=20, faults=3, faults_s=30)


def test_what_was_saved_up_can_be_spent_at_once() -> None:
    budget = PatienceLeft(PATIENCE, 0)
    assert budget.spend(0, 1.5) == 0
    assert budget.spend(0, 1.0) == pytest.approx(2.0)
    assert budget.spend(2.0, 0) == pytest.approx(0)
    assert budget.spend(100.0, 2.0) == 0


def test_who_wants_more_than_a_share_for_too_long_is_let_go() -> None:
    budget = PatienceLeft(PATIENCE, 0)
    now = used = 0.0
    let_go = ""
    while not let_go and now < 1_000:
        used += 0.1
        try:
            now += 0.1 + budget.spend(now, 0.1)
        except LetGo as error:
            let_go = str(error)
    assert let_go == "let go: it took more than 25% of the time for 20 s"
    assert 20 < now < 40
    assert used <= PATIENCE.busy_s + PATIENCE.busy_share * now + 0.2


def test_who_stays_within_its_share_is_never_let_go() -> None:
    budget = PatienceLeft(PATIENCE, 0)
    assert [budget.spend(second, 0.24) for second in range(1_000)] == [0] * 1_000


def test_faults_are_forgiven_with_time() -> None:
    budget = PatienceLeft(PATIENCE, 0)
    for second in range(0, 300, 10):
        budget.fault(second)
    for _ in range(3):
        budget.fault(300)
    with pytest.raises(LetGo, match="more than 3 faulty messages in 30 s"):
        budget.fault(300)
