"""The walk of ARCHITECTURE.md: one change in an app, followed to the model and back, for real."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sightline
from agent.host.helpers import ended, hosted, invoke, turn
from sightline import App

ROOT = Path(sightline.__file__).parent
PAGE = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALK = re.findall(r"^\| \d+ \| `([\w.]+)` \|", PAGE, re.MULTILINE)


class Steps:
    """Every function of ours in the order of its first call, once `on` is set."""

    def __init__(self) -> None:
        self.on = False
        self.called: dict[str, None] = {}
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.on or event != "call" or code in self._seen:
            return
        self._seen.add(code)
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            room = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            self.called.setdefault(f"{room.removesuffix('.__init__')}.{code.co_qualname}")


async def test_a_change_takes_the_walk_that_is_written_down(tmp_path: Path) -> None:
    assert 15 <= len(WALK) <= 25
    app = App("live", "Live")
    state = {"count": 1}

    @app.node("counter")
    def counter() -> dict[str, Any]:
        return {"type": "item", "props": {"count": state["count"]}}

    @app.action("counter", "add")
    def add(by: int) -> dict[str, Any]:
        state["count"] += by
        return {}

    steps = Steps()
    before = sys.getprofile()
    threading.setprofile(steps)
    sys.setprofile(steps)
    try:
        script = [invoke("c1", "/counter", "add", by=2), "done"]
        async with hosted(tmp_path, script, app=app, mode="auto") as (host, model):
            state["count"], steps.on = 5, True
            app.refresh()
            async for world in host.hub.changes():
                tree = world.apps[0].tree
                if tree is not None and tree.at("/counter").properties == {"count": 5}:
                    break
            assert ended(await turn(host, "add two")).outcome == "answered"
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert state["count"] == 7
    assert b"count=5" in model.requests[0].data
    taken = [name for name in steps.called if name in WALK]
    assert taken == WALK, "\n".join(steps.called)
