"""What a claim is, what it is given, and what comes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Claim", "Outcome", "Trial", "table"]

_SHOWN = 20


@dataclass(slots=True)
class Trial:
    """One run of a claim: its chance, its size, a place to work in, and what was seen.

    `scale` 1 is the number that the claim names; the same seed and scale do the same.
    """

    seed: int
    scale: float
    place: Path
    random: random.Random = field(init=False)
    tried: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def times(self, full: int, *, least: int = 1) -> int:
        """How often, where a whole run does it `full` times."""
        return max(least, round(full * self.scale))

    def check(self, holds: object, what: str) -> None:
        """Note one try, and what went wrong unless it holds."""
        self.tried += 1
        if not holds:
            self.fail(what)

    def fail(self, what: str) -> None:
        """Note a failure."""
        self.failed += 1
        if len(self.failures) < _SHOWN:
            self.failures.append(f"seed {self.seed}: {what[:500]}")

    def control(self, finds: object, what: str) -> None:
        """Note whether the harness sees the fault in what is really broken."""
        self.notes["control"] = what
        if not finds:
            self.fail(f"the harness is blind: {what}")

    def note(self, name: str, what: str) -> None:
        """Tell a figure worth knowing."""
        self.notes[name] = what

    def directory(self, name: str) -> Path:
        """Make a new empty directory."""
        made = self.place / f"{name}-{self.tried}-{len(list(self.place.iterdir()))}"
        made.mkdir()
        return made


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the project says of itself, and how it is tried.

    One that takes longer than `hangs_after_s` at its full scale hangs, which is a failure.
    """

    name: str
    says: str
    attempt: Callable[[Trial], None]
    hangs_after_s: int = 3600


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a claim."""

    claim: str
    says: str
    tried: int
    failed: int
    seed: int
    seconds: float
    notes: dict[str, str]
    failures: tuple[str, ...]

    def __add__(self, later: Outcome) -> Outcome:
        """Both rounds as one; the seed is the first round's."""
        return Outcome(
            self.claim,
            self.says,
            self.tried + later.tried,
            self.failed + later.failed,
            self.seed,
            self.seconds + later.seconds,
            later.notes,
            (*self.failures, *later.failures)[:_SHOWN],
        )


def table(outcomes: list[Outcome]) -> str:
    """Write outcomes as a Markdown table."""
    lines = [
        "| claim | tried | failed | seed | seconds | noted |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for outcome in outcomes:
        noted = "; ".join(f"{name}: {what}" for name, what in outcome.notes.items())
        failed = f"**{outcome.failed:,}**" if outcome.failed else "0"
        lines.append(
            f"| {outcome.says} | {outcome.tried:,} | {failed} | {outcome.seed} "
            f"| {outcome.seconds:.1f} | {noted} |"
        )
    return "\n".join(lines)
