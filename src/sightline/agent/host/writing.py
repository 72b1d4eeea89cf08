"""What a turn leaves behind: messages with their weights, usage, receipts, requests in full.

Every method is synchronous and made to be run in a thread: one hop stores all that belongs
together. What was said and who says it decides whether a turn goes on; what is only noted
(the journal's requests, how far a reply is) never does. What goes wrong with that is
remembered, told once, and that is all.

What a killed program left open is closed and marked, so that the conversation can go on. Three
things can be open in the last group of a session: a reply of which the ledger knows the
beginning, calls without results, and nothing. The beginning is stored as an incomplete message;
each open call gets an error result that says how far it was. Both are ordinary messages, so the
prompt that follows is as stable as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from sightline.agent.host.compose import Composed
from sightline.agent.host.journal import Ended, Journal, Noted, RequestLine, Sent
from sightline.agent.host.session import OpenSession, OpenTurn
from sightline.agent.models.base import Model, address_of
from sightline.agent.turn.steps import Append, ReplyProgress, Spent
from sightline.context.dialects.events import MAX_TOKENS, cost
from sightline.context.dialects.profile import Profile
from sightline.context.ledger import Ledger
from sightline.context.ledger import StoredUsage as LedgerUsage
from sightline.context.ledger.store import Clock
from sightline.context.ledger.work import CallState, OpenWork, Owner
from sightline.context.messages.gate import check_json, guarded, shown_text, storable, storable_json
from sightline.context.messages.parts import Draft, Entry, Message, ToolCall, ToolResult
from sightline.context.messages.window import Window
from sightline.context.projection.moment import format_moment
from sightline.context.tokens.estimate import Calibrations
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput, LedgerUnavailable, NotStorable
from sightline.slop.protocol.world import World

T = TypeVar("T")
_DEAREST: Final = 1e6  # dollars for one request; by whatever prices, more is no cost
ERROR_CHARS: Final = 2_000
REPORTED_BYTES: Final = 8 * 1024
# How a request ends that was not answered, and so is not charged; what broke off may be.
UNCHARGED: Final = frozenset(
    {"unauthorized", "rate_limited", "overflow", "unreachable", "model_failed"}
    | {"model_unavailable"}
)
# What an open call came to, by how far it was.
WORDS: Final = {
    "asked": "error: not run (the program ended while it waited for approval)",
    "running": "error: interrupted (the program ended while it ran); "
    "whether it took effect is unknown",
    "": "error: interrupted (the program ended); whether it took effect is unknown",
}


class Scribe:
    """Writes to a ledger and its journal. `record=False` keeps neither receipts nor requests."""

    def __init__(self, ledger: Ledger, clock: Clock, *, record: bool = True) -> None:
        self.ledger = ledger
        self._clock = clock
        self._record = record
        self._problem: str | None = None
        self._announced = False
        self.journal: Journal | None = None
        self._owner = Owner(ledger.work)
        try:
            self.journal = Journal(ledger.path)
        except LedgerUnavailable as error:
            self._problem = str(error)

    def close(self) -> None:
        """Let go of the sessions and the journal."""
        self._owner.close()
        if self.journal is not None:
            self.journal.close()

    def take_problem(self) -> str | None:
        """Say what could not be noted, once."""
        if self._problem is None or self._announced:
            return None
        self._announced = True
        return self._problem

    # A turn, from its beginning to its end.

    def claim(self, session_id: int, weigh: Callable[[Message], Draft]) -> Recovered:
        """Make a session ours and close what a dead program left open in it.

        Raises `SessionBusy` while another program runs a turn in it.
        """
        died = self._owner.claim(session_id)
        work = self.ledger.work
        found = recover(self.ledger, session_id, work.open(session_id), weigh)
        if died or found:
            self._mark_interrupted(session_id)
        work.settle(session_id)
        return found

    def _mark_interrupted(self, session_id: int) -> None:
        """Say of the newest turn that its program ended; an answer that was stored is an end."""
        nothing: list[RequestLine] = []
        lines = self._try(lambda journal: journal.requests(session_id), nothing)
        groups = self.ledger.groups.recent(session_id, 1)
        if lines and groups and lines[-1].group_id == groups[0].id and lines[-1].outcome != "end":
            row = lines[-1].id
            self._try(lambda journal: journal.end_turn(row, Ended("interrupted")), None)

    def release(
        self, session: OpenSession, turn: OpenTurn, ended: Ended, learnt: Calibrations
    ) -> None:
        """Give a session back at the end of a turn, with nothing under way in it."""
        self._finish(turn)
        if (row := turn.row) is not None:
            self._try(lambda journal: journal.end_turn(row, ended), None)
        self._note(lambda: self.ledger.work.learn(learnt))
        self._note(lambda: self._owner.release(session.id))

    def begin(
        self,
        session: OpenSession,
        message: Message,
        profile: Profile,
        counter: Counter,
        changes: Callable[[World], str | None],
    ) -> tuple[OpenSession, OpenTurn, Recovered]:
        """Store what the user said.

        Returns the session with it, the turn that begins with it, and what was mended before.

        `changes` has a line to add to what was said before, from what the model saw then.
        """
        weigh = partial(self.draft, counter=counter)
        mended = self.claim(session.id, weigh)
        session = self._recall(session)
        messages = [message]
        note = None if session.seen is None else changes(session.seen)
        if note and self.ledger.groups.goes_on(session.id):
            messages.insert(0, Message.of("assistant", note))
        *_, entry = self.ledger.append(
            session.id, [*map(weigh, messages)], strategy=profile.dialect
        )
        [group] = self.ledger.groups.recent(session.id, 1)
        state = self.ledger.strategy_states.current(session.id)
        session = replace(session, state=state, row=self.ledger.sessions.get(session.id))
        return session, OpenTurn(entry.group_id, group.seq + 1, entry.seq), mended

    def _recall(self, session: OpenSession) -> OpenSession:
        """Find the last request again that another program, or this one earlier, sent."""
        if session.wire is not None:
            return session
        last = self._try(lambda journal: journal.latest(session.id), None)
        if last is None:
            return session
        wire = last.to_request().wire
        return replace(session, wire=wire, model=last.line.model, seen=last.world)

    def append(
        self,
        session: OpenSession,
        turn: OpenTurn,
        wanted: Append,
        model: Model,
        counter: Counter,
    ) -> tuple[Entry, ...]:
        """Store what a model said, or what its calls came to."""
        incomplete, spent = wanted.incomplete, wanted.spent
        drafts = [self.draft(one, counter, incomplete=incomplete) for one in wanted.messages]
        usage = ledger_usage(model, spent) if spent and (spent.usage or incomplete) else None
        entries = self.ledger.append(
            session.id, drafts, strategy=model.profile.dialect, usage=usage
        )
        self._finish(turn)
        return entries

    def account(self, session_id: int, group_id: int | None, model: Model, spent: Spent) -> None:
        """Store the usage of a request that brought no message."""
        usage = ledger_usage(model, spent)
        if spent.usage is None and spent.outcome in UNCHARGED:
            usage = replace(usage, cost_nanousd=0)
        self.ledger.accounts.record(session_id, usage, group_id=group_id)

    def draft(self, message: Message, counter: Counter, *, incomplete: bool = False) -> Draft:
        """Make a message ready to be stored: no blocks in it, weighed."""
        clean = guarded(message, broken_off=incomplete)
        [tokens] = counter.weigh([clean], remember=False)
        exact = counter.provenance_of(clean) == "counted"
        return Draft(clean, tokens, "counted" if exact else "estimated", incomplete)

    # Requests.

    def record(
        self, session: OpenSession, turn: OpenTurn, model: Model, composed: Composed
    ) -> tuple[int | None, int | None]:
        """Store the receipt of a request and the request itself; return where both are."""
        self._finish(turn)
        if not self._record:
            self._note_reply(session, turn, model)
            return None, None
        prompt, request = composed.prompt, composed.request
        data = request.data
        receipt_id = self.ledger.accounts.add_receipt(
            session.id,
            _receipt_body(turn, model, composed, data),
            prefix_digest=prompt.receipt.prefix_digest,
            group_id=turn.group_id,
        )
        sent = Sent(
            session_id=session.id,
            group_id=turn.group_id,
            turn=turn.number,
            number=turn.requests,
            model=model.label,
            sent_at=format_moment(self._clock()),
            prompt=prompt,
            profile=request.profile,
            options=composed.options,
            world=composed.sight.world,
            data=data,
            receipt_id=receipt_id,
        )
        row = self._try(lambda journal: journal.record(sent), None)
        self._note_reply(session, turn, model)
        return receipt_id, row

    def note_words(self, session: OpenSession, text: str, reasoning: str) -> None:
        """Note the words of a reply so far, in case that the program does not live to store it."""
        self._note(lambda: self.ledger.work.note_words(session.id, text, reasoning))

    def note_call(
        self, session: OpenSession, turn: OpenTurn, call_id: str, state: CallState
    ) -> None:
        """Note that a call waits for approval, or that it runs."""
        self._note(lambda: self.ledger.work.note_call(session.id, turn.group_id, call_id, state))

    def note(self, turn: OpenTurn, kind: Noted, *values: str | int) -> None:
        """Note what happened behind the last request, as `Journal.note` takes it."""
        if (row := turn.row) is not None:
            # Names are whatever the model made of them.
            safe = (shown_text(one) if isinstance(one, str) else one for one in values)
            self._try(lambda journal: journal.note(row, kind, *safe), None)

    def keep_state(self, session: OpenSession, turn: OpenTurn, state: dict[str, Any]) -> None:
        """Keep what the strategy left with this turn's group."""
        if state:
            states = self.ledger.strategy_states
            self._note(lambda: states.set(session.id, turn.group_id, state))

    def _finish(self, turn: OpenTurn) -> None:
        """Note how the last request ended, if that is not noted yet."""
        row, pace = turn.row, turn.pace
        if row is not None and pace is not None:
            self._try(lambda journal: journal.finish(row, pace.outcome, pace.timings()), None)

    def _note_reply(self, session: OpenSession, turn: OpenTurn, model: Model) -> None:
        dialect = model.profile.dialect
        work = self.ledger.work
        self._note(lambda: work.begin_reply(session.id, turn.group_id, turn.last_seq, dialect))

    def _note(self, work: Callable[[], None]) -> None:
        """Note something in the ledger that a turn can do without."""
        try:
            work()
        except (InvalidInput, LedgerUnavailable) as error:
            self._problem = self._problem or str(error)

    def _try(self, work: Callable[[Journal], T], otherwise: T) -> T:
        if self.journal is None:
            return otherwise
        try:
            return work(self.journal)
        except LedgerUnavailable as error:
            self._problem = self._problem or str(error)
            return otherwise


