"""A request as a value: the vendor's JSON, where its stable prefix ends, what was done to it.

The promise (law 6): while the stable slots of a prompt only grow, `prefix` of a
request is the beginning of the next one's bytes. So the messages are the last key
of every body, everything before them depends on the profile and the tools alone,
and nothing in a message depends on what stands after it.

Cache marks are the one exception, and they are no content: they move along with the
boundary, and no vendor counts them as part of what it compares. `wire` is therefore
the request without marks; `data` is what is sent: the same bytes with `inserts` put in.

A body is written once, as labelled segments (`segments`), so the boundary is known where
it is made: what stands before it is the same with any tail and with none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

import sightline.context.dialects.observations as observations
import sightline.context.dialects.segments as segments
from sightline._keywords import NamesKeywords
from sightline.context.dialects.drift import ByteSpan, Wire
from sightline.context.dialects.names import Names, ToolDefinition, placeholder, read_tools
from sightline.context.dialects.profile import CacheStyle, Profile
from sightline.context.dialects.turns import Note, PromptTurn, place_tail, tail_of, turns_of
from sightline.context.messages.parts import File, Message, Text
from sightline.context.projection.changes import ShownState
from sightline.context.slots.prompt import Notice, Prompt, Receipt
from sightline.context.tokens.tokens import counter_for
from sightline.errors import InvalidInput

Thinking: TypeAlias = Literal["auto", "drop", "strip", "turn_append"]
CACHED_CONTENT: Final = "cachedContent"
LOST: Final = {
    "drop": "the API drops reasoning of which the text before it has changed",
    "strip": "reasoning is left out: the text before it has changed, or took too much room",
}


class CachedContent(msgspec.Struct, frozen=True):
    """A named resource at the vendor's that holds tools, instructions and the first messages.

    With a `digest` (`gemini.Head`) it is used while the tools and instructions of the prompt have
    the same, and otherwise the request is written whole. `tokens` is what it weighs.
    """

    name: str
    messages: int
    digest: str = ""
    tokens: int = 0


class Options(msgspec.Struct, frozen=True, kw_only=True, metaclass=NamesKeywords):
    """What one request asks for beside the prompt.

    conversation        an id that stays the same for it: keeps its requests on one cache
    max_output_tokens   by default the vendor's own; where its API demands one, a quarter of the
                        window, at most what the model gives
    thinking            what becomes of bound reasoning; `auto` is the profile's way.
                        `turn_append` keeps the tails of a user turn, in every dialect
    sent                the tails of this user turn so far, for `turn_append`
    repeat              `brief`: a tail of `turn_append` that has not changed is a reference;
                        `turn`, `session`: it says what changed since the one before
    shown               what the tail shows of the apps, for `turn` and `session`
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
    sent: tuple[observations.SentTail, ...] = ()
    repeat: observations.Repeat = "whole"
    shown: ShownState | None = None
    prepend: bool = False
    previous_id: str = ""
    cached_content: CachedContent | None = None
    cache_ttl: str = ""
    extra: Mapping[str, Any] = {}


class Request(msgspec.Struct, frozen=True):
    """What to send, and what is worth knowing about it.

    `names` leads from the vendor's tool names back to ours where they differ; a decoder
    wants it. `sent` are the tails of this user turn, this one included, if `thinking` is
    `turn_append`: give them to the next request of the same turn, with `repeat="session"` to the
    next of the session, and store them nowhere.
    `inserts` are the cache marks and what the vendor is asked about them, with their offsets in
    `wire.data`; `marks` counts the marks. `cached_content` names what it builds upon.
    """

    profile: Profile
    path: str
    headers: dict[str, str]
    wire: Wire
    names: dict[str, str]
    notes: tuple[Note, ...] = ()
    thinking: Thinking = "auto"
    sent: tuple[observations.SentTail, ...] = ()
    marks: int = 0
    inserts: tuple[tuple[int, bytes], ...] = ()
    cached_content: str = ""

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        if not self.inserts:
            return self.wire.data
        rest, at = memoryview(self.wire.data), 0
        out: list[bytes | memoryview] = []
        for offset, inserted in self.inserts:
            out += rest[at:offset], inserted
            at = offset
        return b"".join((*out, rest[at:]))

    @property
    def body(self) -> dict[str, Any]:
        """The body as it is sent, as a value."""
        body: dict[str, Any] = msgspec.json.decode(self.data)
        return body

    @property
    def prefix(self) -> bytes:
        """The stable beginning, without cache marks."""
        return self.wire.prefix

    def receipt_of(self, prompt: Prompt) -> Receipt:
        """Return the prompt's receipt with the notes among its warnings, as a turn keeps it."""
        notices = tuple(Notice(note.code, "", note.message) for note in self.notes)
        receipt = prompt.receipt
        return msgspec.structs.replace(receipt, warnings=(*receipt.warnings, *notices))


