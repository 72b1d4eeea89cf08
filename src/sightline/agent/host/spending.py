"""What was spent in this turn, in this session and today, and how much more may be.

    a request is not sent if what is spent and its prompt's price together pass a limit,
    until the user says to go on, up to the next multiple of it

The reply's own price is known only afterwards: a limit is passed by one reply at most. What is
spent is what the ledger says, whoever spent it; read once, and then only what is new in it.
"""

from __future__ import annotations

import threading
from math import floor
from typing import Final, get_args

from sightline.config import LimitSettings
from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.profile import Prices
from sightline.context.ledger import Ledger
from sightline.context.ledger.store import Clock, written
from sightline.context.ledger.usage import Charge
from sightline.errors import OverBudget
from sightline.events import Scope, SpendingAsked

_NANO: Final = 1_000_000_000
_SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


class Spending:
    """One host's account against its limits. Safe to use from several threads."""

    def __init__(self, ledger: Ledger, limits: LimitSettings, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._limits: dict[Scope, float] = {
            "turn": limits.turn_usd, "session": limits.session_usd, "day": limits.day_usd,
            "delegate": 0.0,
        }  # fmt: skip
        self._raised: dict[Scope, float] = dict.fromkeys(_SCOPES, 0.0)
        self._spent: dict[Scope, int] = dict.fromkeys(_SCOPES, 0)
        self._unpriced: dict[Scope, int] = dict.fromkeys(_SCOPES, 0)
        self._sessions: set[int] = set()
        self._began = self._midnight = ""
        self._last_id = 0
        self._told_unpriced: set[str] = set()  # models

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit in money."""
        return any(self._limits.values())

    def unpriced_notice(self, model: str, prices: Prices) -> str:
        """Say, once of a model, that limits in money do not count what it costs; empty if not."""
        if not self.is_limited or is_priced(prices) or model in self._told_unpriced:
            return ""
        self._told_unpriced.add(model)
        return (
            f"the price of {model} is not known: limits in money do not count it "
            f'(profiles."{model}" takes prices.input and prices.output)'
        )

    def open_session(self, session_id: int) -> None:
        """Count what was spent in a session from its beginning, and no longer another one's."""
        with self._lock:
            self._sessions = {session_id}
            if self.is_limited:
                self._read()
            self._restart("session", "turn", "delegate")
            if self._limits["session"]:
                for session in self._ledger.sessions.family(session_id):
                    totals = self._ledger.accounts.totals(session.id)
                    self._spent["session"] += totals.cost_nanousd
                    self._unpriced["session"] += totals.unpriced

    def join(self, session_id: int) -> None:
        """Count a new session's spending, too: one that this one began."""
        with self._lock:
            self._sessions.add(session_id)

    def begin_turn(self) -> None:
        """Count what this turn spends from now on."""
        if self.is_limited:
            with self._lock:
                self._read()
                self._restart("turn")

    def overrun(self, next_usd: float) -> SpendingAsked | None:
        """Say which limit the next request would pass; None if it passes none."""
        if not self.is_limited:
            return None
        with self._lock:
            self._read()
            return next(filter(None, (self._question(scope, next_usd) for scope in _SCOPES)), None)

    def check(self, next_usd: float) -> None:
        """Raise `OverBudget` for a request that nobody is asked about, if it passes a limit."""
        if (question := self.overrun(next_usd)) is not None:
            raise OverBudget(str(question))

    def go_on(self, question: SpendingAsked) -> None:
        """Allow what a question asks for."""
        with self._lock:
            raised = max(self._raised[question.scope], question.raised_usd)
            self._raised[question.scope] = raised

    def _question(self, scope: Scope, next_usd: float) -> SpendingAsked | None:
        step, spent = self._limits[scope], self._spent[scope] / _NANO
        limit = max(step, self._raised[scope])
        if not step or spent + next_usd <= limit:
            return None
        return SpendingAsked(
            scope=scope, spent_usd=spent, limit_usd=limit, next_usd=next_usd,
            raised_usd=step * (floor((spent + next_usd) / step) + 1),
            unpriced=self._unpriced[scope],
        )  # fmt: skip

    def _restart(self, *scopes: Scope) -> None:
        for scope in scopes:
            self._spent[scope] = self._unpriced[scope] = 0
            self._raised[scope] = 0.0

    def _read(self) -> None:
        """Take in what was charged since the last time; the first time, what was today."""
        now = self._clock().astimezone()
        midnight = written(now.replace(hour=0, minute=0, second=0, microsecond=0))
        if midnight != self._midnight:
            self._midnight = midnight
            self._restart("day")
        self._began = self._began or midnight
        for charge in self._ledger.accounts.charges(after=self._last_id, since=self._began):
            self._last_id = max(self._last_id, charge.id)
            if charge.created_at >= midnight:
                self._add(charge, "day")
            if charge.session_id in self._sessions:
                self._add(charge, "turn", "session", "delegate")

    def _add(self, charge: Charge, *scopes: Scope) -> None:
        for scope in scopes:
            self._spent[scope] += charge.cost_nanousd or 0
            self._unpriced[scope] += charge.cost_nanousd is None


class DelegateSpending(Spending):
    """The account of a task: what it spends is its parent's, and it has a limit of its own."""

    def __init__(self, parent: Spending, limit_usd: float) -> None:
        super().__init__(parent._ledger, LimitSettings(), parent._clock)
        self._limits["delegate"] = limit_usd
        self._parent = parent
        self._told_unpriced = parent._told_unpriced

    @property
    def is_limited(self) -> bool:
        return super().is_limited or self._parent.is_limited

    def open_session(self, session_id: int) -> None:
        super().open_session(session_id)
        self._parent.join(session_id)

    def overrun(self, next_usd: float) -> SpendingAsked | None:
        return super().overrun(next_usd) or self._parent.overrun(next_usd)

    def go_on(self, question: SpendingAsked) -> None:
        self._parent.go_on(question)


def is_priced(prices: Prices) -> bool:
    """Whether it is known what a model's requests cost."""
    return cost(Usage(), prices) is not None


def prompt_price(prices: Prices, tokens: int, reused: int) -> float:
    """Estimate in dollars what a prompt will cost; 0 where nobody knows the price."""
    usage = Usage(input_tokens=tokens, cache_read_tokens=min(tokens, reused))
    return cost(usage, prices) or 0.0
