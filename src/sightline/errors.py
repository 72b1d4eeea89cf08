"""Every error Sightline raises on purpose.

One tree, stable codes. `code` is for programs and never changes its meaning;
the message is for people and says what is wrong and where. `exit_code` is what
the command line returns for it.

    SightlineError                    1  unexpected
    ├── ActionError                   5  action_refused  raised by an app: not done, and why
    ├── InvalidInput                  2  invalid_input   the caller gave something unusable
    │   ├── InvalidJson                  invalid_json    not JSON; line and column are known
    │   ├── InvalidTree                  invalid_tree    breaks rules of the tree; lists them all
    │   ├── InvalidDescriptor            invalid_descriptor  an app described a node wrongly
    │   ├── InvalidPath                  invalid_path    not a path, or nothing is there
    │   ├── InvalidPatch                 invalid_patch   an operation that cannot be applied
    │   ├── InvalidSlot                  invalid_slot    names the slot and the option
    │   ├── InvalidStrategy              invalid_strategy  cannot be loaded, or its config is wrong
    │   ├── MissingExtra                 missing_extra   needs a package; says what to install
    │   ├── TooLarge                     too_large       over a limit, which is named
    │   ├── NotStorable                  not_storable    would come back different from a ledger
    │   ├── NotFound                     not_found       no such session, group, message or memo
    │   ├── QueryRefused                 query_refused   SQL that retrieval does not run
    │   ├── HookRefused                  hook_refused    a hook of the user's refuses a question
    │   ├── LedgerUnusable               ledger_unusable not a ledger, too new, or not writable
    │   └── RequestRefused               refused         an app does not serve what was asked of it
    ├── StrategyFailed                1  strategy_failed a strategy raised, or took too long
    ├── ModelFailed                   1  model_failed    a vendor could not answer, and says why
    │   ├── ModelUnavailable          4  model_unavailable  a vendor cannot answer now
    │   ├── RateLimited               4  rate_limited    too many requests; knows how long to wait
    │   └── Overflow                  6  overflow        the vendor says that the prompt is too long
    ├── ApprovalNeeded                7  approval_needed an action wants a yes, and nobody is there
    ├── Unauthorized                  3  unauthorized    the other side does not let us in
    ├── Unreachable                   4  unreachable     nobody there, or no longer there
    │   ├── TimedOut                     timed_out       there, but too slow to answer
    │   └── LetGo                        let_go          it took too much, or sent too much rubbish
    ├── LedgerUnavailable             4  ledger_unavailable  locked too long, disk full, I/O error
    │   ├── SessionBusy                  session_busy    another program runs a turn in it
    │   └── SessionChanged               session_changed something was said in it meanwhile
    ├── ActionFailed                  5  action_failed   the app did not do it, and says why
    ├── DoesNotFit                    6  does_not_fit    over the budget; shows the arithmetic
    │   └── OverBudget                   over_budget     more money than the user set as a limit
    └── LedgerDamaged                 8  ledger_damaged  rows altered, missing or out of order
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

__all__ = [
    "ActionError",
    "ActionFailed",
    "ApprovalNeeded",
    "DoesNotFit",
    "HookRefused",
    "InvalidDescriptor",
    "InvalidInput",
    "InvalidJson",
    "InvalidPatch",
    "InvalidPath",
    "InvalidSlot",
    "InvalidStrategy",
    "InvalidTree",
    "LedgerDamaged",
    "LedgerUnavailable",
    "LedgerUnusable",
    "LetGo",
    "MissingExtra",
    "ModelFailed",
    "ModelUnavailable",
    "NotFound",
    "NotStorable",
    "OverBudget",
    "Overflow",
    "QueryRefused",
    "RateLimited",
    "RequestRefused",
    "SessionBusy",
    "SessionChanged",
    "SightlineError",
    "StrategyFailed",
    "TimedOut",
    "TooLarge",
    "Unauthorized",
    "Unreachable",
    "Violation",
]


class SightlineError(Exception):
    """The root of the tree; catch it to catch them all."""

    code: str = "internal"
    exit_code: ClassVar[int] = 1


class ActionError(SightlineError):
    """An action was not done. Raise it in a handler to choose what the caller is told.

    `code` is one of the protocol's: `not_found`, `invalid_params`, `unauthorized`,
    `conflict`, `internal`. The message is shown to the caller as it is.
    """

    code = "action_refused"
    exit_code = 5

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class DoesNotFit(SightlineError):
    """What must be in the prompt is larger than the budget. The message is the arithmetic."""

    code = "does_not_fit"
    exit_code = 6


class OverBudget(DoesNotFit):
    """A request would cost more money than a limit allows, and nobody said to go on."""

    code = "over_budget"


class StrategyFailed(SightlineError):
    """A hook of a strategy raised, returned something unusable or ran out of time."""

    code = "strategy_failed"

    def __init__(self, strategy: str, hook: str, reason: str) -> None:
        super().__init__(f"strategy {strategy!r}, {hook}: {reason}")
        self.strategy = strategy
        self.hook = hook
        self.reason = reason


class InvalidInput(SightlineError):
    """What was given cannot be used; nothing was done with it."""

    code = "invalid_input"
    exit_code = 2


class InvalidJson(InvalidInput):
    """The text is not JSON. `line` and `column` count from 1."""

    code = "invalid_json"

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


class Violation(NamedTuple):
    """One broken rule: where in the tree, and what the rule says."""

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


class InvalidTree(InvalidInput):
    """A tree breaks its rules. `violations` holds every one of them, in document order."""

    code = "invalid_tree"

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        first = str(self.violations[0])
        more = len(self.violations) - 1
        super().__init__(first if not more else f"{first} (and {more} more)")


class InvalidDescriptor(InvalidInput):
    """What an app gave for a node cannot become one. `path` says where, `key` which part of it."""

    code = "invalid_descriptor"

    def __init__(self, path: str, key: str | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if key is None else f"{path}: {key!r} {reason}")
        self.path = path
        self.key = key
        self.reason = reason


class InvalidPath(InvalidInput):
    """A path is malformed, or leads nowhere in the tree at hand."""

    code = "invalid_path"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


class InvalidPatch(InvalidInput):
    """An operation cannot be applied; the tree is as it was. `index` counts the ops from 0."""

    code = "invalid_patch"

    def __init__(self, index: int, op: str, path: str, reason: str) -> None:
        super().__init__(f"op {index} ({op} {path}): {reason}")
        self.index = index
        self.op = op
        self.path = path
        self.reason = reason


class TooLarge(InvalidInput):
    """Something is over its limit. The message names the limit and how to raise it."""

    code = "too_large"


class RequestRefused(InvalidInput):
    """An app does not serve a view. `reason` is its code, as the protocol names it."""

    code = "refused"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason = reason
        self.message = message


class ModelFailed(SightlineError):
    """A vendor answered that it cannot. `retryable` says whether the same request may succeed."""

    code = "model_failed"

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable


class ModelUnavailable(ModelFailed):
    """A vendor answered with an error of its own, such as a 500. The same request may succeed."""

    code = "model_unavailable"
    exit_code = 4

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, status=status, retryable=True)


class RateLimited(ModelFailed):
    """The vendor wants us to wait; `retry_after_s` is how long, if it said so."""

    code = "rate_limited"
    exit_code = 4

    def __init__(
        self, message: str, *, status: int | None = 429, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, status=status, retryable=True)
        self.retry_after_s = retry_after_s


class Overflow(ModelFailed):
    """The prompt is longer than the vendor takes, whatever we counted."""

    code = "overflow"
    exit_code = 6


class ApprovalNeeded(SightlineError):
    """An action needs the user's approval, and there is nobody to ask."""

    code = "approval_needed"
    exit_code = 7


