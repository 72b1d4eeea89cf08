"""Messages and their parts, in no vendor's format, and their place in a conversation.

A message is a role and a tuple of parts. Parts say what was meant (text, a tool
call, its result, reasoning, a file); a dialect turns them into a vendor's JSON
and back. Where a vendor demands that its own bytes come back unchanged (signed
reasoning, for example), the part carries them in `raw`, tagged with the
strategy that wrote them; every other reader ignores it.

Values are frozen, compare by content, and survive `encode` → `decode`.

A tool call and its results are one unit: `units_of` says which messages enter
or leave a prompt together.

An `Entry` is one stored message as a value, which is what the ledger hands out. Window,
truncation, isolation and state stripping are functions from entries to entries; none of
them changes what is stored, so any of them can be undone by asking the ledger again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from sightline._keywords import NamesKeywords
from sightline.errors import InvalidInput

BETWEEN_TEXTS: Final = "\n\n"
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Raw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vendor's own form of a part, to be replayed to that strategy and to nobody else."""

    strategy: str
    data: Any


class _Part(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"
):
    pass


class Text(_Part, frozen=True, tag="text"):
    """Plain text, as said or as shown."""

    text: str
    raw: Raw | None = None


# The one argument of a call whose arguments were no JSON object: what stood there instead.
UNREADABLE: Final = "unreadable_arguments"


class ToolCall(_Part, frozen=True, tag="tool_call"):
    """The model asks for a tool. `id` is ours; dialects map it to what their vendor accepts."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: Raw | None = None


class ToolResult(_Part, frozen=True, tag="tool_result"):
    """What a tool answered to the call with this id."""

    call_id: str
    content: str
    name: str = ""
    is_error: bool = False
    raw: Raw | None = None


class Reasoning(_Part, frozen=True, tag="reasoning"):
    """The model's own thinking, where the vendor shows it."""

    text: str
    raw: Raw | None = None


class File(_Part, frozen=True, tag="file"):
    """A reference to an image or file; its bytes live elsewhere.

    `width` and `height` let an image be weighed by its vendor's rule; `tokens`
    declares the weight outright and wins over every rule.
    """

    uri: str
    mime: str
    name: str = ""
    size: int | None = None
    raw: Raw | None = None
    width: int | None = None
    height: int | None = None
    tokens: int | None = None


Part: TypeAlias = Text | ToolCall | ToolResult | Reasoning | File


class Message(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    metaclass=NamesKeywords,
):
    """One entry of a conversation; `Message("user", "hello")` is one of one text."""

    role: Role
    parts: tuple[Part, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, role: Role, parts: str | Sequence[Part] = ()) -> None: ...

    def __post_init__(self) -> None:
        """Take a text or a list in the place of the parts. Raises InvalidInput for others."""
        if type(self.parts) is not tuple:
            parts: Any = self.parts
            if isinstance(parts, str):
                parts = (Text(parts),)
            elif not isinstance(parts, list):
                raise InvalidInput(f"a message is a text or a list of parts, not {parts!r:.60}")
            msgspec.structs.force_setattr(self, "parts", tuple(parts))

    @classmethod
    def of(cls, role: Role, text: str) -> Message:
        """Make a message of one text."""
        return cls(role, (Text(text),))

    @property
    def text(self) -> str:
        """The text parts, joined by blank lines."""
        return BETWEEN_TEXTS.join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


