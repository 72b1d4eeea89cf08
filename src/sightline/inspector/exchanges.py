"""What other agents asked their vendors, as the page shows it: recorded by a gateway, or imported.

Each request is a turn of one request, and answers what a turn of our own does. The ledger keeps
what was found out about it when it passed; here that is only read, and put beside what was sent.

What if: what a request would share with earlier ones, had all been made otherwise.

    tools   sorted    by name
    tail    off       nothing stands in it of what apps show
            whole     the last whole state alone, behind the last message

A request weighs what its vendor counted, each unit of it as much as its bytes: nothing is sent
again, so the figures are estimates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec

from sightline.agent.host.journal import Journal
from sightline.agent.models.vendors import VENDORS
from sightline.context.dialects.events import Stopped, Usage, cost
from sightline.context.dialects.profile import Layer, Profile
from sightline.context.ledger import Ledger, Totals
from sightline.context.ledger.exchanges import Exchange
from sightline.context.messages.parts import Message
from sightline.errors import InvalidInput, NotFound
from sightline.gateway.bodies import Api, RequestBody, Unit, read_body
from sightline.gateway.losses import Comparison, common_units, compare, expected_tokens
from sightline.gateway.observer import Passed, passed_of, profile_of, stored_usage
from sightline.gateway.sessions import Earlier, goes_on, nearest
from sightline.gateway.tail import is_state, is_whole_state, spliced_texts
from sightline.inspector.agents import (
    WHY_UNKNOWN,
    AgentRequest,
    changed_since,
    departure,
    gone_since,
    new_since,
    parts_of_units,
    picture_of,
    states_of,
    status_of_passed,
)
from sightline.inspector.records import ANSWER_CHARS, parts_of, preview
from sightline.inspector.trees import AppTree, read_trees
from sightline.inspector.turns import FIRST_ROWS, FilterTerm, chart_of, parse_filter
from sightline.inspector.verdicts import (
    CacheVerdict,
    TurnVerdict,
    cost_verdict,
    outcome_verdict,
    reuse_verdict,
)
from sightline.inspector.wires import curl_anywhere

NEAR: Final = 16  # earlier requests among which the one is looked for that a request goes on from
KEPT: Final = 32  # requests that are kept at hand as they were read
MOST_ASKED: Final = 100  # requests that are looked at for one question
AROUND_CHARS: Final = 60  # before a word that was found
_NANO: Final = 1_000_000_000
_NO_STATE: Final = "No live state was put into this request; sightline gateway --tail does that."
_LEFT_OUT: Final = "What an agent leaves out before it sends is not known to a gateway."
_LATER: Final = "its result comes with a later request"


class AgentWishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different about an agent's requests; empty is as it was."""

    tools: Literal["", "sorted"] = ""
    tail: Literal["", "off", "whole"] = ""

    @property
    def how(self) -> list[str]:
        """Say how to have it so."""
        lines = [f"sightline gateway --tail {self.tail} -- AGENT"] if self.tail else []
        return [*lines, *["in the agent: send its tools sorted by name"] * bool(self.tools)]


class Shared(msgspec.Struct, frozen=True):
    """How many tokens a request has, and how many of them an earlier one begins with."""

    prompt: int
    reused: int

    def __add__(self, other: Shared) -> Shared:
        return Shared(self.prompt + other.prompt, self.reused + other.reused)


_AS_IT_WAS: Final = AgentWishes()
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wishes: Final = msgspec.json.Decoder(AgentWishes)


