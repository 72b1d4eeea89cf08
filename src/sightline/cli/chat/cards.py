"""Events as a person reads them: tool cards, results, notices, and the status line.

Functions from events to lines; all text of apps and models is made harmless here. The
question before an action is `cli.approval`'s. The status line is one value folded from events, and
one function that draws it: what matters most stays longest when the terminal is narrow, which is
the model, how full the window is, and what the cache lost and why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

import sightline.events as events
from sightline._amounts import dollars, percent, share
from sightline.cli.approval import approval_card
from sightline.cli.clean import clean, clean_line
from sightline.cli.commands.console import Line, Piece, cut, line_of, width_of
from sightline.cli.diff import diff_lines

_FIRST_LINES: Final = 3
_LAST_LINES: Final = 3
_DIFF_LINES: Final = 24
_ENDINGS: Final = {
    "length": "the answer is cut off: it reached the model's limit",
    "refused": "the model, or its vendor's filter, declined to go on",
    "incomplete": "the answer broke off; what came of it is kept",
    "error": "the vendor failed while answering",
}
_BAR: Final = 8
_GAP: Final = " · "
# A cache that gives less than this much of what was to be expected has lost something.
_EXPECTED: Final = 0.9


def card(event: events.HostEvent, width: int) -> list[Line]:
    """Write what a person is told of an event; nothing for those that are shown otherwise."""
    match event:
        case events.CallStarted():
            return call_card(event, width)
        case events.CallFinished():
            return result_card(event, width)
        case events.ApprovalAsked():
            return approval_card(event, width)
        case events.ApprovalAnswered(by="cancel", reason=reason):
            return [line_of(f"  not run: {reason}", "dim")]
        case events.ApprovalAnswered(approved=approved, by=by) if by != "user":
            return [line_of(f"  {'approved' if approved else 'refused'} by {by}", "dim")]
        case events.Retrying():
            when = f"in {event.after_s:.0f} s (attempt {event.attempt})"
            return [line_of(f"~ trying again {when}: {event.reason}", "warn")]
        case events.SpendingAsked():
            return [line_of(f"? {event}", "ask")]
        case events.Noticed():
            return [line_of(f"! {event.message}", "warn")]
        case events.AppChanged():
            why = f" ({event.reason})" if event.reason else ""
            return [line_of(f"◦ {event.app}: {event.status}{why}", "dim")]
        case events.ReplyEnded() if event.reason in _ENDINGS:
            detail = f": {event.detail}" if event.detail else ""
            return [line_of(f"! {_ENDINGS[event.reason]}{detail}", "warn")]
        case events.TurnEnded():
            return _ending(event)
        case _:
            return []


def error_line(message: str) -> Line:
    """Write an error as a line of its own."""
    return line_of(f"✗ {message}", "error")


def user_card(text: str) -> list[Line]:
    """Repeat what the user said, so that it stays in the scrollback."""
    first, *more = clean(text).split("\n")
    return [(("user", f"> {first}"),), *((("user", f"  {line}"),) for line in more)]


def call_card(event: events.CallStarted, width: int) -> list[Line]:
    """Write a call: where and what for an app's action, else the host's own tool."""
    if event.app:
        where = clean_line(f"{event.app}{'' if event.path == '/' else event.path}")
        what, given = clean_line(event.action), event.arguments.get("params", event.arguments)
    else:
        where, what, given = "", clean_line(event.name), event.arguments
    head = f"● {where} {what}" if where else f"● {what}"
    room = max(0, width - width_of(head) - 1)
    arguments = clean_line(msgspec.json.encode(given).decode()) if given else ""
    return [(("tool", cut(head, width)), ("dim", f" {cut(arguments, room)}" if arguments else ""))]


def result_card(event: events.CallFinished, width: int) -> list[Line]:
    """Write the beginning and the end of what a tool answered, and how much is between them.

    The end, because a test run or a build says there what became of it.
    """
    if event.diff:
        return [(("dim", "  └ changed:"),), *diff_lines(event.diff, width, _DIFF_LINES)]
    text = clean(event.content).rstrip("\n").expandtabs(4)
    # What came of it says that it was done, and a command that failed or was stopped says so.
    lines = (text.removeprefix("Done.\n") if event.ok else text).split("\n")
    more = len(lines) - _FIRST_LINES - _LAST_LINES
    where = "" if event.message_id is None else f", /result {event.message_id} shows all"
    if more > 1:
        lines[_FIRST_LINES:-_LAST_LINES] = [f"… {more} more lines{where}"]
    style = "dim" if event.ok else "error"
    return [
        ((style, f"  {'└' if index == 0 else ' '} {cut(line, max(1, width - 4))}"),)
        for index, line in enumerate(lines)
    ]


def _ending(event: events.TurnEnded) -> list[Line]:
    match event.outcome:
        case "cancelled":
            return [line_of("■ stopped", "warn")]
        case "failed":
            code = f" ({event.code})" if event.code else ""
            return [error_line(f"{event.detail or 'the turn failed'}{code}")]
        case "limit" if event.code == "length":
            return []  # told when the reply ended
        case "limit":
            return [line_of(f"! {event.detail or 'the turn reached its limit'}", "warn")]
        case "answered":
            return []


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
    cost_usd: float | None = None
    unpriced: int = 0
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
            return replace(
                status,
                model=event.model,
                prompt_tokens=event.prompt_tokens,
                budget_tokens=event.budget_tokens,
                state_tokens=event.tail_tokens,
                expected=share(event.reused_tokens, event.prompt_tokens),
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
    reported = share(event.cache_read_tokens, event.input_tokens)
    lost = status.expected is not None and reported < status.expected * _EXPECTED
    cost = status.cost_usd
    why = event.cache_miss or status.cause or ("lost by the vendor" if lost else "")
    return replace(
        status,
        reported=reported,
        cause=why if lost or status.cause else "",
        cost_usd=cost if event.cost_usd is None else (cost or 0.0) + event.cost_usd,
        unpriced=status.unpriced + (event.cost_usd is None),
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
    used = share(status.prompt_tokens, status.budget_tokens)
    full = round(used * _BAR)
    style = "error" if used > 0.9 else "warn" if used > 0.75 else "status.context"
    return style, f"{'█' * full}{'░' * (_BAR - full)} {percent(used)}"


def _cache(status: Status) -> Piece:
    cached = status.expected if status.reported is None else status.reported
    if cached is None:
        return "status.cache", ""
    if status.cause:
        return "warn", f"cache {percent(cached)} ← {clean_line(status.cause)}"
    return "status.cache", f"cache {percent(cached)}"


def _state(status: Status) -> str:
    return f"state {_short(status.state_tokens)}" if status.state_tokens else ""


def _cost(status: Status) -> str:
    is_empty = status.cost_usd is None and not status.unpriced
    return "" if is_empty else f"price {dollars(status.cost_usd, status.unpriced)}"


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.1f}k"
