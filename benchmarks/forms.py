"""What the forms of a tail cost: the state whole in every request, or once and then its changes.

    python -m benchmarks --only forms

The chat of `cache`, 50 turns and 99 requests, beside an app with rows of which some change before
every request. A token that is new costs 1.25, one that is read from the cache 0.1, and read is the
longest beginning that an earlier request had; so no vendor's marks or minima play a part. The
tails are those that `observations` makes for a host, from the app's own tree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from benchmarks.cache import (
    BLOCK,
    DEFAULT,
    FIXED,
    LAYOUTS,
    MARKED,
    WORKS,
    Asked,
    Layout,
    Moment,
    Numbers,
    PrefixCache,
    Texts,
    Writer,
    conversation,
)
from benchmarks.harness import Row
from sightline.context.dialects.observations import GROWING, SentTail, observe
from sightline.context.messages.parts import Message
from sightline.context.projection.changes import ShownState
from sightline.context.projection.tail import render_state
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

__all__ = ["FORMS", "SCENES", "Scene", "cost_of", "run"]

TURNS, QUICK_TURNS = 50, 5
NEW, READ = 1.25, 0.1
SENDERS = ("alice", "bob", "carol")
BEGAN = datetime(2026, 11, 15, 10, tzinfo=UTC)
ACTIONS: list[dict[str, Any]] = [
    {"action": "reply", "params": {"type": "object", "properties": {"body": {"type": "string"}}}},
    {"action": "mark_read"},
]


@dataclass(frozen=True)
class Scene:
    """An app with so many rows, and how many of them are other ones at each request."""

    title: str
    rows: int
    changing: int

    def worlds(self) -> Iterator[World]:
        """What the app shows at one request after the other."""
        chance = random.Random(9)
        unread = [chance.random() < 0.5 for _ in range(self.rows)]
        while True:
            rows = [_row(at, is_unread=is_unread) for at, is_unread in enumerate(unread)]
            tree = Node.of("mail-app", "root", properties={"label": "Mail"}, children=rows)
            yield World((AppState("mail-app", "Mail", tree=tree),))
            for at in chance.sample(range(self.rows), self.changing):
                unread[at] = not unread[at]


def _row(at: int, *, is_unread: bool) -> Node:
    properties = {"title": "Launch plan", "from": f"{SENDERS[at % 3]}@co.org", "unread": is_unread}
    return Node.of(f"thread-{at}", "item", properties=properties, affordances=ACTIONS)


SCENES = {
    "small": Scene("850 tokens, 2 of 24 rows", 24, 2),
    "large": Scene("4,050 tokens, 3 of 120 rows", 120, 3),
    "other": Scene("850 tokens, all 24 rows", 24, 24),
}
FORMS = {
    "settle": LAYOUTS["settle"],
    "default": DEFAULT,
    "turn": replace(DEFAULT, title='`tail.repeat = "turn"`', repeat="turn"),
    "session": replace(DEFAULT, title='`tail.repeat = "session"`', repeat="session"),
}


def run(*, quick: bool = False) -> list[Row]:
    """Price every form beside every app; the peer is the default."""
    rows = []
    for scene_slug, scene in SCENES.items():
        found = {
            slug: cost_of(form, scene, QUICK_TURNS if quick else TURNS)
            for slug, form in FORMS.items()
        }
        for slug, form in FORMS.items():
            costs = found[slug]
            work = f"{scene.title}: {form.title}"
            rows.append(
                Row(
                    f"{scene_slug}-{slug}", work, round(costs["requests"]), costs["cost"],
                    found["default"]["cost"], None, "tokens", "", costs,
                )
            )  # fmt: skip
    return rows


def cost_of(form: Layout, scene: Scene, turns: int = TURNS) -> dict[str, float]:
    """Price the requests of a conversation: the cost, what was sent, what was evaluated of it."""
    texts = Texts()
    writer, cache = _TailWriter(form, texts), PrefixCache(texts)
    found = {"requests": 0.0, "cost": 0.0, "sent": 0.0, "evaluated": 0.0, "state": 0.0}
    moments = conversation(WORKS[0], turns, "turn")
    for number, (moment, world) in enumerate(zip(moments, scene.worlds(), strict=False)):
        asked, state = writer.ask(moment, world, BEGAN + timedelta(seconds=number))
        common, total = cache.reuse(asked).common, int(asked.ends[-1])
        common -= common % BLOCK
        found["requests"] += 1
        found["sent"] += total
        found["evaluated"] += total - common
        found["cost"] += NEW * (total - common) + READ * common
        found["state"] = max(found["state"], state)
    return found


class _TailWriter:
    """Writes the requests of a form, one after the other, as a host would."""

    def __init__(self, form: Layout, texts: Texts) -> None:
        self._form, self._texts = form, texts
        self._history = Writer(form, texts)
        self._fixed = texts.numbers(FIXED)
        self._sent: tuple[SentTail, ...] = ()
        self._behind = ""

    def ask(self, moment: Moment, world: World, at: datetime) -> tuple[Asked, int]:
        """Write the request of a moment; also what the whole state weighs."""
        state = Message.of("user", render_state(world, at))
        prefix = np.concatenate((self._fixed, *self._history.history(moment)))
        weight = int(self._texts.weights[self._texts.numbers([state])[0]])
        tail = tuple(part for message in (*moment.notes, state) for part in message.parts)
        kept: tuple[SentTail, ...] = ()
        newest = SentTail(prefix.size, tail)
        if self._form.repeat in GROWING:
            kept, newest = observe(
                tail, self._standing(moment), prefix.size, repeat=self._form.repeat,
                shown=ShownState.of(world, at),
            )  # fmt: skip
        self._sent = (*kept, newest)
        body: list[Numbers] = []
        written = 0
        for sent in self._sent:
            body.append(prefix[written : sent.after])
            body.append(self._texts.numbers(Message("user", (part,)) for part in sent.parts))
            written = sent.after
        numbers = np.concatenate(body)
        weights, blocks = self._texts.weights[numbers], self._texts.blocks[numbers]
        none: dict[str, list[int]] = {name: [] for name in MARKED}
        asked = Asked(numbers, np.cumsum(weights), np.cumsum(blocks), numbers.size, none)
        return asked, weight

    def _standing(self, moment: Moment) -> tuple[SentTail, ...]:
        """The tails that still hold: of this turn, or since the window folded."""
        total = len(moment.groups)
        first = total - self._form.window.shown(total)
        behind = str(total if self._form.repeat == "turn" else first)
        sent, self._behind = self._sent if behind == self._behind else (), behind
        return sent
