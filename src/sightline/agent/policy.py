"""What a model's call may do: run, run if the user says so, or not at all.

    reads, the model's notes  approve, in every mode
    mode plan                 deny everything else
    a user's rule             approve or deny: it wins; ask: a remembered answer may still speak
    a remembered answer       as it was given, for calls that are no more dangerous than that one
    mode auto                 approve what the app shows and does not call dangerous, ask the rest
    mode ask                  ask

First match from above. An app's word can only make this stricter: that an action is
harmless, or may be repeated, is the app's claim about itself, so in mode `ask` it
approves nothing.

A rule is a set of patterns, and fits a call that fits each of them:

    app, action, origin      `*`, `?` and `[…]` as in a shell
    path                     the same within one segment; `**` is any number of segments, and
                             `*` alone, the default, every path
    params, label            exactly these parameters; exactly this label of the node
    command                  of our own `run`: a command line, or in a sandbox its first words
    file                     of our own actions on files: a path pattern for the file
    network                  of our own `run`: whether it approves commands with network too

A rule that approves is read narrowly. Its `command` fits only a line of plain words: a line with
an operator, an expansion, a comment, an assignment before the command, or a character beyond
ASCII fits no rule. Its words are the first words of a line where the command runs in a sandbox,
which contains the words that follow. Without a sandbox, and in a rule that gives the network, they
are the whole line. Its `file` fits a name with a leading dot only where the pattern has the dot,
and of a call for several files all must fit. Any other rule is read widely: its `command` fits
wherever the words stand in a line, its `file` if it fits one of the files.

Patterns are the user's; what an app calls itself is never read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from sightline.config.settings import PolicyRule
from sightline.context.messages.state import unfenced
from sightline.errors import InvalidInput, InvalidPath
from sightline.slop.protocol.jsontext import text_of
from sightline.slop.protocol.path import format_path, parse_path

Mode: TypeAlias = Literal["ask", "auto", "plan"]
Verdict: TypeAlias = Literal["approve", "ask", "deny"]
Kind: TypeAlias = Literal["read", "note", "invoke"]

ANYWHERE: Final = "*"
ANY_DEPTH: Final = "**"
# Every character that no shell reads as anything but itself, and blanks and quotes around them.
_PLAIN: Final = "-A-Za-z0-9_@%+=:,./~"
_WORD: Final = rf"""(?:[{_PLAIN}]|'[{_PLAIN} ]*'|"[{_PLAIN} ]*")+"""
_LINE: Final = re.compile(rf" *{_WORD}(?: +{_WORD})* *")
_WORDS: Final = re.compile(_WORD)
_QUOTES: Final = str.maketrans("", "", "'\"")
_OFFERED_WORDS: Final = 3
# Programs and subcommands that run other programs, and families of commands whose second word
# names the command. Neither is offered as a rule by its name alone. A user can still write one.
# A `+` joins a program and its subcommand.
_RUNNER_TABLE: Final = """
    sh ash bash dash zsh ksh mksh csh tcsh fish pwsh env sudo doas su runuser pkexec setpriv xargs
    parallel nohup nice ionice chrt taskset setsid stdbuf time timeout watch flock exec eval command
    builtin . source trap busybox toybox find awk gawk mawk nawk sed python pypy perl ruby node
    nodejs deno bun php lua tclsh expect R Rscript julia osascript ssh docker podman kubectl npx uvx
    pipx script screen tmux strace gdb chroot unshare nsenter systemd-run at vi vim nvim emacs ed
    git+bisect git+rebase git+submodule npm+exec npm+x pnpm+dlx pnpm+exec poetry+run uv+run yarn+dlx
"""
_FAMILY_TABLE: Final = "git npm pnpm yarn uv pip poetry cargo go gh apt apt-get brew"
_RUNNERS: Final = frozenset(_RUNNER_TABLE.split())
_FAMILIES: Final = frozenset(_FAMILY_TABLE.split())
_VERSION: Final = re.compile(r"[0-9][0-9.]*$")
_SHOWN_CHARS: Final = 200


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model's call before it runs.

    read     looks at something          note     writes to the model's own notes
    invoke   asks an app to do something

    `origin` says where the app comes from, `is_ours` that it is one of ours, and `sandboxed` that
    its commands run in a sandbox. `label` is the node's, `declared` says whether the app shows the
    action now. `dangerous` and `idempotent` are the app's claims. `digest` covers all claims about
    the action. `seen` has the same claims by label and without keys. `is_tool` marks the tool of
    an MCP server.
    """

    kind: Kind = "invoke"
    app: str = ""
    origin: str = ""
    is_ours: bool = False
    is_tool: bool = False
    sandboxed: bool = False
    path: str = "/"
    label: str = ""
    action: str = ""
    params: dict[str, Any] = {}
    declared: bool = True
    dangerous: bool = False
    idempotent: bool = False
    digest: str = ""
    seen: dict[str, str] = {}

    @property
    def risky(self) -> bool:
        """Whether the app calls it dangerous, or does not show it."""
        return self.dangerous or not self.declared


