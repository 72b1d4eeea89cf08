"""Choose the short names of a module so that its text compresses well.

    node setup/scopes.js MODULE MEMBERS FOUND.json && python setup/names.py FOUND.json MODULE

A name that stands for something else in every function costs little where its letter is what
stood in such a place before: `(e,t)=>e.id===t` once more is nothing new. So each variable begins
with the first letter that is free, and then letters change places for as long as the compressed
text becomes shorter. It is what servers send that is measured, by gzip. The same module gets the
same names: what is tried is drawn from one seed.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from itertools import product
from pathlib import Path
from typing import Any

STEPS = 24_000
INSIDE = "etrnsioaldhucfpmwyvgbk_"
OUTSIDE = "SMqTOjAENzWCIPJRDLVZBUFGHKQX$Yx_kbgvywmpfcuhdlaoisnrte"
LETTERS = sorted(OUTSIDE)
WORDS = {"as", "do", "if", "in", "is", "of"}


class Text:
    """A module in which names can change."""

    def __init__(self, pieces: list[Any], names: list[dict[str, Any]], taken: list[str]) -> None:
        self.rivals = [set(name["rivals"]) for name in names]
        self.kinds = [name["kind"] for name in names]
        self.taken = WORDS | set(taken)
        self.short = [""] * len(names)
        self._given = pieces
        self._pieces = [piece if isinstance(piece, str) else "" for piece in pieces]
        self._places: list[list[int]] = [[] for _ in names]
        for place, piece in enumerate(pieces):
            for number in piece if isinstance(piece, list) else ():
                if isinstance(number, int):
                    self._places[number].append(place)

    def uses(self, name: int) -> int:
        return len(self._places[name])

    def call(self, name: int, short: str) -> None:
        self.short[name] = short
        for place in self._places[name]:
            words = [one if isinstance(one, str) else self.short[one] for one in self._given[place]]
            # `{ids: ids}` is written `{ids}`.
            self._pieces[place] = ":".join(dict.fromkeys(words))

    def is_free(self, name: int, short: str) -> bool:
        return short not in self.taken and all(
            self.short[one] != short for one in self.rivals[name]
        )

    def whole(self) -> str:
        return "".join(self._pieces)

    def size(self) -> int:
        return len(zlib.compress(self.whole().encode(), 9))


def begin(text: Text) -> None:
    """Give every name the first letter that it may have; what is used most has the first choice."""
    by_use = sorted(range(len(text.short)), key=text.uses, reverse=True)
    pairs = ["".join(pair) for pair in product(INSIDE, INSIDE)]
    for name, kind in enumerate(text.kinds):
        if kind not in ("module", "member"):
            text.call(name, next(one for one in INSIDE + OUTSIDE if text.is_free(name, one)))
    for name in by_use:
        if text.kinds[name] == "module":
            text.call(name, next(one for one in [*OUTSIDE, *pairs] if text.is_free(name, one)))
    members = [name for name in by_use if text.kinds[name] == "member"]
    free = [one for one in [*INSIDE, *OUTSIDE, *pairs] if one not in text.taken]
    for name, short in zip(members, dict.fromkeys(free), strict=False):
        text.call(name, short)


def improve(text: Text) -> None:
    """Let letters change places, everywhere or for one name, wherever that is no longer."""
    chance = random.Random(0)  # noqa: S311 - nobody is to be surprised by it
    members = [name for name, kind in enumerate(text.kinds) if kind == "member"]
    variables = [name for name, kind in enumerate(text.kinds) if kind != "member"]
    letters = [one for one in LETTERS if one not in text.taken]
    best = text.size()
    for _ in range(STEPS):
        kind = chance.random()
        if kind < 0.05:
            one, other = chance.sample(members, 2)
            change = {one: text.short[other], other: text.short[one]}
        elif kind < 0.15:
            a, b = chance.sample(letters, 2)
            change = {
                name: b if text.short[name] == a else a
                for name in variables
                if text.short[name] in (a, b)
            }
        else:
            name = chance.choice(variables)
            change = exchange(text, name, chance.choice(letters))
        before = {name: text.short[name] for name in change}
        for name, short in change.items():
            text.call(name, short)
        size = text.size()
        if size <= best:
            best = size
            continue
        for name, short in before.items():
            text.call(name, short)


def exchange(text: Text, name: int, short: str) -> dict[int, str]:
    """Call a variable by another letter, its rivals of that letter by its own, and so on."""
    swap = {text.short[name]: short, short: text.short[name]}
    change: dict[int, str] = {}
    left = [name]
    while left:
        one = left.pop()
        if one not in change:
            change[one] = swap[text.short[one]]
            left += [rival for rival in text.rivals[one] if text.short[rival] == change[one]]
    return change


def main(found: str, module: str) -> None:
    text = Text(**json.loads(Path(found).read_text("utf-8")))
    begin(text)
    improve(text)
    Path(module).write_text(text.whole(), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
