"""The turns of a session, as the inspector lists, filters, sums up and judges them.

Whatever is asked costs what is shown: rows are read by their numbers, a verdict by the few
requests before it. Only a filter goes through a whole session, by sums and by indexes.

A filter is what somebody looks for, as they type it:

    status:failed cache<50% tool:rollback cost>0.1 "since lunch" -model:luna

terms             all of them must hold; `-` before one turns it round
status: tool: model:     what became of a turn; what it called; who answered
cache cost time tokens requests turn      with < <= > >= or =, and their units
anything else     words that were said in the turn

parse_filter(str(f)) == f   for every filter f
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from operator import eq, ge, gt, le, lt
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import astuple

from sightline.agent.host.journal import Journal, RequestLine
from sightline.agent.host.status import by_group, status_of
from sightline.context.ledger import Group, Ledger, Totals
from sightline.context.ledger.groups import GroupStatus
from sightline.context.ledger.work import Hold, hold_on
from sightline.errors import InvalidInput, SightlineError
from sightline.inspector.records import preview
from sightline.inspector.timeline import duration_of
from sightline.inspector.verdicts import (
    CacheVerdict,
    KeptReceipt,
    SentFacts,
    cache_verdict,
    reason_of,
    used_by,
)

LOOKED_BACK: Final = 8  # requests before one, among which its cache is looked for
FIRST_ROWS: Final = 32  # that come with a list: what can be seen of it
MOST_ROWS: Final = 200
MOST_HITS: Final = 100_000
COLUMNS: Final = 120  # of the chart of a session
_NANO: Final = 1_000_000_000
_GONE: Final = ("undone", "removed")
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_receipts: Final = msgspec.json.Decoder(KeptReceipt)
_NOTHING: Final = Totals(0, 0, 0, 0, 0, 0)
Listed: TypeAlias = tuple[int, int, GroupStatus, int, int]
# What a filter compares of the sums of a turn.
_SPENT: Final[dict[str, Callable[[Totals], float | None]]] = {
    "cache": lambda sums: (
        100 * sums.cached_tokens / sums.prompt_tokens if sums.prompt_tokens else None
    ),
    "cost": lambda sums: None if sums.unpriced else sums.cost_nanousd / _NANO,
    "tokens": lambda sums: sums.prompt_tokens,
}
# What is looked at last: it is in the journal, which is read whole for it.
_DEAR: Final = ("requests", "time", "status")
STATUSES: Final = (
    "answered", "running", "interrupted", "cancelled", "failed", "limit", "unanswered", "dropped",
    "undone", "removed",
)  # fmt: skip
NAMED: Final = ("status", "tool", "model")
# What is compared, and what its units are worth; the first is the one that it is written with.
UNITS: Final[dict[str, dict[str, float]]] = {
    "cache": {"%": 1.0, "": 1.0},
    "cost": {"": 1.0, "$": 1.0},
    "time": {"s": 1.0, "": 1.0, "ms": 0.001, "m": 60.0},
    "tokens": {"": 1.0, "k": 1_000.0},
    "requests": {"": 1.0},
    "turn": {"": 1.0},
}
_EXAMPLES: Final = {
    "cache": "cache<50%", "cost": "cost>0.1", "time": "time>3s", "tokens": "tokens>10k",
    "requests": "requests>1", "turn": "turn=12", "status": "status:failed",
    "tool": "tool:rollback", "model": "model:sonnet",
}  # fmt: skip
_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "=": eq,
}  # fmt: skip
_TERM: Final = re.compile(
    r"""(?P<minus>-?)(?:(?P<field>[A-Za-z]+)(?P<op>:|<=|>=|<|>|=))?(?P<value>"[^"]*"?|\S*)"""
)
_NUMBER: Final = re.compile(r"\$?(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>%|ms|s|m|k|\$|)")
LONGEST: Final = 1_000


