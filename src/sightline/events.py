"""What a host tells while it works: one stream for terminal, `--json`, inspector and traces.

    TurnStarted
      ( SpendingAsked*
        RequestBuilt  (TextDelta | ReasoningDelta | Retrying)*  UsageReported?  ReplyEnded
        ( CallStarted  (ApprovalAsked ApprovalAnswered)*  CallFinished )* )*
    TurnEnded

`TurnEnded` is always there and always last, whatever went wrong. `Noticed` and
`AppChanged` may stand anywhere. `CommandRan` belongs to no turn, and is told by whoever runs
a command for a program. Events carry plain values only: they can be written as JSON lines,
read back, and shown by somebody who knows nothing else of the program. Texts
of apps and models are in them as they came; whoever shows them escapes them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from sightline._amounts import dollars

__all__ = [
    "AppChanged",
    "ApprovalAnswered",
    "ApprovalAsked",
    "CallFinished",
    "CallStarted",
    "CommandRan",
    "HostEvent",
    "Noticed",
    "Outcome",
    "ReasoningDelta",
    "ReplyEnded",
    "RequestBuilt",
    "Retrying",
    "Scope",
    "SpendingAsked",
    "TextDelta",
    "TurnEnded",
    "TurnStarted",
    "UsageReported",
    "decode_event",
    "encode_event",
]

Outcome: TypeAlias = Literal["answered", "cancelled", "failed", "limit"]
Scope: TypeAlias = Literal["turn", "session", "day", "delegate"]


class _Event(msgspec.Struct, frozen=True, tag_field="event", kw_only=True):
    pass


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    """The user said something, and it is in the ledger."""

    session_id: int
    group_id: int
    turn: int
    text: str


class RequestBuilt(_Event, frozen=True, tag="request_built"):
    """A request is about to be sent. `request` counts from 1 within the turn.

    `reused_tokens` is the part of the prompt that the previous request began with as well;
    `cause` says what ended it, and `regression` whether that was anything but the tail.
    """

    turn: int
    request: int
    model: str
    prompt_tokens: int
    budget_tokens: int
    tail_tokens: int
    basis: str
    reused_tokens: int = 0
    cause: str = ""
    regression: bool = False
    receipt_id: int | None = None
    warnings: tuple[str, ...] = ()


class SpendingAsked(_Event, frozen=True, tag="spending_asked"):
    """The turn waits for the user: its next request would pass a limit in money.

    `next_usd` is what its prompt will cost, and `raised_usd` the limit after a yes; `unpriced`
    requests are not in `spent_usd`, because nobody knows what they cost.
    """

    scope: Scope
    spent_usd: float
    limit_usd: float
    next_usd: float
    raised_usd: float
    unpriced: int = 0

    @property
    def question(self) -> str:
        """What the user is asked."""
        return f"go on, up to {dollars(self.raised_usd)}?"

    def __str__(self) -> str:
        within = {"day": "today", "delegate": "in this task"}.get(
            self.scope, f"in this {self.scope}"
        )
        limit = "delegate.usd" if self.scope == "delegate" else f"limits.{self.scope}_usd"
        return (
            f"{dollars(self.spent_usd, self.unpriced)} of {dollars(self.limit_usd)} ({limit}) "
            f"spent {within}; "
            f"the next request costs {dollars(self.next_usd)} for its prompt"
        )


class TextDelta(_Event, frozen=True, tag="text"):
    """More of the answer."""

    text: str


class ReasoningDelta(_Event, frozen=True, tag="reasoning"):
    """More of the model's reasoning, where the vendor shows it."""

    text: str


class Retrying(_Event, frozen=True, tag="retrying"):
    """The request failed in a way that may pass; it is tried again after a wait."""

    attempt: int
    after_s: float
    reason: str


class UsageReported(_Event, frozen=True, tag="usage"):
    """What a request used, as its vendor reported it. `cost_usd` is None where nobody knows."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    cache_miss: str = ""


class ReplyEnded(_Event, frozen=True, tag="reply_ended"):
    """The model's reply is over and stored. `reason` is as in `dialects.events.Stopped`."""

    reason: str
    message_id: int | None = None
    detail: str = ""