class Decision(msgspec.Struct, frozen=True):
    """What shall become of a call, and why, in words for the user and the model."""

    verdict: Verdict
    reason: str


class Answer(PolicyRule, frozen=True, kw_only=True):
    """What a user answered and wants remembered: a rule for the calls it was meant for.

    `dangerous` says whether the call was known to be so when it was answered; the
    answer does not stretch to calls that are more dangerous. An approval holds for actions
    with the same `digest`, and `seen` is what the user saw of the action, by label.
    """

    dangerous: bool = False
    digest: str = ""
    seen: dict[str, str] = msgspec.field(default_factory=dict)


def decide(
    facts: Facts, mode: Mode, rules: Iterable[PolicyRule] = (), remembered: Sequence[Answer] = ()
) -> Decision:
    """Decide on one call. The same arguments give the same decision."""
    if facts.kind == "read":
        return Decision("approve", "it only reads")
    if facts.kind == "note":
        return Decision("approve", "it writes to the model's own notes")
    if mode == "plan":
        return Decision(
            "deny",
            "mode plan: the user wants a plan first; look, take notes and ask, and act only when "
            "it is accepted",
        )
    rule = next((rule for rule in rules if _fits(rule, facts)), None)
    if rule is not None and rule.decision != "ask":
        return Decision(rule.decision, f"a rule: {in_words(rule, facts.sandboxed)}")
    answer = next((answer for answer in remembered if _covers(answer, facts)), None)
    if answer is not None:
        return Decision(answer.decision, f"answered before: {in_words(answer, facts.sandboxed)}")
    if changed_since(facts, remembered) is not None:
        return Decision("ask", "you allowed it, but the app describes it differently now")
    if rule is not None:
        return Decision("ask", f"a rule: {in_words(rule, facts.sandboxed)}")
    if not facts.declared:
        return Decision("ask", "the app does not show this action")
    if facts.dangerous:
        return Decision("ask", "the app calls it dangerous")
    if mode == "auto":
        return Decision("approve", "mode auto, and the app does not call it dangerous")
    return Decision("ask", "mode ask")


def rules_for(facts: Facts, decision: Verdict = "approve") -> tuple[Answer, ...]:
    """Give the rules by which this call could be decided from now on, the narrowest first.

    Of a command the whole line, and in a sandbox without network its first words, as far as they
    name the command; of a file its path and its directory; of anything else the same node with the
    same parameters; if nothing is dangerous about that, with any, and on the nodes beside it too.
    None for what cannot be told apart from something else: a command line that is more than plain
    words, the bare name of a program that runs anything, a path that leads nowhere, an app from
    nobody knows where.
    """
    ids = _ids(facts.path)
    if not facts.origin or ids is None or facts.kind != "invoke":
        return ()
    parts = [_literal(part) for part in ids]
    exact = Answer(
        app=_literal(facts.app), path=format_path(parts), action=_literal(facts.action),
        decision=decision, origin=_literal(facts.origin), dangerous=facts.risky,
        network=decision == "approve" and _has_network(facts), digest=facts.digest, seen=facts.seen,
    )  # fmt: skip
    if facts.is_ours and "command" in facts.params:
        lines = _beginnings(facts.params["command"], exact=_is_exact(exact, facts.sandboxed))
        return tuple(replace(exact, command=line) for line in lines)
    if facts.is_ours and (paths := _paths(facts.params)):
        patterns = dict.fromkeys(file for path in paths for file in _files(path))
        offered = (replace(exact, file=file) for file in patterns)
        return tuple(rule for rule in offered if len(paths) == 1 or _fits(rule, facts))
    same = replace(exact, params=facts.params, label=facts.label)
    if facts.risky:
        return (same,)
    beside = replace(exact, path=format_path([*parts[:-1], ANYWHERE]))
    # Beside an MCP tool is a different tool.
    return (same, exact, beside) if parts and not facts.is_tool else (same, exact)


def check_rules(rules: Iterable[PolicyRule]) -> None:
    """Raise InvalidInput for a rule that could fit nothing, and says so nowhere."""
    for number, rule in enumerate(rules, 1):
        if rule.command is not None and not _words(rule.command):
            raise InvalidInput(
                f"policy, rule {number}: command is the first words of a command line, without "
                f"operators; not {rule.command!r:.80}"
            )
        if rule.file is not None and _steps(rule.file) is None:
            raise InvalidInput(
                f"policy, rule {number}: file is a pattern of a path below the workspace's root; "
                f"not {rule.file!r:.80}"
            )


