"""Anthropic's Messages API.

    model · parameters · tools · system · messages[user · assistant · …  user: … ] │ text: tail

The tail is a text block of its own in the last user turn, behind the tool results,
which must come first there. Marks: one on the last block of the instructions, one on
the last stable block, and in long tool loops up to two where earlier requests ended
(`segments.choose_marks`). Never on thinking, never on the tail.

Bound thinking
==============
Newer models accept a thinking block only if everything before it is as it was when it
was made. A tail that is gone from the next request is such a change. The modes:

    drop         blocks are sent back, and the API is told to drop those that no longer
                 fit instead of refusing the request (the default for these models)
    strip        we leave all of them out ourselves
    turn_append  the tails that blocks of the running user turn depend on stay where they
                 were, numbered, so that these stay valid inside a tool loop; both go at
                 the next user turn

A fourth way exists and is not taken: a system message that clears itself would put what
apps say, which is untrusted, in the system's role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, Final

import sightline.context.messages.parts as talk
from sightline.context.dialects.decoder import Decoder, Open, written
from sightline.context.dialects.events import CacheMiss, Event, StopReason, Usage, UsageFields, at
from sightline.context.dialects.names import ToolDefinition, inline, is_web, wire_id
from sightline.context.dialects.request import RequestDraft
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.stored import UNKNOWN, Stored, as_text, flat, message_of, role_of
from sightline.context.dialects.turns import PromptTurn, begun, last_question, own_form, texts_of

NAME: Final = "anthropic"
BOUND: Final = "drop"
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
VERSION: Final = "2023-06-01"


def write(draft: RequestDraft) -> None:
    """Write a prompt as the body of a request to the Messages API."""
    profile, options, fields = draft.profile, draft.options, draft.fields
    draft.headers["anthropic-version"] = VERSION
    fields |= {
        "model": profile.model,
        "stream": options.stream,
        "max_tokens": draft.max_output_tokens,
    }
    if draft.thinking == "drop":
        binding = {"prefix_mismatch_behavior": "drop_block"}
        fields["thinking"] = {"type": "adaptive", "block_binding": binding}
        draft.headers["anthropic-beta"] = BINDING_BETA
    draft.note_thinking()
    if options.previous_id and "diagnostics" not in draft.extra:
        question = to_json({"previous_message_id": options.previous_id})
        draft.insert(next(reversed(fields)), 0, b',"diagnostics":' + question)
    fields |= draft.extra
    if draft.tools:
        fields["tools"] = draft.written_tools(tool_json)
    system, rest = draft.system_and_rest()
    if system:
        fields["system"] = [{"type": "text", "text": text} for text in texts_of(system)]
    _say(draft, begun(rest))
    _mark(draft)


def tool_json(tool: ToolDefinition) -> dict[str, Any]:
    """Write one tool."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


def write_messages(
    draft: RequestDraft, messages: Iterable[talk.Message]
) -> Iterator[dict[str, Any]]:
    """Write messages as they are; those of one role that follow each other are one."""

    def role_sent(message: talk.Message) -> str:
        return "user" if message.role == "tool" else message.role

    for role, run in groupby(messages, role_sent):
        blocks = (_block(draft, part, keep=True) for message in run for part in message.parts)
        yield {"role": role, "content": [block for block in blocks if block is not None]}


def _say(draft: RequestDraft, turns: list[PromptTurn]) -> None:
    last_user = last_question(turns)
    messages = draft.messages("messages", "content")
    for index, turn in enumerate(turns):
        role = "assistant" if turn.role == "assistant" else "user"
        if turn.role == "system":
            if draft.profile.messages.inline_system:
                role = "system"
            else:
                draft.note("system_as_user", "a later system message is sent as the user's")
        keep = _keeps_thinking(draft, in_loop=index > last_user)
        messages.add_turn(turn, partial(_pieces, draft, role, keep), role, keep)


