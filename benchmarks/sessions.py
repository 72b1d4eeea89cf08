"""Recorded sessions of agents, of which the shape alone is kept. FIELD.md tells what for.

    python -m benchmarks.sessions record                     run Claude Code, Codex and our host
    python -m benchmarks.sessions add NAME VERSION LEDGER    take what `sightline gateway` recorded

A request is its blocks, in the order in which vendors read them: tools, instructions, parts of
messages. A block is who says it, what it is, and its lines; a line is a number, and equal lines of
a session have equal numbers. `lengths` has the characters of each. That is all of what an agent
said: how long it was, and where it came again. `expand` writes words by seeded chance instead, and

    two requests that are written begin with as many equal lines as those that were sent

Behind what a person reads of a tool, a call or a result stands one more line, for the rest of it:
its schema, its ids.
"""

from __future__ import annotations

import random
import string
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from benchmarks.data import WORDS
from sightline.context.ledger import Ledger
from sightline.errors import SightlineError
from sightline.gateway.bodies import CALLS, IMAGES, REASONING, RESULTS, RequestBody, Unit, read_body

__all__ = [
    "FILE", "KINDS", "ROLES", "Block", "Request", "Session", "expand", "go_on", "load", "main",
    "save", "shape", "texts", "written",
]  # fmt: skip

FILE: Final = Path(__file__).with_name("sessions.json")
SEED: Final = 1
OTHER: Final = "value"  # what a vendor has no word for, or an agent has put in a word's place
KINDS: Final = frozenset({"tool", "text", "document", OTHER}) | CALLS | RESULTS | REASONING | IMAGES
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "model", OTHER})
CHARACTERS: Final = string.ascii_letters + string.digits
# Of these a token has as many characters as of what agents send, nearly: FIELD.md says how nearly.
PLAIN: Final = tuple(word for word in WORDS if word.isascii() and '"' not in word)
Line: TypeAlias = tuple[str | bytes, int]  # what makes it that line, and its characters


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A part of a request: who says it, what it is, and the numbers of its lines."""

    role: str
    kind: str
    lines: tuple[int, ...]


class Request(msgspec.Struct, frozen=True):
    """The numbers of its blocks, and which of them the agent marked for the cache."""

    blocks: tuple[int, ...]
    marks: tuple[int, ...] = ()


class Session(msgspec.Struct, frozen=True):
    """The requests of an agent, one after the other."""

    agent: str
    version: str
    lengths: tuple[int, ...]
    blocks: tuple[Block, ...]
    requests: tuple[Request, ...]

    @property
    def name(self) -> str:
        """The agent and its version."""
        return f"{self.agent} {self.version}"


def written(unit: Unit) -> list[Line]:
    """Cut a part of a request into its lines."""
    lines: list[Line] = [(line, len(line)) for line in unit.text.split("\n")]
    if unit.kind != "text":
        rest = unit.size - len(msgspec.json.encode(unit.text))
        lines.append((unit.digest, max(rest, 1)))
    return lines


def shape(agent: str, version: str, bodies: Iterable[RequestBody]) -> Session:
    """Keep of a session which lines are equal, how long they are, and where they stand."""
    numbers: dict[Line, int] = {}
    blocks: dict[Block, int] = {}

    def number(unit: Unit) -> int:
        lines = tuple(numbers.setdefault(line, len(numbers)) for line in written(unit))
        role = unit.role or "system"  # a tool has none; vendors tell it with the instructions
        block = Block(
            role if role in ROLES else OTHER, unit.kind if unit.kind in KINDS else OTHER, lines
        )
        return blocks.setdefault(block, len(blocks))

    requests = tuple(
        Request(
            tuple(map(number, body.units)), tuple(i for i, u in enumerate(body.units) if u.marked)
        )
        for body in bodies
    )
    lengths = tuple(length for _, length in numbers)
    return Session(agent, version, lengths, tuple(blocks), requests)


def texts(lengths: Sequence[int]) -> list[str]:
    """Write a line of each length, no two of them alike."""
    rng, found, before = random.Random(SEED), dict[str, None](), Counter[int]()
    for length in lengths:
        while (text := _text(rng, length, before[length])) in found:
            pass
        found[text] = None
        before[length] += 1
    return list(found)


def _text(rng: random.Random, length: int, before: int) -> str:
    if length < 2:  # too few for chance
        return chr(ord("!") + before) * length
    if length < 8:
        return "".join(rng.choices(CHARACTERS, k=length))
    words = rng.choices(PLAIN, k=length // 2 + 1)
    return " ".join(words)[:length]


def expand(session: Session) -> Iterator[dict[str, Any]]:
    """Write the requests as `field score` reads them; `marked` are messages by number."""
    lines = texts(session.lengths)
    contents = ("\n".join(lines[number] for number in block.lines) for block in session.blocks)
    messages = [
        {"role": block.role, "kind": block.kind, "content": content}
        for block, content in zip(session.blocks, contents, strict=True)
    ]
    for request in session.requests:
        yield {
            "work": session.name, "messages": [messages[number] for number in request.blocks],
            "marked": list(request.marks),
        }  # fmt: skip


def go_on(session: Session) -> int:
    """Count the requests that begin with all of the one before them."""
    pairs = zip(session.requests, session.requests[1:], strict=False)
    return sum(now.blocks[: len(was.blocks)] == was.blocks for was, now in pairs)


def load(file: Path = FILE) -> list[Session]:
    """Read the sessions of a file."""
    return msgspec.json.decode(file.read_bytes(), type=list[Session])


def save(sessions: Iterable[Session], file: Path = FILE) -> None:
    """Write sessions, each on a line of its own; a later one replaces one of its agent."""
    newest = {session.agent: session for session in sessions}
    lines = b",\n".join(map(msgspec.json.encode, newest.values()))
    file.write_bytes(b"[\n" + lines + b"\n]\n")


def recorded(path: Path) -> Iterator[RequestBody]:
    """Read the longest session that a gateway kept in a ledger."""
    with Ledger(path, mode="read") as ledger:
        found = (ledger.exchanges.list(session.id) for session in ledger.sessions.recent())
        for one in max(found, key=len, default=[]):
            body = read_body(one.api, ledger.exchanges.request(one.id))  # type: ignore[arg-type]  # kept as text
            if body is None or body.follows:
                raise SystemExit(f"request {one.id} is not whole: its vendor held what was before")
            yield body


def main(arguments: list[str]) -> None:
    """Record the agents of the tests, or add a session that somebody recorded."""
    match arguments:
        case ["record"]:
            from benchmarks.recording import record_all  # it has the tests' own vendor

            save([*load(), *record_all()])
        case ["add", name, version, ledger]:
            try:
                added = shape(name, version, recorded(Path(ledger)))
            except SightlineError as error:
                raise SystemExit(str(error)) from error
            if not added.requests:
                raise SystemExit(f"{ledger}: no gateway recorded a request there")
            save([*load(), added])
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
