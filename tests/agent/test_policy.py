"""What a call may do: the table, then the laws."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.agent.policy import (
    Answer,
    Facts,
    Mode,
    Verdict,
    check_rules,
    decide,
    in_words,
    rules_for,
)
from sightline.config import PolicyRule
from sightline.errors import InvalidInput


def decided(decision: Verdict, **conditions: Any) -> PolicyRule:
    return PolicyRule(decision=decision, **conditions)


SOCKET = "unix:/run/mail.sock (user 1000)"
ARCHIVE = Facts(app="mail", origin=SOCKET, path="/inbox/m1", action="archive")
DELETE = Facts(
    app="mail", origin=SOCKET, path="/inbox/m1", action="delete", dangerous=True, label="old draft",
    params={"forever": True},
)  # fmt: skip
UNSEEN = Facts(app="mail", origin=SOCKET, path="/inbox/m9", action="explode", declared=False)


def narrowest(facts: Facts, decision: Verdict = "approve") -> Answer:
    return rules_for(facts, decision)[0]


def widest(facts: Facts) -> Answer:
    return rules_for(facts)[-1]


def run(command: object, **changes: Any) -> Facts:
    given: dict[str, Any] = {
        "app": "workspace", "origin": "our own", "is_ours": True, "action": "run",
        "dangerous": True, "params": {"command": command},
    }  # fmt: skip
    return Facts(**{**given, **changes})


def edit(path: object, **changes: Any) -> Facts:
    return run("", **{"action": "edit", "params": {"path": path, "old": "a"}, **changes})


@pytest.mark.parametrize(
    ("facts", "mode", "verdict"),
    [
        (Facts(kind="read"), "plan", "approve"),
        (Facts(kind="read"), "ask", "approve"),
        (Facts(kind="note"), "plan", "approve"),
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
    rules = [decided("deny", path="/inbox/m2"), decided("approve", app="mail"), decided("deny")]
    assert decide(DELETE, mode, rules).verdict == "approve"
    assert decide(Facts(app="mail", path="/inbox/m2"), mode, rules).verdict == "deny"
    assert decide(Facts(app="shop"), mode, rules).verdict == "deny"


def test_a_rule_cannot_make_a_plan_act() -> None:
    assert decide(ARCHIVE, "plan", [decided("approve")]).verdict == "deny"


def test_a_rule_that_asks_is_stricter_than_auto_and_yields_to_an_answer() -> None:
    rules = [decided("ask", action="archive")]
    assert decide(ARCHIVE, "auto", rules).verdict == "ask"
    answer = narrowest(ARCHIVE)
    assert decide(ARCHIVE, "auto", rules, [answer]).verdict == "approve"
    assert decide(ARCHIVE, "auto", [decided("deny")], [answer]).verdict == "deny"


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
    verdict = decide(Facts(app="a", path=path), "ask", [decided("approve", path=pattern)]).verdict
    assert (verdict == "approve") is fits


def test_what_an_app_calls_itself_is_never_a_pattern() -> None:
    starred = Facts(app="*", path="/*", action="**", origin="*")
    assert decide(starred, "ask", [decided("approve", app="mail")]).verdict == "ask"
    answer = rules_for(starred)[1]
    assert decide(starred, "ask", (), [answer]).verdict == "approve"
    other = Facts(app="mail", path="/x", action="send", origin=SOCKET)
    assert decide(other, "ask", (), [answer]).verdict == "ask"


def test_the_widest_rule_is_for_the_nodes_beside_it_and_no_further() -> None:
    answer = widest(ARCHIVE)

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
    # Another app under the same name.
    assert verdict(origin="unix:/run/mail.sock (user 65534)") == "ask"
    assert verdict(origin="") == "ask"


def test_the_narrowest_rule_is_for_the_same_parameters() -> None:
    answer = narrowest(msgspec.structs.replace(ARCHIVE, params={"n": 1}))
    cases: list[tuple[dict[str, Any], Verdict]] = [
        ({"n": 1}, "approve"), ({"n": True}, "ask"), ({"n": 1.0}, "ask"), ({}, "ask"),
        ({"n": 1, "m": 2}, "ask"),
    ]  # fmt: skip
    for params, verdict in cases:
        facts = msgspec.structs.replace(ARCHIVE, params=params)
        assert decide(facts, "ask", (), [answer]).verdict == verdict


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "/inbox/m2"},
        {"params": {"forever": False}},
        {"label": "TAX RETURNS 2026"},
        {"origin": "ws://127.0.0.1:9/slop"},
        {"origin": ""},
        {"app": "mail2"},
    ],
)
def test_a_rule_for_something_dangerous_is_for_that_node_with_those_parameters_from_there(
    changes: dict[str, Any],
) -> None:
    [answer] = rules_for(DELETE)
    assert decide(DELETE, "ask", (), [answer]).verdict == "approve"
    other = msgspec.structs.replace(DELETE, **changes)
    assert decide(other, "ask", (), [answer]).verdict == "ask"


def test_a_remembered_no_is_a_no_whatever_the_app_says_later() -> None:
    answer = narrowest(ARCHIVE, "deny")
    worse = msgspec.structs.replace(ARCHIVE, dangerous=True)
    assert decide(worse, "auto", (), [answer]).verdict == "deny"


@pytest.mark.parametrize(
    "facts",
    [
        Facts(app="mail", path="//", action="send", origin=SOCKET),
        Facts(app="mail", path="/", action="send", origin=""),
        run("make && ./deploy"),
        run("FOO=1 make"),
        run(7),
        edit("../x"),
        edit(["x"]),
    ],
)
def test_what_cannot_be_told_apart_is_not_remembered(facts: Facts) -> None:
    assert rules_for(facts) == ()


def test_rules_for_offers_first_words_of_a_command_when_it_runs_in_a_sandbox() -> None:
    line = "git diff --stat src 'a b'"
    offered = [rule.command for rule in rules_for(run(line, sandboxed=True))]
    assert offered == [line, "git diff --stat", "git diff"]
    assert [rule.command for rule in rules_for(run(line))] == [line]
    [rule] = rules_for(run("ls"))
    begins = "approve run on / of workspace (our own), for"
    assert in_words(rule) == f"{begins} exactly the command: ls"
    assert in_words(rule, sandboxed=True) == f"{begins} commands that begin with: ls"


def test_rules_for_offers_the_exact_line_of_a_command_with_network() -> None:
    params = {"command": "pip install x", "network": True}
    [rule] = rules_for(run("", params=params, sandboxed=True))
    assert (rule.command, rule.network) == ("pip install x", True)
    assert in_words(rule, sandboxed=True).endswith(
        "exactly the command: pip install x, with network"
    )
    for line in ("pip install x y", "pip install"):
        for network in (True, False):
            other = run(line, params={"command": line, "network": network}, sandboxed=True)
            assert decide(other, "ask", (), [rule]).verdict == "ask"


@pytest.mark.parametrize(
    "line",
    ["bash -c 'rm -rf x'", "/bin/sh -c ls", "sudo ls -l", "env ls", "python3.12 -c pass",
     "git -c core.pager=x log", "npm -y exec x", "xargs rm", ". x.sh", "nodejs x.js", "csh x",
     "tcsh x", "mksh x", "pwsh x", "toybox sh x", "flock l ls", "setpriv ls", "runuser ls",
     "pkexec ls", "tmux new ls", "emacs --batch", "nvim -l x", "nawk -f x", "R -f x", "julia x"],
)  # fmt: skip
def test_rules_for_offers_no_program_that_runs_others_by_its_name(line: str) -> None:
    [offered] = rules_for(run(line, sandboxed=True))
    assert offered.command == line
    [program, *_] = line.split()
    assert rules_for(run(program, sandboxed=True)) == ()


@pytest.mark.parametrize(
    "begins", ["uv run", "npm exec", "git rebase", "git submodule", "git bisect", "poetry run"]
)
def test_rules_for_offers_no_subcommand_that_runs_programs_by_its_name(begins: str) -> None:
    [offered] = rules_for(run(f"{begins} ./x", sandboxed=True))
    assert offered.command == f"{begins} ./x"
    assert rules_for(run(begins, sandboxed=True)) == ()


@pytest.mark.parametrize("line", ["pytest", "pytest -q tests", "  pytest  -k 'a b'", '"pytest" x'])
def test_decide_reads_a_rule_as_first_words_when_the_command_runs_in_a_sandbox(line: str) -> None:
    answer = widest(run("pytest tests/a.py", sandboxed=True))
    assert answer.command == "pytest"
    assert decide(run(line, sandboxed=True), "ask", (), [answer]).verdict == "approve"
    exact = "approve" if line == "pytest" else "ask"
    assert decide(run(line), "ask", (), [answer]).verdict == exact


@pytest.mark.parametrize(
    ("rule", "line", "fits"),
    [
        ("git diff", "git diff", True),
        ("git diff", "  git   diff ", True),
        ("git diff", "git diff --output=FILE", False),
        ("git diff", "git 'diff'", False),
        ("rm '~'", "rm ~", False),
        ("git diff --stat", "git diff", False),
    ],
)
def test_decide_reads_a_rule_as_the_exact_line_without_a_sandbox(
    rule: str, line: str, fits: bool
) -> None:
    verdict = decide(run(line), "auto", [decided("approve", command=rule)]).verdict
    assert verdict == ("approve" if fits else "ask")


# Whatever makes a line more than one plain command.
OPERATORS = [
    ";", "&&", "||", "|", "&", "$(x)", "`x`", ">x", "<x", ">>x", "<(x)", ">(x)", "${x}", "$x",
    "\n", "\r", "\t", "\x0b", "\x00", "#", "*", "?", "[a]", "{a,b}", "(x)", "!", "\\", "'", '"',
    "'$(x)'", '"`x`"', "\u00a0", "\u2028", "\u0085", "\u200b", "\uff1b", "é", "^",
]  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS, ids=ascii)
@pytest.mark.parametrize("shape", ["pytest{}rm -rf x", "pytest {} rm", "pytest{}", "pytest x {}"])
def test_a_rule_for_commands_fits_no_line_with_an_operator(operator: str, shape: str) -> None:
    facts = run(shape.format(operator), sandboxed=True)
    assert decide(facts, "ask", (), [widest(run("pytest", sandboxed=True))]).verdict == "ask"
    assert decide(facts, "ask", [decided("approve", command="pytest")]).verdict == "ask"
    assert rules_for(facts) == ()


@pytest.mark.parametrize(
    "facts",
    [
        run("pytests"),
        run("./pytest"),
        run("X=1 pytest"),
        run("py test"),
        run("env pytest"),
        run(""),
        run(["pytest"]),
        run("pytest", is_ours=False, origin="unix:/tmp/x.sock (user 1000)"),
        run("pytest", is_ours=False),
    ],
)
def test_a_rule_for_commands_fits_no_other_command_and_no_other_app(facts: Facts) -> None:
    assert decide(facts, "ask", (), [widest(run("pytest"))]).verdict == "ask"
    assert decide(facts, "ask", [decided("approve", command="pytest")]).verdict == "ask"


def test_a_rule_for_commands_gives_no_network_unless_it_says_so() -> None:
    params = {"command": "pip install x", "network": True}
    with_network = run("pip install x", params=params, sandboxed=True)
    for rule in (decided("approve"), decided("approve", command="pip")):
        facts = run("pip install x", sandboxed=True)
        assert decide(facts, "ask", [rule]).verdict == "approve"
        assert decide(with_network, "ask", [rule]).verdict == "ask"
    remembered = rules_for(run("pip install x"))
    assert decide(with_network, "ask", remembered=remembered).verdict == "ask"
    assert decide(with_network, "ask", [decided("deny", command="pip")]).verdict == "deny"
    offered = narrowest(with_network)
    assert decide(with_network, "ask", remembered=[offered]).verdict == "approve"
    assert in_words(offered).endswith("exactly the command: pip install x, with network")


def test_a_rule_that_denies_a_command_is_read_widely() -> None:
    deny = [decided("deny", command="git push"), decided("approve", action="run")]
    for line in ("git push", "cd x && git push -f", "$(git push)", "sh -c 'x;git push'"):
        assert decide(run(line), "ask", deny).verdict == "deny"
    assert decide(run("git pull"), "ask", deny).verdict == "approve"


@pytest.mark.parametrize(
    ("pattern", "file", "fits"),
    [
        ("notes/*", "notes/a.md", True),
        ("notes/*", "./notes//a.md", True),
        ("notes/*", "notes/b/a.md", False),
        ("notes/*", "notes/.env", False),
        ("notes/.*", "notes/.env", True),
        ("notes/**", "notes/b/c/a.md", True),
        ("notes/**", "notes/.git/config", False),
        ("**", ".bashrc", False),
        ("notes/*", "notes/../secret", False),
        ("notes/*", "/notes/a.md", False),
        ("*.md", "a.md", True),
        ("*.md", "b/a.md", False),
    ],
)
def test_a_rule_for_files_is_a_path_pattern(pattern: str, file: str, fits: bool) -> None:
    verdict = decide(edit(file), "ask", [decided("approve", file=pattern)]).verdict
    assert (verdict == "approve") is fits
    assert (
        decide(edit(file, is_ours=False), "ask", [decided("approve", file=pattern)]).verdict
        == "ask"
    )


def test_a_rule_that_denies_a_file_fits_hidden_ones_too() -> None:
    assert decide(edit("a/.env"), "ask", [decided("deny", file="**")]).verdict == "deny"


def test_a_rule_approves_a_call_for_several_files_if_it_fits_each_and_denies_it_for_one() -> None:
    move = edit("src/a.py", params={"path": "src/a.py", "to": "lib/a.py"}, action="move")
    edits = [{"path": "src/a.py", "delete": True}, {"path": "src/b.py", "to": "src/c.py"}]
    many = edit("", params={"edits": edits}, action="edit_many")
    for facts, fits_each in ((move, False), (many, True)):
        inside = decide(facts, "ask", [decided("approve", file="src/*")]).verdict
        assert inside == ("approve" if fits_each else "ask")
        assert decide(facts, "ask", [decided("deny", file="src/a.py")]).verdict == "deny"
    assert [rule.file for rule in rules_for(many)] == ["src/*"]
    assert rules_for(move) == ()


def test_a_file_is_remembered_as_itself_or_with_those_beside_it() -> None:
    assert [rule.file for rule in rules_for(edit("notes/a[1]"))] == ["notes/a[[]1]", "notes/*"]
    [alone, beside] = rules_for(edit("notes/a.md"))
    other = edit("notes/b.md")
    assert decide(other, "ask", (), [alone]).verdict == "ask"
    assert decide(other, "ask", (), [beside]).verdict == "approve"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (decided("approve", command="ls; rm"), "rule 2: command is the first words"),
        (decided("approve", command=""), "rule 2: command is the first words"),
        (decided("approve", file="/etc/passwd"), "rule 2: file is a pattern"),
        (decided("approve", file="../x"), "rule 2: file is a pattern"),
    ],
)
def test_a_rule_that_could_fit_nothing_is_told(rule: PolicyRule, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        check_rules([decided("ask"), rule])


names = st.text("ab*?[]/~", max_size=4) | st.sampled_from(["mail", "*", "**"])
facts_of = st.builds(
    Facts,
    kind=st.sampled_from(["read", "note", "invoke"]),
    app=names,
    path=st.lists(names, max_size=4).map(lambda ids: "/" + "/".join(ids)),
    action=names,
    origin=st.sampled_from([SOCKET, "*"]),
    is_ours=st.booleans(),
    params=st.sampled_from([{}, {"command": "ls -l"}, {"path": "a/b"}, {"n": 1}]),
    declared=st.booleans(),
    dangerous=st.booleans(),
    idempotent=st.booleans(),
)
modes = st.sampled_from(get_args(Mode))
rules_of = st.lists(
    st.builds(
        PolicyRule,
        decision=st.sampled_from(get_args(Verdict)),
        app=names,
        path=st.lists(names, max_size=3).map(lambda ids: "/" + "/".join(ids)) | st.just("*"),
        action=names,
    ),
    max_size=4,
)
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(["approve", "deny"])
answers_of = st.lists(st.builds(rules_for, facts_of, verdicts), max_size=3).map(
    lambda offers: [rule for rules in offers for rule in rules]
)


@given(facts_of, modes, rules_of, answers_of)
def test_nothing_but_a_rule_an_answer_or_the_mode_approves_an_invoke(
    facts: Facts, mode: Mode, rules: list[PolicyRule], answers: list[Answer]
) -> None:
    decision = decide(facts, mode, rules, answers)
    assert decision == decide(facts, mode, rules, answers)
    if facts.kind == "invoke" and decision.verdict == "approve":
        assert mode != "plan"
        said = [rule.decision for rule in rules] + [answer.decision for answer in answers]
        assert mode == "auto" or "approve" in said


@given(facts_of, modes, rules_of, answers_of)
def test_what_an_app_says_of_itself_never_loosens_anything(
    facts: Facts, mode: Mode, rules: list[PolicyRule], answers: list[Answer]
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


@given(facts_of, verdicts)
def test_every_rule_that_is_offered_covers_the_call(facts: Facts, decision: Verdict) -> None:
    invoke = msgspec.structs.replace(facts, kind="invoke")
    for rule in rules_for(invoke, decision):
        assert decide(invoke, "ask", (), [rule]).verdict == decision
        assert in_words(rule)


def test_an_approval_lapses_when_the_app_describes_the_action_differently() -> None:
    shown = msgspec.structs.replace(ARCHIVE, digest="a")
    changed = msgspec.structs.replace(ARCHIVE, digest="b")
    for answer in rules_for(shown):
        assert decide(shown, "ask", (), [answer]).verdict == "approve"
        for mode in get_args(Mode):
            assert decide(changed, mode, (), [answer]).verdict == (
                "deny" if mode == "plan" else "ask"
            )
        # A rule of the configuration is bound to no description.
        assert decide(changed, "ask", [decided("approve")], [answer]).verdict == "approve"


def test_a_denial_holds_when_the_app_describes_the_action_differently() -> None:
    [answer, *_] = rules_for(msgspec.structs.replace(ARCHIVE, digest="a"), "deny")
    changed = msgspec.structs.replace(ARCHIVE, digest="b")
    assert decide(changed, "auto", (), [answer]).verdict == "deny"


def test_no_rule_for_the_nodes_beside_is_offered_for_an_mcp_tool() -> None:
    assert len(rules_for(ARCHIVE)) == 3
    assert len(rules_for(msgspec.structs.replace(ARCHIVE, is_tool=True))) == 2
