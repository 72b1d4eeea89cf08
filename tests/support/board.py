"""An app of which a part changes in every turn of a conversation."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from sightline import App

TURNS = 50
ITEMS = 180
AT = datetime(2026, 11, 16, 8, tzinfo=UTC)


class Board:
    """Jobs, of which five in a hundred change in a turn."""

    def __init__(self, items: int = ITEMS) -> None:
        self.rng = random.Random(7)
        self.counts = [0] * items
        self.app = App("board", "Board", coalesce_s=0)

        @self.app.node("jobs")
        def jobs() -> dict[str, Any]:
            items = [
                {"id": f"job-{at}", "props": {"label": f"Job number {at}", "state": f"step {n}"}}
                for at, n in enumerate(self.counts)
            ]
            return {"type": "collection", "props": {"label": "Jobs"}, "items": items}

    def change(self) -> None:
        items = len(self.counts)
        for at in self.rng.sample(range(items), items // 20):
            self.counts[at] += 1
        self.app.refresh()
