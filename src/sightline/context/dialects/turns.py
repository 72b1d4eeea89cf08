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

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from sightline.context.dialects.attachments import placeholder
from sightline.context.dialects.profile import Profile, TailRules
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import InvalidInput

__all__ = ["Note", "PromptTurn", "place_tail", "tail_of", "turns_of"]

UNANSWERED: Final = "error: the call was interrupted; whether it took effect is unknown"
BLANK: Final = "(blank)"
TurnRole: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Note(msgspec.Struct, frozen=True):
    """Something a dialect did that is not in the prompt. `code` never changes its meaning."""

    code: str
    message: str


class PromptTurn(msgspec.Struct, frozen=True):
    """What one side says at once. `origin` is the message it is from, -1 for none.

    `stable` turns are before the boundary; `tail` holds volatile parts that had to be
    put into a stable turn.
    """

    role: TurnRole
    parts: tuple[Part, ...]
    origin: int = -1
    stable: bool = True
    tail: tuple[Part, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def turns_of(messages: Sequence[Message]) -> tuple[list[PromptTurn], list[Note]]:
    """Turn the stable messages into turns, in order, and say what had to be mended."""
    answers, notes = _answers(messages)
    turns: list[PromptTurn] = []
    for index, message in enumerate(messages):
        said: tuple[Part, ...]
        said = tuple(p for p in message.parts if not isinstance(p, ToolResult) and not _empty(p))
        if message.role != "assistant":
            said = tuple(part for part in said if isinstance(part, Text | File))
        if _is_blank(message) and not any(isinstance(p, Text | ToolCall | File) for p in said):
            # It stays, in words: without it two turns of one role would become one.
            said = (*said, Text(BLANK))
        if message.role in ("assistant", "system"):
            said = tuple(_in_words(part, index, notes) for part in said)
        if said:
            role: TurnRole = "user" if message.role == "tool" else message.role
            turns.append(PromptTurn(role, said, index))
            turns += _round(index, message, answers, notes)
    return turns, notes


def _answers(
    messages: Sequence[Message],
) -> tuple[dict[int, list[tuple[int, ToolResult]]], list[Note]]:
    """Find for every message with calls the results that answer it, with where they stood."""
    callers: dict[str, int] = {}
    answers: dict[int, list[tuple[int, ToolResult]]] = {}
    notes: list[Note] = []
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall) and message.role == "assistant":
                callers[part.id] = index
            elif isinstance(part, ToolResult):
                caller = callers.get(part.call_id)
                known = answers.setdefault(caller, []) if caller is not None else None
                if known is None or any(part.call_id == other.call_id for _, other in known):
                    what = "answers no call" if known is None else "answers a call again"
                    text = f"message {index}: a result {what} ({part.call_id}), and was left out"
                    notes.append(Note("orphan_result", text))
                else:
                    known.append((index, part))
    return answers, notes


def _round(
    index: int,
    message: Message,
    answers: dict[int, list[tuple[int, ToolResult]]],
    notes: list[Note],
) -> list[PromptTurn]:
    """Return the results of a message's calls, one turn per message they came in."""
    by_message: dict[int, list[Part]] = {}
    for origin, result in answers.get(index, ()):
        by_message.setdefault(origin, []).append(result)
    turns = [PromptTurn("tool", tuple(parts), origin) for origin, parts in by_message.items()]
    answered = {result.call_id for _, result in answers.get(index, ())}
    open_calls = [call for call in message.tool_calls if call.id not in answered]
    if message.role == "assistant" and open_calls:
        made = tuple(ToolResult(c.id, UNANSWERED, c.name, is_error=True) for c in open_calls)
        turns.append(PromptTurn("tool", made))
        names = ", ".join(call.name for call in open_calls)
        text = f"message {index}: no result for {names}; an error result was put in"
        notes.append(Note("unanswered_call", text))
    return turns


def _is_blank(message: Message) -> bool:
    return any(isinstance(part, Text) and part.text for part in message.parts)


def _in_words(part: Part, index: int, notes: list[Note]) -> Part:
    """Speak of a file where no vendor takes one: in what the model said or the host instructs."""
    if not isinstance(part, File):
        return part
    text = f"message {index}: {part.name or part.uri[:40]} is spoken of, as it is not the user's"
    notes.append(Note("file_as_text", text))
    return Text(placeholder(part))


def _empty(part: Part) -> bool:
    """Whether there is nothing to send. Some vendors refuse a text of nothing but blanks."""
    if isinstance(part, Text):
        return not part.text.strip()
    return isinstance(part, Reasoning) and not part.text and part.raw is None


def tail_of(messages: Sequence[Message]) -> tuple[Part, ...]:
    """Return the parts of the volatile messages; raise `InvalidInput` for what is no observation.

    Whatever their role, they are sent as the user's: state is untrusted and gets no
    better standing than that.
    """
    parts: list[Part] = []
    for message in messages:
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
    """Put the tail where this API accepts it."""
    if not tail:
        return list(turns), []
    volatile = PromptTurn("user", tail, stable=False)
    after_tools = bool(turns) and turns[-1].role == "tool"
    rule: TailRules = profile.tail
    placement = "prepend" if prepend else rule.after_tools if after_tools else rule.plain
    if placement == "prepend":
        # Behind the instructions at least, which are the host's own and do not change.
        head = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
        text = "the tail stands before the history: every change of state voids the cached prefix"
        return [*turns[:head], volatile, *_behind(turns[head:])], [Note("prepend_regression", text)]
    if placement == "into_user":
        return _into_user(turns, tail, volatile)
    if placement == "filler" and after_tools:
        filler = PromptTurn("assistant", (Text(rule.filler),), stable=False)
        text = f"an assistant message {rule.filler!r} stands between tool results and the tail"
        return [*turns, filler, volatile], [Note("filler", text)]
    return [*turns, volatile], []


def _into_user(
    turns: Sequence[PromptTurn], tail: tuple[Part, ...], volatile: PromptTurn
) -> tuple[list[PromptTurn], list[Note]]:
    last = next((i for i in reversed(range(len(turns))) if turns[i].role == "user"), None)
    if last is None:
        return [*turns, volatile], []
    merged = msgspec.structs.replace(turns[last], tail=tail)
    later = len(turns) - last - 1
    notes = []
    if later:
        text = f"the tail is in the last user message; {later} later turns are evaluated again"
        notes.append(Note("tail_before_tool_rounds", text))
    return [*turns[:last], merged, *_behind(turns[last + 1 :])], notes


def _behind(turns: Sequence[PromptTurn]) -> list[PromptTurn]:
    """Turns that stand behind the tail: no cache mark is of use there."""
    return [msgspec.structs.replace(turn, stable=False) for turn in turns]
