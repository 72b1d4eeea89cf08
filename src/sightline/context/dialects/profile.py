"""What a dialect must know about the other side: one value, made of small groups.

Every difference between vendors that a dialect acts upon is a field here; the tables
that fill them are in `endpoints`, and `profiles` puts them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

CacheStyle: TypeAlias = Literal[
    "none", "automatic", "breakpoint", "cache_control", "cache_point", "cached_content"
]
Placement: TypeAlias = Literal["message", "filler", "into_user", "prepend"]
IdRule: TypeAlias = Literal["opaque", "safe", "dotted", "nine", "none"]
DialectName: TypeAlias = Literal[
    "anthropic", "bedrock", "gemini", "ollama", "openai_chat", "openai_responses"
]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
# No more than that: what is infinite, or no number, could be no limit on what is spent.
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Replay: TypeAlias = Literal["never", "always"]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens; None where nobody published one.

    Above `long_tokens` of input every price of the request is multiplied by
    `long_factor`, the output's by its own if it has one. `cache_write_long` is for the longer
    of two lifetimes. `cache_storage` is for what is kept by name, for an hour.
    """

    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_long: Dollars | None = None
    cache_storage: Dollars | None = None
    long_tokens: Count = 0
    long_factor: Dollars = 1.0
    long_output_factor: Dollars | None = None


class Cache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a prefix is cached. 0 means no limit; an empty name means there is no such thing."""

    style: CacheStyle = "none"
    max_marks: Count = 0
    min_tokens: Count = 0
    lookback_blocks: Count = 0
    ttl: str = ""
    ttls: tuple[str, ...] = ()
    routing_field: str = ""
    routing_header: str = ""
    diagnostics: bool = False


class TailRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the volatile tail goes: in a plain turn, and when tool results come last.

    message     a user message of its own; merged into the user's turn by APIs that do so
    filler      the same, behind a short assistant message that the API wants in between
    into_user   appended to the last text of the user, wherever that stands
    prepend     before the history: the known cache regression
    """

    plain: Placement = "message"
    after_tools: Placement = "message"
    filler: str = "OK"


class Tools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may name a tool and a call. 0 is no limit; without `calls` the model gets no tools."""

    first: str = "A-Za-z_"
    rest: str = "A-Za-z0-9_-"
    max_name: Count = 64
    ids: IdRule = "opaque"
    max_tools: Count = 0
    calls: bool = True


class ReasoningRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to the model's own reasoning when it is sent back.

    `field` is where chat APIs keep it; `required` demands it on every assistant message
    with tool calls, be it empty. `bound` blocks are void once anything before them changed.
    """

    replay: Replay = "never"
    field: str = ""
    required: bool = False
    bound: bool = False


class MessageRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an API takes in its messages: roles, shapes of content, files."""

    system_role: Literal["system", "developer"] = "system"
    inline_system: bool = True
    single_system: bool = False
    content: Literal["text", "parts"] = "text"
    output_field: str = "max_tokens"
    usage_option: bool = True
    images: bool = True
    documents: bool = True


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a dialect needs to know about the other side.

    `extra` are fields that every request's body gets as they are, before its messages.
    `whole_path` is for replies that are not streamed, where these have a path of their own.
    """

    endpoint: str
    model: str
    dialect: DialectName
    path: str = ""
    whole_path: str = ""
    window_tokens: Count = 128_000
    max_output_tokens: Count = 16_384
    prices: Prices = Prices()
    cache: Cache = Cache()
    tail: TailRules = TailRules()
    tools: Tools = Tools()
    reasoning: ReasoningRules = ReasoningRules()
    messages: MessageRules = MessageRules()
    extra: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def source_of(self, field: str) -> str:
        """Say where a field's value comes from; fields are dotted, as in a layer."""
        return self.sources.get(field, "default")


def _fits(name: str, pattern: str) -> bool:
    """Do as `fnmatchcase`, which compiles each pattern; most have nothing but stars."""
    if "?" in pattern or "[" in pattern:
        return fnmatchcase(name, pattern)
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    at = len(first)
    for piece in middle:
        found = name.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return name.startswith(first) and name.endswith(last) and at + len(last) <= len(name)


class Layer(msgspec.Struct, frozen=True):
    """Values for some fields, where they come from, and which models they are for."""

    source: str
    values: Mapping[str, Any]
    models: tuple[str, ...] = ("*",)

    def matches(self, model: str) -> bool:
        """Tell whether it is for this model; a routing prefix (`openai/…`) does not count."""
        bare = model.rsplit("/", 1)[-1].lower()
        return any(_fits(name, at) for at in self.models for name in (bare, model.lower()))
