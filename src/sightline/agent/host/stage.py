"""What a turn finds around it: the apps, the composer, the policy, the window that can fold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from sightline.agent.host.compose import Composer
from sightline.agent.host.judge import Case, case_of
from sightline.agent.host.session import Composed, OpenSession, OpenTurn
from sightline.agent.host.writing import Scribe
from sightline.agent.models.base import Model
from sightline.agent.plugins.run import StrategyRunner
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
        composer: Composer,
        runner: StrategyRunner,
        llm: Llm,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        check_rules(settings.policy)
        self.scribe = scribe
        self.mode: Mode = settings.mode
        self.runner = runner
        self.composer = composer
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
        return self.composer.safe(self._hub.world)

    def counter(self, model: Model) -> Counter:
        """What weighs a model's messages."""
        return self.composer.counter(model.profile)

    async def compose(
        self,
        place: OpenSession,
        model: Model,
        turn: OpenTurn | None = None,
        draft: Input | None = None,
    ) -> Composed:
        """Make the next request of a turn, or the one that a draft would make.

        Bound reasoning is carried along while the prefix holds. Once something before it
        has changed, it is left out for the rest of the turn: a vendor would refuse it. So
        it is once the tails that it needs take too much room.
        """
        if (
            turn is not None
            and turn.sent
            and await asyncio.to_thread(self.composer.crowded, place, model.profile, turn)
        ):
            turn.thinking, turn.sent = "strip", ()
        composed = await self._compose(place, model, turn, draft)
        change = composed.drift
        if turn is not None and turn.sent and change is not None and not change.expected:
            turn.thinking, turn.sent = "strip", ()
            composed = await self._compose(place, model, turn, draft)
        return composed

    async def _compose(
        self, place: OpenSession, model: Model, turn: OpenTurn | None, draft: Input | None
    ) -> Composed:
        return await self.composer.compose(
            place, model, self._hub.world, self.runner, self.llm, turn=turn, draft=draft
        )

    def case(self, call: ToolCall, target: ToolTarget | None, *, reads: bool) -> Case:
        """Collect what is known of a call now."""
        origin = None if target is None else self._hub.origin(target.app)
        return case_of(
            call, target, reads=reads, world=self._hub.world, safe=self.world,
            origin="" if origin is None else redact(str(origin)),
            own=origin is not None and origin.kind == "own",
        )  # fmt: skip

    def decide(self, place: OpenSession, facts: Facts) -> Decision:
        """Decide on a call by mode, rules and what the user answered before."""
        reads = facts.own and (facts.app, facts.action) in self._own_reads
        # In any mode, then, as in mode auto: a rule of the user may still deny it.
        mode = "auto" if reads else self.mode
        return decide(facts, mode, self._settings.policy, place.remembered)

    async def fold(self, place: OpenSession, composed: Composed | None = None) -> bool:
        """Keep the newer half of the window's groups; say whether anything is left out by that.

        With a request that was too long, what is sent is half of that at most from now on.
        """
        folded = False
        if composed is not None:
            ceiling = composed.prompt.receipt.total // 2
            if ceiling >= LEAST_TOKENS:
                place.ceiling, folded = ceiling, True
        groups = await asyncio.to_thread(self.composer.groups, place)
        if len(groups) > 1:
            place.first_group, folded = groups[len(groups) // 2], True
            fold = self.scribe.ledger.sessions.fold
            await asyncio.to_thread(fold, place.id, place.first_group)
        return folded

    def learn(self, model: Model, composed: Composed, reported_tokens: int) -> None:
        """Correct the estimates by what the vendor counted."""
        self.composer.learn(model.profile, composed.expected_tokens, reported_tokens)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._sleep(seconds)
