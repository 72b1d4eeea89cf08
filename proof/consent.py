"""What ran is what was shown and agreed to, while all of it changes before and after the yes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from agent.host.helpers import ALONE
from proof.claim import Claim, Trial
from proof.command_rules import command_rules
from sightline.agent.host import Host
from sightline.agent.host.running import TurnRun
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import LimitSettings, Settings
from sightline.context.messages.parts import ToolCall
from sightline.events import ApprovalAsked, CallFinished
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.unix import connect_unix, serve_unix
from support.consent_changes import Result, Row, careless, read_rows, try_row
from support.live import LiveApp

NODES = 4
CALLS_A_TURN = 20
MOST_QUESTIONS = 3
WORDS = ("old draft", "TAX RETURNS 2026", "notes", "notes ", "n\u043etes")


@dataclass(frozen=True, slots=True)
class Deed:
    """An action with everything that it was done to; as a card shows it, or as the app did it."""

    socket: str
    path: str
    action: str
    params: dict[str, Any]
    node: dict[str, Any]
    about: str
    dangerous: bool


class Shelf(LiveApp):
    """An app whose nodes change at random; it notes what it is made to do, and to what."""

    def __init__(self, trial: Trial, socket: str, done: list[Deed]) -> None:
        self.chance = trial.random
        self.socket = socket
        self.items = {f"d{n}": self._item(f"d{n}") for n in range(NODES)}
        self.done = done
        super().__init__(self._shown(), app_id="shelf")

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        item = self.items.get(request.path.rpartition("/")[2], {"affordances": []})
        offered = [one for one in item["affordances"] if one["action"] == request.action]
        node = {
            "type": item.get("type", ""), "properties": item.get("properties", {}),
            "summary": item.get("meta", {}).get("summary", ""),
        }  # fmt: skip
        deed = Deed(
            self.socket, request.path, request.action, dict(request.params), node,
            offered[0]["description"] if offered else "",
            bool(offered and offered[0]["dangerous"]),
        )  # fmt: skip
        self.done.append(deed)
        connection.send_result(request.id, None)

    def change(self, own: str) -> Node:
        """Change one thing of a node, or the whole node, or take it away; show that."""
        chance, item = self.chance, self.items.get(own)
        if item is None or chance.random() < 0.1:
            self.items[own] = self._item(own)
        else:
            match chance.randrange(6):
                case 0:
                    item["properties"] = {**item["properties"], "label": chance.choice(WORDS)}
                case 1:
                    item["properties"] = {**item["properties"], "pages": chance.randrange(9)}
                case 2:
                    item["meta"] = {"summary": chance.choice(WORDS), "salience": chance.random()}
                case 3:
                    item["affordances"] = self._actions()
                case 4:
                    item["type"] = chance.choice(["document", "folder"])
                case 5:
                    del self.items[own]
        self.publish(self._shown())
        return self.tree

    def _item(self, own: str) -> dict[str, Any]:
        chance = self.chance
        return {
            "id": own, "type": "document", "affordances": self._actions(),
            "properties": {"label": chance.choice(WORDS), "pages": chance.randrange(9)},
            "meta": {"summary": chance.choice(WORDS)},
        }  # fmt: skip

    def _actions(self) -> list[dict[str, Any]]:
        return [
            {"action": action, "description": self.chance.choice(WORDS),
             "dangerous": self.chance.random() < 0.5}
            for action in ("delete", "tidy")
        ]  # fmt: skip

    def _shown(self) -> Node:
        docs = {"id": "docs", "type": "collection", "children": list(self.items.values())}
        return from_value({"id": "app", "type": "root", "children": [docs]})


@dataclass(slots=True)
class Seen:
    """What a user saw, agreed to and wanted remembered, by the calls; and which of them ran."""

    agreed: dict[str, Deed] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    again: int = 0

    def wrong(self, done: list[Deed]) -> Iterator[str]:
        """Go through what was done in its order, and tell what the user did not say yes to.

        A rule is in force from the call on for which it was accepted, if that one ran.
        """
        if len(self.ran) != len(done):
            yield f"{len(done)} were done, {len(self.ran)} are told"
        in_force: list[tuple[Deed, int]] = []
        for own, deed in zip(self.ran, done, strict=False):
            card = self.agreed.get(own)
            if own in self.questions:
                holds = card == deed
            else:
                holds = any(_fits(*rule, deed) for rule in in_force)
            if not holds:
                yield f"call {own}: {deed} was done, {card} agreed to"
            if card is not None and own in self.rules:
                in_force.append((card, self.rules[own]))


def _fits(card: Deed, number: int, deed: Deed) -> bool:
    """Read a rule as the user did: the same parameters, the same node, or the ones beside it."""
    described = [(one.socket, one.action, one.about, one.dangerous) for one in (card, deed)]
    if described[0] != described[1]:
        return False
    if number == 1:
        labels = [one.node["properties"].get("label") for one in (card, deed)]
        same = card.path == deed.path and card.params == deed.params
        return same and labels[0] == labels[1]
    if deed.dangerous:
        return False
    return card.path == deed.path or number == 3


def _card(event: ApprovalAsked) -> Deed:
    socket = event.origin.removeprefix("unix:").partition(" (user ")[0]
    node = {"type": event.type, "properties": event.properties, "summary": event.summary}
    return Deed(socket, event.path, event.action, event.params, node, event.about, event.dangerous)


class Desk:
    """A host, two apps that take turns in one seat, and a user who answers at random."""

    def __init__(self, trial: Trial, host: Host, apps: tuple[Shelf, Shelf]) -> None:
        self.chance = trial.random
        self.host = host
        self.seated, self.other = apps

    async def sit(self, app: Shelf) -> None:
        """Connect an app in the one seat."""
        self.host.hub.add("shelf", partial(connect_unix, app.socket))
        await self.host.hub.client("shelf")
        await self.until(app.tree)

    async def until(self, tree: Node) -> None:
        """Wait until the host was told."""
        async for world in self.host.hub.changes():
            if world.apps and world.apps[0].status == "connected" and world.apps[0].tree == tree:
                return

    async def stir(self, path: str) -> None:
        """Let something happen while the question stands open; the host is told before the yes."""
        match self.chance.randrange(8):
            case 0 | 1:
                pass
            case 2:
                await self.until(self.seated.change(f"d{self.chance.randrange(NODES)}"))
            case 3 if self.chance.random() < 0.3:
                await self.host.hub.remove("shelf")
                self.seated, self.other = self.other, self.seated
                await self.sit(self.seated)
            case _:
                await self.until(self.seated.change(path.rpartition("/")[2]))

    async def take(self) -> Seen:
        """Ask once, answer every question at random, and forget the rules of this turn."""
        seen = Seen()
        async for event in self.host.ask("go"):
            if isinstance(event, CallFinished) and event.ok:
                seen.ran.append(event.call_id)
            if not isinstance(event, ApprovalAsked):
                continue
            own = event.call_id
            seen.questions[own] = seen.questions.get(own, 0) + 1
            seen.again += bool(event.differences)
            await self.stir(event.path)
            seen.agreed.pop(own, None)
            seen.rules.pop(own, None)
            if yes := self.chance.random() < 0.8:
                seen.agreed[own] = _card(event)
                if event.rules and self.chance.random() < 0.05:
                    seen.rules[own] = self.chance.randint(1, len(event.rules))
            self.host.answer(own, yes, seen.rules.get(own, 0))
        for number in range(len(self.host.rules), 0, -1):
            self.host.forget(number)
        return seen


def _calls(trial: Trial, first: int) -> list[ToolCall]:
    chance = trial.random
    return [
        ToolCall(f"c{number}", "slop_invoke", {
            "app": "shelf", "path": f"/docs/d{chance.randrange(NODES)}",
            "action": chance.choice(["delete", "tidy"]), "params": {"copies": chance.randrange(2)},
        })
        for number in range(first, first + CALLS_A_TURN)
    ]  # fmt: skip


async def _try(trial: Trial, count: int, place: Path) -> AsyncIterator[tuple[Seen, list[Deed]]]:
    """Make so many calls; give what was seen and what was done, turn by turn."""
    done: list[Deed] = []
    script: list[Any] = []
    for first in range(0, count, CALLS_A_TURN):
        script += [_calls(trial, first), "Done."]
    settings = Settings(apps=ALONE, limits=LimitSettings(invoke_s=60))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        one, other = (Shelf(trial, str(place / name), done) for name in ("a.sock", "b.sock"))
        for app in (one, other):
            await enter(serve_unix(app.handle, app.socket))
        hub = await enter(Hub())
        host = await enter(
            Host.open(settings, model=ScriptedModel(script), ledger=place / "work.db", hub=hub)
        )
        desk = Desk(trial, host, (one, other))
        await desk.sit(one)
        for _ in range(0, count, CALLS_A_TURN):
            yield await desk.take(), list(done)
            done.clear()


@contextmanager
def _careless() -> Iterator[None]:
    """A host that compares nothing when a yes comes."""
    check = TurnRun._check
    TurnRun._check = lambda *_: None  # type: ignore[method-assign]  # broken on purpose
    try:
        yield
    finally:
        TurnRun._check = check  # type: ignore[method-assign]


async def _wrong(trial: Trial, count: int, place: Path) -> tuple[int, int]:
    """Count what ran, and what of it ran otherwise than it was agreed to."""
    ran = wrong = 0
    async for seen, done in _try(trial, count, place):
        ran += len(done)
        wrong += len(list(seen.wrong(done)))
    return ran, wrong


async def _check(trial: Trial) -> None:
    count = trial.times(2_000, least=CALLS_A_TURN)
    ran = agreed = again = by_rule = 0
    async for seen, done in _try(trial, count, trial.directory("calls")):
        trial.tried += CALLS_A_TURN
        for what in seen.wrong(done):
            trial.fail(what)
        for own, asked in seen.questions.items():
            if asked > MOST_QUESTIONS:
                trial.fail(f"call {own} was asked about {asked} times")
        ran, again = ran + len(done), again + seen.again
        agreed += len(seen.agreed)
        by_rule += sum(own not in seen.questions for own in seen.ran)
    # A host that lets nothing run would pass all of the above.
    trial.check(ran > agreed // 4, f"{ran} ran, {agreed} were agreed to")
    trial.note("ran", f"{ran:,} of {count:,}, {by_rule:,} by a rule; {again:,} were asked again")


def agreed(trial: Trial) -> None:
    """Run random calls while nodes, actions and apps change between the question and the yes."""
    with _careless():
        ran, wrong = asyncio.run(_wrong(trial, 60, trial.directory("control")))
    rows = read_rows()
    rows = trial.random.sample(rows, min(len(rows), trial.times(len(rows), least=6)))
    with careless():
        followed = sum(one.took_effect and not one.asked for one in _changed(trial, rows))
    trial.control(
        wrong > 5 and followed == len(rows),
        f"with a host that compares nothing {wrong} of {ran} ran otherwise than agreed to, and "
        f"{followed} of {len(rows)} changes took effect without a question",
    )
    asyncio.run(_check(trial))
    for row, one in zip(rows, _changed(trial, rows), strict=True):
        trial.check(one.asked and one.shown and not one.took_effect, f"{row.name}: {one}")
    trial.note("changes after a lasting yes", f"{len(rows)} kinds")
    command_rules(trial)


def _changed(trial: Trial, rows: list[Row]) -> Iterator[Result]:
    """Change what the user agreed to for a session or for good, one kind after another."""
    for row in rows:
        yield asyncio.run(try_row(row, trial.directory("change")))


CLAIMS = (
    Claim("consent", "what ran is what was shown, whatever changed between question and yes",
          agreed),
)  # fmt: skip
