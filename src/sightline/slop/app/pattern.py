"""Paths with holes: `list/{id}` is every child of `list`, and says which.

A pattern is written like a request path; a segment in braces stands for any one
id. Where several patterns fit a path, a literal segment wins over a hole, from the
root on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from sightline.errors import InvalidDescriptor
from sightline.slop.protocol.ids import id_problem
from sightline.slop.protocol.path import parse_path

_HOLE: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_LEVELS: Final = 64
T = TypeVar("T")


def checked_ids(path: str) -> tuple[str, ...]:
    """Split the path of a registration. Raises InvalidDescriptor, naming the id and the rule."""
    ids = parse_path(path)
    for node_id in ids:
        problem = id_problem(node_id)
        if problem:
            raise InvalidDescriptor(f"/{path.strip('/')}", None, problem)
    if len(ids) >= _LEVELS:
        raise InvalidDescriptor(path, None, f"a path must not have {_LEVELS} levels or more")
    return ids


class Pattern(msgspec.Struct, frozen=True):
    """A path, some of whose segments are holes (None), and the names of these."""

    segments: tuple[str | None, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> Pattern:
        """Read a pattern. Raises InvalidDescriptor."""
        segments: list[str | None] = []
        names: list[str] = []
        for node_id in checked_ids(path):
            hole = _HOLE.fullmatch(node_id)
            if hole:
                names.append(hole[1])
                segments.append(None)
            elif "{" in node_id or "}" in node_id:
                raise InvalidDescriptor(path, None, f"{node_id!r} is not a hole: write '{{name}}'")
            else:
                segments.append(node_id)
        if len(set(names)) != len(names):
            raise InvalidDescriptor(path, None, "two holes must not have one name")
        return cls(tuple(segments), tuple(names))

    def values(self, ids: tuple[str, ...]) -> dict[str, str]:
        """Say what stands in the holes of a path that fits."""
        filled = [node_id for node_id, part in zip(ids, self.segments, strict=True) if part is None]
        return dict(zip(self.names, filled, strict=True))


class Branch(msgspec.Struct, Generic[T]):
    """A step in a tree of path patterns: the values of one that ends here, and the next steps."""

    by_name: dict[str, T] = msgspec.field(default_factory=dict)
    literal: dict[str, Branch[T]] = msgspec.field(default_factory=dict)
    hole: Branch[T] | None = None

    def grow(self, pattern: Pattern) -> Branch[T]:
        """Return the branch at a pattern, made if it is not there."""
        branch = self
        for segment in pattern.segments:
            if segment is None:
                if branch.hole is None:
                    branch.hole = Branch()
                branch = branch.hole
            else:
                branch = branch.literal.setdefault(segment, Branch())
        return branch

    def into(self, node_id: str) -> Iterator[Branch[T]]:
        """Go one id further: the literal way first."""
        if node_id in self.literal:
            yield self.literal[node_id]
        if self.hole is not None:
            yield self.hole

    def at(self, ids: tuple[str, ...]) -> list[Branch[T]]:
        """Return the branches whose pattern fits a path, the most literal first."""
        branches = [self]
        for node_id in ids:
            branches = [further for branch in branches for further in branch.into(node_id)]
        return branches

    def find(self, ids: tuple[str, ...], name: str) -> T | None:
        """Return the value of this name whose pattern fits best."""
        for branch in self.at(ids):
            if name in branch.by_name:
                return branch.by_name[name]
        return None

    @property
    def goes_on(self) -> bool:
        """Whether any pattern is longer than this."""
        return bool(self.literal) or self.hole is not None
