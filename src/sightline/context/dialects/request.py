"""A request as a value: the vendor's JSON, where its stable prefix ends, what was done to it.

The promise (law 6): while the stable slots of a prompt only grow, `prefix` of a
request is the beginning of the next one's bytes. So the messages are the last key
of every body, everything before them depends on the profile and the tools alone,
and nothing in a message depends on what stands after it.

Cache marks are the one exception, and they are no content: they move along with the
boundary, and no vendor counts them as part of what it compares. `wire` is therefore
the request without marks; `data` is what is sent.

The boundary is found, not computed: a request with its tail and the same request
without it are one and the same up to there, wherever the dialect put the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.context.dialects.drift import ByteSpan, Wire, common_bytes
from sightline.context.dialects.names import Names
from sightline.context.dialects.observations import Repeat, SentTail, observe, running, with_sent
from sightline.context.dialects.profile import CacheStyle, Profile
from sightline.context.dialects.tools import ToolDefinition, read_tools
from sightline.context.dialects.turns import Note, PromptTurn, place_tail, tail_of, turns_of
from sightline.context.messages.parts import Text
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.receipt import Notice, Receipt
from sightline.context.tokens.tokens import counter_for
from sightline.errors import InvalidInput

__all__ = [
    "CachedContent",
    "Options",
    "Request",
    "RequestDraft",
    "SentTail",
    "Thinking",
    "assemble",
    "no_tools",
]

Thinking: TypeAlias = Literal["auto", "drop", "strip", "turn_append"]
LOST: Final = {
    "drop": "the API drops reasoning of which the text before it has changed",
    "strip": "reasoning is left out: the text before it has changed, or took too much room",
}


class CachedContent(msgspec.Struct, frozen=True):
    """A named resource at the vendor's that holds tools, instructions and the first messages."""

    name: str
    messages: int


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What one request asks for beside the prompt.

    conversation        an id that stays the same for it: keeps its requests on one cache
    max_output_tokens   by default a quarter of the window, at most what the model gives
    thinking            what becomes of bound reasoning; `auto` is the profile's way.
                        `turn_append` keeps the tails of a user turn, in every dialect
    sent                the tails of this user turn so far, for `turn_append`
    repeat              `brief`: a tail of `turn_append` that has not changed is a reference
    prepend             the host can put text before the history only: a known regression
    previous_id         the last response's id, to have the vendor explain a cache miss
    cached_content      a named resource to build upon (Gemini)
    cache_ttl           how long the cache is to last, where there is a choice
    stream              whether the reply comes in pieces (`feed`) or at once (`whole`)
    extra               fields to put into the body as they are, before the messages
    """

    conversation: str = ""
    max_output_tokens: int | None = None
    stream: bool = True
    thinking: Thinking = "auto"
    sent: tuple[SentTail, ...] = ()
    repeat: Repeat = "whole"
    prepend: bool = False
    previous_id: str = ""
    cached_content: CachedContent | None = None
    cache_ttl: str = ""
    extra: Mapping[str, Any] = {}


class Request(msgspec.Struct, frozen=True):
    """What to send, and what is worth knowing about it.

    `names` leads from the vendor's tool names back to ours where they differ; a decoder
    wants it. `sent` are the tails of this user turn, this one included, if `thinking` is
    `turn_append`: give them to the next request of the same turn, and store them nowhere.
    """

    profile: Profile
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    wire: Wire
    names: dict[str, str]
    notes: tuple[Note, ...] = ()
    thinking: Thinking = "auto"
    sent: tuple[SentTail, ...] = ()
    marks: int = 0

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        return msgspec.json.encode(self.body)

    @property
    def prefix(self) -> bytes:
        """The stable beginning, without cache marks."""
        return self.wire.prefix

    def receipt_of(self, prompt: Prompt) -> Receipt:
        """Return the prompt's receipt with the notes among its warnings, as a turn keeps it."""
        told = tuple(Notice(note.code, "", note.message) for note in self.notes)
        receipt = prompt.receipt
        return msgspec.structs.replace(receipt, warnings=(*receipt.warnings, *told))


