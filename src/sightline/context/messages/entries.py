"""What the ledger hands out: messages with their place in a conversation.

An `Entry` is one stored message as a value. Window, truncation, isolation and
state stripping are functions from entries to entries; none of them changes what
is stored, so any of them can be undone by asking the ledger again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Final, Literal, TypeAlias

import msgspec

from sightline.context.messages.parts import Message, Part, Role

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
