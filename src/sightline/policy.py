"""What a model's call may do: run, run if the user says so, or not at all.

    reads                    approve, in every mode
    mode plan                deny everything else
    a user's rule            approve or deny: it wins; ask: a remembered answer may still speak
    a remembered answer      as it was given, for calls that are no more dangerous than that one
    mode auto                approve what the app shows and does not call dangerous, ask the rest
    mode ask                 ask

First match from above. An app's word can only make this stricter: that an action is
harmless, or may be repeated, is the app's claim about itself, so in mode `ask` it
approves nothing.

Patterns: `*`, `?` and `[…]` as in a shell, for an app and an action. In a path they
stay within one segment, `**` stands for any number of segments, and `*` alone, the
default, for every path. Patterns are the user's; what an app calls itself is never
read as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from sightline.errors import InvalidPath
from sightline.protocol.path import format_path, parse_path

__all__ = ["Answer", "Decision", "Facts", "Kind", "Mode", "Rule", "Verdict", "answer_to", "decide"]

Mode: TypeAlias = Literal["ask", "auto", "plan"]
Verdict: TypeAlias = Literal["approve", "ask", "deny"]
Kind: TypeAlias = Literal["read", "note", "invoke"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call before it runs.

    read     looks at something          note     writes to the model's own notes
    invoke   asks an app to do something

    `declared` says whether the app shows the action now; `dangerous` and `idempotent`
    are what it says of it.
    """

    kind: Kind = "invoke"
    app: str = ""
    path: str = "/"
    action: str = ""
    declared: bool = True
    dangerous: bool = False
    idempotent: bool = False


class Decision(msgspec.Struct, frozen=True):
    """What shall become of a call, and why, in words for the user and the model."""

    verdict: Verdict
    reason: str


class Rule(Protocol):
    """What a user decided beforehand. Patterns in the first three."""

    @property
    def app(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def decision(self) -> Verdict: ...


class Answer(msgspec.Struct, frozen=True):
    """What a user answered and wants remembered: a rule that fits the calls it was meant for.

    `dangerous` says whether the call was known to be so when it was answered; the
    answer does not stretch to calls that are more dangerous.
    """

    app: str
    path: str
    action: str
    decision: Verdict
    dangerous: bool = False


def decide(
    facts: Facts, mode: Mode, rules: Iterable[Rule] = (), remembered: Iterable[Answer] = ()
) -> Decision:
    """Decide on one call. The same arguments give the same decision."""
    if facts.kind == "read":
        return Decision("approve", "it only reads")
    if mode == "plan":
        return Decision("deny", "mode plan: nothing is done, only read")
    if facts.kind == "note":
        return Decision("approve", "it writes to the model's own notes")
    rule = next((rule for rule in rules if _fits(rule, facts)), None)
    if rule is not None and rule.decision != "ask":
        return Decision(rule.decision, f"a rule: {_told(rule)}")
    answer = next((answer for answer in remembered if _covers(answer, facts)), None)
    if answer is not None:
        return Decision(answer.decision, f"answered before: {_told(answer)}")
    if rule is not None:
        return Decision("ask", f"a rule: {_told(rule)}")
    if not facts.declared:
        return Decision("ask", "the app does not show this action")
    if facts.dangerous:
        return Decision("ask", "the app calls it dangerous")
    if mode == "auto":
        return Decision("approve", "mode auto, and the app does not call it dangerous")
    return Decision("ask", "mode ask")


def answer_to(facts: Facts, *, approved: bool) -> Answer:
    """Make what is remembered of an answer.

    It holds for the same action on the same node; if nothing is dangerous about it,
    on the nodes beside it too.
    """
    ids = _ids(facts.path)
    risky = facts.dangerous or not facts.declared
    parts = [_literal(part) for part in ids or ()]
    if parts and not risky:
        parts[-1] = "*"
    # What leads to no node is kept as it is: no pattern, and so no answer to anything else.
    path = facts.path if ids is None else format_path(parts)
    decision: Verdict = "approve" if approved else "deny"
    return Answer(_literal(facts.app), path, _literal(facts.action), decision, risky)


def _covers(answer: Answer, facts: Facts) -> bool:
    risky = facts.dangerous or not facts.declared
    return _fits(answer, facts) and (answer.decision == "deny" or answer.dangerous or not risky)


def _fits(rule: Rule | Answer, facts: Facts) -> bool:
    return (
        fnmatchcase(facts.app, rule.app)
        and fnmatchcase(facts.action, rule.action)
        and (rule.path == ANYWHERE or _leads(_ids(rule.path), _ids(facts.path)))
    )


ANYWHERE: Final = "*"
ANY_DEPTH: Final = "**"


def _leads(pattern: tuple[str, ...] | None, ids: tuple[str, ...] | None) -> bool:
    """Match segment by segment; a row of the table says which prefixes of `ids` are matched."""
    if pattern is None or ids is None:
        return False
    row = [True] + [False] * len(ids)
    for part in pattern:
        after = [part == ANY_DEPTH and row[0]]
        for place, own in enumerate(ids):
            if part == ANY_DEPTH:
                after.append(row[place + 1] or after[place])
            else:
                after.append(row[place] and fnmatchcase(own, part))
        row = after
    return row[-1]


def _ids(path: str) -> tuple[str, ...] | None:
    """Split a path or a pattern of one; None for what leads to no node, which fits nothing."""
    try:
        return parse_path(path)
    except InvalidPath:
        return None


def _literal(text: str) -> str:
    """Write a text as the pattern that fits it alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _told(rule: Rule | Answer) -> str:
    return f"{rule.decision} {rule.action} on {rule.path} of {rule.app}"