class CallStarted(_Event, frozen=True, tag="call_started"):
    """A tool call is taken up. `app`, `path` and `action` are empty for the host's own tools."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    app: str = ""
    path: str = ""
    action: str = ""


class ApprovalAsked(_Event, frozen=True, tag="approval_asked"):
    """The turn waits for the user, who is shown all of this.

    `name` is what the app calls itself and `origin` where it comes from; `type`, `label`,
    `summary` and `properties` are the node's, `context` is what the context nodes around it
    say, `about` is what the app says of the action.
    `changes` says what is different since the model looked. On a call that changed after
    it was agreed to, `differences` says in what, and it is asked about again. `rules` are
    what an answer can be remembered as, the narrowest first. `diff` is what an action of our own
    would do to files, as a unified diff: exactly that is done, or nothing. `no_network` is true
    for a command that would run without the network and could have it. `delegate` names the
    task that asks, if it is one that the model handed on. `app` is empty where a tool of the host
    is called in a loop.

    With a `form` or a `url` it is no call of the model's: an MCP server asks the user, and
    `summary` is what it says. `form` is the JSON Schema of the answer, which is given as
    `params`; a `url` is to be opened. No turn waits for it.
    """

    call_id: str
    app: str
    path: str
    action: str
    params: dict[str, Any]
    dangerous: bool
    reason: str
    changes: tuple[str, ...] = ()
    name: str = ""
    origin: str = ""
    type: str = ""
    label: str = ""
    summary: str = ""
    properties: dict[str, Any] = {}
    context: dict[str, Any] = {}
    about: str = ""
    differences: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    diff: str = ""
    no_network: bool = False
    delegate: str = ""
    form: dict[str, Any] | None = None
    url: str = ""

    @property
    def is_question(self) -> bool:
        """Whether a server asks the user something, and no action waits for a yes."""
        return self.form is not None or bool(self.url)


class ApprovalAnswered(_Event, frozen=True, tag="approval_answered"):
    """Somebody decided. `by` is `user`, `cancel`, or what decided for them; `reason` is why not.

    `params` are those that the user put in the place of the model's: the call is asked about
    again with them.
    """

    call_id: str
    approved: bool
    by: str = "user"
    reason: str = ""
    params: dict[str, Any] | None = None


class CallFinished(_Event, frozen=True, tag="call_finished"):
    """A tool call has its result, and it is stored. `diff` is what it changed in files."""

    call_id: str
    name: str
    ok: bool
    content: str
    message_id: int | None = None
    diff: str = ""


class AppChanged(_Event, frozen=True, tag="app_changed"):
    """An app came, went, or was lost. `status` is as in `protocol.world`, or `gone`."""

    app: str
    name: str
    status: str
    reason: str = ""


class Noticed(_Event, frozen=True, tag="notice"):
    """Something that a person should know. `code` never changes its meaning."""

    code: str
    message: str


class CommandRan(_Event, frozen=True, tag="command"):
    """A slash command was run. `text` is what it wrote, as a person would have read it."""

    command: str
    text: str


class TurnEnded(_Event, frozen=True, tag="turn_ended"):
    """The turn is over. `text` is the answer; `code` and `detail` say why there is none.

    `plan` is the part of the answer that is a plan to be accepted, in mode `plan`.
    """

    turn: int
    outcome: Outcome
    text: str = ""
    code: str = ""
    detail: str = ""
    plan: str = ""


HostEvent: TypeAlias = (
    TurnStarted
    | RequestBuilt
    | SpendingAsked
    | TextDelta
    | ReasoningDelta
    | Retrying
    | UsageReported
    | ReplyEnded
    | CallStarted
    | ApprovalAsked
    | ApprovalAnswered
    | CallFinished
    | AppChanged
    | Noticed
    | CommandRan
    | TurnEnded
)

_decoder = msgspec.json.Decoder(HostEvent)


def encode_event(event: HostEvent) -> bytes:
    """Write an event as one line of JSON, without the line break."""
    return msgspec.json.encode(event)


def decode_event(line: bytes) -> HostEvent:
    """Read what `encode_event` wrote."""
    event: HostEvent = _decoder.decode(line)
    return event