class RequestDraft(msgspec.Struct, dict=True):
    """What a dialect works from, and what it has written so far: fields, messages, marks, notes.

    `key` is the name of the messages, which are the last field of a body; `cacheable` counts
    the messages of the prompt that a cache mark may stand behind.
    """

    prompt: Prompt
    profile: Profile
    options: Options
    thinking: Thinking
    turns: list[PromptTurn]
    cacheable: int
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    notes: list[Note] = msgspec.field(default_factory=list)
    marks: int = 0

    def __post_init__(self) -> None:
        self.tools = read_tools(self.prompt.tools) if self.profile.tools.calls else []
        self.names = Names((tool.name for tool in self.tools), self.profile.tools)
        self._memory = segments.memory_of(self.profile, tuple(self.names.changed))
        self._segments = segments.Segments(self._memory)
        self._field_inserts: list[tuple[str, int, bytes]] = []
        self._marked: tuple[list[int], bytes] = ([], b"")

    @property
    def max_output_tokens(self) -> int:
        """How much the model may say, for an API that demands to know."""
        limit = self.options.max_output_tokens
        profile = self.profile
        return limit or min(profile.max_output_tokens, max(1, profile.window_tokens // 4))

    @property
    def extra(self) -> dict[str, Any]:
        """The profile's own fields of the body, and those of this request, which win."""
        return {**self.profile.extra, **self.options.extra}

    def system_and_rest(self) -> tuple[list[PromptTurn], list[PromptTurn]]:
        """Split the instructions at the start from the conversation."""
        head = next((i for i, t in enumerate(self.turns) if t.role != "system"), len(self.turns))
        return self.turns[:head], self.turns[head:]

    def written_tools(
        self, write: Callable[[ToolDefinition], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Write the tools in a vendor's form, under names that it takes."""
        return [write(replace(tool, name=self.names.wire(tool.name))) for tool in self.tools]

    def messages(self, key: str, content: str = "") -> segments.Segments:
        """Begin the messages under this key; `content` is the key of their blocks, if they have."""
        self.key, self._segments = key, segments.Segments(self._memory, content)
        return self._segments

    def insert(self, field: str, before_end: int, data: bytes) -> None:
        """Put bytes into a field that the vendor's cache does not compare, such as marks."""
        self._field_inserts.append((field, before_end, data))

    def mark(
        self, data: bytes, fixed: str = "", before_end: int = 0, *, head: bool = False
    ) -> None:
        """Set cache marks on the messages, and one in the `fixed` field if there may be several.

        With `head` one of them is for the instructions, where these are messages, too. One that
        the request has of its own, for all of it, counts.
        """
        spent = int("cache_control" in self.extra)
        if fixed and self.profile.cache.max_marks > 1:
            self.insert(fixed, before_end, data)
            spent += 1
        first = max((turn.origin for turn in self.system_and_rest()[0]), default=-1) + 1
        ends = segments.earlier_ends(self.prompt.prefix)
        grows = self.options.repeat in observations.GROWING
        chosen = self._segments.marked(
            self.profile.cache, spent, ends, first if head else 0, edge=grows
        )
        self._marked, self.marks = (chosen, data), spent + len(chosen)

    def wants_marks(self, *styles: CacheStyle) -> bool:
        """Whether cache marks are to be set: the endpoint has them, and the prefix is long enough.

        Below the minimum a mark would be ignored at best, so there is none.
        """
        cache = self.profile.cache
        if cache.style not in styles:
            return False
        tokens = _json_tokens(segments.to_json(self.prompt.tools)) if self.prompt.tools else 0
        tokens += sum(self.weights[: self.cacheable])
        # SLOP, context injection, cache integration: below the threshold no synthetic marker.
        if tokens < cache.min_tokens:
            text = f"about {tokens} tokens of prefix, fewer than {cache.min_tokens}"
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

    def in_words(self, file: File) -> str:
        """Give the words that stand for a file which this API does not take, and say so."""
        self.note("file_as_text", f"{file.name or file.uri[:40]} ({file.mime}) is sent as words")
        return placeholder(file)

    @cached_property
    def weights(self) -> list[int]:
        """What each message of the prompt weighs, to compare with a vendor's minimum."""
        weigh = partial(counter_for("estimate").weigh, remember=False)
        return [*self._memory.weigh(self.prompt.prefix, weigh), *weigh(self.prompt.tail)]

    def joined(self) -> tuple[Wire, tuple[tuple[int, bytes], ...]]:
        """Put everything together: the request without its inserts, and these with their places."""
        spans: list[ByteSpan] = []
        out, at, ends = [b"{"], 1, {}
        for name, value in self.fields.items():
            data = segments.to_json(value)
            out.append(b"%b:%b," % (segments.to_json(name), data))
            start, at = at, at + len(out[-1])
            ends[name] = at - 1
            tokens = _json_tokens(data) if name in HEADS else 0
            if name == CACHED_CONTENT and self.options.cached_content is not None:
                tokens = self.options.cached_content.tokens
            if name in INSTRUCTIONS:
                spans += self._instruction_spans(start, out[-1], name)
            else:
                spans.append(ByteSpan(start, at, name, tokens=tokens))
        out.append(segments.to_json(self.key) + b":[")
        at += len(out[-1])
        joined = self._segments.join()
        out += joined.data, b"]}"
        spans += self._message_spans(joined, at)
        inserts = [(ends[name] - before, data) for name, before, data in self._field_inserts]
        chosen, mark = self._marked
        offsets = self._segments.mark_offsets(chosen, joined.ends)
        inserts += [(at + offset, mark) for offset in offsets]
        wire = Wire(b"".join(out), at + joined.boundary, tuple(spans))
        return wire, tuple(sorted(inserts, key=itemgetter(0)))

    def _instruction_spans(self, at: int, field: bytes, name: str) -> Iterator[ByteSpan]:
        """Yield the bytes of each message whose texts are in a field of the body."""
        slots, end = slot_names(self.prompt), 0
        for turn in self.system_and_rest()[0]:
            start, index = end, turn.origin
            for text in [segments.to_json(p.text) for p in turn.parts if isinstance(p, Text)]:
                end = field.index(text, end) + len(text)
            yield ByteSpan(at + start, at + end, name, slots[index], index, self.weights[index])

    def _message_spans(self, joined: segments.Joined, at: int) -> Iterator[ByteSpan]:
        """Yield the bytes of each message: of one that was merged, the part of each."""
        # The last of each is of what has no message: a tail, or words that a vendor needs.
        slots, weights = [*slot_names(self.prompt), ""], [*self.weights, 0]
        for number, (start, runs) in enumerate(joined.messages):
            for origin, end in runs:
                # A message that a tail was written into ends where the tail begins.
                until = joined.boundary if start < joined.boundary < end else end
                label, tokens = f"{self.key}[{number}]", weights[origin]
                yield ByteSpan(at + start, at + until, label, slots[origin], origin, tokens)
                start, weights[origin] = end, 0


def assemble(
    prompt: Prompt,
    profile: Profile,
    options: Options,
    write: Callable[[RequestDraft], None],
    bound: Thinking | None = None,
) -> Request:
    """Place the tail, write the prompt with a dialect's `write`, and return the request.

    `bound` is what a dialect that knows bound reasoning does with it unless somebody says.
    """
    _check(profile, options)
    thinking = options.thinking
    if bound is None:
        thinking = "turn_append" if thinking == "turn_append" else "auto"
    elif thinking == "auto" and profile.reasoning.bound:
        thinking = bound
    stable, mended = turns_of(prompt.prefix)
    live = _live_from(prompt.prefix)
    behind = next((at for at, turn in enumerate(stable) if turn.origin >= live), len(stable))
    stable[behind:] = [replace(turn, stable=False) for turn in stable[behind:]]
    tail = tail_of(prompt.tail)
    sent: tuple[observations.SentTail, ...] = ()
    now: tuple[observations.SentTail, ...] = ()
    if thinking == "turn_append":
        sent = observations.kept_of(options.sent, prompt.prefix, options.repeat)
        if tail:
            reasoned = (
                observations.reasoned_until(prompt.prefix) if profile.reasoning.bound else None
            )
            digest = observations.digest_of(prompt.prefix) if options.repeat == "session" else ""
            sent, newest = observations.observe(
                tail, sent, prompt.boundary, repeat=options.repeat, bound=reasoned,
                shown=options.shown, behind=digest,
            )  # fmt: skip
            tail, now = newest.parts, (newest,)
    kept = observations.with_sent(stable, sent, profile)
    placed, moved = place_tail(kept, tail, profile, prepend=options.prepend)
    if now and options.repeat in observations.GROWING and _writing_pays(profile):
        placed = observations.with_newest(placed)
    draft = RequestDraft(prompt, profile, options, thinking, placed, live)
    limit = profile.tools.max_tools
    if limit and len(draft.tools) > limit:
        raise InvalidInput(f"{len(draft.tools)} tools, and {profile.endpoint} takes {limit}")
    if prompt.tools and not profile.tools.calls:
        draft.note("no_tools", no_tools(profile))
    write(draft)
    if profile.cache.routing_header and options.conversation:
        draft.headers[profile.cache.routing_header] = options.conversation
    path = profile.path if options.stream else profile.whole_path or profile.path
    wire, inserts = draft.joined()
    return Request(
        profile=profile,
        path=path.replace("{model}", profile.model),
        headers=draft.headers,
        wire=wire,
        names=draft.names.changed,
        notes=(*mended, *moved, *draft.notes),
        thinking=thinking,
        sent=(*sent, *now),
        marks=draft.marks,
        inserts=inserts,
        cached_content=draft.fields.get(CACHED_CONTENT, ""),
    )


def _writing_pays(profile: Profile) -> bool:
    """Whether writing a token to the cache adds less to its price than reading it saves later."""
    prices = profile.prices
    one = prices.input or 1
    return (prices.cache_write or one) - one < one - (prices.cache_read or one)


def _live_from(prefix: Sequence[Message]) -> int:
    """Count the messages before the first that shows live state, which some layouts put so early.

    SLOP, context injection, cache integration: no explicit cache control after live state.
    """
    shows = (
        at for at, message in enumerate(prefix) if any(map(observations.is_block, message.parts))
    )
    return next(shows, len(prefix))


def no_tools(profile: Profile) -> str:
    """Write the notice that a model cannot call tools and is offered none."""
    return f"{profile.model} cannot call tools: none are offered"


def _check(profile: Profile, options: Options) -> None:
    ttls = profile.cache.ttls
    if options.cache_ttl and options.cache_ttl not in ttls:
        have = ", ".join(ttls) or "no choice"
        lifetime = f"a cache lifetime of {options.cache_ttl!r}"
        raise InvalidInput(f"{profile.endpoint} does not have {lifetime}; it has {have}")
    if options.max_output_tokens is not None and options.max_output_tokens < 1:
        raise InvalidInput(f"max_output_tokens is {options.max_output_tokens}; it is 1 or more")
    for key in sorted(OURS.intersection([*profile.extra, *options.extra])):
        raise InvalidInput(f"extra: {key!r} is written from the prompt")
    if options.prepend and options.thinking == "turn_append":
        raise InvalidInput("turn_append: tails cannot stay in place where they are prepended")
    if options.cached_content and profile.dialect != "gemini":
        raise InvalidInput(f"{profile.endpoint} has no named cached content")


@lru_cache(maxsize=16)
def _json_tokens(data: bytes) -> int:
    """Estimate the weight of tools or instructions, which are the same in most requests."""
    return counter_for("estimate").count(data.decode())


# Parts of a body that a model reads before the messages, and all that is the prompt's own.
INSTRUCTIONS: Final = frozenset({"system", "systemInstruction"})
HEADS: Final = INSTRUCTIONS | {"tools", "toolConfig"}
OURS: Final = HEADS | {"messages", "input", "contents", "model"}


def slot_names(prompt: Prompt) -> list[str]:
    """Name the slot of every message of the prompt, as far as its receipt tells."""
    names: list[str] = []
    for line in prompt.receipt.slots:
        names += [line.name] * line.present
    return names if len(names) == len(prompt.messages) else [""] * len(prompt.messages)
