"""What a killed program left open, closed and marked, so that the conversation can go on.

Three things can be open in the last group of a session: a reply of which the ledger
knows the beginning, calls without results, and nothing. The beginning is stored as an
incomplete message; each open call gets an error result that says how far it was. Both
are ordinary messages, so the prompt that follows is as stable as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sightline.agent.turn.progress import ReplyProgress
from sightline.context.ledger import Ledger
from sightline.context.ledger.work import OpenWork
from sightline.context.messages.entries import Draft, Entry
from sightline.context.messages.gate import guarded
from sightline.context.messages.parts import Message, ToolCall, ToolResult
from sightline.context.messages.window import Window

WORDS: Final = {
    "asked": "error: not run (the program ended while it waited for approval)",
    "running": "error: interrupted (the program ended while it ran); "
    "whether it took effect is unknown",
    "": "error: interrupted (the program ended); whether it took effect is unknown",
}


class Recovered(msgspec.Struct, frozen=True):
    """What was found open: whether a reply was, and how many calls."""

    reply: bool = False
    calls: int = 0

    def __bool__(self) -> bool:
        return self.reply or self.calls > 0

    def __str__(self) -> str:
        reply = ["the beginning of a reply is kept as incomplete"] if self.reply else []
        many = "1 open call is" if self.calls == 1 else f"{self.calls} open calls are"
        calls = [f"{many} marked as interrupted"] if self.calls else []
        return "the program was ended in the middle of a turn: " + "; ".join(reply + calls)


def recover(
    ledger: Ledger, session_id: int, work: OpenWork, weigh: Callable[[Message], Draft]
) -> Recovered:
    """Close what is open in the last group of a session; nothing, if all is closed."""
    entries = ledger.window(session_id, Window(1))
    if not entries:
        return Recovered()
    calls = open_calls(entries)
    if calls:
        results = [
            Message(
                "tool", (ToolResult(call.id, _result_text(call, work), call.name, is_error=True),)
            )
            for call in calls
        ]
        strategy = next(e.parsing_strategy for e in reversed(entries) if e.message.tool_calls)
        ledger.append(session_id, [weigh(message) for message in results], strategy=strategy)
        return Recovered(calls=len(calls))
    reply = ReplyProgress(text=work.text, reasoning=work.reasoning)
    partial = guarded(reply.message(), broken_off=True)
    last = entries[-1]
    if not partial.parts or work.group_id != last.group_id or work.after_seq != last.seq:
        return Recovered()
    draft = msgspec.structs.replace(weigh(partial), incomplete=True)
    ledger.append(session_id, [draft], strategy=work.strategy)
    return Recovered(reply=True)


def open_calls(entries: Sequence[Entry]) -> list[ToolCall]:
    """List the calls that have no result behind them, in order."""
    waiting: dict[str, ToolCall] = {}
    for entry in entries:
        for part in entry.message.parts:
            if isinstance(part, ToolCall):
                waiting[part.id] = part
            elif isinstance(part, ToolResult):
                waiting.pop(part.call_id, None)
    return list(waiting.values())


def _result_text(call: ToolCall, work: OpenWork) -> str:
    return WORDS[work.calls.get(call.id, "")]
