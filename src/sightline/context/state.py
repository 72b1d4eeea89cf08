"""The `### STATE` block: a conversation's long-term memory, kept by the model itself.

The block is the last line of a reply that is exactly `### STATE`, outside any
code fence, to the end of the text or to the next heading of the same or a higher
level. The ledger keeps the reply as it was said and the block beside it, one per
group; replayed history has the blocks taken out, so that only the newest state
is in a prompt, and in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sightline.context.entries import Entry
from sightline.context.parts import Part, Text

__all__ = [
    "HEADING",
    "TEMPLATE",
    "StateRebuild",
    "extract_state",
    "rebuild_request",
    "strip_state",
    "strip_states",
]

HEADING: Final = "### STATE"
TEMPLATE: Final = f"""\
{HEADING}
Goal: [Short description of current task]
Context: [Active files/classes being edited]
Resolved: [List of things finished this session]
Technical Anchors: [Ports, IPs, constant values]
"""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ENDS_BLOCK: Final = re.compile(r" {0,3}#{1,3}(?:[ \t\r]|$)")


class StateRebuild(msgspec.Struct, frozen=True):
    """A request that the host shall run: read `history`, answer `prompt`, store the block.

    The answer's block belongs to `group_id`, the newest group that was read.
    """

    session_id: int
    group_id: int
    prompt: str
    history: tuple[Entry, ...]


def extract_state(text: str) -> str | None:
    """Return the state block of a reply, heading included, or None if it has none."""
    span = _find(text)
    # What ends a line, and no more: a heading must not come to be by what is taken off.
    return text[span[0] : span[1]].rstrip(" \t\r\n") if span else None


def strip_state(text: str) -> str:
    """Return the reply without its state block; the text itself if it has none."""
    span = _find(text)
    if span is None:
        return text
    before, after = text[: span[0]].rstrip(), text[span[1] :]
    return f"{before}\n\n{after}" if before and after else before or after


def strip_states(entries: Iterable[Entry]) -> list[Entry]:
    """Take the state blocks out of the assistant's texts; a text that was only one leaves."""
    return [_stripped(entry) if entry.role == "assistant" else entry for entry in entries]


def rebuild_request(session_id: int, history: Sequence[Entry]) -> StateRebuild:
    """Ask for a new state block that says what this history says, and no more."""
    prompt = (
        "Some of this conversation was removed, so the stored state may no longer be true. "
        "Read the whole conversation above and write the state anew from it alone. "
        f"Answer with nothing but the block, in this form:\n\n{TEMPLATE}"
    )
    return StateRebuild(session_id, history[-1].group_id, prompt, tuple(history))


def _stripped(entry: Entry) -> Entry:
    parts: list[Part] = []
    for part in entry.message.parts:
        if not isinstance(part, Text):
            parts.append(part)
        elif text := strip_state(part.text):
            parts.append(part if text == part.text else Text(text))
    return entry.with_parts(parts)


def _find(text: str) -> tuple[int, int] | None:
    """Locate the last state block as (start, end), or None."""
    if HEADING not in text:
        return None
    found: tuple[int, int] | None = None
    start: int | None = None
    fence = ""
    position = 0
    for line in text.split("\n"):
        bare = line.rstrip("\r")
        if fence:
            fence = "" if _closes(bare, fence) else fence
        elif opened := _FENCE.fullmatch(bare):
            fence = "" if "`" in opened[1] and "`" in opened[2] else opened[1]
        elif bare == HEADING or (start is not None and _ENDS_BLOCK.match(bare)):
            if start is not None:
                found = (start, position)
            start = position if bare == HEADING else None
        position += len(line) + 1
    return (start, len(text)) if start is not None else found


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}
