"""From the ledger and the apps to the next request.

    ledger ─ window ─ tiers ─ isolation ─ state blocks out ─▶ history │ input │ rounds
    ledger ─ anchor, scratchpad, memos ─┐
    hub ─ safe world ─ selection ───────┴▶ layers ─▶ strategy ─▶ prompt ─▶ dialect ─▶ request

Reading and writing files, counting and encoding happen in threads: one hop before the
strategy, one after it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from sightline.agent.host.guard import guarded_text
from sightline.agent.host.session import Composed, OpenSession, OpenTurn
from sightline.agent.host.sight import SafeWorlds, Sight, look
from sightline.agent.models.base import Model
from sightline.agent.plugins.choose import label_of
from sightline.agent.plugins.run import StrategyRunner
from sightline.agent.toolbox.toolbox import definitions_of
from sightline.config import Settings
from sightline.context.dialects import encode
from sightline.context.dialects.drift import Drift, Wire, drift
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options, Request, SentTail, no_tools
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.ledger.store import Clock
from sightline.context.messages.entries import Entry
from sightline.context.messages.isolate import isolate
from sightline.context.messages.memos import Memo
from sightline.context.messages.parts import File, Input, Message
from sightline.context.messages.replay import replay
from sightline.context.messages.state import strip_states
from sightline.context.messages.truncate import Tiers
from sightline.context.projection.tools import ToolSet
from sightline.context.slots.budget import Budget
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.standing import guidelines_text, system_text
from sightline.context.slots.strategy import Capabilities, Layers, Llm, Turn
from sightline.context.tokens.estimate import Calibrations
from sightline.context.tokens.tokens import ESTIMATE, Counter, counter_for
from sightline.errors import DoesNotFit, MissingExtra, SightlineError
from sightline.slop.protocol.world import World

__all__ = ["Composer"]

SMALL_WINDOW: Final = 16_384  # models with less get the shorter standing texts
FRAME_TOKENS: Final = 16  # what a message weighs beside its text, at most
REMINDER_CHARS: Final = 300
KEPT_SHARE: Final = 0.25  # of the input that the earlier tails of a turn may have
NEWS: Final = 0.05  # a correction smaller than this is not worth counting everything again


@dataclass(frozen=True, slots=True)
class _Read:
    """What one hop into the ledger brings."""

    turn: Turn
    sight: Sight
    tools: ToolSet
    rounds: list[Entry]
    options: Options


class Composer:
    """Makes requests. One for a host, whatever session and model they are for."""

    def __init__(self, settings: Settings, ledger: Ledger, memos: MemoShelf, clock: Clock) -> None:
        self._settings = settings
        self._ledger = ledger
        self._memos = memos
        self._clock = clock
        self._worlds = SafeWorlds()
        self.calibrations = Calibrations()
        cut = settings.truncation
        self._tiers = Tiers(
            recent=cut.count,
            recent_chars=cut.recent,
            degraded_chars=cut.degraded,
            inactive_chars=cut.inactive,
            settle=cut.settle,
        )

    def safe(self, world: World) -> World:
        """Return a world with keys blanked and walls of text cut."""
        return self._worlds.of(world)

    def counter(self, profile: Profile) -> Counter:
        """Return the counter of a model; an estimate where its tokenizer is not installed."""
        calibration = self.calibrations.models.get(profile.model)
        try:
            return counter_for(profile.model, calibration)
        except MissingExtra:
            return counter_for(ESTIMATE, calibration)

    def learn(self, profile: Profile, predicted: int, reported: int) -> None:
        """Correct the estimates of a model by what its vendor counted.

        A correction that changes little is left out: it would weigh all history anew.
        """
        learnt = self.calibrations.observe(profile.model, predicted, reported)
        old = self.calibrations.of(profile.model).factor
        if abs(learnt.of(profile.model).factor - old) > NEWS * old:
            self.calibrations = learnt

    async def compose(
        self,
        place: OpenSession,
        model: Model,
        world: World,
        runner: StrategyRunner,
        llm: Llm,
        *,
        turn: OpenTurn | None = None,
        draft: Input | None = None,
    ) -> Composed:
        """Make the next request of a turn, or the one that a draft would make.

        Raises `DoesNotFit` if not even the standing texts have room.
        """
        profile = model.profile
        lap = _laps()
        read = await asyncio.to_thread(self._read, place, model, world, llm, turn, draft)
        steps = [("select", lap())]
        failures: list[SightlineError | None] = []
        if turn is not None and turn.number == turn.requests == 1:
            left = await runner.start(read.turn, place.state)
            place.state = left.state
            failures.append(left.failure)
        built = await runner.build(read.turn, place.state)
        failures.append(built.failure)
        steps.append(("assemble", lap()))

        def finish() -> Composed:
            request = encode(built.prompt, profile, read.options)
            before = place.wire if place.model == model.label else None
            change = None if before is None else _drift(before, request)
            warnings = request.receipt_of(built.prompt).warnings
            told = [notice.message for notice in warnings]
            if not profile.tools.calls:
                told.append(no_tools(profile))
            failed = [str(failure) for failure in failures if failure is not None]
            return Composed(
                built.prompt, request, read.options, change, read.sight, read.tools, read.turn,
                built.state, (*failed, *told), (*steps, ("encode", lap())),
                label_of(self._settings.strategy), _loose(request, built.prompt, read.rounds),
                read.turn.budget.reserved_tokens,
                _expected(request, built.prompt, read.turn.counter),
            )  # fmt: skip

        return await asyncio.to_thread(finish)

    def _options(self, place: OpenSession, model: Model, turn: OpenTurn | None) -> Options:
        profile = model.profile
        budget = self._budget(place, profile)
        options = Options(
            conversation=place.row.uuid, max_output_tokens=budget.max_output_tokens or None
        )
        if place.response_id and place.model == model.label and profile.cache.diagnostics:
            options = msgspec.structs.replace(options, previous_id=place.response_id)
        repeat = self._settings.tail.repeat
        if profile.window_tokens < SMALL_WINDOW:
            repeat = "whole"  # a tiny model wants the state, not a reference to it
        if not profile.reasoning.bound and repeat == "whole":
            return options
        if turn is not None and turn.thinking != "auto" and profile.reasoning.bound:
            return msgspec.structs.replace(options, thinking=turn.thinking)
        sent = () if turn is None else turn.sent
        return msgspec.structs.replace(options, thinking="turn_append", sent=sent, repeat=repeat)

    def _budget(self, place: OpenSession, profile: Profile) -> Budget:
        budget = Budget.for_window(profile.window_tokens, profile.max_output_tokens)
        if place.ceiling is None or place.ceiling >= budget.max_input_tokens:
            return budget
        if place.ceiling <= 0:
            raise DoesNotFit("the vendor finds even the shortest prompt too long")
        return msgspec.structs.replace(budget, max_input_tokens=place.ceiling)

    def crowded(self, place: OpenSession, profile: Profile, turn: OpenTurn) -> bool:
        """Whether the tails that a turn has kept so far take too much of the next request."""
        kept = _kept(turn.sent, profile, self.counter(profile))
        return kept > KEPT_SHARE * self._budget(place, profile).max_input_tokens

    def _read(
        self,
        place: OpenSession,
        model: Model,
        world: World,
        llm: Llm,
        turn: OpenTurn | None,
        draft: Input | None,
    ) -> _Read:
        """Everything that needs the ledger or counts tokens, in one go."""
        profile = model.profile
        said, asked, rounds = _split(self._entries(place, profile, draft), draft)
        options = self._options(place, model, turn)
        counter = self.counter(profile)
        kept = _kept(options.sent, profile, counter)
        budget = msgspec.structs.replace(self._budget(place, profile), reserved_tokens=kept)
        room = int(budget.remaining_input_tokens * self._settings.tail.max_share)
        sight = look(
            self.safe(world),
            self._clock().replace(microsecond=0),
            max(0, room - FRAME_TOKENS),
            counter.count,
            form=self._settings.tail.format,
            pins=place.toolbox.bench.attention.pins(),
        )
        tools = place.toolbox.tools()
        offered = Turn(
            input=asked,
            history=said,
            rounds=[entry.message for entry in rounds],
            budget=budget,
            counter=counter,
            layers=self._layers(place, profile, asked, sight),
            # What is not sent is not counted, or estimates would be corrected by it.
            tools=definitions_of(tools) if profile.tools.calls else (),
            capabilities=Capabilities(vision=profile.messages.images),
            memory=LedgerMemory(self._ledger, place.id, self._memos),
            llm=llm,
            clock=_Now(self._clock),
        )
        return _Read(offered, sight, tools, rounds, options)

    def groups(self, place: OpenSession) -> list[int]:
        """List the groups that the window shows, in order."""
        entries = self._ledger.window(place.id)
        shown = dict.fromkeys(entry.group_id for entry in entries)
        return [group for group in shown if group >= place.first_group]

    def conversation(self, place: OpenSession, profile: Profile) -> list[Message]:
        """Return what of the conversation is replayed to a model."""
        return [entry.message for entry in self._entries(place, profile)]

    def _entries(
        self, place: OpenSession, profile: Profile, draft: Input | None = None
    ) -> list[Entry]:
        """What of the conversation is replayed to this model, now or once a draft is said."""
        session = self._ledger.sessions.get(place.id)
        window = session.window
        stored = list(self._ledger.window(place.id, window))
        self._read_loose(place, stored)
        total = session.groups
        if draft is not None:
            # It will be a group, which counts for the window and ends the turn before it.
            stored.append(_as_entry(draft, place.id))
            total += 1
        shown = replay(stored, window, self._tiers, total=total, loose=place.loose)
        shown = [entry for entry in shown if entry.group_id >= place.first_group and entry.id]
        translate = self._settings.isolate == "translate"
        return strip_states(isolate(shown, profile.dialect, translate=translate))

    def _read_loose(self, place: OpenSession, stored: Sequence[Entry]) -> None:
        """Read what receipts say of the groups of a window, unless that has been done."""
        first = stored[0].group_id if stored else 0
        if place.loose_since is None or first < place.loose_since:
            place.loose = self._ledger.accounts.loose(place.id, first) | place.loose
            place.loose_since = first

    def _layers(self, place: OpenSession, profile: Profile, asked: Input, sight: Sight) -> Layers:
        ledger, small = self._ledger, profile.window_tokens < SMALL_WINDOW
        anchor = ledger.states.current(place.id)
        scratchpad = ledger.scratchpad.read(place.id)
        memos = self._memos.relevant(asked.text) if asked.text else []
        return Layers(
            system=system_text(small=small),
            guidelines=guidelines_text(small=small),
            memos=_titled("Memos that may matter here", "\n".join(map(self._memo_line, memos))),
            anchor=_titled("The state you wrote last", anchor or ""),
            scratchpad=_titled("Your scratchpad", scratchpad),
            apps=sight.tail.available,
            state=_reminded(sight.tail.state, asked.text) if small else sight.tail.state,
        )

    def _memo_line(self, memo: Memo) -> str:
        return f"- memo {self._memos.reference(memo)} ({', '.join(memo.tags)}): {memo.content}"


def _reminded(state: str, asked: str) -> str:
    """End a block with the question: a tiny model goes on from what it read last.

    Measured with the embedded one: without this it talks about the last line of the state,
    with it it finds the answer in there. It is part of the tail, so it costs no cache.
    """
    return f"{state}\n\nAnswer the user: {asked[:REMINDER_CHARS]}" if asked else state


def _drift(before: Wire, request: Request) -> Drift:
    prices = request.profile.prices
    return drift(before, request.wire, input_price=prices.input, read_price=prices.cache_read)


def _laps() -> Callable[[], int]:
    """Make a stopwatch: each call tells the milliseconds since the one before it."""
    last = time.monotonic()

    def lap() -> int:
        nonlocal last
        now = time.monotonic()
        took, last = round((now - last) * 1000), now
        return took

    return lap


def _split(
    entries: Sequence[Entry], draft: Input | None
) -> tuple[list[Message], Input, list[Entry]]:
    """Take a conversation apart: what was said before, the input, what followed it."""
    if draft is not None:
        return [entry.message for entry in entries], draft, []
    asked = next((i for i in reversed(range(len(entries))) if entries[i].role == "user"), None)
    if asked is None:
        return [entry.message for entry in entries], Input(""), []
    message = entries[asked].message
    files = tuple(part for part in message.parts if isinstance(part, File))
    return (
        [entry.message for entry in entries[:asked]],
        Input(message.text, files),
        list(entries[asked + 1 :]),
    )


def _as_entry(draft: Input, session_id: int) -> Entry:
    """A draft as if it had been said: the last group, and no message that there is."""
    message = Message.of("user", draft.text)
    return Entry(0, session_id, sys.maxsize, 0, message, "complete", "", 0, "estimated", "")


def _kept(sent: Sequence[SentTail], profile: Profile, counter: Counter) -> int:
    """What the earlier tails of a turn weigh that stay beside the newest.

    Where reasoning is not bound to them, of the whole ones there is one at a time.
    """
    stay = [tail for tail in sent if tail.repeats or profile.reasoning.bound]
    return _weight(stay, counter)


def _expected(request: Request, prompt: Prompt, counter: Counter) -> int:
    """What the vendor should count: the tails as they are in the request, not as offered."""
    receipt = prompt.receipt
    if not request.sent:
        return receipt.total
    offered = sum(slot.kept for slot in receipt.slots if slot.stability == "volatile")
    return receipt.total - offered + _weight(request.sent, counter)


def _weight(tails: Sequence[SentTail], counter: Counter) -> int:
    messages = [Message("user", tail.parts) for tail in tails]
    return sum(counter.weigh(messages, remember=False))


def _loose(request: Request, prompt: Prompt, rounds: Sequence[Entry]) -> int:
    """The first message of the turn that stands behind a kept tail; 0 if none does.

    None, too, if the strategy has not put the rounds at the end of the prefix as they are.
    """
    count = prompt.boundary - request.sent[0].after if request.sent else 0
    if not 0 < count <= len(rounds):
        return 0
    behind = rounds[-count:]
    same = [entry.message for entry in behind] == list(prompt.prefix[-count:])
    return behind[0].id if same else 0


def _titled(title: str, text: str) -> str:
    """A layer with a heading; nothing where there is nothing. The model wrote it: no blocks."""
    return f"## {title}\n\n{guarded_text(text)}" if text.strip() else ""


class _Now:
    """The host's clock, as strategies know one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock()


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
