"""Who runs a turn in a session: one program at a time, and it is known when it died.

Every host is known to live for as long as it does, under a name of its own (`Store.attend`),
and the ledger names the owner of a session. What an owner left open who lives no longer may
be closed by whoever comes next.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias
from uuid import uuid4

from sightline.context.ledger.work import Work
from sightline.errors import SessionBusy

Hold: TypeAlias = Literal["none", "alive", "dead"]

_TRIES: Final = 10


class Owner:
    """One host's claim to the sessions it works on."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._name = uuid4().hex
        self._leave = work.store.attend(self._name)

    def close(self) -> None:
        """Stop counting as alive: whoever comes next may take over what this host still owns."""
        self._leave()

    def claim(self, session_id: int) -> bool:
        """Take a session; say whether its last owner died over it.

        Raises `SessionBusy` while somebody else runs a turn in it.
        """
        for _ in range(_TRIES):
            other = self._work.owner(session_id)
            if other == self._name:
                return False
            if self._work.store.attends(other):
                raise SessionBusy(
                    f"session {session_id} is in use by another program; wait for its turn to end"
                )
            self._work.store.bury(other)
            if self._work.claim(session_id, self._name, instead_of=other):
                return bool(other)
        raise SessionBusy(f"session {session_id} changes hands too fast")

    def release(self, session_id: int) -> None:
        """Give a session back, with nothing under way in it."""
        self._work.release(session_id, self._name)


def hold_on(work: Work, session_id: int) -> Hold:
    """Tell whether somebody runs a turn in a session, or died over one; changes nothing."""
    name = work.owner(session_id)
    if not name:
        return "none"
    return "alive" if work.store.attends(name) else "dead"
