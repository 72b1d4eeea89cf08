"""A prompt as the turns that every vendor wants: calls answered at once, the tail in its place.

The promises: in what `turns_of` returns every tool call is followed by its result
before anything else is said, no result lacks its call, no text is blank, files are the
user's, and state never stands in an assistant's message or in a tool's result. What had
to be mended is in the notes.

A call that was never answered (the stream or the program broke off) gets an error
result that says so. A host that stores such results itself keeps its prefix stable;
one that does not loses it from that call on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.dialects.names import placeholder
from sightline.context.dialects.profile import Profile, TailRules
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import InvalidInput

UNANSWERED: Final = "error: the call was interrupted; whether it took effect is unknown"
BLANK: Final = "(blank)"
START: Final = "(the conversation begins with the assistant's message)"
OTHER_KINDS: Final = (Text, File)
REPLY_KINDS: Final = (Text, ToolCall, Reasoning, File)


class Note(msgspec.Struct, frozen=True):
    """Something a dialect did that is not in the prompt. `code` never changes its meaning."""

    code: str
    message: str


class PromptTurn(msgspec.Struct, frozen=True):
    """What one side says at once. `origin` is the message it is from, -1 for none.

    `stable` turns will be there in the next request; `tail` holds volatile parts that had to be
    put into a stable turn. The boundary is behind the first `edge` parts of the first turn that
    has an edge: what follows there is a tail, or, without any part, the place of one.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: int = -1
    stable: bool = True
    tail: tuple[Part, ...] = ()
    edge: int | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Answers: TypeAlias = dict[int, list[tuple[int, ToolResult]]]


def turns_of(messages: Sequence[Message]) -> tuple[list[PromptTurn], list[Note]]:
    """Turn the stable messages into turns, in order, and say what had to be mended.

    What is sent as it is has the very tuple of its message's parts.
    """
    answers, notes = _answers(messages)
    turns: list[PromptTurn] = []
    for index, message in enumerate(messages):
        parts = _parts_to_send(message, index, notes)
        if parts:
            role: Role = "user" if message.role == "tool" else message.role
            turns.append(PromptTurn(role, parts, index))
            if index in answers:
                turns += _round(index, messages, answers[index], notes)
    return turns, notes


def _parts_to_send(message: Message, index: int, notes: list[Note]) -> tuple[Part, ...]:
    """Return what a message says in its own turn, results left out."""
    parts, role = message.parts, message.role
    if _is_plain(parts) and not _empty(parts[0]):
        return parts
    kinds = REPLY_KINDS if role == "assistant" else OTHER_KINDS
    kept: tuple[Part, ...] = tuple(
        [part for part in parts if isinstance(part, kinds) and not _empty(part)]
    )
    if len(kept) == len(parts) and not any(type(part) is File for part in parts):
        return parts
    if not any(isinstance(p, Text | ToolCall | File) for p in kept) and any(
        isinstance(part, Text) and part.text for part in parts
    ):
        # It stays, in words: without it two turns of one role would become one.
        kept = (*kept, Text(BLANK))
    if role in ("assistant", "system"):
        kept = tuple(_in_words(part, index, notes) for part in kept)
    return kept


def _answers(messages: Sequence[Message]) -> tuple[Answers, list[Note]]:
    """Find for every message with calls the results that answer it, with where they stood."""
    callers: dict[str, tuple[int, str]] = {}
    answers: Answers = {}
    notes: list[Note] = []
    for index, message in enumerate(messages):
        for part in () if _is_plain(message.parts) else message.parts:
            if isinstance(part, ToolCall) and message.role == "assistant":
                callers[part.id] = index, part.name
                answers.setdefault(index, [])
            elif isinstance(part, ToolResult):
                caller, name = callers.get(part.call_id, (-1, ""))
                known = answers.get(caller)
                if known is None or any(part.call_id == other.call_id for _, other in known):
                    what = "answers no call" if known is None else "answers a call again"
                    text = f"a result {what} ({part.call_id}), and was left out"
                    notes.append(Note("orphan_result", f"{_in_request(index)}: {text}"))
                else:
                    # Some APIs want the name of the call again, whether or not the result has it.
                    same = part.name == name or not name
                    named = part if same else msgspec.structs.replace(part, name=name)
                    known.append((index, named))
    return answers, notes


def _round(
    index: int,
    messages: Sequence[Message],
    answers: list[tuple[int, ToolResult]],
    notes: list[Note],
) -> list[PromptTurn]:
    """Return the results of a message's calls, one turn per message they came in."""
    by_message: dict[int, list[Part]] = {}
    for origin, result in answers:
        by_message.setdefault(origin, []).append(result)
    turns = []
    for origin, results in by_message.items():
        parts, whole = tuple(results), messages[origin].parts
        turns.append(PromptTurn("tool", whole if parts == whole else parts, origin))
    answered = {result.call_id for _, result in answers}
    asking = messages[index].parts
    open_calls = [c for c in asking if isinstance(c, ToolCall) and c.id not in answered]
    if open_calls:
        stand_ins = tuple(ToolResult(c.id, UNANSWERED, c.name, is_error=True) for c in open_calls)
        turns.append(PromptTurn("tool", stand_ins))
        names = ", ".join(call.name for call in open_calls)
        text = f"no result for {names}; an error result was put in"
        notes.append(Note("unanswered_call", f"{_in_request(index)}: {text}"))
    return turns