class RequestDraft(msgspec.Struct):
    """What a dialect works from, and where it leaves its notes.

    The same draft is written up to three times: with its tail and marks, without marks,
    without tail. `marking` says whether marks are wanted.
    """

    prompt: Prompt
    profile: Profile
    options: Options
    tools: list[ToolDefinition]
    names: Names
    turns: list[PromptTurn]
    thinking: Thinking
    prefix_tokens: int
    marking: bool = False
    notes: list[Note] = []
    headers: dict[str, str] = {}
    marks: int = 0

    @property
    def max_output_tokens(self) -> int:
        """How much the model may say."""
        asked = self.options.max_output_tokens
        profile = self.profile
        return asked or min(profile.max_output_tokens, max(1, profile.window_tokens // 4))

    @property
    def extra(self) -> dict[str, Any]:
        """The profile's own fields of the body, and those of this request, which win."""
        return {**self.profile.extra, **self.options.extra}

    def system_and_rest(self) -> tuple[list[PromptTurn], list[PromptTurn]]:
        """Split the instructions at the start from the conversation."""
        head = next((i for i, t in enumerate(self.turns) if t.role != "system"), len(self.turns))
        return self.turns[:head], self.turns[head:]

    def wants_marks(self, *styles: CacheStyle) -> bool:
        """Whether cache marks are to be set: the endpoint has them, and the prefix is long enough.

        Below the minimum a mark would be ignored at best, so there is none.
        """
        cache = self.profile.cache
        if not self.marking or cache.style not in styles:
            return False
        if self.prefix_tokens < cache.min_tokens:
            text = f"about {self.prefix_tokens} tokens of prefix, fewer than {cache.min_tokens}"
            self.note("below_cache_minimum", f"{text}: no mark")
            return False
        return True

    def note_thinking(self) -> None:
        """Say it where the model's reasoning does not go back to it."""
        if self.thinking in LOST:
            self.note("thinking", LOST[self.thinking])

    def note(self, code: str, message: str) -> None:
        """Record what was done, once."""
        note = Note(code, message)
        if note not in self.notes:
            self.notes.append(note)


# A body, and for each of its messages the messages of the prompt that it was made from.
Written: TypeAlias = tuple[dict[str, Any], list[tuple[int, ...]]]
Write: TypeAlias = Callable[[RequestDraft], Written]


def assemble(
    prompt: Prompt,
    profile: Profile,
    options: Options | None,
    write: Write,
    thinking: Thinking | None = None,
) -> Request:
    """Write the prompt with a dialect's hand; find the boundary and the place of each message.

    `thinking` is for dialects that know bound reasoning; the others keep tails or do not.
    """
    options = options or Options()
    if thinking is None:
        thinking = "turn_append" if options.thinking == "turn_append" else "auto"
    _check(profile, options)
    tools = read_tools(prompt.tools) if profile.tools.calls else []
    if profile.tools.max_tools and len(tools) > profile.tools.max_tools:
        limit = profile.tools.max_tools
        raise InvalidInput(f"{len(tools)} tools, and {profile.endpoint} takes {limit}")
    stable, mended = turns_of(prompt.prefix)
    tail = tail_of(prompt.tail)
    sent: tuple[SentTail, ...] = ()
    now: tuple[SentTail, ...] = ()
    if thinking == "turn_append":
        sent = running(options.sent, prompt.prefix)
        if tail:
            sent, newest = observe(
                tail, sent, prompt.boundary, repeat=options.repeat, bound=profile.reasoning.bound
            )
            tail, now = newest.parts, (newest,)
    placed, moved = place_tail(
        with_sent(stable, sent, profile), tail, profile, prepend=options.prepend
    )
    # Kept tails go at the next user turn, so that what stands before the first one is stable.
    bare = stable
    if not tail and not sent:
        bare, _ = place_tail(stable, (Text("x"),), profile, prepend=options.prepend)
    weight = prefix_tokens(prompt)
    names = Names((tool.name for tool in tools), profile.tools)

    def draft(turns: list[PromptTurn], *, marking: bool = False) -> RequestDraft:
        return RequestDraft(
            prompt, profile, options, tools, names, turns, thinking, weight, marking,
            notes=[], headers={},
        )  # fmt: skip

    final = draft(placed, marking=True)
    if prompt.tools and not profile.tools.calls:
        final.note("no_tools", no_tools(profile))
    body, _ = write(final)
    unmarked, origins = write(draft(placed))
    other, _ = write(draft(bare))
    data = msgspec.json.encode(unmarked)
    boundary = common_bytes(data, msgspec.json.encode(other))
    if profile.cache.routing_header and options.conversation:
        final.headers[profile.cache.routing_header] = options.conversation
    path = profile.path if options.stream else profile.whole_path or profile.path
    return Request(
        profile=profile,
        path=path.replace("{model}", profile.model),
        headers=final.headers,
        body=body,
        wire=Wire(data, boundary, _spans(unmarked, origins, prompt)),
        names=names.changed,
        notes=(*mended, *moved, *final.notes),
        thinking=thinking,
        sent=(*sent, *now),
        marks=final.marks,
    )


def no_tools(profile: Profile) -> str:
    """Say that a model is offered none, whatever there is."""
    return f"{profile.model} cannot call tools: none are offered"


def _check(profile: Profile, options: Options) -> None:
    ttls = profile.cache.ttls
    if options.cache_ttl and options.cache_ttl not in ttls:
        have = ", ".join(ttls) or "no choice"
        asked = f"a cache lifetime of {options.cache_ttl!r}"
        raise InvalidInput(f"{profile.endpoint} does not have {asked}; it has {have}")
    if options.max_output_tokens is not None and options.max_output_tokens < 1:
        raise InvalidInput(f"max_output_tokens is {options.max_output_tokens}; it is 1 or more")
    for key in sorted(OURS.intersection([*profile.extra, *options.extra])):
        raise InvalidInput(f"extra: {key!r} is written from the prompt")
    if options.prepend and options.thinking == "turn_append":
        raise InvalidInput("turn_append: tails cannot stay in place where they are prepended")
    if options.cached_content and profile.dialect != "gemini":
        raise InvalidInput(f"{profile.endpoint} has no named cached content")


def prefix_tokens(prompt: Prompt) -> int:
    """Estimate the weight of tools and prefix, to compare with a vendor's minimum."""
    counter = counter_for("estimate")
    tools = msgspec.json.encode(list(prompt.tools)).decode() if prompt.tools else ""
    return sum(counter.weigh(prompt.prefix, remember=False)) + counter.count(tools)


def _spans(
    body: dict[str, Any], origins: list[tuple[int, ...]], prompt: Prompt
) -> tuple[ByteSpan, ...]:
    """Say which byte of the encoded body belongs to which message."""
    encode = msgspec.json.encode
    *fields, (key, items) = body.items()
    slots = slot_names(prompt)
    weights = counter_for("estimate").weigh(prompt.messages, remember=False)
    spans: list[ByteSpan] = []
    at = 1
    for name, value in fields:
        end = at + len(encode(name)) + 1 + len(encode(value)) + 1
        tokens = counter_for("estimate").count(encode(value).decode()) if name in HEADS else 0
        spans.append(ByteSpan(at, end, name, tokens=tokens))
        at = end
    at += len(encode(key)) + 2
    for number, (item, made_of) in enumerate(zip(items, origins, strict=True)):
        end = at + len(encode(item))
        known = [index for index in made_of if index >= 0]
        first = known[0] if known else -1
        slot = slots[first] if 0 <= first < len(slots) else ""
        tokens = sum(weights[index] for index in known)
        spans.append(ByteSpan(at, end, f"{key}[{number}]", slot, first, tokens))
        at = end + 1
    return tuple(spans)


# Parts of a body that a model reads before the messages, and all that is the prompt's own.
HEADS: Final = frozenset({"tools", "system", "systemInstruction", "toolConfig"})
OURS: Final = HEADS | {"messages", "input", "contents", "model"}


def slot_names(prompt: Prompt) -> list[str]:
    """Name the slot of every message of the prompt, as far as its receipt tells."""
    names: list[str] = []
    for line in prompt.receipt.slots:
        names += [line.name] * sum(message.is_present for message in line.messages)
    return names if len(names) == len(prompt.messages) else [""] * len(prompt.messages)
