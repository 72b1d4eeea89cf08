"""Sessions as JSON Lines: to read, to keep elsewhere, to bring back.

The first line is the session, each further line one message with its parts in
full, in order:

    {"kind":"session","format":1,"name":…,"states":[…],"usage":[…],…}
    {"kind":"message","role":"user","parts":[{"kind":"text","text":"…"}],"group_id":1,…}

`group_id` and `usage_id` are numbers of the exporting ledger and only say what
belongs together; an import makes a new session with numbers of its own, in one
transaction: all of it or nothing. A message line may have, instead of `parts`, a
`raw` message of a vendor (`{"kind":"message","parsing_strategy":"openai","raw":{…}}`),
which is read by the parser of that strategy; a user's raw message begins a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, Literal, TypeVar

import msgspec

from sightline.context.ledger.attachments import fetching
from sightline.context.ledger.codec import from_columns, kept_in
from sightline.context.ledger.rows import Row, find_session, with_json
from sightline.context.ledger.sessions import Session, name_for, new_session, session_of
from sightline.context.ledger.store import Store, Transaction, written
from sightline.context.ledger.usage import USAGE_COLUMNS, StoredUsage, add_usage
from sightline.context.ledger.writer import Writer, leave
from sightline.context.messages.gate import Gate
from sightline.context.messages.parts import Basis, Draft, Message, Outcome, Part, Role, ToolResult
from sightline.context.messages.window import Window
from sightline.context.projection.moment import parse_moment
from sightline.errors import InvalidInput, TooLarge
from sightline.slop.protocol.jsontext import NESTING, nests_deeper

FORMAT: Final = 1
_T = TypeVar("_T")


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group_id: int
    content: str
    created_at: str


class _StrategyState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group_id: int
    state: dict[str, Any]
    created_at: str


class _Request(
    StoredUsage, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    id: int
    group_id: int | None = None


class _SessionLine(msgspec.Struct, frozen=True, tag_field="kind", tag="session"):
    """The first line. Fields of later versions are ignored."""

    format: int
    name: str
    uuid: str = ""
    project: str = ""
    created_at: str = ""
    scratchpad: str = ""
    context_size: int = 0
    context_slack: int = 0
    head: str = ""
    states: list[_State] = []
    usage: list[_Request] = []
    parent: str | None = None
    title: str | None = None
    first_group: int | None = None
    strategy_states: list[_StrategyState] = []


class _MessageLine(msgspec.Struct, frozen=True, tag_field="kind", tag="message"):
    """A further line. Fields of later versions are ignored."""

    role: Role | None = None
    parts: list[Part] | None = None
    group_id: int | None = None
    status: Literal["complete", "tool_call", "incomplete", "dropped"] = "complete"
    outcome: Outcome = "complete"
    parsing_strategy: str = "neutral"
    tokens: int = 0
    tokens_basis: Basis = "estimated"
    created_at: str | None = None
    usage_id: int | None = None
    id: int | None = None
    raw: Any = msgspec.UNSET


# The columns of a message that stand in its line as they are.
_EXPORTED: Final = tuple(
    name for name in _MessageLine.__struct_fields__ if name not in ("parts", "raw")
)
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_sessions: Final = msgspec.json.Decoder(_SessionLine)
_messages: Final = msgspec.json.Decoder(_MessageLine)


def export_session(store: Store, session_id: int) -> Iterator[bytes]:
    """Write a session as lines, dropped groups included, as of one point in time.

    The lines are read through a reader of their own, so that whoever takes them
    may take his time, and write to the same ledger meanwhile.
    """
    with closing(store.reader()) as reader, reader.read() as db:
        session = find_session(db, session_id)
        states = db.rows(
            "SELECT group_id, content, created_at FROM session_state "
            "WHERE session_id = ? ORDER BY group_id",
            (session_id,),
        )
        kept = db.fetch(
            "SELECT group_id, body, created_at FROM strategy_states "
            "WHERE session_id = ? ORDER BY group_id",
            (session_id,),
        )
        usage = db.fetch(
            f"SELECT id, group_id, {USAGE_COLUMNS} FROM usage WHERE session_id = ? ORDER BY id",
            (session_id,),
        )
        first = _SessionLine(
            format=FORMAT,
            head=session["head"].hex(),
            states=[_State(**row) for row in states],
            usage=[
                _Request(*with_json(columns, -1), id=number, group_id=group)
                for number, group, *columns in usage
            ],
            strategy_states=[
                _StrategyState(group, msgspec.json.decode(body), at) for group, body, at in kept
            ],
            **{name: session[name] for name in _COPIED},
        )
        yield msgspec.json.encode(first) + b"\n"
        rows = db.scan(
            f"SELECT {', '.join(_EXPORTED)}, content, parts FROM messages "
            "WHERE session_id = ? ORDER BY seq",
            (session_id,),
        )
        for *columns, content, parts in rows:
            line = dict(zip(_EXPORTED, columns, strict=True))
            fetch = fetching(db, store.attachments, kept_in(parts))
            message = from_columns(line["role"], content, parts, fetch)
            yield msgspec.json.encode(_MessageLine(**line, parts=list(message.parts))) + b"\n"


_COPIED: Final = (
    "uuid", "name", "project", "created_at", "scratchpad", "context_size", "context_slack",
    "parent", "title", "first_group",
)  # fmt: skip


def import_session(store: Store, gate: Gate, lines: Iterable[bytes], *, name: str = "") -> Session:
    """Store exported lines as a new session. Raise `InvalidInput` with the line that is wrong."""
    numbered = enumerate(lines, start=1)
    number, first = next(numbered, (1, b""))
    with _at_line(number):
        header = _decode(first, _sessions, gate)
        if header.format > FORMAT:
            raise InvalidInput(f"the export has format {header.format}; this reads up to {FORMAT}")
    with store.write() as tx:
        with _at_line(number):
            session = _session_row(tx, gate, header, name)
        arrival = _Import(tx, gate, session, header)
        for number, line in numbered:
            if line.strip():
                with _at_line(number):
                    arrival.message(_decode(line, _messages, gate))
        arrival.finish()
    return session_of(session)


class _Import:
    """An import under way: old numbers become new ones as they come by."""

    def __init__(self, tx: Transaction, gate: Gate, session: Row, header: _SessionLine) -> None:
        self._tx = tx
        self._gate = gate
        self._session = session
        self._writer = Writer(tx, session, max_message=gate.limits.message)
        self._groups: dict[int, int] = {}
        self._open: int | None = None  # the exporting ledger's number of the open group
        self._started = False
        self._header = header
        self._requests = {request.id: request for request in header.usage}
        self._stored: dict[int, int] = {}
        self._waiting: dict[str, str] = {}  # raw calls not answered yet → their tools

    def message(self, line: _MessageLine) -> None:
        """Store one message line."""
        message = _message_of(line)
        if line.raw is not msgspec.UNSET:
            message = self._answering(message)
        message = self._gate.message(message)
        moment = _moment(line.created_at)
        if self._begins_group(line, message):
            self._writer.start_group(dropped=line.status == "dropped", created_at=moment)
            self._started = True
            self._open = line.group_id
            if line.group_id is not None:
                self._groups[line.group_id] = self._writer.group_id
        tokens = self._gate.count(line.tokens, "tokens")
        self._writer.add(
            Draft(message, tokens, line.tokens_basis, line.outcome == "incomplete"),
            strategy=self._gate.line(line.parsing_strategy, "a strategy"),
            created_at=moment,
            usage_id=self._request(line.usage_id),
        )

    def finish(self) -> None:
        """Close the chain, and store the states and the fold as they were exported."""
        self._writer.finish()
        for request_id in self._requests:
            self._request(request_id)
        for state in self._header.states:
            if state.group_id in self._groups:
                text = self._gate.text(state.content, "a state", self._gate.limits.message)
                self._leave("session_state", state, text)
        limit = self._gate.limits.strategy_state
        for kept in self._header.strategy_states:
            if kept.group_id in self._groups:
                body = self._gate.json(kept.state, "a strategy's state", limit)
                self._leave("strategy_states", kept, body)
        fold = self._header.first_group
        shown = [new for old, new in self._groups.items() if fold and old >= fold]
        self._session["first_group"] = min(shown, default=None)

    def _leave(self, table: str, left: _State | _StrategyState, text: str) -> None:
        group, moment = self._groups[left.group_id], _moment(left.created_at)
        leave(self._tx, self._session, table, group, text, moment)

    def _begins_group(self, line: _MessageLine, message: Message) -> bool:
        if line.group_id is None:
            return not self._started or self._open is not None or message.role == "user"
        if line.group_id in self._groups and line.group_id != self._open:
            raise InvalidInput(f"group {line.group_id} goes on after another one began")
        return line.group_id != self._open

    def _answering(self, message: Message) -> Message:
        """Lead answers that name only their tool to the calls of it that wait, in order."""
        from sightline.context.dialects.stored import derived_id

        if message.tool_calls:
            self._waiting = {call.id: call.name for call in message.tool_calls}
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                nameless = part.call_id == derived_id(part.name, 0)
                if nameless and part.call_id not in self._waiting:
                    calls = (call for call, name in self._waiting.items() if name == part.name)
                    part = msgspec.structs.replace(part, call_id=next(calls, part.call_id))
                self._waiting.pop(part.call_id, None)
            parts.append(part)
        return Message(message.role, tuple(parts))

    def _request(self, old: int | None) -> int | None:
        """Store a request the first time it is named; return its number here."""
        if old is None or old not in self._requests:
            return None
        if old not in self._stored:
            request = self._requests[old]
            usage = StoredUsage(*(getattr(request, name) for name in StoredUsage.__struct_fields__))
            group = None if request.group_id is None else self._groups.get(request.group_id)
            self._stored[old] = add_usage(
                self._tx, self._gate, self._session, usage, group, inherited=True
            )
        return self._stored[old]


def _session_row(tx: Transaction, gate: Gate, header: _SessionLine, name: str) -> Row:
    window = Window(header.context_size, header.context_slack)
    session = new_session(
        tx,
        name=name_for(tx.db, gate, name, header.name),
        project=gate.text(header.project, "a session's project", 4096),
    )
    session["scratchpad"] = gate.text(header.scratchpad, "the scratchpad", gate.limits.scratchpad)
    session["context_size"], session["context_slack"] = window.size, window.slack
    for field in ("parent", "title"):
        if text := getattr(header, field):
            session[field] = gate.line(text, f"a session's {field}")
    return session


def _message_of(line: _MessageLine) -> Message:
    if line.raw is not msgspec.UNSET:
        from sightline.context.dialects import parse

        return parse(line.parsing_strategy, line.raw)
    if line.role is None or line.parts is None:
        raise InvalidInput("a message has a role and parts, or a raw form")
    return Message(line.role, tuple(line.parts))


def _moment(text: str | None) -> str | None:
    return written(parse_moment(text)) if text else None


def _decode(line: bytes, decoder: msgspec.json.Decoder[_T], gate: Gate) -> _T:
    if len(line) > 2 * gate.limits.message:
        raise TooLarge(f"a line of {len(line):,} bytes; the limit is {2 * gate.limits.message:,}")
    if nests_deeper(line, NESTING):
        raise InvalidInput(f"nested deeper than {NESTING} levels")
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error)) from error


@contextmanager
def _at_line(number: int) -> Iterator[None]:
    """Say in which line of the import an error is."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"line {number}: {error}") from error
