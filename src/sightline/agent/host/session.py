"""What belongs to one session while it is open, and to one turn of it while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sightline.agent.host.sight import Sight
from sightline.agent.policy import Answer
from sightline.agent.toolbox import Toolbox
from sightline.context.dialects.drift import Drift, Wire
from sightline.context.dialects.request import Options, Request, SentTail, Thinking
from sightline.context.dialects.usage import Usage
from sightline.context.ledger import Session
from sightline.context.projection.select import Selection
from sightline.context.projection.tools import ToolSet
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.strategy import Turn
from sightline.slop.protocol.world import World

__all__ = ["Composed", "OpenSession", "OpenTurn", "Preview", "ReplyPace"]

Steps: TypeAlias = tuple[tuple[str, int], ...]
Warnings: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """A request as it would be sent now, or as it was sent. `usage` is of one that was.

    `world` is what `selection` was chosen from.
    """

    prompt: Prompt
    request: Request
    drift: Drift | None
    selection: Selection
    world: World
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Composed:
    """A request, with what the turn needs to know of how it was made.

    `state` is what the strategy left; `warnings` what went wrong on the way; `steps` how
    many milliseconds each part of the making took; `strategy` names who laid it out;
    `loose` is the first message of the turn behind a kept tail, 0 if there is none;
    `kept_tokens` were set aside for the turn's earlier tails, and `expected_tokens` are
    what the vendor should count.
    """

    prompt: Prompt
    request: Request
    options: Options
    drift: Drift | None
    sight: Sight
    tools: ToolSet
    turn: Turn
    state: dict[str, Any]
    warnings: Warnings = ()
    steps: Steps = ()
    strategy: str = ""
    loose: int = 0
    kept_tokens: int = 0
    expected_tokens: int = 0

    def preview(self, usage: Usage | None = None) -> Preview:
        """Show it to a caller."""
        sight = self.sight
        return Preview(self.prompt, self.request, self.drift, sight.selection, sight.world, usage)


@dataclass(slots=True)
class OpenSession:
    """One session, open. Groups before `first_group` are folded away.

    `ceiling` is the most input that is sent, in tokens, once a vendor has found the
    prompt too long; `wire` is the last request, as a cache sees it, and `response_id`
    what its vendor called the answer; `state` is the strategy's. `loose` says of each
    group from `loose_since` on where its part behind a kept tail begins. `seen` is what
    the last request was chosen from.
    """

    row: Session
    toolbox: Toolbox
    first_group: int = 0
    ceiling: int | None = None
    wire: Wire | None = None
    model: str = ""
    response_id: str = ""
    remembered: tuple[Answer, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    loose: dict[int, int] = field(default_factory=dict)
    loose_since: int | None = None
    seen: World | None = None
    last: Preview | None = None

    @property
    def id(self) -> int:
        return self.row.id

    def remember(self, rule: Answer) -> None:
        """Keep a rule until the session is closed; the newest is looked at first."""
        self.remembered = (rule, *(own for own in self.remembered if own != rule))


@dataclass(slots=True)
class ReplyPace:
    """How one request was made, and how its answer came, in milliseconds since it was sent."""

    clock: Callable[[], float]
    steps: Steps = ()
    outcome: str = "cancelled"
    began: float = 0.0
    first_ms: int | None = None
    last_ms: int | None = None
    events: int = 0

    def __post_init__(self) -> None:
        self.began = self.clock()

    def tick(self) -> None:
        """Note that something came."""
        self.last_ms = round((self.clock() - self.began) * 1000)
        self.first_ms = self.last_ms if self.first_ms is None else self.first_ms
        self.events += 1

    def timings(self) -> dict[str, Any]:
        """Tell what the journal keeps."""
        return {
            "steps": self.steps,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "events": self.events,
        }


@dataclass(slots=True)
class OpenTurn:
    """One turn, under way. `thinking` and `sent` carry bound reasoning through its requests.

    `composed` is the request that was made last, `row` its place in the journal, and
    `pace` how its answer comes.
    """

    group_id: int
    number: int
    last_seq: int
    requests: int = 0
    thinking: Thinking = "auto"
    sent: tuple[SentTail, ...] = ()
    composed: Composed | None = None
    row: int | None = None
    pace: ReplyPace | None = None