class AgentRecords:
    """The exchanges of other agents in a ledger."""

    def __init__(
        self, ledger: Ledger, journal: Callable[[], Journal | None], prices: Sequence[Layer]
    ) -> None:
        self._ledger = ledger
        self._prices = prices
        self._journal = journal
        self._last: tuple[tuple[int, int], list[Exchange]] = ((0, 0), [])
        self._read = lru_cache(KEPT)(self._load)

    def has(self, session: int) -> bool:
        """Whether a session is another agent's."""
        return self._ledger.sessions.get(session).is_foreign

    # The list.

    def index(self, session: int, text: str) -> dict[str, Any]:
        """List the requests that a filter admits, by their numbers, with their last rows."""
        listed, problem = self._listed(session), ""
        turns = list(range(1, len(listed) + 1))
        try:
            turns = self._admitted(session, text, turns)
        except InvalidInput as error:
            turns, problem = [], str(error)
        return {
            "turns": turns,
            "requests": [1] * len(turns),
            "rows": self.rows(session, turns[-FIRST_ROWS:]),
            "problem": problem,
        }

    def _admitted(self, session: int, text: str, turns: list[int]) -> list[int]:
        listed = self._listed(session)
        # Words and calls are read from what was kept of a request, so they are looked for last.
        for term in sorted(parse_filter(text).terms, key=lambda term: term.field in ("", "tool")):
            if term.field in ("", "tool"):
                turns = [turn for turn in turns if term.admits(self._has(session, turn, term))]
            else:
                read = {turn: passed_of(listed[turn - 1], self._prices) for turn in turns}
                known = (_figure(term.field, turn, read[turn]) for turn in turns)
                turns = [turn for turn, one in zip(turns, known, strict=True) if term.admits(one)]
        return turns

    def _has(self, session: int, turn: int, term: FilterTerm) -> bool:
        """Whether a request called a tool, or has words in it."""
        parts = [part for one in self._conversation(session, turn) for part in one["parts"]]
        value = str(term.value)
        if term.field:
            return any(part["kind"] == "call" and part["name"] == value for part in parts)
        [row] = self.rows(session, [turn])
        words = "\n".join([row["text"], *(part["text"] for part in parts)])
        return value.casefold() in words.casefold()

    def rows(self, session: int, turns: Sequence[int]) -> list[dict[str, Any]]:
        """Describe some requests, each as a row of the list."""
        listed = self._listed(session)
        return [self._row(turn, listed[turn - 1]) for turn in turns if 0 < turn <= len(listed)]

    def _row(self, turn: int, one: Exchange) -> dict[str, Any]:
        passed = passed_of(one, self._prices)
        usage, status = passed.usage, status_of_passed(passed)
        reason = passed.loss.words if passed.loss is not None else ""
        if status != "answered":
            reason = passed.error or passed.stop or "no answer came"
        return {
            "turn": turn,
            "group": one.id,
            "text": preview(_words_of(self._reply(one.id))) or one.model,
            "status": status,
            "reason": reason,
            "requests": 1,
            "prompt_tokens": 0 if usage is None else usage.input_tokens,
            "cached_tokens": 0 if usage is None else usage.cache_read_tokens,
            "cost_usd": passed.cost_usd,
            # A transcript does not tell how long it took.
            "duration_ms": None if passed.source else passed.total_ms,
        }

    def overview(self, session: int) -> dict[str, Any]:
        """Sum up a session over its requests."""
        spent = [_totals(passed_of(one, self._prices)) for one in self._listed(session)]
        return {**chart_of(list(enumerate(spent, 1))), "beside_usd": 0, "beside_unpriced": 0}

    # One request.

    def request(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """Show one request as it was sent: its slots, bytes, and where it departs from others."""
        sent = self._sent(session, turn, number)
        trace = _trace(sent.passed)
        if sent.body is None:
            return {"note": WHY_UNKNOWN, "trace": trace, "model": sent.passed.model}
        profile, usage = profile_of(sent.body, self._prices), sent.passed.usage
        before = self._before(session, sent)
        return {
            **picture_of(sent, sent.body, profile),
            "model": sent.body.model,
            "request": _shown(sent, profile),
            "drift": None if before is None else departure(before[0], sent, profile),
            "before": None if before is None else before[0].name,
            "reported": None
            if usage is None
            else {
                "prompt_tokens": usage.input_tokens,
                "cached_tokens": usage.cache_read_tokens,
            },
            "trace": trace,
        }

    def verdicts(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """Say in words what became of a request."""
        sent = self._sent(session, turn, number)
        listed = self._listed(session)
        one, passed = listed[turn - 1], sent.passed
        before = self._before(session, sent)
        changed = TurnVerdict("First request", ("nothing was sent before it in its conversation",))
        if sent.body is None:
            changed = TurnVerdict("Not known", (WHY_UNKNOWN,))
        elif before is not None:
            changed = changed_since(before[0], sent)
        answer = _words_of(self._reply(one.id))
        usage = stored_usage(passed)
        spent = (_totals(passed_of(one, self._prices)) for one in listed)
        totals = sum(spent, Totals(0, 0, 0, 0, 0, 0))
        outcome = outcome_verdict(self._row(turn, one), [], answer)
        tail = passed.tail and f"live tail: {passed.tail}"
        lines = tuple(filter(None, (*outcome.lines, tail, passed.trouble)))
        return {
            "sent_at": one.sent_at,
            "model": one.model,
            "address": one.api,
            "answer": answer[:ANSWER_CHARS],
            "outcome": msgspec.structs.replace(outcome, lines=lines),
            "cache": _cache(passed, before),
            "cost": cost_verdict(usage, [] if usage is None else [usage], totals),
            "changed": changed,
        }

    def unseen(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """List what stood in the request before and does not in this one."""
        sent = self._sent(session, turn, number)
        before = self._before(session, sent)
        if sent.body is None:
            return {"unseen": [], "note": WHY_UNKNOWN}
        if before is None:
            return {"unseen": [], "note": f"It begins a conversation. {_LEFT_OUT}"}
        note = f"Held against request {before[0].name}, which it goes on from. {_LEFT_OUT}"
        return {"unseen": list(gone_since(before[0], sent)), "note": note}

    def state(self, session: int, turn: int, number: int) -> tuple[list[AppTree], str, str]:
        """The apps whose state was put into a request, the words that told it; why there are none.

        What changed since a whole state is in the words alone.
        """
        sent = self._sent(session, turn, number)
        if sent.body is None:
            return [], "", WHY_UNKNOWN
        texts = states_of(sent)
        if not texts:
            return [], "", sent.passed.tail or _NO_STATE
        apps = read_trees(texts[0])
        more = len(texts) - 1
        note = "" if apps else "The state is no tree of text: it is below, as the model read it."
        if more:
            note = f"As it was told first; {more:,} later blocks below say what changed since."
        return apps, "\n\n".join(texts), note

    def compare(self, session: int, old: tuple[int, int], new: tuple[int, int]) -> dict[str, Any]:
        """Compare two requests."""
        first, second = self._sent(session, *old), self._sent(session, *new)
        if first.body is None or second.body is None:
            raise NotFound(WHY_UNKNOWN)
        return departure(first, second, profile_of(second.body, self._prices))

    def group(self, session: int, number: int) -> dict[str, Any]:
        """Show what was new in an exchange, and its reply."""
        turns = (turn for turn, one in enumerate(self._listed(session), 1) if one.id == number)
        turn = next(turns, None)
        if turn is None:
            raise NotFound(f"session {session} has no exchange {number}")
        messages = self._conversation(session, turn)
        note = "" if messages else WHY_UNKNOWN
        return {"messages": messages, "answers": {}, "pending": _LATER, "note": note}

    def _conversation(self, session: int, turn: int) -> list[dict[str, Any]]:
        sent = self._sent(session, turn, 1)
        before = self._before(session, sent)
        since = None if before is None else before[0].body
        new = [] if sent.body is None else new_since(since, sent.body)
        messages = [{"role": one.role, "parts": parts_of_units(one.units)} for one in new]
        reply = self._reply(self._listed(session)[turn - 1].id)
        if reply is not None:
            messages.append({"role": "assistant", "parts": parts_of(reply)})
        return [{"id": at, "status": "complete", **one} for at, one in enumerate(messages)]

    def search(self, text: str) -> tuple[list[dict[str, Any]], str]:
        """Find words in what was new in the newest requests of other agents, and in their replies.

        No index has them, so no more are looked through than for any question; the second of
        what is returned says so.
        """
        words = text.casefold().split()
        turns = (
            (session.id, turn)
            for session in self._ledger.sessions.recent()
            if session.is_foreign
            for turn in range(len(self._listed(session.id)), 0, -1)
        )
        found = [
            {
                "kind": message["role"],
                "id": f"{session}.{turn}.{message['id']}.{at}",
                "text": _around(part["text"], words[0]),
                "session": session,
                "turn": turn,
            }
            for session, turn in islice(turns, MOST_ASKED)
            for message in self._conversation(session, turn)
            for at, part in enumerate(message["parts"])
            if words and all(word in part["text"].casefold() for word in words)
        ]
        cut = f"Of other agents' requests, the newest {MOST_ASKED} were looked through."
        return found, "" if next(turns, None) is None else cut

    def what_if(self, session: int, turn: int, body: bytes) -> dict[str, Any]:
        """Say what a request would weigh and share if it and those before it were otherwise.

        Of the newest requests of the session together if `turn` is 0.
        """
        try:
            wishes = _wishes.decode(body)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"what if: {error}") from error
        last = turn or len(self._listed(session))
        first = turn or max(1, last + 1 - MOST_ASKED)
        sums = [Shared(0, 0)] * 2
        usd: list[float | None] = [0.0, 0.0]
        earlier: deque[list[tuple[Unit, ...]]] = deque(maxlen=NEAR)
        counted, changed = 0, False
        for at in range(max(1, first - NEAR), last + 1):
            sent = self._sent(session, at, 1)
            read, used = sent.body, sent.passed.usage
            if read is None:
                continue
            ways = [otherwise(read, way) for way in (_AS_IT_WAS, wishes)]
            changed = changed or ways[0] != ways[1]
            size = sum(unit.size for unit in ways[0])
            if at >= first and used is not None and size:
                counted += 1
                prices = profile_of(read, self._prices).prices
                for way, units in enumerate(ways):
                    near = (ways[way] for ways in earlier)
                    shared = shared_by(units, near, used.input_tokens / size)
                    sums[way] += shared
                    spent = Usage(shared.prompt, cache_read_tokens=shared.reused)
                    price, paid = cost(spent, prices), usd[way]
                    usd[way] = None if price is None or paid is None else paid + price
            earlier.append(ways)
        if not counted:
            raise NotFound("what was sent, or what the vendor counted of it, is not known")
        notes = ["estimated: tokens by the bytes of what was sent, and no vendor was asked"]
        if not changed:
            notes.append("nothing of it would be different")
        return {
            "requests": counted,
            "rows": [
                ["prompt tokens", *(way.prompt for way in sums)],
                ["begin like an earlier request", *(way.reused for way in sums)],
                ["evaluated", *(way.prompt - way.reused for way in sums)],
            ],
            "usd": usd,
            "notes": notes,
            "how": wishes.how,
        }

    # The ledger.

    def _listed(self, session: int) -> list[Exchange]:
        """The exchanges of a session as they were sent, which are read anew when there are more."""
        exchanges = self._ledger.exchanges
        key = session, exchanges.count(session)
        known, listed = self._last
        if known != key:
            listed = sorted(exchanges.list(session), key=lambda one: (one.sent_at, one.id))
            self._last = key, listed
        return listed

    def _sent(self, session: int, turn: int, number: int) -> AgentRequest:
        listed = self._listed(session)
        if number != 1 or not 0 < turn <= len(listed):
            raise NotFound(f"session {session} has no request {turn}.{number}")
        return self._read(session, turn, listed[turn - 1].id)

    def _load(self, session: int, turn: int, number: int) -> AgentRequest:
        one = self._listed(session)[turn - 1]
        data = self._ledger.exchanges.request(number)
        body = read_body(cast(Api, one.api), data, f"/models/{one.model}:") if data else None
        passed, journal = passed_of(one, self._prices), self._journal()
        spliced: list[str] = []
        if journal is not None and passed.tail and data:
            tails = journal.tails(passed.tail_key or self._ledger.sessions.get(session).name)
            spliced = spliced_texts(tails, cast(Api, one.api), data, one.model)
        return AgentRequest(turn, passed, data, body, tuple(spliced))

    def _before(
        self, session: int, sent: AgentRequest
    ) -> tuple[AgentRequest, Earlier, Comparison] | None:
        """Find the request that one goes on from, as the gateway does, and compare the two."""
        if sent.body is None:
            return None
        known: dict[int, tuple[AgentRequest, Earlier]] = {}
        mine = sent.passed.conversation
        for turn in range(max(1, sent.turn - NEAR), sent.turn):
            one = self._sent(session, turn, 1)
            if one.body is None or one.body.warms or one.passed.status >= 400:
                continue
            if one.passed.conversation == mine and (mine or goes_on(one.body, sent.body)):
                at = datetime.fromisoformat(self._listed(session)[turn - 1].sent_at).timestamp()
                known[turn] = one, Earlier(one.body, at, one.passed.usage)
        earlier = nearest((each for _, each in known.values()), sent.body)
        if earlier is None:
            return None
        one = next(one for one, each in known.values() if each is earlier)
        return one, earlier, compare(earlier.body, sent.body)

    def _reply(self, number: int) -> Message | None:
        kept = self._ledger.exchanges.reply(number)
        try:
            return msgspec.convert(kept, Stopped).message if kept else None
        except msgspec.ValidationError:
            return Message.of("assistant", msgspec.json.encode(kept).decode())


def _around(text: str, word: str) -> str:
    """Cut out of a text what stands around a word, for a list."""
    at = text.casefold().find(word)
    return preview(text if at < AROUND_CHARS else f"…{text[at - AROUND_CHARS :]}")


def _words_of(reply: Message | None) -> str:
    """What a reply says, or what it calls."""
    if reply is None:
        return ""
    return reply.text or ", ".join(f"calls {call.name}" for call in reply.tool_calls)


def _totals(passed: Passed) -> Totals:
    usage = passed.usage or Usage()
    price = 0 if passed.cost_usd is None else round(passed.cost_usd * _NANO)
    return Totals(
        1, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, price,
        int(passed.cost_usd is None),
    )  # fmt: skip


def _figure(field: str, turn: int, passed: Passed) -> object:
    """What a filter compares of a request; None for what nobody knows."""
    usage = passed.usage or Usage()
    prompt = usage.input_tokens
    figures: dict[str, object] = {
        "turn": turn,
        "status": status_of_passed(passed),
        "model": frozenset({passed.model}),
        "cache": 100 * usage.cache_read_tokens / prompt if prompt else None,
        "cost": passed.cost_usd,
        "time": None if passed.source else passed.total_ms / 1000,
        "tokens": prompt,
        "requests": 1,
    }
    return figures[field]


def _trace(passed: Passed) -> list[dict[str, Any]]:
    """Where the time of a request went, as seen from the gateway."""
    if passed.source:
        return []
    spans = (("first byte", "wait", 0, passed.first_ms),
             ("stream", "stream", passed.first_ms, passed.total_ms))  # fmt: skip
    return [
        {"name": name, "kind": kind, "start_ms": start, "end_ms": max(start, end)}
        for name, kind, start, end in spans
    ]


def _shown(sent: AgentRequest, profile: Profile) -> dict[str, Any]:
    """The exact body, laid out for reading, and as a command to wherever the reader says."""
    text = sent.data.decode(errors="replace")
    path = profile.path.format(model=sent.passed.model)
    return {
        "method": "POST",
        "url": f"{sent.passed.api}: {path}",
        "bytes": len(sent.data),
        "reproduced": True,
        "kept": "as it passed, keys blanked",
        "body": text,
        "pretty": msgspec.json.format(sent.data, indent=2).decode(errors="replace"),
        "curl": curl_anywhere(VENDORS[profile.endpoint].api, path, text),
        "notes": [],
    }


def _cache(passed: Passed, before: tuple[AgentRequest, Earlier, Comparison] | None) -> CacheVerdict:
    """Say what of a request was reused and, if it is less than it could be, why."""
    usage, loss = passed.usage, passed.loss
    if usage is None or not usage.input_tokens:
        return CacheVerdict("Not known", ("the vendor reported no usage for this request",))
    expected = None
    if before is not None and before[1].usage is not None:
        expected = expected_tokens(before[2], before[1].usage, before[1].body.api)
    elif loss is None and not usage.cache_read_tokens and not passed.source:
        return CacheVerdict("First request", ("nothing that it goes on from was answered",))
    return reuse_verdict(usage.input_tokens, usage.cache_read_tokens, expected, loss)


def otherwise(body: RequestBody, wishes: AgentWishes) -> tuple[Unit, ...]:
    """Return the units of a request as the wishes would have it."""
    tools, messages = body.tools, body.messages
    if wishes.tools:
        tools = tuple(sorted(tools, key=lambda tool: tool.name))
    if wishes.tail:
        wholes = [unit for unit in messages if is_whole_state(unit.text)]
        messages = tuple(unit for unit in messages if not is_state(unit))
        messages += tuple(wholes[-1:]) if wishes.tail == "whole" else ()
    return tools + body.system + messages


def shared_by(
    units: tuple[Unit, ...], earlier: Iterable[tuple[Unit, ...]], tokens_per_byte: float
) -> Shared:
    """Weigh a request, and what of it the earlier one begins with that it begins most like."""
    common = max((common_units(units, one) for one in earlier), default=0)
    whole, alike = (sum(unit.size for unit in part) for part in (units, units[:common]))
    return Shared(round(whole * tokens_per_byte), round(alike * tokens_per_byte))
