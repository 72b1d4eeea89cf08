"""Messages as the vendors' own SDKs take and return them: read, written, and cached.

    messages = Messages.from_openai(history)
    messages.to_openai() == history, byte for byte

What was read from a vendor's form is given back to it as it stood, field order and unknown
spellings included; what comes from elsewhere (another vendor, a ledger, `Message`) is written by
the vendor's dialect. A kind of content that we cannot read is refused by its name.

`cached` is for who keeps a list of such dicts: it puts a tail behind it and cache marks before
that, and changes nothing of what it was given. What is marked is decided where every request's
marks are (`segments`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Any, Final, Protocol, Self, TypeAlias, overload

from sightline.context.dialects import anthropic, openai_chat
from sightline.context.dialects.observations import OPENINGS
from sightline.context.dialects.profile import Placement, Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Options, RequestDraft
from sightline.context.dialects.segments import (
    Segment,
    SegmentMemory,
    Segments,
    earlier_ends,
)
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import BETWEEN_TEXTS, Entry, Message, Role
from sightline.context.projection.tail import Tail
from sightline.context.slots.slots import Slots
from sightline.errors import InvalidInput


class SdkObject(Protocol):
    """A message or a block as an SDK returns it."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        """Write it as a dict."""
        ...


Given: TypeAlias = Mapping[str, Any]
VENDORS: Final = {"openai": "openai-chat"}
ANY_MODEL: Final = "-"
_MARKS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "cache_control": ("cache_control", {"type": "ephemeral"}),
    "breakpoint": ("prompt_cache_breakpoint", {"mode": "explicit"}),
}
# Anthropic, "Prompt caching": thinking blocks take no mark.
_UNMARKED: Final = frozenset({"thinking", "redacted_thinking"})


class Messages(Sequence[Message]):
    """A conversation in no vendor's format that knows how each vendor's was written."""

    def __init__(self, messages: Iterable[Message | Entry | Given] = ()) -> None:
        """Take neutral messages, a ledger's entries, or dicts as `Slots` takes them."""
        neutral = (m.message if isinstance(m, Entry) else message_given(m) for m in messages)
        self._items: tuple[tuple[Message, str, Given], ...] = tuple((m, "", {}) for m in neutral)

    @classmethod
    def from_openai(cls, messages: Iterable[Given | SdkObject]) -> Self:
        """Read the messages of a Chat Completions request. Raises `InvalidInput`."""
        return cls._read(openai_chat.NAME, messages)

    @classmethod
    def from_anthropic(cls, messages: Iterable[Given | SdkObject], system: str = "") -> Self:
        """Read the messages of a Messages request, and its instructions. Raises `InvalidInput`."""
        read = cls._read(anthropic.NAME, messages)
        if system:
            read._items = ((Message.of("system", system), "", {}), *read._items)
        return read

    @classmethod
    def _read(cls, dialect: str, messages: Iterable[Given | SdkObject]) -> Self:
        read, items = cls(), []
        for number, given in enumerate(messages):
            try:
                plain = _plain(given)
                message = _READERS[dialect](plain)
            except InvalidInput as error:
                raise InvalidInput(f"messages[{number}]: {error}") from error
            items.append((message, dialect, plain))
        read._items = tuple(items)
        return read

    def to_openai(self) -> list[dict[str, Any]]:
        """Write them as the messages of a Chat Completions request."""
        return list(self._written(openai_chat.NAME, self._items))

    def to_anthropic(self) -> list[dict[str, Any]]:
        """Write them as the messages of a Messages request; `system` is a field of its own there.

        Raises `InvalidInput` for instructions that stand between other messages.
        """
        items = self._items[self._instructions :]
        if any(message.role == "system" for message, *_ in items):
            raise InvalidInput("a system message behind others has no form in Anthropic's messages")
        return list(self._written(anthropic.NAME, items))

    @property
    def system(self) -> str:
        """The instructions that stand first, as Anthropic's `system` takes them."""
        return "\n\n".join(message.text for message in self[: self._instructions])

    @property
    def _instructions(self) -> int:
        roles = (message.role for message in self)
        return next((at for at, role in enumerate(roles) if role != "system"), len(self))

    @staticmethod
    def _written(
        dialect: str, items: Iterable[tuple[Message, str, Given]]
    ) -> Iterator[dict[str, Any]]:
        for is_theirs, run in groupby(items, lambda item: item[1] == dialect):
            if is_theirs:
                yield from (deepcopy(dict(given)) for _, _, given in run)
            else:
                yield from _WRITERS[dialect](_draft(dialect), [message for message, *_ in run])

    def __add__(self, more: Iterable[Message | Entry | Given]) -> Messages:
        added = more if isinstance(more, Messages) else Messages(more)
        joined = Messages()
        joined._items = (*self._items, *added._items)
        return joined

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(message for message, *_ in self._items[index])
        return self._items[index][0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Messages) and self[:] == other[:]

    __hash__ = None  # type: ignore[assignment] # the dicts in it have none

    def __repr__(self) -> str:
        return f"Messages({list(self)!r})"


def _plain(given: object) -> dict[str, Any]:
    """Copy a message of a list; an SDK's own object, or one in its content, becomes a dict."""
    dump = getattr(given, "model_dump", None)
    # What was not set stays away, as when the SDK itself sends the object.
    value = dump(mode="json", exclude_unset=True) if callable(dump) else given
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{given!r:.60} is not a message")
    plain = deepcopy(dict(value))
    if isinstance(content := plain.get("content"), list | tuple):
        plain["content"] = [_plain(block) for block in content]
    return plain


