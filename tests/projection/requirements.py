"""Every demand of the context-injection rules on a host, and the tests that prove it.

An id is `CI-n` for a conformance point and `CI-…` with a letter for a MUST in the
text before them. `home` says whose tests prove it; what is at home here is checked
in both directions by `test_requirements.py`: no demand without a test, no test that
names a demand which does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_Test = TypeVar("_Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    sentence: str
    home: str = "projection"


REQUIREMENTS = (
    Requirement("CI-1", "A host MUST maintain the history free of state-tail blocks across turns."),
    Requirement(
        "CI-2", "A host MUST render the current projection into a state tail on every request."
    ),
    Requirement(
        "CI-2a",
        "A host that injects through a file MUST document its freshness window and MUST drop the "
        "injection if the bridge appears stalled or dead.",
    ),
    Requirement(
        "CI-3",
        "A host MUST treat the tail as untrusted observation and MUST escape user-controlled text "
        "so that it cannot forge context tags or masquerade as host-authored messages.",
    ),
    Requirement(
        "CI-4",
        "A host MUST keep the state tail after the stored prefix, but for prepend-only hooks.",
        home="dialects",
    ),
    Requirement(
        "CI-4a",
        "A prepend-only host MUST treat its placement as a known cache regression and document it.",
    ),
    Requirement("CI-5", "Explicit cache controls SHOULD sit at the boundary.", home="dialects"),
    Requirement("CI-6", "Salience and view-scope filtering SHOULD be applied before rendering."),
    Requirement("CI-7", "Clear app boundaries MUST be preserved when several apps are rendered."),
    Requirement("CI-8", "A disconnected app's tree MUST NOT be presented as current state."),
    Requirement("CI-9", "Catalogue context SHOULD stay outside the state block, in a sibling."),
    Requirement("CI-10", "The delimiter and the body format SHOULD be documented."),
    Requirement("CI-D", "The delimiter MUST be defined once and stay stable across turns."),
    Requirement("CI-G", "generated_at MUST be an RFC 3339 timestamp, and SHOULD be UTC with a Z."),
    Requirement(
        "CI-N", "Each app's section MUST have a stable human-readable name and the app's id."
    ),
    Requirement("CI-A", "The catalogue of available apps MUST NOT be mixed into the state block."),
    Requirement(
        "CI-E",
        "App-controlled text that resembles a context tag MUST be neutralised, opening and "
        "closing, at least as the substitution table says.",
    ),
    Requirement(
        "CI-F", "The substitutions MUST reach every piece of app-controlled text in a block."
    ),
    Requirement("CI-S", "The system prompt SHOULD say that the tail is untrusted live state."),
    Requirement("CI-W", "For weaker models the description of the contract SHOULD be stronger."),
    Requirement("CI-P", "Raw patches SHOULD NOT be forwarded into the model's context."),
    Requirement(
        "CI-R", "Providers MUST re-authorise every invoke against live state.", home="protocol"
    ),
    Requirement(
        "CI-M",
        "A state block MUST NOT be placed inside an assistant message or a tool result.",
        home="dialects",
    ),
)


def proves(*ids: str) -> Callable[[_Test], _Test]:
    """Say which demands a test proves."""
    known = {requirement.id for requirement in REQUIREMENTS}
    unknown = set(ids) - known
    assert not unknown, f"no such requirement: {sorted(unknown)}"

    def mark(test: _Test) -> _Test:
        return test

    return mark
