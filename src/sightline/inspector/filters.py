"""Which turns somebody looks for, as they type it.

status:failed cache<50% tool:rollback cost>0.1 "since lunch" -model:luna

terms             all of them must hold; `-` before one turns it round
status: tool: model:     what became of a turn; what it called; who answered
cache cost time tokens requests turn      with < <= > >= or =, and their units
anything else     words that were said in the turn

parse_filter(str(f)) == f   for every filter f
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt
from typing import Final

import msgspec

from sightline.errors import InvalidInput

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
    "requests": "requests>1", "turn": "turn=12",
}  # fmt: skip
_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "=": eq,
}  # fmt: skip
_TERM: Final = re.compile(
    r"""(?P<minus>-?)(?:(?P<field>[A-Za-z]+)(?P<op>:|<=|>=|<|>|=))?(?P<value>"[^"]*"?|\S*)"""
)
_NUMBER: Final = re.compile(r"\$?(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>%|ms|s|m|k|\$|)")
LONGEST: Final = 1_000


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
        return FilterTerm(_figure(name, operator, value), name, operator, is_not)
    if operator != ":" or not value:
        raise InvalidInput(f"{name} is followed by a colon and a name, like {name}:{_like(name)}")
    if name == "status" and value not in STATUSES:
        raise InvalidInput(f"a turn is {', '.join(STATUSES)}; not {value!r}")
    return FilterTerm(value, name, ":", is_not)


def _figure(name: str, operator: str, value: str) -> float:
    number = _NUMBER.fullmatch(value)
    if operator == ":" or number is None or number["unit"] not in UNITS[name]:
        units = ", ".join(unit for unit in UNITS[name] if unit)
        given = f" in {units}" if units else ""
        raise InvalidInput(f"{name} is compared with a number{given}, like {_EXAMPLES[name]}")
    return float(number["number"]) * UNITS[name][number["unit"]]


def _like(name: str) -> str:
    return {"status": "failed", "tool": "rollback", "model": "sonnet"}[name]


def _unknown(field: str, term: str) -> str:
    names = (*NAMED, *UNITS)
    near = get_close_matches(field.lower(), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    return f'nothing is called {field!r}: {hint} As text it is written "{term.lstrip("-")}"'
