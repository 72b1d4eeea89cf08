"""OpenAI's Responses API.

    model · parameters · tools · input[developer … user … reasoning · function_call … output] │ tail

Instructions are developer messages, because the `instructions` field cannot carry a
breakpoint. A breakpoint may stand on input content only: where the assistant spoke
last, the block before it is marked. A second one is behind the instructions, which is what
is left to read after a fold. Reasoning items and the `phase` of messages come
back as they were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import sightline.context.dialects.openai_chat as chat
import sightline.context.messages.parts as talk
from sightline.context.dialects.decoder import Decoder, Open
from sightline.context.dialects.events import CacheMiss, Event, Usage, UsageFields
from sightline.context.dialects.names import ToolDefinition, inline, is_web, wire_id
from sightline.context.dialects.request import RequestDraft
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.stored import Stored, arguments_of, as_text, flat, role_of
from sightline.context.dialects.turns import own_form

NAME: Final = "openai_responses"


def write(draft: RequestDraft) -> None:
    """Write a prompt as the body of a request to the Responses API."""
    profile, options, fields = draft.profile, draft.options, draft.fields
    fields |= {
        "model": profile.model,
        "stream": options.stream,
        # The conversation is ours to keep; theirs would bring old tails back.
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    chat.write_limits(draft, "max_output_tokens")
    is_ours = "prompt_cache_options" in fields.keys() - draft.extra.keys()
    if options.previous_id and profile.cache.diagnostics and is_ours:
        compared = b',"comparison_response_id":' + to_json(options.previous_id)
        draft.insert("prompt_cache_options", len("}"), compared)
    fields |= draft.extra
    if draft.tools:
        fields["tools"] = draft.written_tools(tool_json)
    items = draft.messages("input")
    for turn in draft.turns:
        role = profile.messages.system_role if turn.role == "system" else turn.role
        items.add_turn(turn, partial(_pieces, draft, role), role)
    if draft.wants_marks("breakpoint"):
        draft.mark(chat.BREAKPOINT, head=True)


def tool_json(tool: ToolDefinition) -> dict[str, Any]:
    """Write one tool as a function."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        # A strict schema must list every property as required; ours need not.
        "strict": False,
    }


def _pieces(draft: RequestDraft, role: str, parts: tuple[talk.Part, ...]) -> list[Segment]:
    """One item for each part of the model's or of a tool, one for all parts of anybody else."""
    if role == "assistant":
        items = (to_json(item) for part in parts for item in _reply_items(draft, part))
        return [Segment(role, data) for data in items]
    if role == "tool":
        results = (to_json(_output(draft, p)) for p in parts if isinstance(p, talk.ToolResult))
        return [Segment(role, data, len(data) - len("}]}")) for data in results]
    content = [_part(draft, part) for part in parts]
    data = to_json({"type": "message", "role": role, "content": content})
    return [Segment(role, data, len(data) - len("}]}"), len(content))]


def _reply_items(draft: RequestDraft, part: talk.Part) -> list[dict[str, Any]]:
    raw = own_form(part, NAME)
    if isinstance(part, talk.Reasoning):
        # Another vendor's reasoning has no encrypted form here, and none is accepted.
        return [] if raw is None else [raw]
    if isinstance(part, talk.ToolCall):
        call = {
            "type": "function_call",
            "call_id": wire_id(part.id, draft.profile.tools.ids),
            "name": draft.names.wire(part.name),
            "arguments": to_json(part.arguments).decode(),
        }
        return [call]
    if isinstance(part, talk.Text):
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": part.text}
        if raw is not None:
            message["phase"] = raw["phase"]
        return [message]
    return []


def _output(draft: RequestDraft, result: talk.ToolResult) -> dict[str, Any]:
    return {
        "type": "function_call_output",
        "call_id": wire_id(result.call_id, draft.profile.tools.ids),
        "output": [{"type": "input_text", "text": chat.error_text(result)}],
    }


def _part(draft: RequestDraft, part: talk.Part) -> dict[str, Any]:
    if isinstance(part, talk.Text):
        return {"type": "input_text", "text": part.text}
    assert isinstance(part, talk.File)  # noqa: S101 - turns hold nothing else for these roles
    web, data = is_web(part), inline(part)
    if part.mime.startswith("image/") and (web or data):
        return {"type": "input_image", "image_url": part.uri, "detail": "auto"}
    if web:
        return {"type": "input_file", "file_url": part.uri}
    if data:
        name = part.name or "file"
        return {"type": "input_file", "filename": name, "file_data": part.uri}
    return {"type": "input_text", "text": draft.in_words(part)}


