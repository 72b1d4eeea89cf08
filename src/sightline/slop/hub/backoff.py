"""How long to wait before trying again: longer each time, and never all at once."""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Exponential delays with jitter: the n-th lies between half and all of first · factorⁿ."""

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 10.0

    def delay_s(self, attempt: int, share: float) -> float:
        """Return the delay after `attempt` failures before this one; `share` is chance, 0..1."""
        # Bounded before it is raised to a power, so that a long night does not overflow.
        whole = min(self.max_s, self.first_s * self.factor ** min(attempt, 64))
        return whole / 2 + whole / 2 * share
