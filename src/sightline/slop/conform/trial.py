"""One trial: a conversation with a peer, as a generator that knows no wire and no clock. Pure.

A trial yields what it says and when it has heard enough (`Say`), is sent what was heard up to
then, and returns a verdict for each of its clauses: literal messages in, verdicts out. Who drives
it has the wire and the bounds. Where the peer falls silent, hangs up or floods, the trial ends:
the clause that it was at is not kept, and the others were not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Message: TypeAlias = dict[str, Any]


class NotShown(Exception):
    """This peer gives no occasion to see whether it keeps a clause; the text says what lacks."""


@dataclass(frozen=True, slots=True)
class Say:
    """What a trial says next (bytes go as they are), and the message after which it goes on.

    Silence ends the trial, or is an answer too, or is hoped for and then not waited out for
    long. `tries` is the clause that is not kept if it ends here; the trial's first by default.
    """

    messages: tuple[Message | bytes, ...]
    enough: Callable[[Message], bool]
    silence: Literal["ends", "answers", "hoped"] = "ends"
    tries: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a peer keeps a clause, None where it gave no occasion, and why we say so."""

    clause: str
    held: bool | None
    why: str = ""


Trial: TypeAlias = Generator[Say, list[Message], list[Verdict]]


@dataclass(frozen=True, slots=True)
class TrialKind:
    """A trial that can be begun, and the clauses on which it gives a verdict."""

    name: str
    clauses: tuple[str, ...]
    begin: Callable[..., Trial]


def answers(request: str) -> Callable[[Message], bool]:
    """Tell the answer to a request from everything else that comes."""
    return lambda message: message.get("id") == request
