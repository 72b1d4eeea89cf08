"""What the next request of a running host costs to compose, whole: window, tail, slots, bytes.

    python -m benchmarks --only composing

The host is real, with a ledger in a file and an app of 2,000 nodes beside it; what is timed
is `Host.preview`, which composes exactly what the next turn would send. Three things may have
happened since the last request: nothing, a change in the app, another exchange.
"""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from pathlib import Path

from benchmarks.data import WORDS
from benchmarks.harness import Row
from sightline import App, Host, Hub, Ledger
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, Settings
from sightline.context.dialects.profiles import profile_for
from sightline.context.messages.parts import Draft, Message, Text, ToolCall, ToolResult
from sightline.context.messages.window import Window
from sightline.slop.app.local import local_dial

NODES = 2_000
WINDOW = Window(50)
MESSAGES_A_GROUP = 4
SIZES = (1_000, 10_000)
MODELS = (("openai-chat", "gpt-5.5"), ("anthropic", "claude-sonnet-5-5"))
SINCE = {"same": "nothing happened", "world": "the app changed", "group": "an exchange"}


class Mail:
    """An app whose inbox has a counter that changes."""

    def __init__(self) -> None:
        self.changes = 0
        self.app = App("mail", "Mail")
        self.app.node("inbox")(self._inbox)

    def _inbox(self) -> dict[str, object]:
        items = [
            {
                "id": f"m{n}",
                "props": {"subject": f"Message {n} about {n % 13}", "unread": n % 3 == 0},
            }
            for n in range(NODES)
        ]
        return {"type": "collection", "props": {"changes": self.changes}, "items": items}

    async def change(self, hub: Hub) -> None:
        """Change the tree, and wait until the hub has seen it."""
        self.changes += 1
        self.app.refresh()
        await self.arrived(hub)

    async def arrived(self, hub: Hub) -> None:
        """Wait until the hub shows what is."""
        async for world in hub.changes():
            tree = world.apps[0].tree if world.apps else None
            inbox = None if tree is None else tree.at("/inbox")
            if inbox is not None and inbox.properties.get("changes") == self.changes:
                return


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything once and return the rows."""
    sizes, runs = ((100,), 2) if quick else (SIZES, 7)
    rows = [
        Row(f"{model[0]}-{since}-{size}", f"compose for {model[0]}; {SINCE[since]}", size, seconds)
        for model in MODELS
        for size in sizes
        for since, seconds in asyncio.run(_composing(model, size, runs)).items()
    ]
    model, size = MODELS[0], sizes[-1]
    seconds = asyncio.run(_composing(model, size, runs, Window()))["group"]
    work = f"compose for {model[0]}; an exchange, with all of it in the window"
    return [*rows, Row(f"{model[0]}-all-{size}", work, size, seconds)]


async def _composing(
    model: tuple[str, str], size: int, runs: int, window: Window = WINDOW
) -> dict[str, float]:
    """The best time after each kind of change, by its name."""
    profile, mail, rng = profile_for(*model), Mail(), random.Random(2)
    settings = Settings(apps=AppSettings(discover=False, workspace=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        session = _filled(path, size, profile.dialect)
        scripted = ScriptedModel(["ok"], profile=profile)
        async with (
            Hub() as hub,
            Host.open(settings, model=scripted, ledger=path, hub=hub, session=session) as host,
        ):
            host.ledger.sessions.set_window(session, window)
            hub.add("mail", local_dial(mail.app))
            await mail.arrived(hub)
            await host.preview("warm up")
            best = {}
            for since in SINCE:
                times = []
                for _ in range(runs):
                    if since == "world":
                        await mail.change(hub)
                    elif since == "group":
                        said = [_words(rng, 40), _words(rng, 40)]
                        drafts = [Draft(Message.of("user", said[0]), 50)]
                        drafts.append(Draft(Message.of("assistant", said[1]), 50))
                        host.ledger.append(session, drafts, strategy=profile.dialect)
                    gc.collect()
                    began = time.process_time()
                    await host.preview("what now?")
                    times.append(time.process_time() - began)
                best[since] = min(times)
            return best


def _filled(path: Path, messages: int, dialect: str) -> int:
    """Write a session of so many messages, and return its id."""
    rng = random.Random(1)
    with Ledger(path) as ledger:
        session = ledger.sessions.create("composing", project="").id
        for number in range(messages // MESSAGES_A_GROUP):
            call = ToolCall(f"c{number}", "query_db", {"sql": _words(rng, 12)})
            result = ToolResult(call.id, _words(rng, 200), call.name)
            state = f"{_words(rng, 60)}\n\n### STATE\nGoal: {_words(rng, 20)}"
            drafts = [
                Draft(Message.of("user", _words(rng, 30)), 40),
                Draft(Message("assistant", (Text(_words(rng, 20)), call)), 40),
                Draft(Message("tool", (result,)), 220),
                Draft(Message.of("assistant", state), 90),
            ]
            ledger.append(session, drafts, strategy=dialect)
    return session


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))
