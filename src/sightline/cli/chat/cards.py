"""Events as a person reads them: tool cards, results, notices.

Functions from events to lines; all text of apps and models is made harmless here. The
question before an action is `cli.approval`'s.
"""

from __future__ import annotations

from typing import Final

import msgspec

import sightline.events as events
from sightline.cli.approval import approval_card
from sightline.cli.clean import clean, clean_line
from sightline.cli.commands.console import Line, cut, line_of, width_of
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