def ledger_usage(model: Model, spent: Spent) -> LedgerUsage:
    """Write what a request came to as the ledger keeps it."""
    about = LedgerUsage(
        model.label, 0, 0, address=address_of(model) or None, outcome=spent.outcome or None,
        error=_bounded(spent.error),
    )  # fmt: skip
    usage = spent.usage
    if usage is None:
        return about
    price = cost(usage, model.profile.prices)
    # A model may be anybody's; what it says that makes no sense must not cost the turn.
    prompt_tokens = _within(usage.input_tokens, MAX_TOKENS)
    completion_tokens = _within(usage.output_tokens, MAX_TOKENS)
    writes = _within(usage.cache_write_tokens, prompt_tokens)
    miss = spent.cache_miss
    return replace(
        about,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=_within(usage.cache_read_tokens, prompt_tokens),
        cost_nanousd=round(price * 1e9) if price is not None and 0 <= price <= _DEAREST else None,
        cache_write_tokens=writes,
        cache_write_long_tokens=_within(usage.cache_write_long_tokens, writes),
        reasoning_tokens=_within(usage.reasoning_tokens, completion_tokens),
        cache_miss=None if miss is None else _bounded(miss.reason),
        cache_missed_tokens=None if miss is None else _within(miss.missed_tokens, MAX_TOKENS),
        reported=_reported(spent.reported),
    )


