"""The status line: one value folded from events, one function that draws it.

What matters most stays longest when the terminal is narrow: the model, how full the window
is, and what the cache lost and why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import sightline.events as events
from sightline.cli.clean import clean_line
from sightline.cli.commands.console import Line, Piece, cut, width_of

_BAR: Final = 8
_GAP: Final = " · "
# A cache that gives less than this much of what was to be expected has lost something.
_EXPECTED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Status:
    """What the status line says. Tokens are of the last request; `cost_usd` is the session's."""

    model: str = ""
    mode: str = "ask"
    prompt_tokens: int = 0
    budget_tokens: int = 0
    state_tokens: int = 0
    expected: float | None = None  # the share of the prompt that the last one began with
    reported: float | None = None  # the share that the vendor says it had
    cause: str = ""
    cost_usd: float = 0.0
    unpriced: bool = False
    apps: tuple[str, ...] = ()
    busy: str = ""
    queued: int = 0
    runs: int = 0


def after(status: Status, event: events.HostEvent) -> Status:
    """Return the status after an event."""
    match event:
        case events.TurnStarted():
            return replace(status, busy="thinking")
        case events.RequestBuilt():
            share = event.reused_tokens / event.prompt_tokens if event.prompt_tokens else 0.0
            return replace(
                status,
                model=event.model,
                prompt_tokens=event.prompt_tokens,
                budget_tokens=event.budget_tokens,
                state_tokens=event.tail_tokens,
                expected=share,
                reported=None,
                cause=event.cause if event.regression else "",
            )
        case events.UsageReported():
            return _used(status, event)
        case events.AppChanged():
            others = tuple(app for app in status.apps if app != event.app)
            here = event.status == "connected"
            if here and event.app in status.apps:
                return status
            return replace(status, apps=(*others, event.app) if here else others)
        case events.TurnEnded():
            return replace(status, busy="")
        case _:
            return status


def _used(status: Status, event: events.UsageReported) -> Status:
    share = event.cache_read_tokens / event.input_tokens if event.input_tokens else 0.0
    reported = min(1.0, share)
    lost = status.expected is not None and reported < status.expected * _EXPECTED
    why = event.cache_miss or status.cause or ("lost by the vendor" if lost else "")
    return replace(
        status,
        reported=reported,
        cause=why if lost or status.cause else "",
        cost_usd=status.cost_usd + (event.cost_usd or 0.0),
        unpriced=status.unpriced or event.cost_usd is None,
    )


def status_line(status: Status, width: int) -> Line:
    """Draw the status line: as many of its pieces as fit, in a fixed order."""
    # The number is what must go first: the highest goes when there is no room.
    pieces = [(keep, piece) for keep, piece in _pieces(status) if piece[1]]
    while len(pieces) > 1 and _width(pieces) > width:
        pieces.remove(max(pieces, key=lambda item: item[0]))
    line: list[Piece] = []
    for _, (style, text) in pieces:
        if line:
            line.append(("dim", _GAP))
        line.append((style, cut(text, width)))
    return tuple(line)


def _width(pieces: list[tuple[int, Piece]]) -> int:
    return sum(width_of(text) for _, (_, text) in pieces) + len(_GAP) * (len(pieces) - 1)


def _pieces(status: Status) -> list[tuple[int, Piece]]:
    queued = f" +{status.queued}" if status.queued else ""
    return [
        (2, ("busy", f"{status.busy}{queued}" if status.busy else "")),
        (3, ("busy", f"{status.runs} running" if status.runs else "")),
        (1, ("status.model", clean_line(status.model))),
        (0, _context(status)),
        (6, ("status.state", _state(status))),
        (3, _cache(status)),
        (5, ("status.cost", _cost(status))),
        (7, ("status.apps", clean_line(", ".join(status.apps)))),
        (4, ("status.mode", status.mode)),
    ]


def _context(status: Status) -> Piece:
    if not status.budget_tokens:
        return "status.context", ""
    share = min(1.0, status.prompt_tokens / status.budget_tokens)
    full = round(share * _BAR)
    style = "error" if share > 0.9 else "warn" if share > 0.75 else "status.context"
    return style, f"{'█' * full}{'░' * (_BAR - full)} {100 * share:.0f}%"


def _cache(status: Status) -> Piece:
    share = status.expected if status.reported is None else status.reported
    if share is None:
        return "status.cache", ""
    if status.cause:
        return "warn", f"cache {100 * share:.0f}% ← {clean_line(status.cause)}"
    return "status.cache", f"cache {100 * share:.0f}%"


def _state(status: Status) -> str:
    return f"state {_short(status.state_tokens)}" if status.state_tokens else ""


def _cost(status: Status) -> str:
    if not status.cost_usd:
        return ""
    return f"${status.cost_usd:.4f}{'+' if status.unpriced else ''}"


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.1f}k"