class Unauthorized(SightlineError):
    """The other side refuses us: no token, a wrong one, or a caller it does not serve."""

    code = "unauthorized"
    exit_code = 3


class Unreachable(SightlineError):
    """There is nobody at the address, or the connection was lost with a request under way."""

    code = "unreachable"
    exit_code = 4


class TimedOut(Unreachable):
    """The other side is there and did not answer in time; what it did is not known."""

    code = "timed_out"


class LetGo(Unreachable):
    """We ended a connection that took more time, or sent more rubbish, than one may."""

    code = "let_go"


class ActionFailed(SightlineError):
    """The app answered an invoke with an error. `reason` is its code, as the protocol names it."""

    code = "action_failed"
    exit_code = 5

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason = reason
        self.message = message


class InvalidSlot(InvalidInput):
    """A slot was declared with something it cannot have; `option` is the argument at fault."""

    code = "invalid_slot"

    def __init__(self, slot: str, option: str, reason: str) -> None:
        super().__init__(f"slot {slot!r}, {option}: {reason}")
        self.slot = slot
        self.option = option
        self.reason = reason


class InvalidStrategy(InvalidInput):
    """A strategy cannot be loaded, or a value of its configuration breaks its schema."""

    code = "invalid_strategy"


class MissingExtra(InvalidInput):
    """Something asked for needs an optional package. The message says what to install."""

    code = "missing_extra"


class NotStorable(InvalidInput):
    """A text or value would not come back from the ledger as it went in; nothing was stored."""

    code = "not_storable"


class NotFound(InvalidInput):
    """There is no session, group, message or memo of that name here."""

    code = "not_found"


class QueryRefused(InvalidInput):
    """A retrieval query may not run, or ran into a limit; the message says which rule."""

    code = "query_refused"


class HookRefused(InvalidInput):
    """A hook of the user's own does not let a question be asked; nothing of it was kept."""

    code = "hook_refused"


class LedgerUnusable(InvalidInput):
    """The file is no ledger, is of a newer format, or cannot be written where it must be."""

    code = "ledger_unusable"


class LedgerUnavailable(SightlineError):
    """The ledger could not be read or written now: locked, disk full, I/O error.

    Nothing was acknowledged. The same call may succeed later; with the same key
    it cannot store anything twice.
    """

    code = "ledger_unavailable"
    exit_code = 4


class SessionBusy(LedgerUnavailable):
    """Another program runs a turn in this session; two at once would mix their words."""

    code = "session_busy"


class SessionChanged(LedgerUnavailable):
    """A session no longer ends as the caller knows it; read it again, nothing was done."""

    code = "session_changed"


class LedgerDamaged(SightlineError):
    """What the ledger holds is not what was written to it. `findings` says where."""

    code = "ledger_damaged"
    exit_code = 8

    def __init__(self, findings: Sequence[str]) -> None:
        self.findings = tuple(findings)
        more = len(self.findings) - 1
        super().__init__(self.findings[0] if not more else f"{self.findings[0]} (and {more} more)")
