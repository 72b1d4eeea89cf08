"""Every demand of the context-injection rules on a host, and the tests that prove it.

An id is `CI-n` for a conformance point and `CI-…` with a letter for a MUST or SHOULD in
the text before them, in the order of the text. `test_requirements.py` checks both
directions: no demand without a test, no test that names a demand which does not exist.
What an app must do is in the manifest of the protocol; `there` names it in that one.
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
    there: tuple[str, ...] = ()


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
    ),
    Requirement(
        "CI-4a",
        "A prepend-only host MUST treat its placement as a known cache regression and document it.",
    ),
    Requirement("CI-5", "Explicit cache controls SHOULD sit at the boundary."),
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
        "CI-R",
        "Providers MUST re-authorise every invoke against live state, caller and policy.",
        there=("affordance.never-authorised", "invoke.caller", "invoke.state", "invoke.order"),
    ),
    Requirement(
        "CI-M",
        "A state block MUST NOT be placed inside an assistant message or a tool result.",
    ),
    Requirement("CI-T", "State SHOULD be delimited by an explicit tag, by default slop-state."),
    Requirement("CI-H", "Text projections SHOULD have one section per app: ### Name (id)."),
    Requirement(
        "CI-8a", "A disconnected app SHOULD be left out or be a labelled status-only entry."
    ),
    Requirement(
        "CI-L",
        "The catalogue SHOULD have the state's lifecycle: fresh, after the prefix, never stored.",
    ),
    Requirement(
        "CI-C", "The placement SHOULD be chosen by the API's message model and cache controls."
    ),
    Requirement(
        "CI-4b",
        "A prepend-only host SHOULD document the limitation and push for an append-style hook.",
    ),
    Requirement(
        "CI-X", "The stable prefix SHOULD keep its exact serialization and order across requests."
    ),
    Requirement(
        "CI-5a", "The control SHOULD be on the last stable block, where controls are supported."
    ),
    Requirement(
        "CI-5b",
        "Where caching is automatic no marker SHOULD be invented; cached tokens are monitored.",
    ),
    Requirement("CI-5c", "A cache control SHOULD NOT stand after an ordinary live state tail."),
    Requirement("CI-5d", "Below a vendor's minimum no marker SHOULD be invented."),
    Requirement("CI-B", "A very large tail SHOULD be filtered harder rather than cached."),
    Requirement("CI-K", "Each model and endpoint SHOULD be classified by its actual cache API."),
    Requirement(
        "CI-I",
        "Stable prefixes SHOULD have a stable tool order, no random ids or times, and the same "
        "routing hints at every request.",
    ),
    Requirement("CI-V", "Cache reuse of a local runtime SHOULD be verified rather than assumed."),
    Requirement("CI-W2", "For weaker models the security guidance SHOULD NOT be relaxed."),
    Requirement(
        "CI-O", "Temporal notes are compact, host-written, part of history, and no state block."
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
