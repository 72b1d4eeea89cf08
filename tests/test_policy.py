"""What a call may do: the table, then the laws."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.policy import Answer, Facts, Mode, Verdict, answer_to, decide


class Rule(msgspec.Struct, frozen=True):
    decision: Verdict
    app: str = "*"
    path: str = "*"
    action: str = "*"


ARCHIVE = Facts(app="mail", path="/inbox/m1", action="archive")
DELETE = Facts(app="mail", path="/inbox/m1", action="delete", dangerous=True)
UNSEEN = Facts(app="mail", path="/inbox/m9", action="explode", declared=False)


@pytest.mark.parametrize(
    ("facts", "mode", "verdict"),
    [
        (Facts(kind="read"), "plan", "approve"),
        (Facts(kind="read"), "ask", "approve"),
        (Facts(kind="note"), "plan", "deny"),
        (Facts(kind="note"), "ask", "approve"),
        (ARCHIVE, "plan", "deny"),
        (ARCHIVE, "ask", "ask"),
        (ARCHIVE, "auto", "approve"),
        (DELETE, "ask", "ask"),
        (DELETE, "auto", "ask"),
        (UNSEEN, "auto", "ask"),
        (msgspec.structs.replace(ARCHIVE, idempotent=True), "ask", "ask"),
    ],
)
def test_without_rules_the_mode_decides(facts: Facts, mode: Mode, verdict: Verdict) -> None:
    decision = decide(facts, mode)
    assert decision.verdict == verdict
    assert decision.reason


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_the_first_rule_that_fits_wins_over_the_mode(mode: Mode) -> None:
    rules = [Rule("deny", path="/inbox/m2"), Rule("approve", app="mail"), Rule("deny")]
    assert decide(DELETE, mode, rules).verdict == "approve"
    assert decide(Facts(app="mail", path="/inbox/m2"), mode, rules).verdict == "deny"
    assert decide(Facts(app="shop"), mode, rules).verdict == "deny"


def test_a_rule_cannot_make_a_plan_act() -> None:
    assert decide(ARCHIVE, "plan", [Rule("approve")]).verdict == "deny"


def test_a_rule_that_asks_is_stricter_than_auto_and_yields_to_an_answer() -> None:
    rules = [Rule("ask", action="archive")]
    assert decide(ARCHIVE, "auto", rules).verdict == "ask"
    answer = answer_to(ARCHIVE, approved=True)
    assert decide(ARCHIVE, "auto", rules, [answer]).verdict == "approve"
    assert decide(ARCHIVE, "auto", [Rule("deny")], [answer]).verdict == "deny"


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*", "/", True),
        ("*", "/a/b", True),
        ("/", "/", True),
        ("/", "/a", False),
        ("/inbox/*", "/inbox/m1", True),
        ("/inbox/*", "/inbox", False),
        ("/inbox/*", "/inbox/m1/body", False),
        ("/inbox/**", "/inbox/m1/body", True),
        ("/inbox/**", "/inbox", True),
        ("/**/body", "/inbox/m1/body", True),
        ("/**/body", "/body", True),
        ("/**/b*/**", "/a/body/c/d", True),
        ("/inbox/m?", "/inbox/m1/", True),
        ("/inbox/m[12]", "/inbox/m3", False),
        ("/inbox//x", "/inbox//x", False),
        ("/*/*", "/inbox//x", False),
    ],
)
def test_patterns_in_paths_stay_within_a_segment(pattern: str, path: str, fits: bool) -> None:
    verdict = decide(Facts(app="a", path=path), "ask", [Rule("approve", path=pattern)]).verdict
    assert (verdict == "approve") is fits


def test_what_an_app_calls_itself_is_never_a_pattern() -> None:
    starred = Facts(app="*", path="/*", action="**")
    assert decide(starred, "ask", [Rule("approve", app="mail")]).verdict == "ask"
    answer = answer_to(starred, approved=True)
    assert decide(starred, "ask", (), [answer]).verdict == "approve"
    other = Facts(app="mail", path="/x", action="send")
    assert decide(other, "ask", (), [answer]).verdict == "ask"


def test_an_answer_is_remembered_for_the_nodes_beside_it_and_no_further() -> None:
    answer = answer_to(ARCHIVE, approved=True)

    def verdict(**changes: object) -> Verdict:
        return decide(msgspec.structs.replace(ARCHIVE, **changes), "ask", (), [answer]).verdict

    assert verdict() == "approve"
    assert verdict(path="/inbox/m2") == "approve"
    assert verdict(path="/sent/m2") == "ask"
    assert verdict(path="/inbox/m2/body") == "ask"
    assert verdict(action="delete") == "ask"
    assert verdict(app="shop") == "ask"
    # The app changed its mind about what this is; the answer was given to something else.
    assert verdict(dangerous=True) == "ask"
    assert verdict(declared=False) == "ask"


def test_an_answer_to_something_dangerous_holds_for_that_node_alone() -> None:
    answer = answer_to(DELETE, approved=True)
    assert decide(DELETE, "ask", (), [answer]).verdict == "approve"
    beside = msgspec.structs.replace(DELETE, path="/inbox/m2")
    assert decide(beside, "ask", (), [answer]).verdict == "ask"


def test_a_remembered_no_is_a_no_whatever_the_app_says_later() -> None:
    answer = answer_to(ARCHIVE, approved=False)
    worse = msgspec.structs.replace(ARCHIVE, dangerous=True)
    assert decide(worse, "auto", (), [answer]).verdict == "deny"


def test_an_answer_to_a_path_that_leads_nowhere_answers_nothing_else() -> None:
    answer = answer_to(Facts(app="mail", path="//", action="send"), approved=True)
    assert decide(Facts(app="mail", path="/", action="send"), "ask", (), [answer]).verdict == "ask"


names = st.text("ab*?[]/~", max_size=4) | st.sampled_from(["mail", "*", "**"])
facts_of = st.builds(
    Facts,
    kind=st.sampled_from(["read", "note", "invoke"]),
    app=names,
    path=st.lists(names, max_size=4).map(lambda ids: "/" + "/".join(ids)),
    action=names,
    declared=st.booleans(),
    dangerous=st.booleans(),
    idempotent=st.booleans(),
)
modes = st.sampled_from(get_args(Mode))
rules_of = st.lists(
    st.builds(
        Rule,
        decision=st.sampled_from(get_args(Verdict)),
        app=names,
        path=st.lists(names, max_size=3).map(lambda ids: "/" + "/".join(ids)) | st.just("*"),
        action=names,
    ),
    max_size=4,
)
answers_of = st.lists(st.builds(answer_to, facts_of, approved=st.booleans()), max_size=3)


@given(facts_of, modes, rules_of, answers_of)
def test_nothing_but_a_rule_an_answer_or_the_mode_approves_an_invoke(
    facts: Facts, mode: Mode, rules: list[Rule], answers: list[Answer]
) -> None:
    decision = decide(facts, mode, rules, answers)
    assert decision == decide(facts, mode, rules, answers)
    if facts.kind == "invoke" and decision.verdict == "approve":
        assert mode != "plan"
        said = [rule.decision for rule in rules] + [answer.decision for answer in answers]
        assert mode == "auto" or "approve" in said


@given(facts_of, modes, rules_of, answers_of)
def test_what_an_app_says_of_itself_never_loosens_anything(
    facts: Facts, mode: Mode, rules: list[Rule], answers: list[Answer]
) -> None:
    order = {"approve": 0, "ask": 1, "deny": 2}
    admitted = msgspec.structs.replace(facts, dangerous=True, declared=True)
    claimed = msgspec.structs.replace(facts, dangerous=False, declared=True)
    strict, loose = (decide(f, mode, rules, answers) for f in (admitted, claimed))
    harmless = msgspec.structs.replace(claimed, idempotent=not claimed.idempotent)
    assert decide(harmless, mode, rules, answers) == loose
    if mode != "auto" and not answers:
        assert strict.verdict == loose.verdict
    if not answers:
        assert order[strict.verdict] >= order[loose.verdict]


@given(facts_of, st.booleans())
def test_an_answer_covers_the_call_it_was_given_to(facts: Facts, approved: bool) -> None:
    invoke = msgspec.structs.replace(facts, kind="invoke")
    verdict = decide(invoke, "ask", (), [answer_to(invoke, approved=approved)]).verdict
    assert verdict in (("approve" if approved else "deny"), "ask")
    if "//" not in facts.path:
        assert verdict == ("approve" if approved else "deny")
