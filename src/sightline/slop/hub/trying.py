"""Try a peer clause by clause, over real links: the wire, the clock and the bounds of `conform`.

Whatever the peer does, this ends: each step of a trial has a time, a number of messages and a
number of bytes, and what cannot be read is evidence like everything else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sightline.errors import LetGo, SightlineError
from sightline.slop.conform.consumers import CONSUMER_TRIALS
from sightline.slop.conform.providers import PROVIDER_TRIALS
from sightline.slop.conform.requirements import REQUIREMENTS
from sightline.slop.conform.trial import (
    Message,
    NotShown,
    Say,
    Trial,
    TrialKind,
    TrialTarget,
    Verdict,
)
from sightline.slop.hub.client import Dial
from sightline.slop.protocol.jsontext import NESTING, loads, nests_deeper
from sightline.slop.transports.link import Link, LinkClosed

_TEXT_BYTES: Final = 500
_KEPT: Final = 40


@dataclass(frozen=True, slots=True)
class TrialBounds:
    """How much a peer may take of us: for each step of a trial, and `settle_s` for its silence."""

    step_s: float = 5.0
    settle_s: float = 1.0
    messages: int = 1_000
    bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message of a trial, cut to a readable length, and who sent it."""

    is_ours: bool
    text: str


@dataclass(frozen=True, slots=True)
class Tried:
    """A clause in its own words, the verdict, and the messages that show it."""

    verdict: Verdict
    messages: tuple[WireMessage, ...] = ()

    @property
    def sentence(self) -> str:
        """What the clause demands."""
        return REQUIREMENTS[self.verdict.clause]


class _BrokenOff(Exception):
    """The peer gave no answer that a trial could go on with."""


@dataclass(slots=True)
class _Wire:
    """One link in a trial, and the messages that went over it."""

    link: Link
    bounds: TrialBounds
    messages: list[WireMessage] = field(default_factory=list)

    async def say(self, say: Say) -> list[Message]:
        """Do a step of a trial; return what was heard. Raises _BrokenOff."""
        for message in say.messages:
            await self._put(message if isinstance(message, bytes) else json.dumps(message).encode())
        limit_s = self.bounds.settle_s if say.silence == "hoped" else self.bounds.step_s
        heard: list[Message] = []
        try:
            async with asyncio.timeout(limit_s):
                await self._hear(say.enough, heard)
        except TimeoutError:
            if say.silence == "ends":
                raise _BrokenOff(f"no answer within {limit_s:g} s") from None
        return heard

    async def _put(self, data: bytes) -> None:
        self._note(data, is_ours=True)
        try:
            async with asyncio.timeout(self.bounds.step_s):
                await self.link.send([data])
        except (LinkClosed, TimeoutError) as error:
            raise _BrokenOff("it takes no more messages") from error

    async def _hear(self, enough: Callable[[Message], bool], heard: list[Message]) -> None:
        left = self.bounds.bytes
        while len(heard) < self.bounds.messages and left > 0:
            try:
                data = await self.link.receive()
            except LetGo as error:
                raise _BrokenOff(str(error)) from error
            if data is None:
                raise _BrokenOff("it closed the connection")
            left -= len(data)
            self._note(data, is_ours=False)
            heard.append(_read(data))
            if enough(heard[-1]):
                return
        raise _BrokenOff("it sends without end")

    def _note(self, data: bytes, *, is_ours: bool) -> None:
        text = data[:_TEXT_BYTES].decode(errors="replace")
        more = len(data) - _TEXT_BYTES
        shown = text if more <= 0 else f"{text}… ({more:,} bytes more)"
        self.messages.append(WireMessage(is_ours, shown))
        del self.messages[:-_KEPT]


def _read(data: bytes) -> Message:
    try:
        value = None if nests_deeper(data, NESTING) else loads(data.decode())
    except (ValueError, SightlineError):
        value = None
    return value if isinstance(value, dict) else {"type": None}


async def try_provider(
    dial: Dial, target: TrialTarget, bounds: TrialBounds | None = None
) -> AsyncIterator[Tried]:
    """Try a provider, each trial on a new connection. Raises why it cannot be reached at all."""
    bounds = bounds or TrialBounds()
    unreached = ""
    for number, kind in enumerate(PROVIDER_TRIALS):
        results: list[Tried] = []
        if not unreached:
            try:
                link = await dial()
            except SightlineError as error:
                if not number:
                    raise
                unreached = f"it cannot be reached any more: {error}"
            else:
                wire = _Wire(link, bounds)
                try:
                    results = await _tried(kind, _greeted(kind, target), wire)
                finally:
                    await link.close()
                if not number and not any(not message.is_ours for message in wire.messages):
                    unreached = "it does not greet"
        for tried in results or [
            Tried(Verdict(clause, None, unreached)) for clause in kind.clauses
        ]:
            yield tried


def _greeted(kind: TrialKind, target: TrialTarget) -> Trial:
    """Hear the first message, then do the trial."""
    [hello] = yield Say((), lambda _: True)
    return (yield from kind.begin(replace(target, hello=hello)))


async def try_consumer(link: Link, bounds: TrialBounds | None = None) -> AsyncIterator[Tried]:
    """Try the consumer at the other end of a link."""
    wire = _Wire(link, bounds or TrialBounds())
    for kind in CONSUMER_TRIALS:
        for tried in await _tried(kind, kind.begin(), wire):
            yield tried


async def _tried(kind: TrialKind, trial: Trial, wire: _Wire) -> list[Tried]:
    """Drive one trial to its end, whoever brings it about; every clause of it gets a verdict."""
    tries, rest = "", ""
    verdicts: list[Verdict] = []
    try:
        say = next(trial)
        while True:
            tries = say.tries
            say = trial.send(await wire.say(say))
    except StopIteration as stop:
        verdicts = stop.value
    except NotShown as lack:
        rest = str(lack)
    except _BrokenOff as broken:
        verdicts = [Verdict(tries or kind.clauses[0], False, str(broken))]
        rest = "the trial did not get there"
    known = {verdict.clause for verdict in verdicts}
    verdicts += [Verdict(clause, None, rest) for clause in kind.clauses if clause not in known]
    return [Tried(verdict, tuple(wire.messages)) for verdict in verdicts]
