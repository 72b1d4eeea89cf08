"""An answer that is still being written, as markdown blocks that are finished.

    "".join(every block, in order) + rest == everything that was fed

A terminal cannot take back what scrolled by, so a block is given out once nothing that
follows can change how it looks: a paragraph at the blank line after it, a fence when it is
closed, a list when something else begins. The `### STATE` block, which a model ends its
replies with for itself, is held back and given out apart.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sightline.context.messages.state import HEADING, is_state_heading

# CommonMark 4.5, 4.2 and 5.2: fences, ATX headings, list items.
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
# std::slop, context management §3: the state block.
_STATE_LEVEL: Final = HEADING.count("#")


class Ending(NamedTuple):
    """What was left when the answer ended: text to show, and the state, if it has one."""

    text: str
    state: str


class Blocks:
    """Takes an answer piece by piece, gives out the blocks that are finished."""

    def __init__(self) -> None:
        self._partial = ""  # a line without its end
        self._block: list[str] = []
        self._fence = ""
        self._opened_at = 0  # where in the block the fence begins
        self._state: list[str] | None = None

    @property
    def rest(self) -> str:
        """What is there and not given out yet, for a preview; the state is not in it."""
        return "" if self._state is not None else "".join(self._block) + self._partial

    def feed(self, text: str) -> list[str]:
        """Take more of the answer; return the blocks that it finished."""
        *lines, self._partial = (self._partial + text).split("\n")
        finished: list[str] = []
        for line in lines:
            finished.extend(self._line(f"{line}\n"))
        return finished

    def finish(self) -> Ending:
        """End the answer, and begin anew."""
        left: list[str] = []
        if self._partial:
            left.extend(self._line(self._partial))
        while self._fence:
            # One that was never closed is none.
            quoted = self._block[self._opened_at + 1 :]
            del self._block[self._opened_at + 1 :]
            self._fence = ""
            for line in quoted:
                left.extend(self._line(line))
        left.extend(self._give())
        state = "".join(self._state or ())
        self._partial, self._fence, self._state = "", "", None
        return Ending("".join(left), state)

    def _line(self, line: str) -> list[str]:
        if self._fence:
            self._block.append(line)
            mark = line.strip()
            if len(mark) >= len(self._fence) and set(mark) == {self._fence[0]}:
                self._fence = ""
                return [] if self._is_list() else self._give()
            return []
        bare = line.rstrip("\r\n")
        given: list[str] = []
        if self._ends_before(bare):
            given = self._give()
        heading = _HEADING.match(bare)
        if is_state_heading(bare):
            if self._state is not None:  # only the last one is the state
                given.append("".join(self._state))
            self._state = []
        elif self._state is not None and heading and len(heading[1]) <= _STATE_LEVEL:
            given.append("".join(self._state))
            self._state = None
        if (opened := _FENCE.fullmatch(bare)) and not ("`" in opened[1] and "`" in opened[2]):
            self._fence, self._opened_at = opened[1], len(self._block)
        self._block.append(line)
        # A heading is one line; a paragraph is over at its blank line, a list perhaps not.
        over = bool(heading) or not (bare.strip() or self._is_blank())
        return given + (self._give() if over and not self._is_list() else [])

    def _ends_before(self, bare: str) -> bool:
        """Whether the block at hand is over, now that this line follows."""
        if self._is_blank() or not bare.strip():
            return False
        begins = bool(_HEADING.match(bare) or _FENCE.match(bare))
        if self._is_list():
            after_blank = not self._block[-1].strip()
            inside = bare[0] in " \t" or bool(_ITEM.match(bare))
            return not inside and (after_blank or begins)
        return begins

    def _is_blank(self) -> bool:
        return not any(line.strip() for line in self._block)

    def _is_list(self) -> bool:
        first = next((line for line in self._block if line.strip()), "")
        return bool(_ITEM.match(first))

    def _give(self) -> list[str]:
        block, self._block = "".join(self._block), []
        if not block:
            return []
        if self._state is not None:
            self._state.append(block)
            return []
        return [block]