class ResponsesDecoder(Decoder):
    """Typed events. A reasoning item comes back whole with `output_item.done`, and only then."""

    dialect = NAME

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        kind: str = value["type"]
        at = value.get("output_index", 0)
        if kind == "response.output_text.delta":
            yield from self._say((at, "text"), value["delta"])
        elif kind == "response.refusal.delta":
            self._stop = ("refused", "")
            yield from self._say((at, "text"), value["delta"])
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield from self._think((at, "reasoning"), value["delta"])
        elif kind == "response.function_call_arguments.delta":
            # Said again, whole, when the item is done.
            self._part((at, "call"), "tool_call").text += value["delta"]
        elif kind == "response.output_item.added":
            self._added(at, value["item"])
        elif kind == "response.output_item.done":
            self._done(at, value["item"])
        elif kind in ENDS:
            yield from self._over(kind, value.get("response") or {})
        elif kind == "error":
            yield from self._end("error", str(value.get("message") or value))

    def _whole(self, value: Any) -> Iterator[Event]:
        for at, item in enumerate(value.get("output") or ()):
            self._added(at, item)
            for piece in (*(item.get("summary") or ()), *(item.get("content") or ())):
                kind = WHOLE_PIECES.get(piece["type"])
                if kind is not None:
                    text = piece["refusal" if kind == "response.refusal.delta" else "text"]
                    event = {"type": kind, "output_index": at, "delta": text}
                    yield from self._receive("", event)
            self._done(at, item)
        # An error body has no status; a reply that is still being made has no end.
        kind = f"response.{value.get('status') or 'failed'}"
        if kind in ENDS:
            yield from self._over(kind, value)

    def _added(self, at: int, item: dict[str, Any]) -> None:
        """Open the parts of an item when it begins, so that they come in the order of the items."""
        if item["type"] == "function_call":
            self._part((at, "call"), "tool_call")
        elif item["type"] == "reasoning":
            self._part((at, "reasoning"), "reasoning")
        elif item["type"] == "message":
            self._part((at, "text"), "text")

    def _done(self, at: int, item: dict[str, Any]) -> None:
        if item["type"] == "function_call":
            part: Open = self._part((at, "call"), "tool_call")
            part.call_id, part.name, part.text = item["call_id"], item["name"], item["arguments"]
        elif item["type"] == "reasoning":
            kept = {key: item[key] for key in REPLAYED if item.get(key) is not None}
            self._part((at, "reasoning"), "reasoning").raw = kept
        elif item["type"] == "message" and item.get("phase"):
            self._part((at, "text"), "text").raw = {"phase": item["phase"]}

    def _over(self, kind: str, response: dict[str, Any]) -> Iterator[Event]:
        self._response_id = response.get("id") or ""
        self._usage = response.get("usage")
        self._cache_miss = read_cache_miss(response)
        reason, detail = self._stop or ("end", "")
        if kind == "response.failed":
            reason, detail = "error", str((response.get("error") or {}).get("message", "failed"))
        elif kind == "response.incomplete":
            why = (response.get("incomplete_details") or {}).get("reason", "")
            reason, detail = ("refused" if why == "content_filter" else "length"), why
        yield from self._end(reason, detail)

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        details = "input_tokens_details"
        return Usage(
            input_tokens=fields.count("input_tokens"),
            output_tokens=fields.count("output_tokens"),
            cache_read_tokens=fields.count(details, "cached_tokens"),
            cache_write_tokens=fields.count(details, "cache_write_tokens"),
            cache_write_long_tokens=fields.count(
                details, "cache_write_tokens_details", "ttl_12h_tokens"
            ),
            reasoning_tokens=fields.count("output_tokens_details", "reasoning_tokens"),
        )


ENDS: Final = ("response.completed", "response.failed", "response.incomplete")
# The pieces of an item, and the events in which a stream brings them.
WHOLE_PIECES: Final = {
    "output_text": "response.output_text.delta",
    "refusal": "response.refusal.delta",
    "summary_text": "response.reasoning_summary_text.delta",
    "reasoning_text": "response.reasoning_text.delta",
}
REPLAYED: Final = ("type", "id", "summary", "content", "encrypted_content")


def read_cache_miss(response: Mapping[str, Any]) -> CacheMiss | None:
    """Read why the cache was missed; None if it was not, or nobody asked."""
    report = response.get("prompt_cache_diagnostics")
    if not isinstance(report, Mapping) or report.get("type") == "cache_hit":
        return None
    missed = UsageFields(report).count("cache_missed_tokens")
    return CacheMiss(str(report.get("reason") or report.get("type")), missed)


def read_stored(data: Stored) -> talk.Message:
    """Read one item; or a whole response, whose items are one message of the assistant."""
    if "type" in data or "role" in data:
        return _stored_item(data)
    items = [_stored_item(item) for item in data["output"]]
    return talk.Message("assistant", tuple(part for item in items for part in item.parts))


def _stored_item(item: Stored) -> talk.Message:
    match item.get("type", "message"):
        case "message":
            phase = item.get("phase")
            raw = talk.Raw(NAME, {"phase": phase}) if phase else None
            role = role_of(item["role"], {"developer": "system"})
            return talk.Message(role, tuple(chat.stored_content(item["content"], raw)))
        case "function_call":
            call = talk.ToolCall(
                as_text(item["call_id"]), as_text(item["name"]), arguments_of(item)
            )
            return talk.Message("assistant", (call,))
        case "function_call_output":
            return talk.Message(
                "tool", (talk.ToolResult(as_text(item["call_id"]), flat(item["output"])),)
            )
        case "reasoning":
            pieces = (*(item.get("summary") or ()), *(item.get("content") or ()))
            text = "".join(as_text(piece["text"]) for piece in pieces)
            kept = {key: item[key] for key in REPLAYED if item.get(key) is not None}
            return talk.Message("assistant", (talk.Reasoning(text, talk.Raw(NAME, kept)),))
        case other:
            raise ValueError(f"an item of type {other!r}")
