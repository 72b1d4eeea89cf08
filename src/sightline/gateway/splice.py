"""Messages of our own put into a request by offset: every byte that the agent wrote stays.

    {"model": …, "messages": [m0, m1, m2], "tools": …}
    {"model": …, "messages": [m0, m1, m2,{"role":"user",…}], "tools": …}

Only where the messages begin and end is looked for; nothing is written anew. What cannot be
read, or names a thing twice, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import msgspec

from sightline.context.dialects.profile import TailRules
from sightline.gateway.bodies import DIGEST_BYTES, Api, RequestBody, message_units, read_fields

_LISTS: Final[dict[Api, str]] = {
    "anthropic": "messages", "openai-responses": "input", "openai-chat": "messages",
    "gemini": "contents",
}  # fmt: skip
_NAME: Final = re.compile(rb'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')
_BETWEEN: Final = re.compile(rb"[\s,]*")
_END: Final = re.compile(rb"\s*\}\s*")
_bodies: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lists: Final = msgspec.json.Decoder(list[msgspec.Raw])
_values: Final = msgspec.json.Decoder()


class MessageList:
    """The messages of a request as they were written, and where each of them ends in its body.

    A text alone (OpenAI's Responses take one) is a message: `bare` is where it begins.
    """

    def __init__(
        self, api: Api, data: bytes, fields: dict[str, msgspec.Raw], bare: int | None,
        items: list[bytes], ends: list[int], path: str,
    ) -> None:  # fmt: skip
        self.api = api
        self.data = data
        self.fields = fields
        self._bare = bare
        self._items = items
        self._ends = ends
        self._path = path

    def __len__(self) -> int:
        return len(self._items)

    def has(self, name: str) -> bool:
        """Whether a field is there and not empty."""
        return bytes(self.fields.get(name, b"null")) not in (b"null", b"[]", b'""')

    def field(self, name: str) -> Any:
        """Read a field of the body; None if it has none."""
        return _values.decode(self.fields[name]) if name in self.fields else None

    def message(self, index: int) -> Mapping[str, Any]:
        """Read a message."""
        found = _values.decode(self._items[index])
        return found if isinstance(found, Mapping) else {}

    def digest(self, index: int, before: str = "") -> str:
        """Digest a message as its vendor reads it, and what else it is to be known by."""
        units = message_units(self._items[index])
        parts = [before.encode(), b"%d" % index, *(unit.digest for unit in units)]
        return blake2b(b"\0".join(parts), digest_size=DIGEST_BYTES).hexdigest()

    @property
    def last_text(self) -> str:
        """What a person would read of the end of the last message."""
        return "".join(unit.text for unit in message_units(self._items[-1])[-1:])

    @cached_property
    def head(self) -> RequestBody:
        """The request as far as its session is known by it: instructions, the first message."""
        first = msgspec.Raw(b"[" + self._items[0] + b"]")
        kept = {name: raw for name, raw in self.fields.items() if name != "tools"}
        return read_fields(self.api, {**kept, _LISTS[self.api]: first}, self._path)

    def spliced(self, added: Mapping[int, bytes]) -> bytes:
        """Write the body with a message behind each of these; itself if there is none."""
        if not added:
            return self.data
        inserts = [(self._ends[index], b"," + added[index]) for index in sorted(added)]
        if self._bare is not None:
            (end, message), start = inserts[0], self._bare
            inserts = [(start, b'[{"role":"user","content":'), (end, b"}" + message + b"]")]
        edges = [0, *(at for at, _ in inserts), len(self.data)]
        rest = memoryview(self.data)
        kept = [rest[start:end] for start, end in pairwise(edges)]
        ours = [*(data for _, data in inserts), b""]
        return b"".join(part for pair in zip(kept, ours, strict=True) for part in pair)


def read_messages(api: Api, data: bytes, path: str = "") -> MessageList | None:
    """Find the messages of a body; None where there are none, or it is no such body."""
    try:
        return _messages(api, data, path)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return None


def _messages(api: Api, data: bytes, path: str) -> MessageList | None:
    fields = _bodies.decode(data)
    start, raw = _found(data, fields, _LISTS[api])
    if raw[:1] == b'"' and api == "openai-responses":
        message = b'{"role":"user","content":' + raw + b"}"
        return MessageList(api, data, fields, start, [message], [start + len(raw)], path)
    items = [bytes(item) for item in _lists.decode(raw)]
    ends, at = [], start + 1
    for item in items:
        between = _BETWEEN.match(data, at)
        at = (at if between is None else between.end()) + len(item)
        ends.append(at)
    return MessageList(api, data, fields, None, items, ends, path) if items else None


def _found(data: bytes, fields: Mapping[str, msgspec.Raw], wanted: str) -> tuple[int, bytes]:
    """Walk over a body's fields to one of them; raise ValueError if a name comes twice."""
    at = data.index(b"{") + 1
    found: tuple[int, bytes] | None = None
    for name, raw in fields.items():
        key = _NAME.match(data, at)
        if key is None or _values.decode(key[1]) != name:
            raise ValueError("a name comes twice")
        if name == wanted:
            found = key.end(), bytes(raw)
        at = key.end() + memoryview(raw).nbytes
    if found is None or _END.fullmatch(data, at) is None:
        raise ValueError(f"no {wanted}, or a name comes twice")
    return found


def message_of(api: Api, text: str, filler: str = "") -> bytes:
    """Write a message of the user's, behind one of the assistant's where the API wants that."""
    message: dict[str, Any] = {"role": "user", "content": text}
    if api == "anthropic":
        message["content"] = [{"type": "text", "text": text}]
    elif api == "openai-responses":
        message = {"type": "message", "role": "user",
                   "content": [{"type": "input_text", "text": text}]}  # fmt: skip
    elif api == "gemini":
        message = {"role": "user", "parts": [{"text": text}]}
    between = msgspec.json.encode({"role": "assistant", "content": filler}) + b","
    return (between if filler else b"") + msgspec.json.encode(message)


def last_of(talk: MessageList, rules: TailRules) -> tuple[int, str] | str:
    """Find the message that state may stand behind, and the filler between; or say why not."""
    last = len(talk) - 1
    if talk.api == "anthropic":
        # Anthropic, "Mid-conversation system messages": they follow a user's turn, which a
        # second message of the user's is merged into; nothing is known of one that follows them.
        while last >= 0 and talk.message(last).get("role") == "system":
            last -= 1
    message = talk.message(last) if last >= 0 else {}
    role, kind = message.get("role"), str(message.get("type", "message"))
    if talk.api == "openai-responses" and kind != "message":
        if not kind.endswith("_output") and kind not in _GIVEN:
            return "it goes on with what the model began"
    elif role in ("assistant", "model"):
        return "it goes on with what the model began"
    elif not message or (talk.api == "anthropic" and role != "user"):
        return "it has no message of the user's"
    placement = rules.after_tools if role == "tool" else rules.plain
    if placement in ("into_user", "prepend"):
        return "the template of its model takes no message behind the user's"
    return last, rules.filler if placement == "filler" else ""


# OpenAI's Responses: items that are neither messages nor the model's own.
_GIVEN: Final = frozenset({"additional_tools", "mcp_approval_response"})


def held_by(talk: MessageList) -> tuple[str, str]:
    """Name the history that the vendor holds for a request: by which field, and its id."""
    # OpenAI, "Conversation state": what is sent stays in the history that it is added to.
    for name in ("previous_response_id", "conversation") * (talk.api == "openai-responses"):
        held = talk.field(name)
        if isinstance(held, Mapping):
            held = held.get("id")
        if isinstance(held, str) and held:
            return name, held
    return "", ""


def aside(headers: Mapping[str, str], talk: MessageList) -> str:
    """Say why a request is not of the agent's main line; empty if it is."""
    # Claude Code and Codex name their sub-agents in headers.
    if any(headers.get(name) for name in _SUB_AGENTS):
        return "it is a sub-agent's"
    # So they do the kinds of their requests, where they do.
    kind = headers.get("x-claude-code-request-class") or _codex_kind(headers) or "main"
    if kind not in ("main", "turn"):
        return f"it is of the kind {kind!r}"
    # Titles, summaries, probes of a quota and checks of a word are asked without tools.
    if not any(talk.has(name) for name in ("tools", "cachedContent")):
        return "it offers no tools"
    if talk.field("max_tokens") == 1:
        return "it asks for one token"
    # Claude Code has its conversation summed up with all of its tools.
    if _SUMMED_UP in talk.last_text[:_SUMMED_UP_IN]:
        return "it asks for a summary"
    return ""


def _codex_kind(headers: Mapping[str, str]) -> str:
    try:
        return _turns.decode(headers.get("x-codex-turn-metadata", "{}")).request_kind
    except msgspec.MsgspecError:
        return ""


class _CodexTurn(msgspec.Struct, frozen=True):
    request_kind: str = ""


_turns: Final = msgspec.json.Decoder(_CodexTurn)
_SUB_AGENTS: Final = (
    "x-claude-code-agent-id", "x-openai-subagent", "x-codex-parent-thread-id",
)  # fmt: skip
_SUMMED_UP: Final = "create a detailed summary of the conversation"
_SUMMED_UP_IN: Final = 4_000