def exact_notice(rules: Iterable[PolicyRule], sandboxed: bool) -> str:
    """Name the rules that approve an exact command line and no words after it, or return ""."""
    lines = "; ".join(one.command for one in rules if one.command and _is_exact(one, sandboxed))
    where = "with network" if sandboxed else "without a sandbox"
    notice = f"Rules for commands approve only the exact line {where}, with no words after it: "
    return f"{notice}{lines}" if lines else ""


def in_words(rule: PolicyRule, sandboxed: bool = False) -> str:
    """Return a rule as a sentence that a user can agree to.

    `sandboxed` states whether commands run in a sandbox: without one a rule fits an exact line.
    """
    where = "" if rule.path == ANYWHERE else f" on {rule.path}"
    if rule.label is not None and rule.label:
        where += f" ({_quoted(rule.label)})"
    app = "any app" if rule.app == ANYWHERE else rule.app
    origin = "" if rule.origin == ANYWHERE else f" ({rule.origin})"
    action = "every action" if rule.action == ANYWHERE else rule.action
    text = f"{rule.decision} {action}{where} of {app}{origin}"
    if rule.command is not None:
        narrow = "that begin with" if rule.decision == "approve" else "that have"
        lines = "exactly the command" if _is_exact(rule, sandboxed) else f"commands {narrow}"
        text += f", for {lines}: {rule.command}"
    if rule.network:
        text += ", with network"
    if rule.file is not None:
        text += f", for files: {rule.file}"
    if rule.params is not None:
        text += f", with exactly {_quoted(rule.params)}"
    return text


def changed_since(facts: Facts, remembered: Iterable[Answer]) -> Answer | None:
    """Return the approval that lapsed because the app says something else of the action now."""
    other = (one for one in remembered if one.digest != facts.digest)
    return next((one for one in other if one.decision == "approve" and _fits(one, facts)), None)


def _covers(answer: Answer, facts: Facts) -> bool:
    is_same = answer.digest == facts.digest and (answer.dangerous or not facts.risky)
    return _fits(answer, facts) and (answer.decision == "deny" or is_same)


def _fits(rule: PolicyRule, facts: Facts) -> bool:
    return (
        fnmatchcase(facts.app, rule.app)
        and fnmatchcase(facts.action, rule.action)
        and fnmatchcase(facts.origin, rule.origin)
        and (rule.path == ANYWHERE or _leads(_ids(rule.path), _ids(facts.path)))
        and (rule.params is None or _canonical(rule.params) == _canonical(facts.params))
        and (rule.label is None or rule.label == facts.label)
        and (rule.command is None or _fits_command(rule.command, rule, facts))
        and (rule.file is None or _fits_file(rule.file, rule, facts))
        and (rule.decision != "approve" or rule.network or not _has_network(facts))
    )


# Of commands and files: only where the app is our own do we know what its parameters mean.


def _has_network(facts: Facts) -> bool:
    """Tell whether a command of ours is to have the network, which its sandbox would not give."""
    return facts.is_ours and facts.params.get("network", False) is not False


def _is_exact(rule: PolicyRule, sandboxed: bool) -> bool:
    """Return True if a rule approves a command without any words after it."""
    # A command with network reaches services of the user on loopback: no sandbox contains it.
    return rule.decision == "approve" and (rule.network or not sandboxed)


def _fits_command(pattern: str, rule: PolicyRule, facts: Facts) -> bool:
    line, begins = facts.params.get("command"), _words(pattern)
    if not facts.is_ours or not isinstance(line, str) or not begins:
        return False
    if rule.decision == "approve":
        words = _words(line)
        if _is_exact(rule, facts.sandboxed) and _WORDS.findall(line) != _WORDS.findall(pattern):
            return False  # compared with their quotes: `~` is a directory and '~' a file's name
        return words[: len(begins)] == begins and "=" not in words[0]
    found = [word.translate(_QUOTES) for word in _WORDS.findall(line)]
    return any(found[at : at + len(begins)] == begins for at in range(len(found)))


def _words(line: object) -> list[str]:
    """Split a line of plain words as a shell does; nothing of any other line."""
    if not isinstance(line, str) or not _LINE.fullmatch(line):
        return []
    return [word.translate(_QUOTES) for word in _WORDS.findall(line)]