class TurnRecords:
    """The turns of a ledger's sessions; `journal` opens the wire journal, if there is one."""

    def __init__(self, ledger: Ledger, journal: Callable[[], Journal | None]) -> None:
        self._ledger = ledger
        self._journal = journal

    def index(self, session: int, text: str) -> dict[str, Any]:
        """List the numbers of the turns that a filter admits, with their requests and last rows.

        A `problem` is what is wrong with a filter that is being typed: an answer, not a failure.
        """
        every, problem = self._ledger.groups.every(session), ""
        try:
            wanted = parse_filter(text)
            if wanted.terms:
                every = self._admitted(session, wanted, every)
        except InvalidInput as error:
            every, problem = [], str(error)
        journal = self._journal()
        counts = {} if journal is None else journal.counts(session)
        turns = [seq + 1 for seq, *_ in every]
        return {
            "turns": turns,
            "requests": [counts.get(turn, 0) for turn in turns],
            "rows": self.rows(session, turns[-FIRST_ROWS:]),
            "problem": problem,
        }

    def rows(self, session: int, turns: Sequence[int]) -> list[dict[str, Any]]:
        """Describe some turns, each as a row of the list."""
        hold = hold_on(self._ledger.work, session)  # first: a turn that ends meanwhile was running
        accounts, groups = self._ledger.accounts, self._ledger.groups
        newest = groups.recent(session, 1)
        listed = groups.at(session, [turn - 1 for turn in turns])
        every_line = self._lines(session, turns)
        lines, judged = by_group(every_line), self.judged(every_line)
        spent = accounts.of_groups(session, [group.id for group in listed])
        rows = []
        for group in listed:
            own_lines, usages = lines.get(group.id, []), spent[group.id]
            status = status_of(
                own_lines,
                hold if newest and group.id == newest[0].id else "none",
                replied=group.messages > 1,
                outcome=usages[-1].outcome or "" if usages else "",
            )
            verdicts = [judged[line.id] for line in own_lines]
            costs = [usage.cost_nanousd for usage in usages]
            known = [cost for cost in costs if cost is not None]
            rows.append(
                {
                    "turn": group.seq + 1,
                    "group": group.id,
                    "text": preview(group.prompt or self._sent_input(group, own_lines)),
                    "status": status if group.status == "live" else group.status,
                    "reason": reason_of(group.status, status, verdicts, usages),
                    "requests": max((line.number for line in own_lines), default=0),
                    "prompt_tokens": sum(usage.prompt_tokens for usage in usages),
                    "cached_tokens": sum(usage.cached_tokens for usage in usages),
                    "cost_usd": sum(known) / _NANO if usages and len(known) == len(costs) else None,
                    "duration_ms": duration_of(own_lines),
                }
            )
        return rows

    def replayed(self, session: int, turn: int, texts: Sequence[str]) -> set[int]:
        """Find the turns, by `seq`, whose questions a later one replayed, oldest first.

        One that was dropped since is still found; what the ledger says otherwise by now is
        taken for the next that is there.
        """
        groups = self._ledger.groups
        earlier = groups.every(session)[: turn - 1]
        before = [seq for seq, _, status, *_ in earlier if status not in _GONE]
        near = groups.at(session, before[-len(texts) - LOOKED_BACK :] if texts else [])
        found: set[int] = set()
        for text in reversed(texts):
            fits = (
                group for group in reversed(near) if group.prompt and text.startswith(group.prompt)
            )
            chosen = next(fits, near[-1] if near else None)
            if chosen is not None:
                found.add(chosen.seq)
                near = near[: near.index(chosen)]
        return found

    def overview(self, session: int) -> dict[str, Any]:
        """Sum up a session: in all, and over its turns in so many columns at most."""
        spent = self._ledger.accounts.by_group(session)
        every = self._ledger.groups.every(session)
        by_turn = [(seq + 1, spent.get(group, _NOTHING)) for seq, group, *_ in every]
        within = _sum(totals for _, totals in by_turn)
        whole = self._ledger.accounts.totals(session)
        return {
            **chart_of(by_turn),
            "beside_usd": max(0, whole.cost_nanousd - within.cost_nanousd) / _NANO,
            "beside_unpriced": max(0, whole.unpriced - within.unpriced),
        }

    def _admitted(self, session: int, wanted: TurnFilter, every: list[Listed]) -> list[Listed]:
        """Keep the turns that a filter admits, reading only what it asks about."""
        figures = _Figures(self._ledger, session, every, lambda: self._lines(session))
        for term in sorted(wanted.terms, key=_dearness):
            known = figures.of(term)
            every = [listed for listed in every if term.admits(known(listed))]
        return every

    def _lines(self, session: int, turns: Sequence[int] | None = None) -> list[RequestLine]:
        journal = self._journal()
        if journal is None:
            return []
        return journal.requests(session) if turns is None else journal.of_turns(session, turns)

    def _sent_input(self, group: Group, lines: Sequence[RequestLine]) -> str:
        """What the user said in a turn that the ledger no longer has, as it was sent."""
        journal = self._journal()
        if journal is None or not lines or group.status not in _GONE:
            return ""
        try:
            prompt = journal.recorded(lines[0].id).prompt
        except SightlineError:
            return ""
        before_tail = reversed(prompt.messages[: prompt.boundary])
        return next((message.text for message in before_tail if message.role == "user"), "")

    def judged(self, lines: Sequence[RequestLine]) -> dict[int, tuple[SentFacts, CacheVerdict]]:
        """Gather what is known of all requests of some turns, and judge what of each was reused.

        The lines are those of one session, in order; what comes back is by their row ids.
        """
        journal = self._journal()
        if journal is None or not lines:
            return {}
        turns = {line.turn for line in lines}
        known = {line.id: line for line in lines}
        for first in {line.turn: line for line in reversed(lines)}.values():
            if first.turn - 1 not in turns:
                known.update((line.id, line) for line in journal.earlier(first, LOOKED_BACK))
        facts = self._facts([known[row] for row in sorted(known)])
        made_with = journal.made_with([line.id for line in lines])
        judged = {}
        for at, fact in enumerate(facts):
            if fact.line.id in made_with:
                profile, options = made_with[fact.line.id]
                earlier = facts[max(0, at - LOOKED_BACK) : at][::-1]
                verdict = cache_verdict(fact, earlier, profile, options.cache_ttl)
                judged[fact.line.id] = (fact, verdict)
        return judged

    def _facts(self, lines: Sequence[RequestLine]) -> list[SentFacts]:
        """Gather what is known of requests of one session; the last of each turn are among them."""
        session, groups = lines[0].session_id, by_group(lines)
        usages = self._ledger.accounts.of_groups(session, list(groups))
        statuses = self._ledger.groups.statuses(session, list(groups))
        texts = self._ledger.accounts.receipt_texts(
            [line.receipt_id for line in lines if line.receipt_id is not None]
        )
        used = {
            line.id: usage
            for group, turn in groups.items()
            for line, usage in zip(turn, used_by(turn, usages[group]), strict=True)
        }
        return [
            SentFacts(
                line,
                used[line.id],
                _receipt(texts.get(line.receipt_id or 0)),
                statuses.get(line.group_id) in _GONE,
            )
            for line in lines
        ]


