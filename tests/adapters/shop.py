"""An app with a harmless and a dangerous action, and conversations of many turns with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sightline import App
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message

TURNS = 20
INSTRUCTIONS = "You keep a shop. " + "Be kind to whoever asks, and count what is there. " * 20


def shelf() -> tuple[App, dict[str, int]]:
    app, stock = App("shop", "Shop", coalesce_s=0), {"apples": 0}

    @app.node("shelf")
    def node() -> dict[str, Any]:
        return {"type": "view", "props": {"label": "The shelf", **stock}}

    @app.action("shelf", "add")
    def add(count: int) -> None:
        stock["apples"] += count

    @app.action("shelf", "clear", dangerous=True)
    def clear() -> str:
        stock["apples"] = 0
        return "cleared"

    return app, stock


def act(action: str, **params: Any) -> dict[str, Any]:
    return {"app": "shop", "path": "/shelf", "action": action, "params": params}


def check_requests(requests: Sequence[tuple[Sequence[Any], Any]]) -> None:
    """Check requests, each a list of what is stable and a tail, two for each turn.

    Every tail shows how many apples there are at that moment: one more after each tool round. What
    is stable begins with all that was stable before, byte for byte, and is nine tenths of it all.
    """
    reused = total = 0
    before: list[str] = []
    for number, (stable, tail) in enumerate(requests):
        written = [json.dumps(item) for item in stable]
        assert "<slop-state " not in "".join(written), number
        assert json.dumps(tail).count("<slop-state ") == 1, number
        assert f"apples={(number + 1) // 2})" in json.dumps(tail), number
        assert written[: len(before)] == before, number
        reused += sum(map(len, before))
        total += sum(map(len, written)) + len(json.dumps(tail))
        before = written
    assert reused / total >= 0.9, reused / total


def said_in(ledger: Ledger, name: str) -> list[tuple[str, str]]:
    """Who said what in a ledger's session, as a reader of the ledger sees it; calls by name."""
    session = ledger.sessions.named(name)
    return [(entry.role, _shown(entry.message)) for entry in ledger.messages(session.id)]


def _shown(message: Message) -> str:
    calls = [f"{call.name} {call.arguments['action']}" for call in message.tool_calls]
    results = [result.content for result in message.tool_results]
    return " ".join(filter(None, [message.text, *calls, *results]))


def what_is_said() -> list[tuple[str, str]]:
    """What a ledger should hold after all turns."""
    return [
        line
        for turn in range(TURNS)
        for line in (
            ("user", f"question {turn}"),
            ("assistant", "slop_invoke add"),
            ("tool", "Done."),
            ("assistant", f"answer {turn}"),
        )
    ]
