"""A session in which much goes wrong, recorded: one turn for each thing that people ask about.

    python -m browser.eventful LEDGER

The vendor caches as `ScriptedModel` says, four bytes to a token; where a turn's name says
otherwise, it reports something else.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from agent.host.helpers import NOW, hosted, invoke, turn
from sightline.agent.models.scripted import Cut, Reply, ScriptedModel
from sightline.config import LimitSettings, WindowSettings
from sightline.context.dialects.events import Usage
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.errors import RateLimited, Unauthorized, Unreachable
from support.live import LiveApp

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
ADDRESS = "http://127.0.0.1:9/v1"
(
    FIRST, CALLS, LOST, RETRIED, REFUSED, BROKEN, TAKEN_BACK, OTHER_WAY, SWITCHED, DROPPED, LATE,
    FOLDED,
) = range(1, 13)  # fmt: skip


def questions(hostile: str) -> dict[int, str]:
    """What is asked, by the number of the turn."""
    return {
        FIRST: "Good morning. What is on fire?",
        CALLS: "Please count.",
        LOST: "Is the cache still there?",
        RETRIED: "Is the vendor slow today?",
        REFUSED: f"Wrong key? {hostile}",
        BROKEN: "Write a long report.",
        TAKEN_BACK: "Think of a plan that I will not like.",
        OTHER_WAY: "Rather a careful plan.",
        SWITCHED: "The same question to another model.",
        DROPPED: "Forget this later.",
        LATE: "Are you still there after lunch?",
        FOLDED: "And now?",
    }


QUESTIONS = questions(HOSTILE)


class At(ScriptedModel):
    """A scripted model that says where it is."""

    address = ADDRESS


def nothing_cached(request: Request) -> Reply:
    """A vendor that reads all of a request again."""
    return Reply(text="It is.", usage=Usage(len(request.data) // 4, 5, 0))


async def happen(directory: Path, hostile: str = HOSTILE) -> None:
    """Take the turns; where somebody else's words are shown, hostile ones are among them."""
    minutes = 0

    async def refuse() -> NoReturn:
        """An app that cannot be shown."""
        raise Unreachable(f"it has 70,000 nodes, over the limit {hostile}")

    def clock() -> Any:
        return NOW + timedelta(minutes=minutes)

    one = At(
        [
            "Nothing is.\n\n### STATE\nGoal: watch",
            ["Counting.", invoke("c1", "/", "count")],
            f"Counted. {hostile}",
            nothing_cached,
            RateLimited("slow down, please", retry_after_s=0.0),
            ToolCall("c2", "describe_db", {}),
            "Not any more.",
            Unauthorized(f"Incorrect API key provided {hostile}"),
            Cut("The incident began at nine. "),
            "A bold plan.",
            "A careful plan.",
        ],
        profile=profile_for("openai-chat", "gpt-6.1-sol"),
    )
    other = At(
        ["Another answer.", "Forgotten.", nothing_cached, "Now."],
        profile=profile_for("openai-chat", "gpt-6.1-luna"),
    )
    window = WindowSettings(size=4, slack=6)
    limits = LimitSettings(retries=1)
    async with hosted(
        directory, one, app=LiveApp(), clock=clock, mode="auto", window=window, limits=limits
    ) as (host, _):
        host.hub.add("large", refuse, name="Large")
        async for world in host.hub.changes():
            if (large := world.app("large")) is not None and large.reason:
                break
        for number, question in questions(hostile).items():
            minutes += 120 if number == LATE else 1
            if number == SWITCHED:
                await host.use_model(other)
            await turn(host, question)
            groups = host.ledger.groups
            if number == TAKEN_BACK:
                groups.undo(host.session.id)
            if number == FOLDED:
                groups.drop(host.session.id, groups.recent(host.session.id)[DROPPED - 2].id)


if __name__ == "__main__":
    asyncio.run(happen(Path(sys.argv[1]).parent))
