"""What a real runtime evaluates: the state as a tail, and the state before the history.

    python -m benchmarks --only local       minutes, not seconds

Twenty turns with the embedded model. A state block of about 250 tokens is another one in
every turn: a message arrives, a counter moves, the clock goes on. The conversation is the
same for both layouts, so its answers are given, and the model writes four tokens of its
own, which are thrown away. Evaluated and reused tokens are what llama.cpp reports for each
request. The layouts run one after the other, each on a runtime that has seen nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.harness import LeftOut, Row
from sightline.agent.models.base import Model
from sightline.agent.models.choose import open_model
from sightline.config import Settings
from sightline.context.dialects import Options, encode
from sightline.context.dialects.events import UsageArrived
from sightline.context.messages.parts import Message
from sightline.context.projection.tail import render_tail
from sightline.context.slots.prompt import Prompt, Receipt, digest_of
from sightline.context.slots.standing import system_text
from sightline.errors import MissingExtra
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

TURNS, QUICK_TURNS = 20, 3
SHOWN, QUICK_SHOWN = 5, 1
START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
SENDERS = ("Priya Raman", "Tomas Berg", "Ines Duarte", "Mara Lindqvist", "Wei Chen")
TOPICS = ("Launch plan", "Invoice 2231", "Ferry tickets", "Design review", "Lunch on Friday")
LAYOUTS = {"tail": False, "before history": True}


@dataclass(frozen=True, slots=True)
class Turn:
    """What the runtime said about one request."""

    prompt_tokens: int
    reused_tokens: int

    @property
    def evaluated_tokens(self) -> int:
        """What it had to read."""
        return self.prompt_tokens - self.reused_tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """A layout's turns, and how long they took, a few words of answer each included."""

    turns: tuple[Turn, ...]
    seconds: float


def state(turn: int, shown: int = SHOWN) -> str:
    """The tail of a turn: an inbox of some messages, the newest one new."""
    items = [
        Node.of(
            f"m{number}",
            "item",
            properties={
                "label": TOPICS[number % 5],
                "from": SENDERS[(number * 3) % 5],
                "unread": number == turn + 4,
            },
            affordances=[{"action": "open"}, {"action": "archive"}],
        )
        for number in range(turn + 4, turn + 4 - shown, -1)
    ]
    inbox = Node.of("inbox", "view", properties={"unread": turn % 7 + 1}, children=items)
    desk = Node.of("desk", "root", properties={"label": "Desk"}, children=[inbox])
    world = World((AppState("desk", "Desk", tree=desk),))
    return render_tail(world, START + timedelta(minutes=turn)).text


def prompts(turns: int, instructions: str, shown: int = SHOWN) -> Iterator[Prompt]:
    """The requests of a conversation, one per turn; a turn weighs about a hundred tokens."""
    said = [Message.of("system", instructions)]
    for turn in range(turns):
        topic, sender = TOPICS[(turn + 4) % 5].lower(), SENDERS[((turn + 4) * 3) % 5]
        said.append(Message.of("user", f"Who wrote about {topic}, and is there anything to do?"))
        account = Receipt(0, "", "estimated", 0, 0, 0, 0, len(said), digest_of((), said), ())
        yield Prompt((*said, Message.of("user", state(turn, shown))), len(said), account)
        said.append(
            Message.of(
                "assistant",
                f"{sender} wrote about {topic}. The message is the newest in your inbox, and you "
                "have not read it yet. You can open it to see what they need from you, or archive "
                f"it if {topic} is settled already. The other messages shown have been read.",
            )
        )


async def _asked(model: Model, prompt: Prompt, *, before: bool) -> Turn:
    request = encode(prompt, model.profile, Options(max_output_tokens=4, prepend=before))
    used = [e.usage async for e in model.stream(request) if isinstance(e, UsageArrived)]
    return Turn(used[0].input_tokens, used[0].cache_read_tokens)


async def measure(turns: int, instructions: str, shown: int) -> dict[str, Outcome]:
    """Run both layouts."""
    outcomes: dict[str, Outcome] = {}
    for name, before in LAYOUTS.items():
        model = open_model("local", Settings(), {})
        started = time.perf_counter()
        told = [
            await _asked(model, prompt, before=before)
            for prompt in prompts(turns, instructions, shown)
        ]
        outcomes[name] = Outcome(tuple(told), time.perf_counter() - started)
        await model.close()
    return outcomes


def run(*, quick: bool = False) -> list[Row]:
    """Run both layouts; ours is the tail, the peer is the state before the history."""
    turns, shown = (QUICK_TURNS, QUICK_SHOWN) if quick else (TURNS, SHOWN)
    instructions = "Be brief." if quick else system_text(small=True)
    try:
        outcomes = asyncio.run(measure(turns, instructions, shown))
    except MissingExtra as error:
        raise LeftOut(str(error)) from error
    tail, before = outcomes["tail"], outcomes["before history"]
    pairs = list(zip(tail.turns, before.turns, strict=True))
    rows = [
        _row(f"turn-{at}", f"turn {at}", [ours], [theirs])
        for at, (ours, theirs) in enumerate(pairs, 1)
    ]
    rows.append(_row("all", "all turns", tail.turns, before.turns))
    rows.append(
        Row(
            "time",
            "all turns, by the clock",
            turns,
            tail.seconds,
            before.seconds,
            note="four tokens of answer each included",
            more={"tokens_per_s": sum(t.evaluated_tokens for t in before.turns) / before.seconds},
        )
    )
    return rows


def _row(slug: str, work: str, ours: Sequence[Turn], theirs: Sequence[Turn]) -> Row:
    prompt, reused = (sum(t.prompt_tokens for t in ours), sum(t.reused_tokens for t in ours))
    peer_prompt = sum(turn.prompt_tokens for turn in theirs)
    peer_reused = sum(turn.reused_tokens for turn in theirs)
    return Row(
        slug, f"{work}: tokens evaluated", prompt, prompt - reused, peer_prompt - peer_reused,
        unit="tokens",
        note=f"{reused:,} reused, the peer {peer_reused:,}",
        more={"reused": reused, "peer_prompt": peer_prompt, "peer_reused": peer_reused},
    )  # fmt: skip
