"""What a vendor is told to answer, whatever its API: replies, refusals, accidents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from sightline.context.dialects.events import Usage

Trouble: TypeAlias = Literal["key", "rate", "quota", "server", "overloaded", "overflow", "missing"]


USED = Usage(input_tokens=100, output_tokens=7, cache_read_tokens=80)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, as the model makes it; `namespace` is of OpenAI's Responses."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = "call_1"
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Says:
    """A reply. `pieces` are streamed one by one.

    cut     the connection breaks after so many frames of the wire format
    stall   the connection stays open after so many, until the client hangs up
    repeat  what is sent again and again meanwhile
    """

    pieces: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    usage: Usage = USED
    cut: int | None = None
    stall: int | None = None
    repeat: bytes = b""


@dataclass(frozen=True, slots=True)
class Refuses:
    """No reply, and why, in the vendor's own words. `saying` is put into the message."""

    trouble: Trouble
    retry_after: str = ""
    saying: str = ""


@dataclass(frozen=True, slots=True)
class Fails:
    """A reply that fails as an event of the stream, after it was accepted."""

    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sends:
    """Exactly this."""

    body: bytes
    status: int = 200
    content_type: str = "text/html"


@dataclass(frozen=True, slots=True)
class Breaks:
    """An error 500 whose body does not end. `repeat` is sent again and again, or nothing more."""

    repeat: bytes = b""


@dataclass(frozen=True, slots=True)
class Ignores:
    """No answer at all, until the client hangs up."""


Answer: TypeAlias = Says | Refuses | Fails | Sends | Breaks | Ignores


def says(text: str, *calls: Call, **more: Any) -> Says:
    """A reply of a text, word by word."""
    words = text.split(" ")
    pieces = [f"{word} " for word in words[:-1]] + words[-1:]
    return Says(tuple(piece for piece in pieces if piece), calls, **more)
