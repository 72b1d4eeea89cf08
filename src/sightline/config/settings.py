"""Everything that can be set, with its type, its range and its default.

The fields are the configuration file: `settings.window.size` is `size` in the table
`[window]`. Values only; `load` reads them from files, environment and flags.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from sightline._keywords import NamesKeywords

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86_400)]
Plain: TypeAlias = str | int | float | bool


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=NamesKeywords):
    pass


class WindowSettings(_Table, frozen=True, kw_only=True):
    """How many groups of the conversation are replayed: see `messages.window`.

    A window is what it says: who gives a size and no slack gets that many groups and no more.
    Only the one of `Settings`, which nobody has asked for, grows of itself.
    """

    size: Count = 50
    slack: Count = 0


class TruncationSettings(_Table, frozen=True, kw_only=True):
    """How many characters of a tool result are replayed: see `messages.replay`.

    The `count` newest results of the active group keep `recent`, its older ones
    `degraded`, all others `inactive`. `settle` degrades in batches, and a group that is over
    not before the window folds: fewer tokens are evaluated, more are sent.
    """

    recent: Count = 5000
    degraded: Count = 1000
    inactive: Count = 300
    count: Count = 5
    settle: bool = False


class TailSettings(_Table, frozen=True, kw_only=True):
    """How live state is written, and how much of a request it may be.

    `<slop-state>` and `<slop-apps-available>` weigh at most `max_tokens` together (0 is no
    limit), and the state at most `max_share` of the budget. What the model and the user wrote
    down (anchor, scratchpad, memos) is not counted. What is left out is counted where it is
    missing, and `slop_query` reads it.

    `kept_tokens` is what the earlier tails of a turn may weigh that a model's reasoning is bound
    to; beyond that the reasoning of the turn is left out, and they with it.

    `repeat = "brief"` sends a state that has not changed since the last request of the same
    turn as a reference to it: see `dialects.observations`. `turn` sends it whole when the user
    speaks, leaves it there, and in the requests that follow in the turn says what changed.
    `session` does so over turns, too: earlier states stay in the request then, which departs from
    SLOP's context injection, conformance 1. `changes` writes into the
    conversation what changed between two turns, or only that something did: see
    `projection.temporal`.
    """

    format: Literal["text", "json", "yaml"] = "text"
    max_tokens: Count = 4_000
    max_share: Share = 0.15
    kept_tokens: Count = 12_000
    repeat: Literal["whole", "brief", "turn", "session"] = "whole"
    changes: Literal["off", "note", "signal"] = "off"


class CacheSettings(_Table, frozen=True, kw_only=True):
    """Whether a prefix is kept at the vendor's by name (Gemini): see `host.held`.

    `auto` where it costs less than what the vendor's automatic cache has missed of late.
    """

    named: Literal["auto", "always", "off"] = "auto"


class ToolSettings(_Table, frozen=True, kw_only=True):
    """Whether a model gets a few tools that never change, or one for every action."""

    style: Literal["fixed", "dynamic"] = "fixed"


class PolicyRule(_Table, frozen=True, kw_only=True):
    """A decision about some actions: see `policy`. The first rule that fits decides."""

    app: str = "*"
    origin: str = "*"
    path: str = "*"
    action: str = "*"
    params: dict[str, Any] | None = None
    label: str | None = None
    command: str | None = None
    file: str | None = None
    network: bool = False
    decision: Literal["approve", "ask", "deny"]


class HookSettings(_Table, frozen=True, kw_only=True):
    """A command of the user's own at a moment of a turn: see `host.hooks`.

    `tool`, `app` and `action` are globs of the calls that it is for.
    """

    event: Literal["before_ask", "before_call", "after_call", "turn_ended"]
    command: Annotated[str, Meta(min_length=1)]
    tool: str = "*"
    app: str = "*"
    action: str = "*"
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 60


class LimitSettings(_Table, frozen=True, kw_only=True):
    """Where a turn ends, whatever the model wants. `turn_tokens` 0 is no limit.

    `turn_usd`, `session_usd` and `day_usd` are dollars that may be spent before the user is asked
    whether to go on, 0 for no limit; a day is one of this machine's, over all sessions.
    """

    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 25
    turn_tokens: Count = 0
    turn_usd: Dollars = 0.0
    session_usd: Dollars = 0.0
    day_usd: Dollars = 0.0
    retries: Annotated[int, Meta(ge=0, le=100)] = 4
    invoke_s: Seconds = 30


class DelegateSettings(_Table, frozen=True, kw_only=True):
    """Whether a model may hand on tasks (`offer`), and how far one may go: see `host.delegate`.

    `tokens` and `usd` 0 are no limit but those of the turn, which count what a task took, too.
    """

    offer: bool = True
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 25
    tokens: Count = 0
    usd: Dollars = 0.0


class ReplySettings(_Table, frozen=True, kw_only=True):
    """When a model's reply is ended from our side: see `models.connected`.

    `silence_s` is without a single byte, `idle_s` without a word of the reply (pings are none),
    `total_s` from the request to the end; `max_bytes` is what may come over the wire.
    """

    # Reasoning models are silent for minutes before their first word.
    silence_s: Seconds = 600
    idle_s: Seconds = 1_800
    total_s: Seconds = 7_200
    # The wire has some 250 bytes for a token: this is more than any model says at once.
    max_bytes: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 64 * 1024 * 1024


class AppSettings(_Table, frozen=True, kw_only=True):
    """Which apps are seen: addresses, those that announce themselves, the directory.

    `mcp_files` are files that name MCP servers, as `.mcp.json` and Claude Desktop's do; `brokers`
    are addresses of NATS's, on which apps announce themselves. `bridge` lets pages of the user's
    browser come: see `BridgeSettings`.
    """

    connect: tuple[str, ...] = ()
    mcp_files: tuple[str, ...] = ()
    discover: bool = True
    brokers: tuple[str, ...] = ()
    workspace: bool = True
    bridge: bool = False
    # An app that is quiet is asked for a sign of life when half of it has passed.
    silent_s: Seconds = 30


class BridgeSettings(_Table, frozen=True, kw_only=True):
    """Where pages of the user's browser come, if they may (`apps.bridge`): see `hub.browser`.

    `origins` are extensions that need not be asked about, and pages that may dial. `open` serves
    whom the system cannot name the user of, without a token.
    """

    port: Annotated[int, Meta(ge=0, le=65_535)] = 9339
    origins: tuple[str, ...] = ()
    open: bool = False


class WorkspaceSettings(_Table, frozen=True, kw_only=True):
    """What commands in the directory are given: `env` names variables beyond the usual ones.

    `instructions` is what becomes of a directory's AGENTS.md, commands and skills: `ask` asks
    once for each repository before a model is told of them, `always` does not, `never` looks
    for none. `sandbox` is where commands run: `auto` is a sandbox where bubblewrap works,
    `require` does nothing without one; `writable` are directories that they may write to in it.
    A turn waits `wait_s` for a command, which then goes on; it is ended after `max_run_s`. One that
    ends later begins a turn in the chat, at most `wakes` times until you say something again.
    """

    env: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    instructions: Literal["ask", "always", "never"] = "ask"
    wait_s: Annotated[float, Meta(gt=0, le=3_600)] = 120
    max_run_s: Seconds = 14_400
    wakes: Annotated[int, Meta(ge=0)] = 5
    sandbox: Literal["auto", "off", "require"] = "auto"
    writable: tuple[str, ...] = ()


class ChatSettings(_Table, frozen=True, kw_only=True):
    """How the chat looks and when it calls: see `chat.theme`.

    `theme` `auto` is what the terminal says of its background. A turn that took `notify_after_s`
    or longer (0 is never) ends with a `notify`: the bell, or a notification of the desktop by the
    sequence that the terminal knows.
    """

    theme: Literal["auto", "light", "dark"] = "auto"
    notify: Literal["bell", "osc9", "osc777"] = "bell"
    notify_after_s: Annotated[float, Meta(ge=0, le=86_400)] = 30


class LedgerSettings(_Table, frozen=True, kw_only=True):
    """Where conversations are kept; empty is the user's own ledger. `record` keeps receipts.

    `attachments` is the URL of an object store for large files; empty is in the ledger.
    """

    path: str = ""
    attachments: str = ""
    record: bool = True


class EndpointSettings(_Table, frozen=True, kw_only=True):
    """A place that serves models, named by the user or built in.

    `dialect` is the endpoint whose profile it takes; empty is its own for a built-in
    name, else `openai-chat`. A key is never written here: `api_key_env` names the
    variable that holds it.
    """

    base_url: str = ""
    api_key_env: str = ""
    dialect: str = ""
    model: str = ""


class Settings(_Table, frozen=True, kw_only=True):
    """All settings. `model` is `endpoint:model`, either of them, `local`, or empty for any.

    `profiles` are overrides of `dialects.profiles`, by `endpoint:model` with globs.
    """

    model: str = ""
    mode: Literal["ask", "auto", "plan"] = "ask"
    strategy: str = "sightline"
    strategy_config: dict[str, Plain] = {}
    isolate: Literal["isolate", "translate"] = "isolate"
    window: WindowSettings = WindowSettings(size=50, slack=25)
    truncation: TruncationSettings = TruncationSettings()
    tail: TailSettings = TailSettings()
    cache: CacheSettings = CacheSettings()
    tools: ToolSettings = ToolSettings()
    policy: tuple[PolicyRule, ...] = ()
    hooks: tuple[HookSettings, ...] = ()
    limits: LimitSettings = LimitSettings()
    delegate: DelegateSettings = DelegateSettings()
    reply: ReplySettings = ReplySettings()
    apps: AppSettings = AppSettings()
    bridge: BridgeSettings = BridgeSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    chat: ChatSettings = ChatSettings()
    ledger: LedgerSettings = LedgerSettings()
    endpoints: dict[str, EndpointSettings] = {}
    # A profile is data of many shapes; `dialects.profiles` checks every field of it.
    profiles: dict[str, dict[str, Any]] = {}
    # Dollars per million tokens by model: "input/output/read/write". A name may contain `*`.
    prices: dict[str, str] = {}
