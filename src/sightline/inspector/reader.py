"""What the page may ask: the ledger and the wire journal, read, and put into words by others.

A turn that was recorded is made again from the journal with the functions that the host
used; where the journal has forgotten one, the page is told so.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from sightline.agent.host.journal import Journal, Recorded, RequestLine
from sightline.agent.models.choose import price_layers, reach_of
from sightline.agent.plugins.run import choices, runner_of
from sightline.config import Settings
from sightline.context.dialects import endpoints
from sightline.context.dialects.request import Request, slot_names
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import journal_path
from sightline.context.ledger.store import Watch
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.context.slots.strategies import DEFAULT
from sightline.errors import DoesNotFit, InvalidInput, NotFound
from sightline.inspector.exchanges import AgentRecords
from sightline.inspector.pages import Export, exported_beside
from sightline.inspector.records import FOUND, ROW_DIGITS, Records, parts_of, picture, preview
from sightline.inspector.timeline import timeline_of
from sightline.inspector.trees import PAGE_LINES, AppTree, lay_out
from sightline.inspector.turns import MOST_ROWS, TurnRecords
from sightline.inspector.unseen import (
    cut_messages,
    cut_nodes,
    cut_results,
    older_turns,
    silent_apps,
)
from sightline.inspector.verdicts import (
    CacheVerdict,
    SentFacts,
    TurnVerdict,
    changed_verdict,
    cost_verdict,
    outcome_verdict,
)
from sightline.inspector.whatif import (
    Again,
    TurnSums,
    Wishes,
    assemble_again,
    read_wishes,
    sight_of,
    strategy_of,
    tail_tokens_of,
)
from sightline.inspector.wires import again, compared, key_of, pieces_of, shown

MOST_TURNS: Final = 100  # that are assembled again for one question
_LOST_REVISION: Final = 1 << 40  # more than anybody writes: a lost ledger is news
_REMOVED: Final = "What was said in this turn was removed; Prompt shows what was sent"
STATES: Final = 2  # that are kept laid out: one that is looked at, one beside it


@dataclass(frozen=True, slots=True)
class _State:
    """The apps of a recorded request, laid out, and its tail."""

    row: int
    apps: list[AppTree]
    tail: str
    note: str = ""

    def about(self) -> dict[str, Any]:
        """Describe the apps, without the lines of their trees."""
        apps = [app.about() for app in self.apps]
        return {"apps": apps, "tail": self.tail, "note": self.note}


@dataclass(frozen=True)
class _Sent:
    """A recorded request, and the same made again once it is asked for."""

    recorded: Recorded

    @cached_property
    def request(self) -> Request:
        """The request's bytes, and how they were made."""
        return again(self.recorded)

    @property
    def both(self) -> tuple[Prompt, Request]:
        """The prompt and the request that was made of it."""
        return self.recorded.prompt, self.request


