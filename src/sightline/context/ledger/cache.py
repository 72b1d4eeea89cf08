"""Groups that were read or written lately, decoded.

Each is good for the content digest that it was put in with: a group that has
changed is not found. What is kept is bounded by the size of its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from sightline.context.messages.parts import Entry

_OVERHEAD: Final = 500  # what an entry costs in memory besides its text

# A group's id and content digest, then whatever else the caller knows of it.
_Group: TypeAlias = tuple[int, bytes, int, int]


class GroupCache:
    """Decoded groups by id, each with its content digest and its size."""

    def __init__(self, max_size: int) -> None:
        self._max = max_size
        self._size = 0
        self._groups: dict[int, tuple[bytes, list[Entry], int]] = {}
        self._sessions: set[int] = set()

    def knows(self, session_id: int) -> bool:
        """Tell whether any group of a session is here."""
        return session_id in self._sessions

    def missing(self, groups: Iterable[_Group]) -> list[_Group]:
        """List the groups that are not here, or no longer as they are here."""
        known = self._groups
        return [
            group
            for group in groups
            if (held := known.get(group[0])) is None or held[0] != group[1]
        ]

    def put(self, group_id: int, digest: bytes, entries: list[Entry], size: int) -> None:
        """Keep a group, in place of what it was before."""
        size += _OVERHEAD * len(entries)
        if group_id in self._groups:
            self._size -= self._groups[group_id][2]
        self._groups[group_id] = (digest, entries, size)
        self._sessions.update(entry.session_id for entry in entries[:1])
        self._size += size

    def extend(self, group: _Group, before: bytes | None, added: list[Entry], size: int) -> None:
        """Keep a group that is new (`before` is None), or grew from what is here."""
        if before is None:
            self.put(group[0], group[1], added, size)
        elif (held := self._groups.get(group[0])) is not None and held[0] == before:
            size += held[2] - _OVERHEAD * len(held[1])
            self.put(group[0], group[1], held[1] + added, size)

    def entries(self, groups: Iterable[_Group]) -> tuple[Entry, ...]:
        """Put the entries of groups together, in order; none of them is missing."""
        known = self._groups
        found: list[Entry] = []
        for group in groups:
            found += known[group[0]][1]
        return tuple(found)

    def trim(self, keep: Iterable[_Group]) -> bool:
        """Forget all groups but those in `keep`, and those too if they alone are too much.

        Say whether those in `keep` are still here.
        """
        if self._size <= self._max:
            return True
        kept = {group[0] for group in keep}
        self._groups = {id_: held for id_, held in self._groups.items() if id_ in kept}
        self._size = sum(held[2] for held in self._groups.values())
        self._sessions = {e.session_id for _, held, _ in self._groups.values() for e in held[:1]}
        if self._size <= self._max:
            return True
        self._groups.clear()
        self._sessions.clear()
        self._size = 0
        return False
