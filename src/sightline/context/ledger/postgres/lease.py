"""Which hosts are alive: each renews a row of its own before it runs out, by the server's clock.

A host that died is known to be dead when its lease has run out. One that was only held up that
long finds its sessions taken over and can write to them no more (`sessions.epoch`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sightline.errors import LedgerUnavailable

LEASE_S: Final = 30.0
_RENEWALS: Final = 3  # in the time of a lease


class Lease:
    """One host's lease, renewed by a thread of its own until it is given up."""

    def __init__(self, renew: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._renew = renew
        self._give_up = give_up
        self._left = threading.Event()
        renew()
        self._thread = threading.Thread(target=self._keep, name="sightline-lease", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Stop counting as alive."""
        if self._left.is_set():
            return
        self._left.set()
        self._thread.join()
        with suppress(LedgerUnavailable):
            self._give_up()

    def _keep(self) -> None:
        while not self._left.wait(LEASE_S / _RENEWALS):
            with suppress(LedgerUnavailable):
                self._renew()
