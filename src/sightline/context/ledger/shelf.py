"""Several ledgers' memos side by side: a project's, and the user's own.

Reading looks at all of them, and among equals the first one wins; writing goes to the one
that is named. Each ledger numbers its own memos, so a memo is referred to by its number on
the first shelf, and by a letter and its number on another: `3`, `u3`.

A ledger that is not there yet is read as an empty one, and made when something is saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec

from sightline.context.ledger.memos import Memos
from sightline.context.messages.memos import TOP, Memo
from sightline.errors import InvalidInput, NotFound

_REFERENCE: Final = re.compile(r"([a-z]?)([0-9]{1,15})", re.ASCII)


class MemoShelf:
    """`MemoShelf({"project": ledger.memos, "user": mine.memos})`; a memo's `home` names its ledger.

    An entry may be a function that opens one: it is called when something is to be saved there.
    """

    def __init__(self, homes: Mapping[str, Memos | Callable[[], Memos]]) -> None:
        if not homes:
            raise InvalidInput("a shelf needs at least one ledger")
        self._homes = dict(homes)
        self._opening = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the ledgers, the first of them first."""
        return tuple(self._homes)

    def home(self, name: str) -> Memos:
        """Give the memos of one ledger, to save, edit and delete there."""
        if name not in self._homes:
            raise NotFound(f"no memos called {name!r}; there are {', '.join(self._homes)}")
        with self._opening:
            home = self._homes[name]
            if not isinstance(home, Memos):
                home = self._homes[name] = home()
        return home

    def save(self, content: str, tags: Iterable[str], home: str = "") -> Memo:
        """Store a memo in the ledger of this name; in the first if none is named."""
        name = home or self.names[0]
        return _at(name, self.home(name).save(content, tags))

    def reference(self, memo: Memo) -> str:
        """Write how a memo is referred to."""
        return f"{'' if memo.home in ('', self.names[0]) else memo.home[0]}{memo.id}"

    def find(self, reference: str) -> tuple[Memos, Memo]:
        """Find a memo by its reference, and the ledger that it is in."""
        read = _REFERENCE.fullmatch(reference)
        name = self._by_letter(read[1]) if read else None
        if read is None or name is None:
            raise InvalidInput(f"a memo is called {self._forms()}; not {reference[:40]!r}")
        home = self._homes[name]
        if not isinstance(home, Memos):
            raise NotFound(f"no memo {reference}")
        try:
            return home, _at(name, home.get(int(read[2])))
        except NotFound:
            raise NotFound(f"no memo {reference}") from None

    def recent(self, limit: int = -1) -> list[Memo]:
        """List memos home by home, in each the most recently changed first, at most `limit`."""
        return [_at(name, memo) for name, memos in self._there() for memo in memos.recent(limit)]

    def relevant(self, prompt: str, *, limit: int = TOP) -> list[Memo]:
        """Find the memos that a prompt calls for in all of them together."""
        return self._best(lambda memos: memos.scored(prompt, limit=limit), limit)

    def tagged(self, tags: Sequence[str], *, limit: int = 20) -> list[Memo]:
        """Find memos by tags in all of them: most matches first."""
        return self._best(lambda memos: memos.matching(tags, limit=limit), limit)

    def _best(self, find: Callable[[Memos], Iterable[tuple[Memo, Any]]], limit: int) -> list[Memo]:
        found = [
            (rank, _at(name, memo)) for name, memos in self._there() for memo, rank in find(memos)
        ]
        # Each home comes ranked already; a stable sort keeps its order among equals.
        found.sort(key=lambda item: item[0], reverse=True)
        return [memo for _, memo in found[:limit]]

    def _there(self) -> list[tuple[str, Memos]]:
        return [(name, home) for name, home in self._homes.items() if isinstance(home, Memos)]

    def _by_letter(self, letter: str) -> str | None:
        if not letter:
            return self.names[0]
        return next((name for name in self.names if name.startswith(letter)), None)

    def _forms(self) -> str:
        others = [f"{name[0]} and its number ({name})" for name in self.names[1:]]
        return " or ".join(["by its number", *others])


def _at(home: str, memo: Memo) -> Memo:
    return msgspec.structs.replace(memo, home=home)
