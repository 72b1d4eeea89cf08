"""One session while it is open, and one turn of it while it runs: values, and who holds them.

A step makes a new session or a new turn of the old one (`replace`, or a method here) and
hands it to `Current.keep`. Nothing else is ever assigned. A step is one expression on the
event loop, so that none is lost between two tasks of a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from sightline.agent.host.compose import Composed, Conversation, Steps
from sightline.agent.policy import Answer
from sightline.agent.toolbox import Toolbox
from sightline.context.dialects.drift import Wire
from sightline.context.dialects.observations import SentTail
from sightline.context.dialects.request import Thinking
from sightline.context.ledger import Session
from sightline.slop.protocol.world import World


class OpenSession(msgspec.Struct, frozen=True):
    """One session, open. Groups before `first_group` are folded away.

    `ceiling` is the most input that is sent, in tokens, once a vendor has found the
    prompt too long; `wire` is the last request, as a cache sees it, and `response_id`
    what its vendor called the answer; `state` is the strategy's. `loose` says of each
    group from `loose_since` on where its part behind a kept tail begins. `seen` is what
    the last request was chosen from. `sent` are the tails that stay over turns.
    """

    row: Session
    toolbox: Toolbox
    first_group: int = 0
    ceiling: int | None = None
    wire: Wire | None = None
    model: str = ""
    response_id: str = ""
    remembered: tuple[Answer, ...] = ()
    state: Mapping[str, Any] = msgspec.field(default_factory=dict)
    loose: Mapping[int, int] = msgspec.field(default_factory=dict)
    loose_since: int | None = None
    seen: World | None = None
    sent: tuple[SentTail, ...] = ()
    last: Composed | None = None

    @property
    def id(self) -> int:
        return self.row.id

    def remember(self, rule: Answer) -> OpenSession:
        """Keep a rule until the session is closed; the newest is looked at first."""
        shown = {"digest": rule.digest, "seen": rule.seen}
        others = (other for other in self.remembered if replace(other, **shown) != rule)
        return replace(self, remembered=(rule, *others))

    def begun(self, found: OpenSession) -> OpenSession:
        """Take over what was read from the disk when a turn began; what changed since stays."""
        return replace(
            self, row=found.row, state=found.state, wire=found.wire, model=found.model,
            seen=found.seen,
        )  # fmt: skip

    def knowing(self, conversation: Conversation) -> OpenSession:
        """Keep where groups are loose, as read with a conversation, for the next reading."""
        since = conversation.entries[0].group_id if conversation.entries else 0
        since = since if self.loose_since is None else min(since, self.loose_since)
        return replace(self, loose={**conversation.loose, **self.loose}, loose_since=since)

    def with_request(self, group_id: int, composed: Composed) -> OpenSession:
        """Keep of a request what later ones need: strategy state, where its group is loose."""
        loose = {**self.loose, group_id: composed.loose}
        return replace(self, state=composed.state, loose=loose)


class ReplyPace(msgspec.Struct, frozen=True):
    """How one request was made, and how its answer came, in milliseconds since it was sent."""

    began: float
    steps: Steps = ()
    outcome: str = "cancelled"
    first_ms: int | None = None
    last_ms: int | None = None
    events: int = 0

    def tick(self, now: float) -> ReplyPace:
        """Note that a piece of the reply arrived."""
        last = round((now - self.began) * 1000)
        first = last if self.first_ms is None else self.first_ms
        return ReplyPace(self.began, self.steps, self.outcome, first, last, self.events + 1)

    def timings(self) -> dict[str, Any]:
        """Return the milliseconds that the journal keeps, by name."""
        return {
            "steps": self.steps,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "events": self.events,
        }


class OpenTurn(msgspec.Struct, frozen=True):
    """One turn, under way. `thinking` and `sent` carry bound reasoning through its requests.

    `composed` is the request that was made last, `row` its place in the journal, and
    `pace` how its answer came, until that is noted there. `hooked` is what hooks had to say, each
    with the moment that it was said at.
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
    hooked: tuple[tuple[str, str], ...] = ()

    def hear(self, event: str, contexts: Iterable[str]) -> OpenTurn:
        """Keep what hooks had to say, for the requests to come in the turn."""
        more = tuple((event, text) for text in contexts)
        return replace(self, hooked=self.hooked + more) if more else self

    def strip(self) -> OpenTurn:
        """Send no bound reasoning back in the rest of the turn."""
        return replace(self, thinking="strip", sent=())


class Current:
    """The session that is open and the turn that is under way, as they are now."""

    __slots__ = ("_session", "_turn")

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._turn: OpenTurn | None = None

    @property
    def session(self) -> OpenSession:
        """The session, as the last step left it."""
        return self._session

    @property
    def turn(self) -> OpenTurn:
        """The turn, as the last step left it. Raises AttributeError before the first."""
        if self._turn is None:
            raise AttributeError("no turn has begun")
        return self._turn

    def keep(self, *values: OpenSession | OpenTurn) -> None:
        """Make these the current session or turn."""
        for value in values:
            if isinstance(value, OpenSession):
                self._session = value
            else:
                self._turn = value
