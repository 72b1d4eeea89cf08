"""What an agent's own transcript says about its requests: usage, times, and why a cache was lost.

    Claude Code   ~/.claude/projects/**/*.jsonl
    Codex         ~/.codex/sessions/**/rollout-*.jsonl

A transcript is what an agent keeps for itself: replies with their usage, and of requests little.
So of a loss only those causes are named that stand in it (another model or effort, compaction,
the lifetime, in newer versions of Claude Code tools and instructions); any other is *unknown*.
What a line holds beyond that is not read. Nothing in a file makes this raise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.context.dialects.drift import Loss, missed
from sightline.context.dialects.events import Usage, UsageFields
from sightline.gateway.bodies import Api, RequestBody, read_body, remember
from sightline.gateway.losses import compare

Agent: TypeAlias = Literal["claude", "codex"]
APIS: Final[dict[Agent, Api]] = {"claude": "anthropic", "codex": "openai-responses"}
KEPT_LINES: Final = 20_000  # whose place in the conversation is remembered
KEPT_SHAPES: Final = 64
COPIED_S: Final = 1.0  # a fork's copies of earlier lines bear the moment of the fork
LATEST: Final = 4_102_444_800.0  # the year 2100
LIFETIMES: Final = {"5m": 300.0, "1h": 3_600.0}


@dataclass(slots=True)
class Transcribed:
    """A request as a transcript has it. `source` is the same wherever it is found again.

    `at` is when it was sent, in seconds, or nearly; `lifetime_s` of what it wrote, 0 if that is
    not said. `since` names what was done to the conversation since `before`. A reply that may
    still grow is not `ended`.
    """

    source: str
    at: float
    body: RequestBody
    usage: Usage
    before: Transcribed | None = None
    since: str = ""
    lifetime_s: float = 0.0
    ended: bool = True


def loss_in(one: Transcribed, lifetime_s: float, extra_price: float | None) -> Loss | None:
    """Say what a request paid again, and why, as far as its transcript tells.

    It has at most its own length in common with the one before it.
    """
    before, usage = one.before, one.usage
    if before is None:
        return None
    was = before.usage
    # Anthropic reads what it wrote; the others keep whatever came.
    kept = was.cache_read_tokens + was.cache_write_tokens
    whole = kept if one.body.api == "anthropic" else was.input_tokens
    expected = min(whole, usage.input_tokens)
    compared = compare(before.body, one.body)
    cause = compared.cause or one.since
    loss = missed(
        expected,
        usage.cache_read_tokens,
        shared=0 if cause else 1,
        whole=1,
        kept=expected,
        cause=cause,
        detail=compared.detail,
        idle_s=one.at - before.at,
        lifetime_s=lifetime_s,
        setting=compared.setting,
        extra_price=extra_price,
    )
    if loss is None:
        return None
    if loss.cause == "lost":
        return msgspec.structs.replace(loss, cause="unknown")
    return msgspec.structs.replace(
        loss, path=compared.path, before=compared.before, now=compared.now
    )


class Reader:
    """Reads one transcript, line by line; which agent wrote it is told by its lines."""

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self.session = ""
        self.project = ""
        self.title = ""
        self.unread = 0
        self.copied = 0
        self._reader: _Claude | _Codex | None = None

    @property
    def requests(self) -> list[Transcribed]:
        """The requests found so far, in order."""
        return [] if self._reader is None else list(self._reader.requests.values())

    def feed(self, line: bytes) -> None:
        """Read a line; what is no line of a transcript is counted."""
        try:
            read = _lines.decode(line)
            if self._reader is None:
                self._reader = self._begun(read)
            if self._reader is not None:
                self._reader.read(read)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            self.unread += 1

    def _begun(self, line: _Line) -> _Claude | _Codex | None:
        if line.type == "session_meta":
            self.agent = "codex"
            return _Codex(self)
        if line.session_id and line.type:
            self.agent = "claude"
            return _Claude(self)
        return None


class _Line(msgspec.Struct, rename="camel"):
    """What is read of a line of either agent."""

    type: str = ""
    subtype: str = ""
    id: str = ""
    timestamp: str = ""
    session_id: str = ""
    cwd: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_meta: bool = False
    is_compact_summary: bool = False
    request_id: str | None = None
    request_ref: str | None = None
    prompt_cache_requested: str | None = None
    effort: Any = None
    message: msgspec.Raw = msgspec.Raw()
    shape_hash: str = ""
    shape: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct):
    id: str = ""
    role: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: Any = None
    content: msgspec.Raw = msgspec.Raw()


class _Shape(msgspec.Struct):
    system: Any = None
    tools: Any = None


class _Params(msgspec.Struct):
    model: str = ""
    thinking: Any = None
    output_config: Any = None


class _Payload(msgspec.Struct):
    """What is read of a line of Codex."""

    type: str = ""
    id: str = ""
    cwd: str = ""
    role: str = ""
    content: msgspec.Raw = msgspec.Raw()
    model: str = ""
    effort: Any = None
    info: Any = None
    forked_from_id: str | None = None
    history_mode: str = ""


class _Text(msgspec.Struct):
    type: str = ""
    text: str = ""


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_lines: Final = msgspec.json.Decoder(_Line)
_messages: Final = msgspec.json.Decoder(_Message)
_shapes: Final = msgspec.json.Decoder(_Shape)
_params: Final = msgspec.json.Decoder(_Params)
_payloads: Final = msgspec.json.Decoder(_Payload)
_contents: Final = msgspec.json.Decoder(str | list[_Text])


@dataclass(slots=True)
class _Claude:
    """A transcript of Claude Code: a tree of lines, each with the one before it.

    A reply is written once for each of its blocks, sometimes while it still grows, with the same
    ids and the counts of the same prompt; a fork of a session begins with copies of its lines.
    """

    about: Reader
    requests: dict[str, Transcribed] = field(default_factory=dict)
    _near: OrderedDict[str, tuple[Transcribed | None, str]] = field(default_factory=OrderedDict)
    _sent: OrderedDict[str, tuple[float, bytes, str]] = field(default_factory=OrderedDict)
    _shapes: OrderedDict[str, _Shape] = field(default_factory=OrderedDict)
    _last: float = 0.0

    def read(self, line: _Line) -> None:
        about = self.about
        about.session = about.session or line.session_id
        about.project = about.project or line.cwd
        if line.type == "api-request-shape":
            remember(self._shapes, line.shape_hash, _shapes.decode(line.shape), KEPT_SHAPES)
        elif line.type == "api-request":
            sent = _moment(line.timestamp), bytes(line.params), line.shape_hash
            remember(self._sent, line.id, sent, KEPT_SHAPES)
        if not line.uuid:
            return
        parent = line.parent_uuid or line.logical_parent_uuid or ""
        before, since = self._near.get(parent, (None, ""))
        if line.type == "assistant":
            found = self._reply(line, before, since)
            before, since = (before, since) if found is None else (found, "")
        else:
            if before is not None:
                before.ended = True
            self._last = _moment(line.timestamp) or self._last
            since = _DONE.get(line.subtype, since)
            written = not (line.is_meta or line.is_compact_summary)
            if line.type == "user" and written and not about.title:
                about.title = _question(_messages.decode(line.message).content)
        remember(self._near, line.uuid, (before, since), KEPT_LINES)

    def _reply(self, line: _Line, before: Transcribed | None, since: str) -> Transcribed | None:
        message = _messages.decode(line.message)
        usage = _claude_usage(message.usage)
        if usage is None or not usage.input_tokens or message.model.startswith("<"):
            return None
        named = line.request_ref or line.request_id
        # Without one the message's id is no name: relays give all replies the same.
        source = _digest(
            named or self.about.session, message.id, usage.input_tokens, usage.cache_read_tokens
        )
        known = self.requests.get(source)
        if known is not None:
            known.usage = max(known.usage, usage, key=lambda one: one.output_tokens)
            known.ended = known.ended or message.stop_reason is not None
            return known
        at, body = self._sent_as(line, message)
        self.requests[source] = found = Transcribed(
            source, at, body, usage, before, since, self._lifetime(line, usage, before),
            message.stop_reason is not None,
        )  # fmt: skip
        return found

    def _sent_as(self, line: _Line, message: _Message) -> tuple[float, RequestBody]:
        """When a reply was asked for, and what is known of the request."""
        at, params, shape_hash = self._sent.get(line.request_ref or "", (0.0, b"", ""))
        given = _params.decode(params) if params else _Params(output_config=_effort(line.effort))
        shape = self._shapes.get(shape_hash, _Shape())
        at = at or min(filter(None, (self._last, _moment(line.timestamp))), default=0.0)
        return at, _body("anthropic", {
            "model": given.model or message.model, "thinking": given.thinking,
            "output_config": given.output_config, "system": shape.system, "tools": shape.tools,
        })  # fmt: skip

    def _lifetime(self, line: _Line, usage: Usage, before: Transcribed | None) -> float:
        """Of what a request wrote, or of what the one before it did."""
        if line.prompt_cache_requested in LIFETIMES:
            return LIFETIMES[line.prompt_cache_requested]
        if usage.cache_write_tokens:
            return LIFETIMES["1h" if usage.cache_write_long_tokens else "5m"]
        return 0.0 if before is None else before.lifetime_s


@dataclass(slots=True)
class _Codex:
    """A transcript of Codex: one line after the other; counts come with a running total.

    The same counts may come twice. A fork in the older form begins with copies of its parent's
    lines, which bear the moment of the fork.
    """

    about: Reader
    requests: dict[str, Transcribed] = field(default_factory=dict)
    _began: float = 0.0
    _is_copy: bool = False
    _model: str = ""
    _effort: Any = None
    _sent_at: float = 0.0
    _total: Any = None
    _since: str = ""
    _before: Transcribed | None = None

    def read(self, line: _Line) -> None:
        about = self.about
        if line.type == "session_meta" and about.session:
            return  # that of a parent, copied
        payload = _payloads.decode(line.payload) if bytes(line.payload) else _Payload()
        at = _moment(line.timestamp)
        if line.type == "session_meta":
            about.session, about.project, self._began = payload.id, payload.cwd, at
            self._is_copy = bool(payload.forked_from_id) and payload.history_mode != "paginated"
        elif line.type == "turn_context":
            self._model, self._effort = payload.model or self._model, payload.effort
        elif line.type == "compacted":
            self._since, self._sent_at = "compaction", at
        elif payload.type == "thread_rolled_back":
            self._since = "rewound"
        elif line.type == "response_item" and payload.role != "assistant":
            self._sent_at = at
            if payload.role == "user" and not about.title:
                about.title = _question(payload.content)
        elif payload.type == "token_count" and isinstance(payload.info, Mapping):
            self._count(payload.info, at)

    def _count(self, info: Mapping[str, Any], at: float) -> None:
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        usage = _codex_usage(last)
        if total == self._total or usage is None or not usage.input_tokens:
            return
        self._total = total
        if self._is_copy and at - self._began < COPIED_S:
            self.about.copied += 1
            return
        source = _digest(self.about.session, msgspec.json.encode([total, last], order="sorted"))
        reasoning = None if self._effort is None else {"effort": self._effort}
        body = _body("openai-responses", {"model": self._model, "reasoning": reasoning})
        sent = min(self._sent_at or at, at)
        found = Transcribed(source, sent, body, usage, self._before, self._since)
        self.requests[source] = self._before = found
        self._since = ""


# Claude Code calls what it did to a conversation so.
_DONE: Final = {"compact_boundary": "compaction", "microcompact_boundary": "result_cut"}


def _body(api: Api, fields: Mapping[str, Any]) -> RequestBody:
    given = {name: value for name, value in fields.items() if value is not None}
    return read_body(api, msgspec.json.encode(given)) or RequestBody(api, "", {})


def _effort(effort: Any) -> dict[str, Any] | None:
    return {"effort": effort} if isinstance(effort, str) else None


def _claude_usage(reported: Any) -> Usage | None:
    fields = UsageFields(reported)
    read = fields.count("cache_read_input_tokens")
    write = fields.count("cache_creation_input_tokens")
    usage = Usage(
        fields.count("input_tokens") + read + write,
        fields.count("output_tokens"),
        read,
        write,
        min(write, fields.count("cache_creation", "ephemeral_1h_input_tokens")),
        fields.count("output_tokens_details", "thinking_tokens"),
    )
    return None if fields.unusable else usage


def _codex_usage(reported: Any) -> Usage | None:
    fields = UsageFields(reported)
    everything = fields.count("input_tokens")
    read = min(everything, fields.count("cached_input_tokens"))
    usage = Usage(
        everything,
        fields.count("output_tokens"),
        read,
        min(everything - read, fields.count("cache_write_input_tokens")),
        reasoning_tokens=fields.count("reasoning_output_tokens"),
    )
    return None if fields.unusable else usage


def _moment(text: str) -> float:
    """Read a time of day; 0 where there is none. Raise ValueError for what no file could hold."""
    moment = datetime.fromisoformat(text).timestamp() if text else 0.0
    if not 0 <= moment < LATEST:
        raise ValueError(f"no time of day: {text[:40]}")
    return moment


def _question(content: msgspec.Raw) -> str:
    """What a person asked; nothing where the agent itself wrote a user's message."""
    try:
        read = _contents.decode(content)
    except msgspec.MsgspecError:
        return ""
    text = read if isinstance(read, str) else next((one.text for one in read if one.text), "")
    return "" if text.lstrip().startswith(("<", "# AGENTS.md")) else text.strip()


def _digest(*parts: object) -> str:
    data = "\0".join(part.decode() if isinstance(part, bytes) else str(part) for part in parts)
    return blake2b(data.encode(errors="replace"), digest_size=12).hexdigest()