class RecordReader:
    """The inspector's answers, read from a ledger and its journal. Safe to use from threads."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._ledger = ledger
        self._settings = settings or Settings()
        self._env = env
        self._records = Records(ledger)
        self._agents = AgentRecords(ledger, self._open_journal, price_layers(self._settings))
        self._turns = TurnRecords(ledger, self._open_journal)
        self._journal: Journal | None = None
        self._journal_lock = threading.Lock()
        self._file = _inode(ledger.path)
        self._revision = 0
        self._states: dict[int, _State] = {}
        self._states_lock = threading.Lock()

    @cached_property
    def _strategies(self) -> dict[str, str]:
        """What can lay a prompt out, by label; it is looked for once, in all that is installed."""
        return choices(self._settings)

    def revision(self) -> int:
        """Count what other programs have changed, as far as it can be told."""
        journal = self._open_journal()
        if self._ledger.may_have_changed():
            self._revision = self._ledger.revision()
        sent = 0 if journal is None else journal.revision()
        return self._revision + sent + (_LOST_REVISION if self._is_lost else 0)

    @property
    def _is_lost(self) -> bool:
        """Whether the ledger's file is no longer the one with its name: we read what is left."""
        return self._file is not None and _inode(self._ledger.path) != self._file

    def news(self, session: int) -> dict[str, Any]:
        """Say what to ask for again, by names that are others then, and what is under way."""
        journal = self._open_journal()
        sessions, kept = self._ledger.seals(session)
        sent = 0 if journal is None else journal.revision()
        return {
            "sessions": sessions,
            "turns": f"{kept} {sent} {self._ledger.work.owner(session)}",
            "open": self._records.under_way(session),
            "lost": self._is_lost,
        }

    def newest(self) -> int | None:
        """Tell which session is the most recent one, if there is any."""
        recent = self._ledger.sessions.recent(limit=1)
        return recent[0].id if recent else None

    def sessions(self) -> dict[str, Any]:
        """List sessions."""
        return {"sessions": self._records.sessions()}

    def choices(self) -> dict[str, Any]:
        """List what a what-if can choose from."""
        return {
            "strategies": sorted(self._strategies),
            "models": list(dict.fromkeys((*self._settings.endpoints, *endpoints()))),
        }

    def turns(self, session: int) -> dict[str, Any]:
        """Describe all turns of a session in order."""
        listing = self._listing(session)
        return {"turns": listing.rows(session, listing.index(session, "")["turns"])}

    def _listing(self, session: int) -> TurnRecords | AgentRecords:
        """Who knows the turns of a session: another agent's are its requests."""
        return self._agents if self._agents.has(session) else self._turns

    def index(self, session: int, text: str) -> dict[str, Any]:
        """List the turns that a filter admits: their numbers, and the rows of the last of them."""
        return self._listing(session).index(session, text)

    def rows(self, session: int, turns: Sequence[int]) -> dict[str, Any]:
        """Describe some turns."""
        if len(turns) > MOST_ROWS:
            raise InvalidInput(f"at most {MOST_ROWS} turns are described at once")
        return {"rows": self._listing(session).rows(session, turns)}

    def overview(self, session: int) -> dict[str, Any]:
        """Sum up a session over its turns."""
        return self._listing(session).overview(session)

    def request(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """Show one request: its receipt, messages, bytes, and what it shares with the last."""
        if self._agents.has(session):
            return self._agents.request(session, turn, number)
        sent = _Sent(self._recorded(session, turn, number))
        return self._about_request(sent, self._before(sent.recorded))

    def _about_request(self, sent: _Sent, before: _Sent | None) -> dict[str, Any]:
        recorded, request = sent.recorded, sent.request
        line = recorded.line
        facts, _ = self._judged(line)
        return {
            **picture_of_prompt(recorded.prompt, request),
            "model": line.model,
            "request": shown(
                recorded,
                request,
                (facts.usage and facts.usage.address) or "",
                reach_of(line.model, self._settings, self._env),
            ),
            "drift": None if before is None else compared(before.both, sent.both),
            "tools": key_of(recorded.prompt.tools) if recorded.prompt.tools else "",
            "before": None if before is None else _name(before.recorded.line),
            "reported": self._reported(recorded),
            "trace": self._trace(line),
        }

    def verdicts(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """Say in words what became of a turn and one of its requests."""
        if self._agents.has(session):
            return self._agents.verdicts(session, turn, number)
        recorded = self._recorded(session, turn, number)
        line = recorded.line
        facts, cache = self._judged(line)
        accounts = self._ledger.accounts
        usages = accounts.of_groups(session, [line.group_id])[line.group_id]
        [row] = self._turns.rows(session, [turn])
        answer = self._records.answer(session, line.group_id)
        before = self._sent_before(line)
        changed = TurnVerdict("First request", ("nothing was sent before it",))
        if before is not None:
            changed = changed_verdict(_name(before.line), before, recorded)
        return {
            "sent_at": line.sent_at,
            "model": line.model,
            "address": (facts.usage and facts.usage.address) or "",
            "answer": answer,
            "outcome": outcome_verdict(row, usages, answer),
            "cache": cache,
            "cost": cost_verdict(facts.usage, usages, accounts.totals(session)),
            "changed": changed,
        }

    def _sent_before(self, line: RequestLine) -> Recorded | None:
        """The request that was sent before this one, whoever it went to."""
        journal = self._open_journal()
        earlier = [] if journal is None else journal.earlier(line, 1)
        if journal is None or not earlier:
            return None
        return self._with_receipt(journal.recorded(earlier[0].id))

    def unseen(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """List what a request did not show the model, each thing with its rule and a what-if."""
        if self._agents.has(session):
            return self._agents.unseen(session, turn, number)
        recorded = self._recorded(session, turn, number)
        prompt = recorded.prompt
        slots = zip(prompt.messages, slot_names(prompt), strict=True)
        replayed = [m.text for m, slot in slots if slot == "history" and m.role == "user"]
        offered = [line for slot in prompt.receipt.slots if slot.name == "history"
                   for line in slot.messages if line.role == "user"]  # fmt: skip
        seen = self._turns.replayed(session, turn, replayed)
        every = self._ledger.groups.every(session)
        found = [
            *older_turns(every, turn - 1, seen, max(0, len(offered) - len(replayed))),
            *cut_messages(prompt.receipt),
            *cut_results(prompt, partial(self._records.message, session)),
            *cut_nodes(self._state(session, turn, number).apps, tail_tokens_of(recorded)),
            *silent_apps(recorded.world),
        ]
        return {"unseen": found}

    def state(self, session: int, turn: int, number: int) -> dict[str, Any]:
        """Show every app at a request: what was shown, what was not, what changed; no lines."""
        return self._state(session, turn, number).about()

    def nodes(self, session: int, turn: int, number: int, app: int, page: int) -> dict[str, Any]:
        """Show one page of the lines of an app's tree; apps are counted from 0."""
        return self._app(session, turn, number, app).page(page)

    def folds(self, session: int, turn: int, number: int, app: int, node: int) -> dict[str, Any]:
        """Tell what to fold so that a node shows its children only."""
        return self._app(session, turn, number, app).folds(node)

    def find_nodes(
        self, session: int, turn: int, number: int, app: int, text: str
    ) -> dict[str, Any]:
        """Find a text in the lines of an app's tree."""
        return self._app(session, turn, number, app).find(text)

    def compare(self, session: int, old: str, new: str) -> dict[str, Any]:
        """Compare two requests, named `turn.request`."""
        names = [_request_numbers(name) for name in (old, new)]
        if self._agents.has(session):
            return self._agents.compare(session, *names)
        first, second = (self._recorded(session, *name) for name in names)
        return compared(_Sent(first).both, _Sent(second).both)

    def ledger(self, session: int) -> dict[str, Any]:
        """Show what the ledger holds of a session."""
        return self._records.session(session)

    def group(self, session: int, group: int) -> dict[str, Any]:
        """Show the messages of a group, and what was decided on its calls, by their ids."""
        if self._agents.has(session):
            return self._agents.group(session, group)
        answers: dict[str, list[str]] = {}
        for line in self._lines_of(session, group):
            for call_id, answer in line.timings.get("answers", ()):
                answers.setdefault(call_id, []).append(answer)
        try:
            shown = self._records.group(session, group)
        except NotFound:
            if group not in self._ledger.groups.statuses(session, [group]):
                raise
            shown = {"messages": [], "note": _REMOVED}
        return {**shown, "answers": answers}

    def search(self, text: str) -> dict[str, Any]:
        """Find what was said in any session, and memos."""
        ours = self._records.search(text)
        if ours["problem"]:
            return ours
        agents, note = self._agents.search(text)
        return {**ours, "found": [*ours["found"], *agents[:FOUND]], "note": note}

    def query(self, sql: str, session: int) -> dict[str, Any]:
        """Run one read-only statement."""
        return self._records.query(sql, session)

    def verify(self) -> dict[str, Any]:
        """Check the whole ledger."""
        return self._records.verify()

    def what_if(self, session: int, turn: int, number: int, body: bytes) -> dict[str, Any]:
        """Assemble a recorded turn under other rules; weigh another agent's, made otherwise."""
        if self._agents.has(session):
            return self._agents.what_if(session, turn, body)
        wishes = read_wishes(body, self._strategies)
        recorded = self._recorded(session, turn, number)
        before = self._before(recorded)
        result, wanted, notes = self._assembled(recorded, wishes)
        prompt, request = result.composed.prompt, result.composed.request
        return {
            **picture_of_prompt(prompt, request),
            "model": result.model,
            "strategy": wanted,
            "notes": notes,
            "drift": None if before is None else compared(before.both, (prompt, request)),
            "against_recorded": compared(_Sent(recorded).both, (prompt, request)),
            "config": wishes.config(
                result.model,
                request.profile.max_output_tokens,
                prompt.receipt.budget,
            ),
        }

    def what_if_all(self, session: int, body: bytes) -> dict[str, Any]:
        """Assemble the last request of each turn under other rules, the newest first; sum up."""
        if self._agents.has(session):
            return self._agents.what_if(session, 0, body)
        wishes = read_wishes(body, self._strategies)
        last = {line.turn: line.number for line in self._lines(session)}
        sums = TurnSums(len(last))
        for turn in sorted(last, reverse=True)[:MOST_TURNS]:
            recorded = self._recorded(session, turn, last[turn])
            try:
                sums.add(recorded, self._assembled(recorded, wishes)[0])
            except DoesNotFit:
                sums.refuse(recorded)
        return sums.answer(wishes)

    def _assembled(self, recorded: Recorded, wishes: Wishes) -> tuple[Again, str, list[str]]:
        """Compose a request again: what it is, by which strategy, what to know about it."""
        offered = self._strategies
        original = strategy_of(recorded)
        wanted = wishes.strategy or (original if original in offered else DEFAULT.name)
        runner = runner_of(self._settings, offered[wanted])
        result = assemble_again(self._ledger, recorded, wishes, runner, self._settings)
        notes = list(result.notes)
        if wishes.strategy is None and original not in offered:
            notes.append(f"the turn's own strategy {original!r} is not here; {wanted!r} is shown")
        return result, wanted, notes

    def export(self, session: int, watch: Watch | None = None) -> Iterator[str]:
        """Write a session as one page: every answer that the page can ask for without work.

        The ledger's memos are of all sessions; the page has those that this one's requests had.
        `watch` is told of turns that were read.
        """
        root = f"/api/sessions/{session}"
        chosen = [item for item in self._records.sessions() if item["id"] == session]
        ledger = self.ledger(session)
        turns = self.turns(session)
        export = Export()
        export.add("/api/sessions", {"sessions": chosen, "allow_invoke": False})
        index = {**self.index(session, ""), "rows": turns["turns"]}
        export.add(f"{root}/turns", index)
        export.add(f"{root}/overview", self.overview(session))
        kept = [item["id"] for item in ledger["groups"]]
        for group in dict.fromkeys((*kept, *(item["group"] for item in turns["turns"]))):
            export.add(f"{root}/groups/{group}", self.group(session, group))
        is_foreign = self._agents.has(session)
        last: _Sent | None = None
        with_memos: set[str] = set()
        for item in _watched(turns["turns"], watch):
            for number in range(1, item["requests"] + 1):
                numbers = session, item["turn"], number
                if is_foreign:
                    self._add_request(
                        export, numbers, self.request(*numbers), self._state(*numbers)
                    )
                    continue
                last = self._export_request(export, numbers, last)
                if last is not None:
                    with_memos.update(_with_memos(last.recorded.prompt.messages))
        memos = self._records.quoted_memos(with_memos)
        export.add(f"{root}/ledger", {**ledger, "memos": memos})
        return export.parts(f"Sightline: {ledger['name']}")

    def exported(self, session: int) -> AsyncGenerator[bytes, None]:
        """Have `export` done by another process; what it writes, in chunks."""
        self._ledger.sessions.get(session)
        return exported_beside(self._ledger.source, session)

    def _export_request(
        self, export: Export, numbers: tuple[int, int, int], last: _Sent | None
    ) -> _Sent | None:
        """Add what the page asks of one request; `last` is the one that was added before it."""
        try:
            sent = _Sent(self._recorded(*numbers))
        except NotFound:
            return last  # forgotten by the journal: the page says so
        before = self._before(sent.recorded, last)
        state = self._laid_out(sent.recorded, before)
        self._add_request(export, numbers, self._about_request(sent, before), state)
        return sent

    def _add_request(
        self, export: Export, numbers: tuple[int, int, int], about: dict[str, Any], state: _State
    ) -> None:
        root = "/api/sessions/{}/turns/{}/{}".format(*numbers)
        export.add(root, about)
        export.add(f"{root}/verdicts", self.verdicts(*numbers))
        export.add(f"{root}/unseen", self.unseen(*numbers))
        export.add(f"{root}/state", state.about())
        for at, app in enumerate(state.apps):
            export.add(f"{root}/state/{at}/folds/0", app.folds(0))
            for page in range(-(-len(app.texts) // PAGE_LINES)):
                export.add(f"{root}/state/{at}/nodes/{page}", app.page(page))

    # Trees, laid out.

    def _state(self, session: int, turn: int, number: int) -> _State:
        """Lay out the apps of a request, or find that laid out lately: it is read in pages."""
        if self._agents.has(session):
            return _State(0, *self._agents.state(session, turn, number))
        journal = self._open_journal()
        row = None if journal is None else journal.row(session, turn, number)
        with self._states_lock:
            if row is not None and row in self._states:
                self._states[row] = known = self._states.pop(row)
                return known
            recorded = self._recorded(session, turn, number)
            state = self._laid_out(recorded, self._before(recorded))
            self._states[state.row] = state
            while len(self._states) > STATES:
                del self._states[next(iter(self._states))]
        return state

    def _laid_out(self, recorded: Recorded, before: _Sent | None) -> _State:
        sight = sight_of(recorded)
        past = None if before is None else before.recorded.world
        tail = "\n\n".join(message.text for message in recorded.prompt.tail)
        return _State(recorded.line.id, lay_out(recorded.world, sight.selection, past), tail)

    def _app(self, session: int, turn: int, number: int, app: int) -> AppTree:
        apps = self._state(session, turn, number).apps
        if not 0 <= app < len(apps):
            raise NotFound(f"that request had {len(apps)} apps; there is no number {app}")
        return apps[app]

    # The journal.

    def _open_journal(self) -> Journal | None:
        """Open the journal as soon as there is one; another one, once it was deleted.

        One thread opens it: of two that do, the second may find the file locked by the first.
        """
        with self._journal_lock:
            if self._journal is not None and self._journal.is_gone:
                self._journal = None
            if self._journal is None and journal_path(self._ledger.path).exists():
                self._journal = Journal(self._ledger.path, read_only=True)
            return self._journal

    def _lines(self, session: int, turn: int | None = None) -> list[RequestLine]:
        journal = self._open_journal()
        return [] if journal is None else journal.requests(session, turn)

    def _lines_of(self, session: int, group: int) -> list[RequestLine]:
        """The requests of a group that are still known, in order."""
        seqs = self._ledger.groups.seqs([group])
        lines = self._lines(session, seqs[group] + 1) if group in seqs else []
        return [line for line in lines if line.group_id == group]

    def _lines_beside(self, line: RequestLine) -> list[RequestLine]:
        """The requests of the turn of one, itself among them."""
        # By its group: after an undo another turn may have had the same number.
        lines = self._lines(line.session_id, line.turn)
        return [one for one in lines if one.group_id == line.group_id]

    def _recorded(self, session: int, turn: int, number: int) -> Recorded:
        journal = self._open_journal()
        if journal is None:
            raise NotFound("nothing was recorded for this ledger")
        return self._with_receipt(journal.request(session, turn, number))

    def _with_receipt(self, recorded: Recorded) -> Recorded:
        if recorded.line.receipt_id is None:
            return recorded
        kept = self._ledger.accounts.receipt(recorded.line.receipt_id).body
        receipt = Receipt.decode(msgspec.json.encode(kept))
        prompt = replace(recorded.prompt, receipt=receipt)
        return replace(recorded, prompt=prompt, about=kept.get("request", {}))

    def _reported(self, recorded: Recorded) -> dict[str, int] | None:
        """What the vendor reported for the requests of this turn, if it did."""
        line = recorded.line
        used = self._ledger.accounts.by_group(line.session_id).get(line.group_id)
        if used is None:
            return None
        return {"prompt_tokens": used.prompt_tokens, "cached_tokens": used.cached_tokens}

    def _before(self, recorded: Recorded, near: _Sent | None = None) -> _Sent | None:
        """The request to the same model that was sent before this one, if it is known.

        `near` spares the way to the journal if it is the one.
        """
        journal, line = self._open_journal(), recorded.line
        previous = None if journal is None else journal.before(line)
        if previous is None:
            return None
        if near is not None and previous == (near.recorded.line.turn, near.recorded.line.number):
            return near
        return _Sent(self._recorded(line.session_id, *previous))

    def _judged(self, line: RequestLine) -> tuple[SentFacts, CacheVerdict]:
        """What is known of a request beside its bytes, and what of it was reused."""
        return self._turns.judged(self._lines_beside(line))[line.id]

    def _trace(self, line: RequestLine) -> list[dict[str, Any]]:
        """Where the time of a request's turn went."""
        return [
            {
                "name": f"{span.name} ({span.request})",
                "kind": span.kind,
                "start_ms": span.start_ms,
                "end_ms": span.end_ms,
            }
            for span in timeline_of(self._lines_beside(line)).spans
        ]


def _watched(turns: Sequence[dict[str, Any]], watch: Watch | None) -> Iterator[dict[str, Any]]:
    """Hand turns on; tell of each that was worked on."""
    for number, turn in enumerate(turns, 1):
        yield turn
        if watch is not None:
            watch(number, len(turns))


def _with_memos(messages: Sequence[Message]) -> Iterator[str]:
    """The texts of a prompt in which a memo may be."""
    for message in messages:
        for part in parts_of(message):
            if "memo " in part["text"]:
                yield part["text"]


def _inode(path: Path) -> int | None:
    """Tell which file has this name; None if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _name(line: RequestLine) -> str:
    return f"{line.turn}.{line.number}"


def _request_numbers(name: str) -> tuple[int, int]:
    turn, dot, number = name.partition(".")
    if not (dot and _digits(turn) and _digits(number)):
        raise InvalidInput(f"{name!r} is no request; they are named turn.request, like 3.1")
    if max(len(turn), len(number)) > ROW_DIGITS:
        raise NotFound(f"there is no request {name[:40]}")
    return int(turn), int(number)


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def picture_of_prompt(prompt: Prompt, request: Request) -> dict[str, Any]:
    """Lay a prompt out in its window; what its messages weigh is in its receipt."""
    order = [line.name for line in prompt.receipt.slots]
    pieces = pieces_of(prompt, request.wire, 0)[2:]  # behind the frame and the tools
    messages = [
        {
            "index": index,
            "slot": piece.slot,
            "slot_index": order.index(piece.slot) if piece.slot in order else -1,
            "role": message.role,
            "tokens": piece.tokens,
            "key": piece.key,
            "preview": preview(message.text),
            "parts": parts_of(message),
        }
        for index, (message, piece) in enumerate(zip(prompt.messages, pieces, strict=True))
    ]
    return picture(prompt.receipt, request.profile, messages)