def _within(count: int, whole: int) -> int:
    return max(0, min(count, whole))


def _bounded(text: str) -> str | None:
    return storable(text)[:ERROR_CHARS] or None


def _reported(report: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep a vendor's account of a request as it came, unless it is no account."""
    clean = storable_json(report)
    try:
        check_json(clean, "what was reported")
    except NotStorable:
        return None
    return clean if len(msgspec.json.encode(clean)) <= REPORTED_BYTES else None


def _receipt_body(turn: OpenTurn, model: Model, composed: Composed, data: bytes) -> dict[str, Any]:
    request = composed.request
    about = {
        "turn": turn.number,
        "number": turn.requests,
        "model": model.label,
        "dialect": model.profile.dialect,
        "sha256": sha256(data).hexdigest(),
        "bytes": len(data),
        "boundary": request.wire.boundary,
        "marks": request.marks,
        "thinking": request.thinking,
        "strategy": composed.inputs.strategy,
        "loose": composed.loose,
        "kept_tokens": composed.kept_tokens,
        "sight": composed.sight.rules,
        "drift": composed.drift,
    }
    body: dict[str, Any] = msgspec.json.decode(request.receipt_of(composed.prompt).encode())
    return {**body, "request": msgspec.json.decode(msgspec.json.encode(about))}


class Recovered(msgspec.Struct, frozen=True):
    """What was found open: whether a reply was, and how many calls."""

    reply: bool = False
    calls: int = 0

    def __bool__(self) -> bool:
        return self.reply or self.calls > 0

    def __str__(self) -> str:
        reply = ["the beginning of a reply is kept as incomplete"] if self.reply else []
        many = "1 open call is" if self.calls == 1 else f"{self.calls} open calls are"
        calls = [f"{many} marked as interrupted"] if self.calls else []
        return "the program was ended in the middle of a turn: " + "; ".join(reply + calls)


def recover(
    ledger: Ledger, session_id: int, work: OpenWork, weigh: Callable[[Message], Draft]
) -> Recovered:
    """Close what is open in the last group of a session; nothing, if all is closed."""
    entries = ledger.window(session_id, Window(1))
    if not entries:
        return Recovered()
    calls = open_calls(entries)
    if calls:
        results = [
            Message(
                "tool",
                (
                    ToolResult(
                        call.id, WORDS[work.calls.get(call.id, "")], call.name, is_error=True
                    ),
                ),
            )
            for call in calls
        ]
        strategy = next(e.parsing_strategy for e in reversed(entries) if e.message.tool_calls)
        ledger.append(session_id, [weigh(message) for message in results], strategy=strategy)
        return Recovered(calls=len(calls))
    reply = ReplyProgress(text=work.text, reasoning=work.reasoning)
    partial = guarded(reply.message(), broken_off=True)
    last = entries[-1]
    if not partial.parts or work.group_id != last.group_id or work.after_seq != last.seq:
        return Recovered()
    draft = msgspec.structs.replace(weigh(partial), incomplete=True)
    ledger.append(session_id, [draft], strategy=work.strategy)
    return Recovered(reply=True)


def open_calls(entries: Sequence[Entry]) -> list[ToolCall]:
    """List the calls that have no result behind them, in order."""
    waiting: dict[str, ToolCall] = {}
    for entry in entries:
        for part in entry.message.parts:
            if isinstance(part, ToolCall):
                waiting[part.id] = part
            elif isinstance(part, ToolResult):
                waiting.pop(part.call_id, None)
    return list(waiting.values())