class Input(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the user says this turn: text with attachments."""

    text: str
    files: tuple[File, ...] = ()

    def message(self, role: Role = "user") -> Message:
        """Make the message that says it; a text of nothing leaves only the files."""
        text = (Text(self.text),) if self.text else ()
        return Message(role, (*text, *self.files))


def tool_rounds(messages: Sequence[Message]) -> list[tuple[int, ...]]:
    """Find the messages that enter or leave a prompt together, as tuples of indexes.

    A result belongs to the latest earlier call with its id (vendors reuse ids from
    turn to turn), or else to the next one. A message that answers several calls joins
    all of them. Rounds come in the order of their first message; a message that is in
    none stands alone. One pass, and almost no work for plain text.
    """
    home: dict[int, int] = {}
    callers: dict[str, int] = {}
    waiting: dict[str, int] = {}

    def root_of(index: int) -> int:
        while (above := home.get(index, index)) != index:
            home[index] = home.get(above, above)
            index = above
        return index

    def join(one: int, other: int) -> None:
        one, other = root_of(one), root_of(other)
        if one != other:
            home[max(one, other)] = min(one, other)

    not_plain = [
        index
        for index, message in enumerate(messages)
        if len(message.parts) != 1 or type(message.parts[0]) is not Text
    ]
    for index in not_plain:
        for part in messages[index].parts:
            if isinstance(part, ToolCall):
                callers[part.id] = index
                if part.id in waiting:
                    join(waiting.pop(part.id), index)
            elif isinstance(part, ToolResult):
                caller = callers.get(part.call_id)
                if caller is None:
                    caller = waiting.setdefault(part.call_id, index)
                if caller in home or index in home:
                    join(caller, index)
                elif caller != index:
                    home[index] = caller
    rounds: dict[int, list[int]] = {}
    for index in sorted(home):
        rounds.setdefault(root_of(index), []).append(index)
    return [(first, *rounds[first]) for first in sorted(rounds)]


def units_of(messages: Sequence[Message]) -> list[tuple[int, ...]]:
    """Return the tool rounds and, between them, every other message as a unit of its own."""
    rounds = {unit[0]: unit for unit in tool_rounds(messages)}
    later = {index for unit in rounds.values() for index in unit[1:]}
    return [rounds.get(i, (i,)) for i in range(len(messages)) if i not in later]


Outcome: TypeAlias = Literal["complete", "tool_call", "incomplete"]
Status: TypeAlias = Literal["complete", "tool_call", "incomplete", "dropped"]
Basis: TypeAlias = Literal["counted", "estimated", "reported"]


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message on its way into the ledger.

    `tokens` is its weight and `basis` says where that number came from; what comes
    without one is weighed by estimate. `incomplete` marks a reply whose stream broke off.
    """

    message: Message
    tokens: int | None = None
    basis: Basis = "estimated"
    incomplete: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A stored message. `id` is unique in its ledger; `seq` is its place in its session."""

    id: int
    session_id: int
    group_id: int
    seq: int
    message: Message
    status: Status
    parsing_strategy: str
    tokens: int
    basis: Basis
    created_at: str
    usage_id: int | None = None

    @property
    def role(self) -> Role:
        return self.message.role

    @property
    def is_tool_traffic(self) -> bool:
        """Whether it carries a tool call or a tool's answer."""
        return self.role == "tool" or bool(self.message.tool_calls or self.message.tool_results)

    def with_parts(self, parts: Iterable[Part]) -> Entry:
        """Show the same entry with other parts; itself, if they are the same."""
        parts = tuple(parts)
        if parts == self.message.parts:
            return self
        return msgspec.structs.replace(self, message=Message(self.role, parts))


_HELD_CHARS: Final = 16 * 1024 * 1024


class EntryMemory:
    """Cache of entries that a rule has rewritten, so that no request rewrites all of them.

    An entry is known by its own object, which is held: the ledger hands the same ones out
    again. What is returned is the same object each time, too, so that its weight is known.
    """

    def __init__(self) -> None:
        self._results: dict[int, tuple[Entry, Hashable, Entry]] = {}
        self._room = _HELD_CHARS

    def of(self, entry: Entry, rule: Hashable, chars: int, make: Callable[[], Entry]) -> Entry:
        """Return what `make` returns for an entry of so many characters by this rule; cached."""
        known = self._results.get(id(entry))
        if known is not None and known[0] is entry and known[1] == rule:
            return known[2]
        result = make()
        self._room -= chars
        if self._room < 0:
            self._results, self._room = {}, _HELD_CHARS
        self._results[id(entry)] = (entry, rule, result)
        return result


def outcome_of(message: Message, *, incomplete: bool = False) -> Outcome:
    """Name how a message ended: broken off, waiting for its tools, or complete."""
    if incomplete:
        return "incomplete"
    return "tool_call" if message.tool_calls else "complete"


def by_group(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Split a run of entries at its group boundaries, in order."""
    for group_id, run in groupby(entries, key=lambda entry: entry.group_id):
        yield group_id, list(run)
