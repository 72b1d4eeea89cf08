"""The assembled value that a dialect encodes, and its receipt.

    tools · messages[:boundary] │ messages[boundary:]
    ───────── prefix ────────── │ ────── tail ──────

`prefix_bytes` is the canonical form of what must not change between requests;
its digest is in the receipt.

The receipt says what became of every token that was offered, and by which rule:

    offered = kept + cut           for every message and every slot
    total   = overhead + tools + Σ kept
    budget  = total + free

A receipt is a value: it is stored with the turn, printed as JSON or as a table,
and answers "why is this not in the prompt" long after the prompt is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias, overload

import msgspec

from sightline._keywords import NamesKeywords
from sightline.context.messages.parts import Message, Role
from sightline.context.slots.options import Stability
from sightline.context.slots.units import Beginning, Beginnings
from sightline.context.tokens.tokens import Provenance
from sightline.errors import InvalidInput

Rule: TypeAlias = Literal["kept", "protected", "max_ratio", "budget", "slack"]

# What each rule means to a reader; the keys are all the rules there are.
RULES: dict[Rule, str] = {
    "kept": "there was room for it",
    "protected": "a system message, while no slot has a priority",
    "max_ratio": "cut: its slot is at its maximum",
    "budget": "cut: the budget is full, and more protected slots came first",
    "slack": "cut: folded ahead, so that the cut holds still for the next turns",
}


class MessageLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message that was offered. A message cut in part has both `kept` and `cut`.

    `emptied` is one of which no token is left and which is there all the same: a tool's
    result that a call which stayed must have.
    """

    role: Role
    offered: int
    kept: int
    cut: int
    rule: Rule
    provenance: Provenance
    emptied: bool = False

    @property
    def is_present(self) -> bool:
        """Whether the message is in the prompt, in whole or in part."""
        return self.kept > 0 or self.emptied or self.rule in ("kept", "protected")


class SlotLine(msgspec.Struct, frozen=True):
    """One slot, in prompt order. `maximum` and `minimum` are tokens, as they were in force."""

    name: str
    priority: int
    stability: Stability
    offered: int
    kept: int
    cut: int
    maximum: int
    minimum: int
    messages: Sequence[MessageLine]

    @property
    def present(self) -> int:
        """How many of its messages are in the prompt, in whole or in part."""
        if isinstance(self.messages, Lines):
            return self.messages.present
        return sum(message.is_present for message in self.messages)


class Lines(Sequence[MessageLine]):
    """The lines of one slot, written when somebody reads them.

    A history has thousands of messages and most receipts are never looked at. Equal to
    any sequence of equal lines. `present` counts those of messages that are in the prompt.
    """

    __slots__ = ("_lines", "_write", "present")

    def __init__(self, present: int, write: Callable[[], list[MessageLine]]) -> None:
        self.present = present
        self._write: Callable[[], list[MessageLine]] | None = write
        self._lines: list[MessageLine] = []

    def _read(self) -> list[MessageLine]:
        if self._write is not None:
            self._lines, self._write = self._write(), None
        return self._lines

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[MessageLine]:
        return iter(self._read())

    @overload
    def __getitem__(self, index: int) -> MessageLine: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageLine]: ...
    def __getitem__(self, index: int | slice) -> MessageLine | list[MessageLine]:
        return self._read()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._read() == list(other)

    __hash__ = None  # type: ignore[assignment]  # like any list

    def __repr__(self) -> str:
        return repr(self._read())


class Notice(msgspec.Struct, frozen=True):
    """Something that a person should know about this prompt. `code` never changes its meaning."""

    code: str
    slot: str
    message: str


