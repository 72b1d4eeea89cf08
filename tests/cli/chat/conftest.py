"""People at terminals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.person import Person


@pytest.fixture
def people() -> Iterator[list[Person]]:
    """Everybody who came; whoever is still there is sent home."""
    came: list[Person] = []
    yield came
    for person in came:
        person.child.close(force=True)