def _beginnings(line: object, *, exact: bool) -> list[str]:
    """Return a line, and unless `exact` its beginnings, that can be a rule, the longest first."""
    words = _words(line)
    if not words or "=" in words[0]:
        return []
    spelled = _WORDS.findall(str(line))
    lengths = {len(words), *range(1, 1 if exact else min(len(words), _OFFERED_WORDS) + 1)}
    least = _shortest(words)
    return [
        " ".join(spelled[:length]) for length in sorted(lengths, reverse=True) if length >= least
    ]


def _shortest(words: list[str]) -> int:
    """Count the words that name the command: all of them after `bash`, `git -c` or `uv run`."""
    program, second = _VERSION.sub("", words[0].rpartition("/")[2]), words[1] if words[1:] else ""
    if f"{program}+{second}" in _RUNNERS:
        return max(3, len(words))
    if program in _RUNNERS or (program in _FAMILIES and second.startswith("-")):
        return max(2, len(words))
    return 2 if program in _FAMILIES else 1


def _fits_file(pattern: str, rule: PolicyRule, facts: Facts) -> bool:
    paths, narrow = _paths(facts.params), rule.decision == "approve"
    if not facts.is_ours or not paths:
        return False
    fitting = (
        isinstance(path, str) and _leads(_steps(pattern), _steps(path), dots=not narrow)
        for path in paths
    )
    return all(fitting) if narrow else any(fitting)


def _paths(params: Mapping[str, Any]) -> list[object]:
    """List the files that a call names, each of its edits included."""
    edits = params.get("edits")
    named = [params, *(edits if isinstance(edits, list) else ())]
    return [
        one[key]
        for one in named
        if isinstance(one, Mapping)
        for key in ("path", "to")
        if key in one
    ]


def _steps(path: str) -> tuple[str, ...] | None:
    """Split a file's path as the workspace does; None for one that it would not take."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    return None if path.startswith("/") or not parts or ".." in parts else parts


def _files(path: object) -> list[str]:
    """Write the patterns for a file: itself, and the files beside it."""
    parts = _steps(path) if isinstance(path, str) else None
    if parts is None:
        return []
    literal = [_literal(part) for part in parts]
    return ["/".join(literal), "/".join([*literal[:-1], ANYWHERE])]


def _leads(
    pattern: tuple[str, ...] | None, ids: tuple[str, ...] | None, *, dots: bool = True
) -> bool:
    """Match segment by segment; a row of the table says which prefixes of `ids` are matched.

    Without `dots`, a leading dot is matched by a dot alone, as in a shell.
    """
    if pattern is None or ids is None:
        return False
    row = [True] + [False] * len(ids)
    for part in pattern:
        after = [part == ANY_DEPTH and row[0]]
        for index, segment in enumerate(ids):
            hidden = not dots and segment.startswith(".") and not part.startswith(".")
            if part == ANY_DEPTH:
                after.append(row[index + 1] or (after[index] and not hidden))
            else:
                after.append(row[index] and not hidden and fnmatchcase(segment, part))
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


def _canonical(value: object) -> str:
    """Write a value so that the same ones are equal: 1, 1.0 and true are three values."""
    return bytes(text_of(value)).decode()


def _quoted(value: object) -> str:
    """Write a value as JSON, counting what does not fit."""
    text = _canonical(value)
    more = len(text) - _SHOWN_CHARS
    return text if more <= 0 else f"{text[:_SHOWN_CHARS]}… and {more:,} more characters"


# Mode `plan`: what the model is told of it, and the plan that an answer ends in. The words stand
# in the tail, so that entering or leaving the mode changes no byte of the prefix.
#
#     plan_of(told to the model, followed) != ""      an answer without the heading is no plan

PLANNING: Final = """\
## Plan mode

The user wants a plan before anything is done. Look, search, take notes and ask as you like; every \
action that could change something is refused. When you know enough, end your answer with the \
heading `### PLAN`, and below it what is to be done: where, in which order, and how you will check \
it. The user accepts the plan, changes or refuses it; carry it out only when it is accepted."""

# As models write it: any level, any case, blanks or one colon behind it.
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+PLAN[ \t]*(?::[ \t]*)?", re.IGNORECASE | re.ASCII)


def plan_of(answer: str) -> str:
    """Find the plan of an answer: all that follows its last heading `### PLAN`; empty if none.

    A heading in a code block is none.
    """
    ends = [start + len(line) for start, line in unfenced(answer) if _HEADING.fullmatch(line)]
    return answer[ends[-1] :].strip() if ends else ""


def accepted(plan: str, changed: str) -> str:
    """Write what a user says who accepts a plan, or another one in its stead."""
    changed = changed.strip()
    if changed in ("", plan):
        return "I accept your plan. Carry it out."
    return f"I changed your plan. Carry out this one:\n\n{changed}"