def _pieces(
    draft: RequestDraft, role: str, keep: bool, parts: tuple[talk.Part, ...]
) -> list[Segment]:
    written = (_block(draft, part, keep=keep) for part in parts)
    return [_piece(role, block) for block in written if block is not None]


def _piece(role: str, block: dict[str, Any]) -> Segment:
    data = to_json(block)
    thought = block["type"] in ("thinking", "redacted_thinking")
    return Segment(role, data, 0 if thought else len(data) - 1)


def _keeps_thinking(draft: RequestDraft, *, in_loop: bool) -> bool:
    if draft.thinking == "strip":
        # With a fixed thinking budget the API demands the blocks of a running tool loop.
        fixed = draft.extra.get("thinking", {}).get("type") == "enabled"
        return in_loop and fixed
    return in_loop or draft.thinking != "turn_append" or not draft.profile.reasoning.bound


def _block(draft: RequestDraft, part: talk.Part, *, keep: bool) -> dict[str, Any] | None:
    if isinstance(part, talk.Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, talk.ToolCall):
        return {
            "type": "tool_use",
            "id": wire_id(part.id, draft.profile.tools.ids),
            "name": draft.names.wire(part.name),
            "input": part.arguments,
        }
    if isinstance(part, talk.ToolResult):
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": wire_id(part.call_id, draft.profile.tools.ids),
            "content": part.content,
        }
        return {**result, "is_error": True} if part.is_error else result
    if isinstance(part, talk.Reasoning):
        raw = own_form(part, NAME)
        return dict(raw) if keep and raw is not None else None
    return _file(draft, part)


def _file(draft: RequestDraft, file: talk.File) -> dict[str, Any]:
    data = inline(file)
    if data is not None:
        source = {"type": "base64", "media_type": data.mime, "data": data.data}
    else:
        source = {"type": "url", "url": file.uri}
    if data is not None or is_web(file):
        if file.mime.startswith("image/"):
            return {"type": "image", "source": source}
        if file.mime == "application/pdf":
            return {"type": "document", "source": source}
    return {"type": "text", "text": draft.in_words(file)}


def _mark(draft: RequestDraft) -> None:
    if not draft.wants_marks("cache_control"):
        return
    mark = {"type": "ephemeral"}
    if draft.options.cache_ttl:
        mark["ttl"] = draft.options.cache_ttl
    data = b',"cache_control":' + to_json(mark)
    fixed = next((name for name in ("system", "tools") if name in draft.fields), "")
    draft.mark(data, fixed, len("}]"))


STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class AnthropicDecoder(Decoder):
    """Blocks that start, grow and stop; then the reason, then `message_stop`."""

    dialect = NAME

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        kind: str = value["type"]
        if kind == "message_start":
            message = value["message"]
            self._response_id = message.get("id") or ""
            self._usage = message.get("usage")
            self._cache_miss = read_cache_miss(message)
        elif kind == "content_block_start":
            yield from self._start(value["index"], value["content_block"])
        elif kind == "content_block_delta":
            yield from self._grow(value["index"], value["delta"])
        elif kind == "message_delta":
            # Cumulative, and without what `message_start` told already.
            self._usage = _joined(self._usage, value.get("usage"))
            self._cache_miss = read_cache_miss(value) or self._cache_miss
            reason = value["delta"].get("stop_reason")
            if reason:
                self._stop = (STOPS.get(reason, "end"), "")
        elif kind == "message_stop":
            yield from self._end_as_stopped("stopped without a reason")
        elif kind == "error":
            yield from self._end("error", str(value["error"].get("message", "")))

    def _whole(self, value: Any) -> Iterator[Event]:
        """The stream in one go: its start and its end are both the message."""
        if value["type"] == "message":
            yield from self._receive("", {"type": "message_start", "message": value})
            for index, block in enumerate(value["content"]):
                yield from self._start(index, block)
            yield from self._receive("", {"type": "message_delta", "delta": value})
            value = {"type": "message_stop"}
        yield from self._receive("", value)

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[Event]:
        kind = block["type"]
        if kind == "text":
            self._part(index, "text")
            yield from self._say(index, block.get("text", ""))
        elif kind == "tool_use":
            part = self._part(index, "tool_call")
            part.call_id, part.name = block["id"], block["name"]
            if block.get("input"):
                part.text = written(block["input"])
        elif kind == "thinking":
            signature = block.get("signature") or ""
            raw = {"type": "thinking", "thinking": "", "signature": signature}
            self._part(index, "reasoning").raw = raw
            yield from self._thought(index, block.get("thinking", ""))
        elif kind == "redacted_thinking":
            self._part(index, "reasoning").raw = {"type": kind, "data": block["data"]}

    def _grow(self, index: int, delta: dict[str, Any]) -> Iterator[Event]:
        kind = delta["type"]
        if kind == "text_delta":
            yield from self._say(index, delta["text"])
        elif kind == "input_json_delta":
            self._part(index, "tool_call").text += delta["partial_json"]
        elif kind == "thinking_delta":
            yield from self._thought(index, delta["thinking"])
        elif kind == "signature_delta":
            self._part(index, "reasoning").raw["signature"] += delta["signature"]

    def _thought(self, index: int, text: str) -> Iterator[Event]:
        self._part(index, "reasoning").raw["thinking"] += text
        yield from self._think(index, text)

    def _finished(self, part: Open) -> talk.Part | None:
        """A block without its signature is refused when it comes back: keep only its text."""
        if part.raw is not None and part.raw.get("signature") == "":
            part.raw = None
        return super()._finished(part)

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        read = fields.count("cache_read_input_tokens")
        write = fields.count("cache_creation_input_tokens")
        return Usage(
            input_tokens=fields.count("input_tokens") + read + write,
            output_tokens=fields.count("output_tokens"),
            cache_read_tokens=read,
            cache_write_tokens=write,
            cache_write_long_tokens=fields.count("cache_creation", "ephemeral_1h_input_tokens"),
            reasoning_tokens=fields.count("output_tokens_details", "thinking_tokens"),
        )


def _joined(before: Any, later: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(later, dict):
        return before if later is None else later
    return {**before, **{key: value for key, value in later.items() if value is not None}}


def read_cache_miss(response: Mapping[str, Any]) -> CacheMiss | None:
    """Read why the cache was missed; None if it was not, or nobody asked."""
    reason = at(response, "diagnostics", "cache_miss_reason")
    if not isinstance(reason, Mapping):
        return None
    missed = UsageFields(reason).count("cache_missed_input_tokens")
    return CacheMiss(str(reason.get("type")), missed)


def read_stored(data: Stored) -> talk.Message:
    """Read one stored message of the Messages API."""
    role = role_of(data["role"], {})
    content = data["content"]
    if isinstance(content, str):
        return talk.Message(role, (talk.Text(content),))
    return message_of(role, tuple(_stored_block(block) for block in content))


def _stored_block(block: Stored) -> talk.Part:
    match block["type"]:
        case "text":
            return talk.Text(as_text(block["text"]))
        case "tool_use":
            return talk.ToolCall(as_text(block["id"]), as_text(block["name"]), dict(block["input"]))
        case "tool_result":
            return talk.ToolResult(
                as_text(block["tool_use_id"]),
                flat(block.get("content")),
                is_error=bool(block.get("is_error", False)),
            )
        case "thinking":
            return talk.Reasoning(as_text(block["thinking"]), talk.Raw(NAME, dict(block)))
        case "redacted_thinking":
            return talk.Reasoning("", talk.Raw(NAME, dict(block)))
        case "image" | "document":
            source = block["source"]
            uri = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
            return talk.File(uri, source.get("media_type", UNKNOWN))
        case other:
            raise ValueError(f"block of type {other!r}")