class Receipt(msgspec.Struct, frozen=True):
    """The account of one prompt. `boundary` counts the messages before the volatile tail."""

    budget: int
    counter: str
    provenance: Provenance
    overhead: int
    tools: int
    total: int
    free: int
    boundary: int
    prefix_digest: str
    slots: tuple[SlotLine, ...]
    warnings: tuple[Notice, ...] = ()

    def slot(self, name: str) -> SlotLine:
        """Return the first slot of that name; raise `KeyError` if there is none."""
        for line in self.slots:
            if line.name == name:
                return line
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready builtins."""
        data: dict[str, Any] = msgspec.to_builtins(self, enc_hook=list)
        return data

    def encode(self) -> bytes:
        """Write it as JSON."""
        return msgspec.json.encode(self, enc_hook=list)

    @classmethod
    def decode(cls, data: bytes) -> Receipt:
        """Read what `encode` wrote; raise `InvalidInput` for anything else."""
        try:
            return _receipts.decode(data)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"not a receipt: {error}") from error

    def table(self) -> str:
        """Draw it for a terminal: slots in prompt order, the boundary, the sum, the warnings."""
        rows: list[tuple[str, ...]] = [
            ("slot", "priority", "offered", "kept", "cut", "messages", "why")
        ]
        drawn = False
        for line in self.slots:
            if line.stability == "volatile" and not drawn:
                rows.append(("── boundary ──", "", "", "", "", "", ""))
                drawn = True
            figures = map(str, (line.priority, line.offered, line.kept, line.cut))
            present = f"{line.present}/{len(line.messages)}"
            rows.append((line.name, *figures, present, _why(line)))
        fixed = self.overhead + self.tools
        if fixed:
            rows.append(("(frame, tools)", "", str(fixed), str(fixed), "0", "", ""))
        body = _align(rows)
        mark = "" if self.provenance == "counted" else f", {self.provenance}"
        body.append(
            f"{self.total} of {self.budget} tokens ({self.counter}{mark}), {self.free} free"
        )
        body += [f"warning: {warning.message}" for warning in self.warnings]
        return "\n".join(body)


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_receipts: Final = msgspec.json.Decoder(Receipt)


def _why(line: SlotLine) -> str:
    rules = {message.rule for message in line.messages}
    return ", ".join(rule for rule in RULES if rule in rules and rule != "kept")


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index in (0, len(row) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


class Prompt(msgspec.Struct, frozen=True, metaclass=NamesKeywords):
    """What one request says. `boundary` is the number of messages in the stable prefix."""

    messages: tuple[Message, ...]
    boundary: int
    receipt: Receipt
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def prefix(self) -> tuple[Message, ...]:
        """The messages before the boundary."""
        return self.messages[: self.boundary]

    @property
    def tail(self) -> tuple[Message, ...]:
        """The volatile messages, rebuilt for every request."""
        return self.messages[self.boundary :]

    def encode(self) -> bytes:
        """Write it as JSON, receipt included."""
        return msgspec.json.encode(self, enc_hook=list)

    @classmethod
    def decode(cls, data: bytes) -> Prompt:
        """Read what `encode` wrote; raise `InvalidInput` for anything else."""
        try:
            return _prompts.decode(data)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"not a prompt: {error}") from error

    def prefix_bytes(self) -> bytes:
        """Serialize tools and prefix; a later prompt with the same stable slots begins so."""
        return serialize(self.tools, self.prefix)


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_prompts: Final = msgspec.json.Decoder(Prompt)


def serialize(tools: Sequence[dict[str, Any]], messages: Sequence[Message]) -> bytes:
    """Write tools and messages one per line, in order; more messages only add lines."""
    return _write([list(tools)]) + _write(messages)


_write: Final = msgspec.json.Encoder(order="sorted").encode_lines
# The newest messages may be cut shorter next time; what stands before them is hashed once.
_NEWEST: Final = 16
_HASHED: Final[Beginnings[Any]] = Beginnings()


def digest_of(tools: Sequence[dict[str, Any]], messages: Sequence[Message]) -> str:
    """Return the SHA-256 of the serialized form."""
    texts = sum(1 for _ in takewhile(lambda message: message.role == "system", messages))
    # Instructions are made anew for every prompt, so they are known by what they say.
    head, spoken = serialize(tools, messages[:texts]), list(messages[texts:])
    held, same = _HASHED.take(head, spoken)
    if held is None or same < len(held.messages):
        held, same = Beginning(sha256(head)), 0
    older = spoken[same:-_NEWEST]
    held.value.update(_write(older))
    held.replace_from(same, older, held.value)
    whole = held.value.copy()
    whole.update(_write(spoken[same + len(older) :]))
    _HASHED.put(head, held)
    digest: str = whole.hexdigest()
    return digest