def chart_of(by_turn: Sequence[tuple[int, Totals]]) -> dict[str, Any]:
    """Sum up turns, each with its number: in all, and in so many columns at most."""
    size = max(1, -(-len(by_turn) // COLUMNS))
    sums, columns = [], []
    for start in range(0, len(by_turn), size):
        part = by_turn[start : start + size]
        sums.append(_sum(totals for _, totals in part))
        columns.append({"first": part[0][0], "last": part[-1][0], **_figures(sums[-1])})
    return {"turns": len(by_turn), "columns": columns, **_figures(_sum(sums))}


@dataclass(eq=False)
class _Figures:
    """What the turns of a session are filtered by, read when it is first asked for."""

    ledger: Ledger
    session: int
    every: Sequence[Listed]
    read_lines: Callable[[], list[RequestLine]]

    def of(self, term: FilterTerm) -> Callable[[Listed], object]:
        """Return what tells of a turn the figure that a term compares, or what it looks for."""
        match term.field:
            case "":
                hits = self.ledger.search(str(term.value), session_id=self.session, limit=MOST_HITS)
                groups = frozenset(hit.group_id for hit in hits)
                return lambda listed: listed[1] in groups
            case "tool":
                calling = self.ledger.groups.calling(self.session, str(term.value))
                return lambda listed: listed[1] in calling
            case "turn":
                return lambda listed: listed[0] + 1
            case "model":
                return lambda listed: frozenset(self._models.get(listed[1], ()))
            case "status":
                return self._status
            case "time":
                return lambda listed: duration_of(self._lines.get(listed[1], ())) / 1000
            case "requests":
                return lambda listed: max(
                    (line.number for line in self._lines.get(listed[1], ())), default=0
                )
            case field:
                figure = _SPENT[field]
                return lambda listed: figure(self._spent.get(listed[1], _NOTHING))

    @cached_property
    def _spent(self) -> dict[int, Totals]:
        return self.ledger.accounts.by_group(self.session)

    @cached_property
    def _models(self) -> dict[int | None, set[str]]:
        models: dict[int | None, set[str]] = {}
        for group, model, _ in self.ledger.accounts.by_turn_and_model(self.session):
            models.setdefault(group, set()).add(model)
        return models

    @cached_property
    def _lines(self) -> dict[int, list[RequestLine]]:
        return by_group(self.read_lines())

    @cached_property
    def _outcomes(self) -> dict[int, str]:
        return self.ledger.accounts.outcomes(self.session)

    @cached_property
    def _newest(self) -> tuple[int | None, Hold]:
        """The newest turn that is still there, and who holds it."""
        hold = hold_on(self.ledger.work, self.session)
        live = (group for _, group, status, *_ in reversed(self.every) if status == "live")
        return next(live, None), hold

    def _status(self, listed: Listed) -> str:
        _, group, status, messages, _ = listed
        if status != "live":
            return status
        newest, hold = self._newest
        lines = self._lines.get(group)
        return status_of(
            lines or (),
            hold if group == newest else "none",
            replied=messages > 1,
            outcome="" if lines else self._outcomes.get(group, ""),
        )


def _dearness(term: FilterTerm) -> int:
    return _DEAR.index(term.field) + 1 if term.field in _DEAR else 0


def _sum(parts: Iterable[Totals]) -> Totals:
    return Totals(*map(sum, zip(*map(astuple, (_NOTHING, *parts)), strict=True)))


def _figures(totals: Totals) -> dict[str, Any]:
    return {
        "requests": totals.requests,
        "prompt_tokens": totals.prompt_tokens,
        "cached_tokens": totals.cached_tokens,
        "cost_usd": totals.cost_usd,
        "unpriced": totals.unpriced,
    }


def _receipt(text: str | None) -> KeptReceipt | None:
    try:
        return None if text is None else _receipts.decode(text)
    except msgspec.DecodeError:
        return None


# Filters (pure).


class FilterTerm(msgspec.Struct, frozen=True):
    """One thing that a turn must be: said words if there is no `field`; `is_not` turns it round."""

    value: str | float
    field: str = ""
    operator: str = ""
    is_not: bool = False

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, float):
            unit = next(iter(UNITS[self.field]))
            text = f"{value:f}".rstrip("0").rstrip(".") + unit
        else:
            read = _TERM.fullmatch(value)
            is_plain = read is not None and (self.field or not (read["field"] or read["minus"]))
            text = value if is_plain or '"' in value else f'"{value}"'
        return f"{'-' if self.is_not else ''}{self.field}{self.operator}{text}"

    def admits(self, known: object) -> bool:
        """Whether a turn is looked for, by what is known of it; None is what nobody knows.

        Of words and tools that is whether the turn has them, of models a set of names, of a
        status its name, else a figure.
        """
        match known:
            case bool():
                holds = known
            case str():
                holds = known == self.value
            case int() | float() if isinstance(self.value, float):
                holds = _OPERATORS[self.operator](known, self.value)
            case frozenset():
                wanted = str(self.value).casefold()
                holds = any(wanted in str(name).casefold() for name in known)
            case _:
                holds = False
        return holds != self.is_not


class TurnFilter(msgspec.Struct, frozen=True):
    """Everything that a turn must be to be listed."""

    terms: tuple[FilterTerm, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))


