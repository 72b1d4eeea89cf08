"""What is true now, read from the ledger, the apps and the settings: a request's `Inputs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from sightline.agent.host.compose import (
    SMALL_WINDOW,
    Conversation,
    Inputs,
    kept_tokens,
)
from sightline.agent.host.guard import guarded_text
from sightline.agent.host.session import OpenSession, OpenTurn
from sightline.agent.host.sight import SafeWorlds
from sightline.agent.models.base import Model
from sightline.agent.plugins.choose import label_of
from sightline.agent.toolbox.toolbox import definitions_of
from sightline.config import Settings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.ledger.store import Clock
from sightline.context.messages.entries import Entry
from sightline.context.messages.parts import Input, Message
from sightline.context.messages.truncate import Tiers
from sightline.context.slots.budget import Budget
from sightline.context.slots.standing import guidelines_text, system_text
from sightline.context.slots.strategy import Layers, Llm
from sightline.context.tokens.estimate import Calibration, Calibrations
from sightline.context.tokens.tokens import ESTIMATE, Counter, counter_for
from sightline.errors import DoesNotFit, MissingExtra
from sightline.slop.protocol.world import World

__all__ = ["Gatherer", "LedgerMemory", "counter_of", "tiers_of"]

KEPT_SHARE: Final = 0.25  # of the input that the earlier tails of a turn may have
NEWS: Final = 0.05  # a correction smaller than this is not worth counting everything again


class Gatherer:
    """Reads what requests are made of. One for a host, whatever session and model they are for."""

    def __init__(self, settings: Settings, ledger: Ledger, memos: MemoShelf, clock: Clock) -> None:
        self._settings = settings
        self._ledger = ledger
        self._memos = memos
        self._clock = clock
        self._worlds = SafeWorlds()
        self.calibrations = Calibrations()

    def now(self) -> datetime:
        """Return the time."""
        return self._clock()

    def safe(self, world: World) -> World:
        """Return a world with keys blanked and walls of text cut."""
        return self._worlds.of(world)

    def counter(self, profile: Profile) -> Counter:
        """Return the counter of a model; an estimate where its tokenizer is not installed."""
        return counter_of(profile, self.calibrations.models.get(profile.model))

    def learn(self, profile: Profile, predicted: int, reported: int) -> None:
        """Correct the estimates of a model by what its vendor counted.

        A correction that changes little is left out: it would weigh all history anew.
        """
        learnt = self.calibrations.observe(profile.model, predicted, reported)
        old = self.calibrations.of(profile.model).factor
        if abs(learnt.of(profile.model).factor - old) > NEWS * old:
            self.calibrations = learnt

    def inputs(
        self,
        session: OpenSession,
        model: Model,
        world: World,
        llm: Llm,
        *,
        turn: OpenTurn | None = None,
        draft: Input | None = None,
    ) -> Inputs:
        """Gather what the next request of a turn is made of, or the one that a draft would make."""
        profile, tail = model.profile, self._settings.tail
        conversation = self.conversation(session)
        budget = self._budget(session, profile)
        same_model = session.model == model.label
        tools = session.toolbox.tools()
        return Inputs(
            conversation=conversation,
            draft=draft,
            layers=self._layers(session, profile, draft or _asked(conversation.entries)),
            world=self.safe(world),
            at=self.now(),
            form=tail.format,
            pins=session.toolbox.bench.attention.pins(),
            share=tail.max_share,
            tools=definitions_of(tools),
            targets=tools,
            profile=profile,
            counter=self.counter(profile),
            budget=budget,
            options=self._options(session, profile, turn, budget, same_model=same_model),
            before=session.wire if same_model else None,
            strategy=label_of(self._settings.strategy),
            state=session.state,
            begins=turn is not None and turn.number == turn.requests == 1,
            memory=LedgerMemory(self._ledger, session.id, self._memos),
            llm=llm,
        )

    def _options(
        self,
        session: OpenSession,
        profile: Profile,
        turn: OpenTurn | None,
        budget: Budget,
        *,
        same_model: bool,
    ) -> Options:
        explained = same_model and profile.cache.diagnostics
        options = Options(
            conversation=session.row.uuid,
            max_output_tokens=budget.max_output_tokens or None,
            previous_id=session.response_id if explained else "",
        )
        repeat = self._settings.tail.repeat
        if profile.window_tokens < SMALL_WINDOW:
            repeat = "whole"  # a tiny model wants the state, not a reference to it
        if not profile.reasoning.bound and repeat == "whole":
            return options
        if turn is not None and turn.thinking != "auto" and profile.reasoning.bound:
            return msgspec.structs.replace(options, thinking=turn.thinking)
        sent = () if turn is None else turn.sent
        return msgspec.structs.replace(options, thinking="turn_append", sent=sent, repeat=repeat)

    def _budget(self, session: OpenSession, profile: Profile) -> Budget:
        budget = Budget.for_window(profile.window_tokens, profile.max_output_tokens)
        if session.ceiling is None or session.ceiling >= budget.max_input_tokens:
            return budget
        if session.ceiling <= 0:
            raise DoesNotFit("the vendor finds even the shortest prompt too long")
        return msgspec.structs.replace(budget, max_input_tokens=session.ceiling)

    def crowded(self, session: OpenSession, profile: Profile, turn: OpenTurn) -> bool:
        """Whether the tails that a turn has kept so far take too much of the next request."""
        kept = kept_tokens(turn.sent, profile, self.counter(profile))
        return kept > KEPT_SHARE * self._budget(session, profile).max_input_tokens

    def groups(self, session: OpenSession) -> list[int]:
        """List the groups that the window shows, in order."""
        entries = self._ledger.window(session.id)
        shown = dict.fromkeys(entry.group_id for entry in entries)
        return [group for group in shown if group >= session.first_group]

    def conversation(self, session: OpenSession) -> Conversation:
        """Read what was said, as far as the window of the session can show it."""
        row = self._ledger.sessions.get(session.id)
        entries = self._ledger.window(session.id, row.window)
        return Conversation(
            entries=entries,
            total=row.groups,
            window=row.window,
            tiers=tiers_of(self._settings),
            loose=session.loose,
            first_group=session.first_group,
            translate=self._settings.isolate == "translate",
        )

    def with_loose(self, session: OpenSession) -> OpenSession:
        """Read what receipts say of the groups of a window, unless that has been done."""
        stored = self._ledger.window(session.id)
        first = stored[0].group_id if stored else 0
        if session.loose_since is not None and first >= session.loose_since:
            return session
        found = self._ledger.accounts.loose(session.id, first)
        return replace(session, loose={**found, **session.loose}, loose_since=first)

    def _layers(self, session: OpenSession, profile: Profile, asked: Input) -> Layers:
        ledger, small = self._ledger, profile.window_tokens < SMALL_WINDOW
        anchor = ledger.states.current(session.id)
        memos = self._memos.relevant(asked.text) if asked.text else []
        lines = (
            f"- memo {self._memos.reference(memo)} ({', '.join(memo.tags)}): {memo.content}"
            for memo in memos
        )
        return Layers(
            system=system_text(small=small),
            guidelines=guidelines_text(small=small),
            memos=_titled("Memos that may matter here", "\n".join(lines)),
            anchor=_titled("The state you wrote last", anchor or ""),
            scratchpad=_titled("Your scratchpad", ledger.scratchpad.read(session.id)),
        )


def counter_of(profile: Profile, calibration: Calibration | None = None) -> Counter:
    """Return the counter of a model; an estimate where its tokenizer is not installed."""
    try:
        return counter_for(profile.model, calibration)
    except MissingExtra:
        return counter_for(ESTIMATE, calibration)


def tiers_of(settings: Settings) -> Tiers:
    """How much of a tool's output the settings have said again."""
    cut = settings.truncation
    return Tiers(
        recent=cut.count,
        recent_chars=cut.recent,
        degraded_chars=cut.degraded,
        inactive_chars=cut.inactive,
        settle=cut.settle,
    )


def _asked(entries: Sequence[Entry]) -> Input:
    said = (entry.message for entry in reversed(entries) if entry.role == "user")
    return Input(next(said, Message("user")).text)


def _titled(title: str, text: str) -> str:
    """A layer with a heading; nothing where there is nothing. The model wrote it: no blocks."""
    return f"## {title}\n\n{guarded_text(text)}" if text.strip() else ""


class LedgerMemory:
    """What a strategy may look up: memos, and this session's rows."""

    def __init__(self, ledger: Ledger, session_id: int, memos: MemoShelf) -> None:
        self._ledger = ledger
        self._session_id = session_id
        self._memos = memos

    def memos(self, text: str, limit: int = 5) -> Sequence[str]:
        """Return the memos that fit a text, the best first."""
        return [memo.content for memo in self._memos.relevant(text, limit=limit)]

    def query(self, sql: str) -> Sequence[Mapping[str, Any]]:
        """Read from this session's history, with the limits of `query_db`."""
        found = self._ledger.query(sql, session_id=self._session_id)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