def _is_plain(parts: tuple[Part, ...]) -> bool:
    """Whether there is one text and nothing else: most messages, and nothing to look for."""
    return len(parts) == 1 and type(parts[0]) is Text


def _in_words(part: Part, index: int, notes: list[Note]) -> Part:
    """Put words in place of a file of the assistant's or the system's: no vendor takes one."""
    if not isinstance(part, File):
        return part
    text = f"{part.name or part.uri[:40]} is spoken of, as it is not the user's"
    notes.append(Note("file_as_text", f"{_in_request(index)}: {text}"))
    return Text(placeholder(part))


def _in_request(index: int) -> str:
    """Name a message of a prompt as `/context show` numbers it."""
    return f"message {index} of the request"


def _empty(part: Part) -> bool:
    """Whether there is nothing to send. Some vendors refuse a text of nothing but blanks."""
    if isinstance(part, Text):
        return not part.text or part.text.isspace()
    return isinstance(part, Reasoning) and not part.text and part.raw is None


def texts_of(turns: Iterable[PromptTurn]) -> list[str]:
    """Return the texts in turns, such as those of the instructions."""
    return [part.text for turn in turns for part in turn.parts if isinstance(part, Text)]


def last_question(turns: Sequence[PromptTurn]) -> int:
    """Return where the last turn stands that the user said; -1 if there is none."""
    users = (i for i, turn in enumerate(turns) if turn.role == "user" and turn.origin >= 0)
    return max(users, default=-1)


def own_form(part: Part, dialect: str) -> Any:
    """Return a part as this dialect's vendor made it; None if another one did, or nobody."""
    return part.raw.data if part.raw is not None and part.raw.strategy == dialect else None


def own_thoughts(parts: Iterable[Part], dialect: str) -> list[str]:
    """Return the texts of the reasoning that this dialect's vendor did."""
    thoughts = (part for part in parts if isinstance(part, Reasoning))
    return [part.text for part in thoughts if own_form(part, dialect) is not None]


def begun(turns: Sequence[PromptTurn], start: str = START) -> list[PromptTurn]:
    """Put a user turn of these words first, for vendors that refuse a model's turn there."""
    first = next((i for i, turn in enumerate(turns) if turn.parts), len(turns))
    if all(turn.role != "assistant" for turn in turns[first : first + 1]):
        return list(turns)
    return [*turns[:first], PromptTurn("user", (Text(start),)), *turns[first:]]


def tail_of(messages: Sequence[Message]) -> tuple[Part, ...]:
    """Return the parts of the volatile messages; raise `InvalidInput` for what is no observation.

    Whatever their role, they are sent as the user's: state is untrusted and gets no
    better standing than that.
    """
    parts: list[Part] = []
    for message in messages:
        # SLOP, context injection, placement: not inside an assistant message or a tool result.
        if message.role in ("assistant", "tool"):
            raise InvalidInput(f"the tail has a message of role {message.role!r}; it is for state")
        for part in message.parts:
            if not isinstance(part, Text | File):
                raise InvalidInput("the tail has a tool call or reasoning; it is for state")
            if not _empty(part):
                parts.append(part)
    return tuple(parts)


def place_tail(
    turns: Sequence[PromptTurn], tail: tuple[Part, ...], profile: Profile, *, prepend: bool = False
) -> tuple[list[PromptTurn], list[Note]]:
    """Put the tail where this API accepts it, or an edge where there is none."""
    volatile = PromptTurn("user", tail, stable=False, edge=0)
    after_tools = bool(turns) and turns[-1].role == "tool"
    rule: TailRules = profile.tail
    placement = "prepend" if prepend else rule.after_tools if after_tools else rule.plain
    placed, note = [*turns, volatile], None
    if placement == "prepend":
        # SLOP, context injection, placement: prepend-only hosts, a known cache regression.
        # Behind the instructions at least, which are the host's own and do not change.
        head = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
        placed = [*turns[:head], volatile, *_behind(turns[head:], tail)]
        text = "the tail stands before the history: every change of state voids the cached prefix"
        note = Note("prepend_regression", text)
    elif placement == "into_user":
        last = next((i for i in reversed(range(len(turns))) if turns[i].role == "user"), None)
        if last is not None:
            turn, later = turns[last], turns[last + 1 :]
            edge = len(turn.parts) if turn.edge is None else turn.edge
            merged = msgspec.structs.replace(turn, tail=tail, edge=edge)
            placed = [*turns[:last], merged, *_behind(later, tail)]
            if later:
                text = f"in the last user message; {len(later)} later turns are evaluated again"
                note = Note("tail_before_tool_rounds", f"the tail is {text}")
    elif placement == "filler" and after_tools:
        filler = PromptTurn("assistant", (Text(rule.filler),) if tail else (), -1, False, (), 0)
        placed = [*turns, filler, volatile]
        text = f"an assistant message {rule.filler!r} stands between tool results and the tail"
        note = Note("filler", text)
    return placed, [note] if note and tail else []


def _behind(turns: Sequence[PromptTurn], tail: tuple[Part, ...]) -> list[PromptTurn]:
    """Turns that stand behind the tail, if there is one: no cache mark is of use there."""
    return [msgspec.structs.replace(t, stable=False) for t in turns] if tail else list(turns)
