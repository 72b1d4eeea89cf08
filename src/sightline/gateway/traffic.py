"""Which conversation a request goes on with, and what became of it.

An agent runs several conversations at once: its main one, sub-agents, titles. A request belongs
to the earlier one with the longest common beginning, of the same session; among equals to the
latest. What shares no message with any of them begins a conversation of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from sightline.context.dialects.events import Usage
from sightline.gateway.bodies import RequestBody, Unit
from sightline.gateway.losses import Comparison, common_units, compare, is_summary

KEPT: Final = 64  # requests of a session that the next is compared with
SESSIONS: Final = 64
SAME_MESSAGES: Final = 4  # that two requests share only if they are of one conversation
# Claude Code and Codex name their sessions in headers; others leave it to the body.
_HEADERS: Final = ("x-claude-code-session-id", "session-id", "session_id", "thread-id")


@dataclass(frozen=True, slots=True)
class Earlier:
    """A request that a later one can be held against; `at` is when it was sent, in seconds.

    `usage` is without what `left` it: state of apps that the next request does not have. `ready`
    is when its answer began: before that nothing of it is in a cache.
    """

    body: RequestBody
    at: float
    usage: Usage | None = None
    left: bool = False
    ready: float = 0.0


@dataclass(slots=True)
class Traffic:
    """The requests of one gateway, by session; the oldest are forgotten."""

    _sessions: OrderedDict[str, list[Earlier]] = field(default_factory=OrderedDict)

    def match(self, session: str, body: RequestBody) -> tuple[Earlier, Comparison] | None:
        """Find the request that this one goes on with, and compare the two."""
        best: tuple[tuple[int, int], Earlier] | None = None
        for earlier in reversed(self._sessions.get(session, ())):
            if not _same_conversation(earlier.body, body):
                continue
            alike = _shared_messages(earlier.body, body)
            common = common_units(earlier.body.units, body.units), alike
            if best is None or common > best[0]:
                best = common, earlier
        return None if best is None else (best[1], compare(best[1].body, body))

    def add(self, session: str, earlier: Earlier) -> None:
        """Remember a request, and how it was answered."""
        known = self._sessions.setdefault(session, [])
        known.append(earlier)
        del known[:-KEPT]
        self._sessions.move_to_end(session)
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)


def _same_conversation(old: RequestBody, new: RequestBody) -> bool:
    """Whether a request can be a later one of a conversation: by its tools, words and messages."""
    if old.api != new.api:
        return False
    shared = _shared_messages(old, new)
    if shared >= SAME_MESSAGES:
        return True
    if not (_overlap(old.tools, new.tools) and _overlap(old.system, new.system)):
        return False
    if shared:
        return True
    return len(old.messages) > len(new.messages) and is_summary(new.messages)


def _shared_messages(old: RequestBody, new: RequestBody) -> int:
    """Count the parts of messages that two requests have in common, wherever."""
    known = {unit.digest for unit in old.messages}
    return sum(unit.digest in known for unit in new.messages)


def _overlap(old: tuple[Unit, ...], new: tuple[Unit, ...]) -> bool:
    """Whether two sections have something in common, by name or as they are; or are both empty."""
    if not old and not new:
        return True
    if bool(old) != bool(new):
        return False
    mine = {unit.name or unit.text[:40] for unit in old} | {unit.digest for unit in old}
    theirs = {unit.name or unit.text[:40] for unit in new} | {unit.digest for unit in new}
    return not mine.isdisjoint(theirs)


def session_key(headers: Mapping[str, str], body: RequestBody) -> str:
    """Name the session of a request: as the agent does, or by how its conversation begins."""
    for name in _HEADERS:
        if headers.get(name):
            return headers[name]
    for name in ("prompt_cache_key", "user"):
        if name in body.settings:
            return str(msgspec.json.decode(body.settings[name]))
    begun = [unit.digest for unit in (*body.system[:1], *body.messages[:1])]
    return blake2b(b"".join(begun), digest_size=8).hexdigest()
