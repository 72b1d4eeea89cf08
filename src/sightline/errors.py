"""Every error Sightline raises on purpose.

One tree, stable codes. `code` is for programs and never changes its meaning;
the message is for people and says what is wrong and where. `exit_code` is what
the command line returns for it.

    SightlineError                    1  unexpected
    ├── ActionError                   5  action_failed   not done, and why; an instance has its own
    └── InvalidInput                  2  invalid_input   the caller gave something unusable
        ├── InvalidJson                  invalid_json    not JSON; line and column are known
        ├── InvalidTree                  invalid_tree    breaks rules of the tree; lists them all
        ├── InvalidDescriptor            invalid_descriptor  an app described a node wrongly
        ├── InvalidPath                  invalid_path    not a path, or nothing is there
        ├── InvalidPatch                 invalid_patch   an operation that cannot be applied
        └── TooLarge                     too_large       over a limit, which is named
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "ActionError",
    "InvalidDescriptor",
    "InvalidInput",
    "InvalidJson",
    "InvalidPatch",
    "InvalidPath",
    "InvalidTree",
    "SightlineError",
    "TooLarge",
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

    code = "action_failed"
    exit_code = 5

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
