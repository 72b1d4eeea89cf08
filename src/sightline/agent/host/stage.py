"""What a turn finds around it: the apps, the composer, the policy, the window that can fold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sightline.agent.host.compose import Composed, Inputs, compose
from sightline.agent.host.gather import Gatherer
from sightline.agent.host.judge import Case, case_of
from sightline.agent.host.session import Current, OpenSession
from sightline.agent.host.writing import Scribe
from sightline.agent.models.base import Model
from sightline.agent.plugins.run import Left, StrategyRunner
from sightline.agent.policy import Decision, Facts, Mode, check_rules, decide
from sightline.config import Settings
from sightline.context.messages.parts import Input, ToolCall
from sightline.context.messages.redact import redact
from sightline.context.projection.tools import ToolTarget
from sightline.context.slots.strategy import Llm
from sightline.context.tokens.tokens import Counter
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.world import World

__all__ = ["HostStage"]

LEAST_TOKENS: Final = 256  # a prompt that must be shorter than this is not worth a request


class HostStage:
    """The host, as its turns see it."""

    def __init__(
        self,
        settings: Settings,
        hub: Hub,
        scribe: Scribe,
        gatherer: Gatherer,
        runner: StrategyRunner,
        llm: Llm,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        check_rules(settings.policy)
        self.scribe = scribe
        self.mode: Mode = settings.mode
        self.runner = runner
        self.gatherer = gatherer
        self.llm = llm
        self._settings = settings
        self._hub = hub
        self._sleep = sleep
        self._own_reads: frozenset[tuple[str, str]] = frozenset()

    def trust(self, app: str, actions: Sequence[str]) -> None:
        """Take the word of an app of our own that these actions only read."""
        self._own_reads |= {(app, action) for action in actions}

    @property
    def world(self) -> World:
        """What the apps show now, with keys blanked and walls of text cut."""
        return self.gatherer.safe(self._hub.world)

    def counter(self, model: Model) -> Counter:
        """What weighs a model's messages."""
        return self.gatherer.counter(model.profile)

    async def compose(self, now: Current, model: Model, draft: Input | None = None) -> Composed:
        """Make the next request of the turn, or the one that a draft would make.

        Bound reasoning is carried along while the prefix holds. Once something before it
        has changed, it is left out for the rest of the turn: a vendor would refuse it. So
        it is once the tails that it needs take too much room.
        """
        if draft is not None:
            return await self._compose(now, model, draft)
        if now.turn.sent:
            crowded = self.gatherer.crowded
            if await asyncio.to_thread(crowded, now.session, model.profile, now.turn):
                now.keep(now.turn.strip())
        composed = await self._compose(now, model)
        change = composed.drift
        if now.turn.sent and change is not None and not change.expected:
            now.keep(now.turn.strip())
            composed = await self._compose(now, model)
        return composed

    async def _compose(self, now: Current, model: Model, draft: Input | None = None) -> Composed:
        world, turn, lap = self._hub.world, None if draft is not None else now.turn, _laps()

        def gather(session: OpenSession) -> tuple[OpenSession, Inputs]:
            session = self.gatherer.with_loose(session)
            make = self.gatherer.inputs
            return session, make(session, model, world, self.llm, turn=turn, draft=draft)

        read, inputs = await asyncio.to_thread(gather, now.session)
        loose = {**read.loose, **now.session.loose}
        now.keep(replace(now.session, loose=loose, loose_since=read.loose_since))
        return await compose(inputs, self.runner, lap)

    async def finish(self, composed: Composed, state: Mapping[str, Any]) -> Left:
        """Give the strategy its last word on a turn, at the time that it is now."""
        return await self.runner.finish(replace(composed.turn, clock=self.gatherer), state)

    def case(self, call: ToolCall, target: ToolTarget | None, *, reads: bool) -> Case:
        """Collect what is known of a call now."""
        origin = None if target is None else self._hub.origin(target.app)
        return case_of(
            call, target, reads=reads, world=self._hub.world, safe=self.world,
            origin="" if origin is None else redact(str(origin)),
            own=origin is not None and origin.kind == "own",
        )  # fmt: skip

    def decide(self, session: OpenSession, facts: Facts) -> Decision:
        """Decide on a call by mode, rules and what the user answered before."""
        reads = facts.own and (facts.app, facts.action) in self._own_reads
        # In any mode, then, as in mode auto: a rule of the user may still deny it.
        mode = "auto" if reads else self.mode
        return decide(facts, mode, self._settings.policy, session.remembered)

    async def fold(self, now: Current, composed: Composed | None = None) -> bool:
        """Keep the newer half of the window's groups; say whether anything is left out by that.

        With a request that was too long, what is sent is half of that at most from now on.
        """
        ceiling = 0 if composed is None else composed.prompt.receipt.total // 2
        if ceiling >= LEAST_TOKENS:
            now.keep(replace(now.session, ceiling=ceiling))
        groups = await asyncio.to_thread(self.gatherer.groups, now.session)
        if len(groups) > 1:
            first = groups[len(groups) // 2]
            now.keep(replace(now.session, first_group=first))
            await asyncio.to_thread(self.scribe.ledger.sessions.fold, now.session.id, first)
        return ceiling >= LEAST_TOKENS or len(groups) > 1

    def learn(self, model: Model, composed: Composed, reported_tokens: int) -> None:
        """Correct the estimates by what the vendor counted."""
        self.gatherer.learn(model.profile, composed.expected_tokens, reported_tokens)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._sleep(seconds)


def _laps() -> Callable[[], int]:
    """Make a stopwatch: each call tells the milliseconds since the one before it."""
    last = time.monotonic()

    def lap() -> int:
        nonlocal last
        now = time.monotonic()
        took, last = round((now - last) * 1000), now
        return took

    return lap
