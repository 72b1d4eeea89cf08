"""What one connection may cost whoever serves it: working time, faults, waiting. Pure.

Working time is a share of all time, of which some can be saved up: who sent little may send
much at once. Who has used it up waits, which is felt on the line as a slow reader, and who
has been made to wait for too long is let go. Faults (what cannot be read, and patches that
do not follow upon what came before) are counted alike, but nobody waits for those.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.errors import LetGo


@dataclass(frozen=True, slots=True)
class Patience:
    """Upper bounds for one connection, all settable.

    `busy_share` of the time may be spent on what it sends, `busy_s` in one go; `held_s` it may
    be held back for wanting more. `faults` messages in `faults_s` may be faulty. A reader
    that takes nothing for `unread_s`, while something is being sent to it, is let go. `rest_s`
    goes by before an app that was let go is tried again.
    """

    busy_s: float = 2.0
    busy_share: float = 0.25
    held_s: float = 20.0
    faults: int = 100
    faults_s: float = 60.0
    unread_s: float = 60.0
    rest_s: float = 60.0


class PatienceLeft:
    """What is left to one connection; times are seconds on any steady clock."""

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._seen = now
        self._work_s = patience.busy_s
        self._faults = float(patience.faults)
        self._held_since: float | None = None

    def spend(self, now: float, used_s: float) -> float:
        """Note work that was done; returns how long to wait before the next. Raises LetGo."""
        patience = self._patience
        self._earn(now)
        self._work_s -= used_s
        if self._work_s >= 0:
            self._held_since = None if self._work_s >= patience.busy_s / 2 else self._held_since
            return 0.0
        if self._held_since is None:
            self._held_since = now
        if now - self._held_since > patience.held_s:
            raise LetGo(
                f"let go: it took more than {patience.busy_share:.0%} of the time"
                f" for {patience.held_s:g} s"
            )
        return -self._work_s / patience.busy_share

    def fault(self, now: float) -> None:
        """Note something that could not be read. Raises LetGo."""
        self._earn(now)
        self._faults -= 1
        if self._faults < 0:
            patience = self._patience
            raise LetGo(
                f"let go: it sent more than {patience.faults} faulty messages"
                f" in {patience.faults_s:g} s"
            )

    def _earn(self, now: float) -> None:
        patience, passed = self._patience, now - self._seen
        self._seen = now
        self._work_s = min(patience.busy_s, self._work_s + passed * patience.busy_share)
        earned = passed * patience.faults / patience.faults_s
        self._faults = min(float(patience.faults), self._faults + earned)
