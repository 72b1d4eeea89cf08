"""The `### STATE` block: a conversation's long-term memory, kept by the model itself.

The block begins at the last line of a reply that is the heading `### STATE`, as models write
it (`is_state_heading`), outside any closed code fence, and goes to the end of the text or to
the next heading of the same or a higher level. The ledger keeps the reply as it was said and
the block beside it, one per group; replayed history has the blocks taken out, so that only
the newest state is in a prompt, and in one place.

    extract_state(strip_state(text)) is None
    the lines of strip_state(text) == the lines of text outside its blocks, but for blank ones

A reply may say its state more than once: the last block counts, all of them leave.
Its text parts are read as one text, for finding as for taking out; what stands in no
block stays in the part it was in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sightline.context.messages.parts import BETWEEN_TEXTS, Entry, EntryMemory, Part, Raw, Text

# std::slop, context management §3, state format.
HEADING: Final = "### STATE"
TEMPLATE: Final = f"""\
{HEADING}
Goal: [Short description of current task]
Context: [Active files/classes being edited]
Resolved: [List of things finished this session]
Technical Anchors: [Ports, IPs, constant values]
"""

# What of a part's raw form is said of its message and not of its text. The rest may be a
# signature over the words, or hold them, and goes when they change.
_OF_THE_MESSAGE: Final = {"openai_responses": ("phase",)}

# Any case, up to three blanks before it, blanks or one colon behind it.
_HEADING_LINE: Final = re.compile(
    r"^ {0,3}###[ \t]+STATE[ \t]*(?::[ \t]*)?\r?$", re.IGNORECASE | re.MULTILINE | re.ASCII
)
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


def is_state_heading(line: str) -> bool:
    """Whether a line, without its end, is the heading of a state block."""
    return _HEADING_LINE.fullmatch(line) is not None


def extract_state(text: str) -> str | None:
    """Return the state block of a reply under the plain heading, or None if it has none."""
    blocks = _blocks(text)
    if not blocks:
        return None
    start, end = blocks[-1]
    # What ends a line, and no more: a heading must not come to be by what is taken off.
    heading, _, lines = text[start:end].rstrip(" \t\r\n").partition("\n")
    plain = HEADING + "\r" * heading.endswith("\r")
    return f"{plain}\n{lines}" if lines else HEADING


def strip_state(text: str) -> str:
    """Return the reply without its state blocks; the text itself if it has none."""
    return _without(text, _blocks(text))


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


_STRIPPED: Final = EntryMemory()


def _stripped(entry: Entry) -> Entry:
    parts = entry.message.parts
    if not any(isinstance(part, Text) and _HEADING_LINE.search(part.text) for part in parts):
        return entry
    text = entry.message.text

    def strip() -> Entry:
        blocks = _blocks(text)
        return entry.with_parts(_parts_without(parts, blocks)) if blocks else entry

    return _STRIPPED.of(entry, None, len(text), strip)


def _parts_without(parts: Iterable[Part], blocks: Sequence[tuple[int, int]]) -> Iterator[Part]:
    """Yield the parts without the blocks, which are given as spans of the message's joined text."""
    start = 0
    for part in parts:
        if not isinstance(part, Text):
            yield part
            continue
        size = len(part.text)
        spans = [(max(a - start, 0), min(b - start, size)) for a, b in blocks]
        spans = [(a, b) for a, b in spans if a < b]
        start += size + len(BETWEEN_TEXTS)
        if not spans:
            yield part
        elif text := _without(part.text, spans):
            yield Text(text, _raw_without_text(part.raw))


def _raw_without_text(raw: Raw | None) -> Raw | None:
    """Return what of a part's raw form still holds when its text is another."""
    if raw is None or not isinstance(raw.data, dict):
        return None
    kept = {key: raw.data[key] for key in _OF_THE_MESSAGE.get(raw.strategy, ()) if key in raw.data}
    return Raw(raw.strategy, kept) if kept else None


def _without(text: str, blocks: Sequence[tuple[int, int]]) -> str:
    """Take whole lines out; a blank line stands in their place where text goes on."""
    if not blocks:
        return text
    ends = [0, *(end for _, end in blocks)]
    kept = [_shortened(text[end:start]) for end, (start, _) in zip(ends, blocks, strict=False)]
    return "\n\n".join(piece for piece in (*kept, text[ends[-1] :]) if piece)


def _shortened(text: str) -> str:
    """Take blank lines off the end, and nothing off the last line that is none.

    A line that only begins like a heading must not become one.
    """
    written = text.rstrip()
    return text[: text.find("\n", len(written))].rstrip("\r") if written else ""


def _blocks(text: str) -> list[tuple[int, int]]:
    """Locate the state blocks as (start, end), in order; no fence is open at either."""
    if "###" not in text or not _HEADING_LINE.search(text):
        return []
    found: list[tuple[int, int]] = []
    start: int | None = None
    for position, line in unfenced(text):
        if (begins := is_state_heading(line)) or (start is not None and _ENDS_BLOCK.match(line)):
            if start is not None:
                found.append((start, position))
            start = position if begins else None
    if start is not None:
        found.append((start, len(text)))
    return found


def unfenced(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside any closed code fence, without their ends, and where each begins."""
    fence = ""
    position = 0
    lines = text.split("\n")
    for line, closing in zip(lines, _closing_after(lines), strict=True):
        bare = line.rstrip("\r")
        if fence:
            fence = "" if _closes(bare, fence) else fence
        elif (opened := _opened(bare)) and closing.get(opened[0], 0) >= len(opened):
            fence = opened
        else:
            yield position, bare
        position += len(line) + 1


def _closing_after(lines: Sequence[str]) -> list[dict[str, int]]:
    """How long a fence of each character, opened at a line, may be to be closed by a later one."""
    longest: dict[str, int] = {}
    after = []
    for line in reversed(lines):
        after.append(longest)
        mark = line.strip()
        if mark and mark[0] in "`~" and len(mark) > longest.get(mark[0], 2):
            longest = {**longest, mark[0]: len(mark)} if set(mark) == {mark[0]} else longest
    after.reverse()
    return after


def _opened(line: str) -> str:
    """The fence that a line opens; empty if it opens none."""
    opened = _FENCE.fullmatch(line)
    return "" if opened is None or ("`" in opened[1] and "`" in opened[2]) else opened[1]


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}