@lru_cache(maxsize=2)
def _draft(dialect: str) -> RequestDraft:
    """Make a draft of a request that messages are written for, one by one."""
    if dialect == anthropic.NAME:
        profile = profile_for(dialect, ANY_MODEL)
    else:
        profile = Profile(endpoint=dialect, model=ANY_MODEL, dialect=openai_chat.NAME)
    prompt = Slots(0, "chars/4").render()
    return RequestDraft(prompt, profile, Options(), "auto", [], 0)


def _anthropic_message(given: Given) -> Message:
    try:
        return anthropic.read_stored(given)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(f"not a message of Anthropic's: {error!r}") from error


_READERS: Final = {openai_chat.NAME: message_given, anthropic.NAME: _anthropic_message}
_WRITERS: Final = {
    openai_chat.NAME: openai_chat.write_messages,
    anthropic.NAME: anthropic.write_messages,
}


def cached(
    messages: Sequence[Given | SdkObject],
    tail: Tail | str,
    *,
    vendor: str,
    model: str = "",
    marked: int = 0,
) -> list[dict[str, Any]]:
    """Return the messages with the tail behind them and cache marks before it.

    `vendor` is `anthropic`, `openai` or another endpoint of `sightline doctor` that speaks one of
    their APIs, `model` the model's id where the rules depend on it. `marked` are the marks that
    the request has in its tools and instructions. The list and its dicts stay as they are; a
    mark of the list's own stays, and counts.
    """
    profile = profile_for(VENDORS.get(vendor, vendor), model or ANY_MODEL)
    if profile.dialect not in _WRITERS:
        raise InvalidInput(f"{vendor} does not take the messages of OpenAI's chat or Anthropic's")
    placed = [_plain(message) for message in messages]
    at = _tail_index(placed, profile)
    field, mark = _MARKS.get(profile.cache.style, ("", {}))
    if field:
        for message in placed:
            message["content"] = _in_blocks(message, profile)
        for block in _to_mark(placed[:at], profile, field, marked):
            block[field] = dict(mark)
    text = str(tail)
    return _with_tail(placed, at, text, profile) if text else placed


def _in_blocks(message: Given, profile: Profile) -> Any:
    """Write a text as a list of one block, which can be marked; a text of nothing stays."""
    content = message.get("content")
    takes = profile.dialect == anthropic.NAME or message.get("role") != "assistant"
    if not isinstance(content, str) or not content.strip() or not takes:
        return content
    return [{"type": "text", "text": content}]


def _to_mark(
    messages: Sequence[Given], profile: Profile, field: str, marked: int
) -> Iterator[dict[str, Any]]:
    """Choose the blocks that get a mark: none behind live state, and no more than there may be."""
    segments, blocks = Segments(SegmentMemory()), []
    stable = True
    for number, message in enumerate(messages):
        role, content = message.get("role", ""), message.get("content")
        listed = content if isinstance(content, list) else [{}]
        stable = stable and not any(map(_is_live, listed))
        takes = profile.dialect == anthropic.NAME or role != "assistant"
        for block in listed:
            marks = takes and bool(block) and block.get("type") not in _UNMARKED
            segments.extend([Segment(role, b"{}", int(marks))], number, stable=stable)
            blocks.append(block)
    spent = marked + sum(field in block for block in blocks)
    roles = (message.get("role") in ("system", "developer") for message in messages)
    head = sum(1 for _ in takewhile(bool, roles)) if profile.cache.style == "breakpoint" else 0
    ends = earlier_ends([Message(_speaker(message)) for message in messages])
    return (blocks[at] for at in segments.marked(profile.cache, spent, ends, head))


def _speaker(message: Given) -> Role:
    """Say who speaks: of Anthropic's user messages those with results are the tools'."""
    content, role = message.get("content"), message.get("role")
    listed = content if isinstance(content, list) else []
    if role == "tool" or any(block.get("type") == "tool_result" for block in listed):
        return "tool"
    return "assistant" if role == "assistant" else "user" if role == "user" else "system"


def _is_live(block: Given) -> bool:
    text = block.get("text")
    return isinstance(text, str) and text.startswith(OPENINGS)


def _tail_index(messages: Sequence[Given], profile: Profile) -> int:
    """Find the message before which the tail comes: the end, or behind the user's last words."""
    if _placement(messages, profile) != "into_user":
        return len(messages)
    spoken = (at for at in reversed(range(len(messages))) if messages[at].get("role") == "user")
    return next(spoken, len(messages) - 1) + 1


def _placement(messages: Sequence[Given], profile: Profile) -> Placement:
    after_tools = bool(messages) and messages[-1].get("role") == "tool"
    return profile.tail.after_tools if after_tools else profile.tail.plain


def _with_tail(
    messages: list[dict[str, Any]], at: int, text: str, profile: Profile
) -> list[dict[str, Any]]:
    placement = _placement(messages, profile)
    block = {"type": "text", "text": text}
    last = messages[at - 1] if at else {}
    joins = profile.dialect == anthropic.NAME or placement == "into_user"
    if joins and last.get("role") == "user":
        content = last["content"]
        last["content"] = [*content, block] if isinstance(content, list) else _joined(content, text)
        return messages
    in_blocks = profile.cache.style in _MARKS
    added = {"role": "user", "content": [block] if in_blocks else text}
    filler = [{"role": "assistant", "content": profile.tail.filler}]
    return [*messages, *(filler if placement == "filler" else []), added]


def _joined(content: str, text: str) -> str:
    return BETWEEN_TEXTS.join(filter(None, (content, text)))