def parse_filter(text: str) -> TurnFilter:
    """Read a filter. Raises `InvalidInput` with what is wrong and how it is written."""
    if len(text) > LONGEST:
        raise InvalidInput(f"a filter has at most {LONGEST:,} characters")
    found = (_term(match) for match in _TERM.finditer(text) if match["value"] or match["field"])
    return TurnFilter(tuple(term for term in found if term.value != ""))


def _term(found: re.Match[str]) -> FilterTerm:
    field, operator, is_not = found["field"] or "", found["op"] or "", bool(found["minus"])
    value = found["value"]
    if value.startswith('"'):
        value = value[1:].removesuffix('"')
    if not field:
        return FilterTerm(value, is_not=is_not)
    name = field.lower()
    if name not in (*NAMED, *UNITS):
        raise InvalidInput(_unknown(field, found[0]))
    if name in UNITS:
        return FilterTerm(_number_of(name, operator, value), name, operator, is_not)
    if operator != ":" or not value:
        raise InvalidInput(f"{name} is followed by a colon and a name, like {_EXAMPLES[name]}")
    if name == "status" and value not in STATUSES:
        raise InvalidInput(f"a turn is {', '.join(STATUSES)}; not {value!r}")
    return FilterTerm(value, name, ":", is_not)


def _number_of(name: str, operator: str, value: str) -> float:
    number = _NUMBER.fullmatch(value)
    if operator == ":" or number is None or number["unit"] not in UNITS[name]:
        units = ", ".join(unit for unit in UNITS[name] if unit)
        given = f" in {units}" if units else ""
        raise InvalidInput(f"{name} is compared with a number{given}, like {_EXAMPLES[name]}")
    return float(number["number"]) * UNITS[name][number["unit"]]


def _unknown(field: str, term: str) -> str:
    names = (*NAMED, *UNITS)
    near = get_close_matches(field.lower(), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    return f'nothing is called {field!r}: {hint} As text it is written "{term.lstrip("-")}"'
