"""Every error Sightline raises on purpose.

One tree, stable codes. `code` is for programs and never changes its meaning;
the message is for people and says what is wrong and where. `exit_code` is what
the command line returns for it.

    SightlineError                    1  unexpected
    ├── InvalidInput                  2  invalid_input   the caller gave something unusable
    │   ├── InvalidJson                  invalid_json    not JSON; line and column are known
    │   ├── InvalidTree                  invalid_tree    breaks rules of the tree; lists them all
    │   ├── InvalidPath                  invalid_path    not a path, or nothing is there
    │   ├── InvalidPatch                 invalid_patch   an operation that cannot be applied
    │   ├── TooLarge                     too_large       over a limit, which is named
    │   └── RequestRefused               refused         an app does not serve what was asked of it
    ├── Unauthorized                  3  unauthorized    the other side does not let us in
    ├── Unreachable                   4  unreachable     nobody there, or no longer there
    │   └── TimedOut                     timed_out       there, but too slow to answer
    └── ActionFailed                  5  action_failed   the app did not do it, and says why
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "ActionFailed",
    "InvalidInput",
    "InvalidJson",
    "InvalidPatch",
    "InvalidPath",
    "InvalidTree",
    "RequestRefused",
    "SightlineError",
    "TimedOut",
    "TooLarge",
    "Unauthorized",
    "Unreachable",
    "Violation",
]


class SightlineError(Exception):
    """The root of the tree; catch it to catch them all."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1


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


@dataclass(frozen=True, slots=True)
class Violation:
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


class ActionFailed(SightlineError):
    """The app answered an invoke with an error. `reason` is its code, as the protocol names it."""

    code = "action_failed"
    exit_code = 5

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason = reason
        self.message = message
