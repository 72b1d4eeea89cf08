"""OpenAI's Chat Completions, and the many who speak it.

    model · parameters · tools · messages[system … user … assistant … tool …] │ user: tail

The tail is a user message behind all tool messages, unless the profile says that this
endpoint or this model's template wants it elsewhere. A cache mark, where the endpoint
has one, is on the last stable part; so such endpoints get every content as parts, from
the first request on, lest the bytes change when the mark moves. A second one is behind the
instructions, which is what is left to read after a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

import sightline.context.messages.parts as talk
from sightline.context.dialects.decoder import Decoder, Open, read_frame
from sightline.context.dialects.events import Event, StopReason, Usage, UsageFields
from sightline.context.dialects.framing import Frame
from sightline.context.dialects.names import ToolDefinition, inline, is_web, wire_id
from sightline.context.dialects.request import RequestDraft
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.stored import UNKNOWN, Stored, arguments_of, as_text, flat, role_of
from sightline.context.dialects.turns import PromptTurn, own_thoughts, texts_of

NAME: Final = "openai_chat"
BREAKPOINT: Final = b',"prompt_cache_breakpoint":{"mode":"explicit"}'
CACHE_CONTROL: Final = b',"cache_control":{"type":"ephemeral"}'


def write(draft: RequestDraft) -> None:
    """Write a prompt as the body of a Chat Completions request."""
    profile, options, fields = draft.profile, draft.options, draft.fields
    fields |= {"model": profile.model, "stream": options.stream}
    if options.stream and profile.messages.usage_option:
        fields["stream_options"] = {"include_usage": True}
    write_limits(draft, profile.messages.output_field)
    fields |= draft.extra
    if draft.tools:
        fields["tools"] = draft.written_tools(tool_json)
    messages = draft.messages("messages")
    for turn in _one_system(draft):
        role = profile.messages.system_role if turn.role == "system" else turn.role
        messages.add_turn(turn, partial(_pieces, draft, role), role)
    if draft.wants_marks("breakpoint"):
        draft.mark(BREAKPOINT, head=True)
    elif draft.wants_marks("cache_control"):
        draft.mark(CACHE_CONTROL, head=True)


def write_limits(draft: RequestDraft, output_field: str) -> None:
    """Say how much may be answered and how the prompt is cached, as both of OpenAI's APIs do."""
    cache, options, fields = draft.profile.cache, draft.options, draft.fields
    if options.max_output_tokens:
        fields[output_field] = options.max_output_tokens
    if cache.routing_field and options.conversation:
        fields[cache.routing_field] = options.conversation
    if cache.style == "breakpoint":
        # Without it OpenAI marks the newest message, which is the tail.
        ttl = options.cache_ttl or cache.ttl
        fields["prompt_cache_options"] = {"mode": "explicit", "ttl": ttl}


def tool_json(tool: ToolDefinition) -> dict[str, Any]:
    """Write one tool as a function, the way this API began and others took over."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def write_messages(
    draft: RequestDraft, messages: Iterable[talk.Message]
) -> Iterator[dict[str, Any]]:
    """Write messages as they are, the results in one before what else it says."""
    for message in messages:
        results = tuple(part for part in message.parts if isinstance(part, talk.ToolResult))
        others = tuple(part for part in message.parts if not isinstance(part, talk.ToolResult))
        pieces = _pieces(draft, "tool", results)
        if others or not results:
            pieces += _pieces(draft, "user" if message.role == "tool" else message.role, others)
        yield from (msgspec.json.decode(piece.data) for piece in pieces)


def _one_system(draft: RequestDraft) -> list[PromptTurn]:
    """Join the instructions where the endpoint takes one system message, at the start."""
    system, rest = draft.system_and_rest()
    if not draft.profile.messages.single_system:
        return draft.turns
    late = [turn for turn in rest if turn.role == "system"]
    if late:
        draft.note("system_as_user", f"{draft.profile.endpoint} takes one system message")
    rest = [msgspec.structs.replace(t, role="user") if t.role == "system" else t for t in rest]
    if len(system) < 2:
        return [*system, *rest]
    text = "\n\n".join(texts_of(system))
    return [PromptTurn("system", (talk.Text(text),), system[0].origin), *rest]


def _pieces(draft: RequestDraft, role: str, parts: tuple[talk.Part, ...]) -> list[Segment]:
    if role == "assistant":
        message = _assistant(draft, parts)
        # Another vendor's reasoning alone is nothing here, and a message of nothing is refused.
        has_content = message["content"] or "tool_calls" in message
        return [Segment(role, to_json(message))] if has_content else []
    if role == "tool":
        results = [_result(draft, part) for part in parts if isinstance(part, talk.ToolResult)]
        return [_piece(result) for result in results]
    return [_piece({"role": role, "content": _content(draft, parts)})]


def _piece(message: dict[str, Any]) -> Segment:
    """A message that ends with its content, and may be marked if that is parts."""
    data, content = to_json(message), message["content"]
    if isinstance(content, str):
        return Segment(message["role"], data, blocks=0)
    return Segment(message["role"], data, len(data) - len("}]}"), len(content))


def _content(draft: RequestDraft, parts: tuple[talk.Part, ...]) -> str | list[dict[str, Any]]:
    texts = [part.text for part in parts if isinstance(part, talk.Text)]
    if draft.profile.messages.content == "text" and len(texts) == len(parts):
        return "\n\n".join(texts)
    return [_part(draft, part) for part in parts if isinstance(part, talk.Text | talk.File)]


def _part(draft: RequestDraft, part: talk.Text | talk.File) -> dict[str, Any]:
    if isinstance(part, talk.Text):
        return {"type": "text", "text": part.text}
    takes = draft.profile.messages
    if part.mime.startswith("image/") and takes.images and (is_web(part) or inline(part)):
        return {"type": "image_url", "image_url": {"url": part.uri}}
    if takes.documents and inline(part):
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": part.uri}}
    return {"type": "text", "text": draft.in_words(part)}


def _assistant(draft: RequestDraft, parts: tuple[talk.Part, ...]) -> dict[str, Any]:
    texts = [part.text for part in parts if isinstance(part, talk.Text)]
    calls = [part for part in parts if isinstance(part, talk.ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None}
    rule = draft.profile.reasoning
    if rule.replay == "always" and rule.field:
        thoughts = own_thoughts(parts, NAME)
        if thoughts or (rule.required and calls):
            message[rule.field] = "".join(thoughts)
    if calls:
        message["tool_calls"] = [_call(draft, call) for call in calls]
    return message


def _call(draft: RequestDraft, call: talk.ToolCall) -> dict[str, Any]:
    arguments = to_json(call.arguments).decode()
    return {
        "id": wire_id(call.id, draft.profile.tools.ids),
        "type": "function",
        "function": {"name": draft.names.wire(call.name), "arguments": arguments},
    }


def _result(draft: RequestDraft, result: talk.ToolResult) -> dict[str, Any]:
    text = error_text(result)
    parts = draft.profile.messages.content == "parts"
    return {
        "role": "tool",
        "tool_call_id": wire_id(result.call_id, draft.profile.tools.ids),
        "content": [{"type": "text", "text": text}] if parts else text,
    }


def error_text(result: talk.ToolResult) -> str:
    """Say that it is an error, for APIs that have no field for it."""
    says_so = result.content.lstrip().lower().startswith("error")
    return f"error: {result.content}" if result.is_error and not says_so else result.content


STOPS: Final[dict[str, StopReason]] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
    "error": "error",
}
REFUSED: Final[tuple[StopReason, str]] = ("refused", "")
DONE: Final = b"[DONE]"
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")


class ChatDecoder(Decoder):
    """Chunks of `choices[0].delta`; the end is `[DONE]`, or no more bytes after a reason."""

    dialect = NAME

    def _parse(self, frame: Frame) -> Any:
        return None if frame.data == DONE else read_frame(frame.data)

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        if value is None:
            yield from self._end_as_stopped("done, without a finish reason")
            return
        if value.get("error"):
            yield from self._end("error", _error_text(value["error"]))
            return
        self._response_id = value.get("id") or self._response_id
        self._usage = value.get("usage") or self._usage
        for choice in value.get("choices") or ():
            if choice.get("index", 0) == 0:
                yield from self._delta(choice.get("delta") or {})
                reason = choice.get("finish_reason")
                # A refusal ends with the reason of any other text.
                if reason and self._stop != REFUSED:
                    self._stop = (STOPS.get(reason, "end"), "")

    def _whole(self, value: Any) -> Iterator[Event]:
        """A reply is one chunk, but for the name of its message and the numbers of its calls."""
        choices = [
            {**choice, "delta": _numbered(choice.get("message") or {})}
            for choice in value.get("choices") or ()
        ]
        yield from self._receive("", {**value, "choices": choices})

    def _delta(self, delta: dict[str, Any]) -> Iterator[Event]:
        for field in REASONING_FIELDS:
            if isinstance(delta.get(field), str):
                self._part("reasoning", "reasoning").raw = {"field": field}
                yield from self._think("reasoning", delta[field])
                break
        yield from self._say("text", _plain(delta.get("content")))
        if delta.get("refusal"):
            self._stop = REFUSED
            yield from self._say("text", delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            part: Open = self._part(("call", piece.get("index", 0)), "tool_call")
            function = piece.get("function") or {}
            part.call_id = piece.get("id") or part.call_id
            part.name += function.get("name") or ""
            part.text += function.get("arguments") or ""

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        read = fields.count("prompt_tokens_details", "cached_tokens")
        return Usage(
            input_tokens=fields.count("prompt_tokens"),
            output_tokens=fields.count("completion_tokens"),
            # DeepSeek's own name for it, from before it took OpenAI's.
            cache_read_tokens=read or fields.count("prompt_cache_hit_tokens"),
            cache_write_tokens=fields.count("prompt_tokens_details", "cache_write_tokens"),
            reasoning_tokens=fields.count("completion_tokens_details", "reasoning_tokens"),
        )


def _numbered(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls") or ()
    return {**message, "tool_calls": [{**call, "index": at} for at, call in enumerate(calls)]}


def _plain(content: Any) -> str:
    """Text; Mistral's reasoning models send a list of pieces."""
    if isinstance(content, list):
        return "".join(piece.get("text", "") for piece in content)
    return content or ""


def _error_text(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


def read_stored(data: Stored) -> talk.Message:
    """Read one stored message of Chat Completions."""
    role = role_of(data["role"], {"developer": "system", "function": "tool"})
    content = data.get("content")
    if role == "tool":
        call_id = data.get("tool_call_id") or data["name"]
        return talk.Message(
            role, (talk.ToolResult(as_text(call_id), flat(content), data.get("name") or ""),)
        )
    thoughts = [
        talk.Reasoning(as_text(data[field]), talk.Raw(NAME, {"field": field}))
        for field in REASONING_FIELDS
        if isinstance(data.get(field), str) and data[field]
    ]
    parts = [*thoughts[:1], *stored_content(content)]
    for call in data.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            talk.ToolCall(as_text(call["id"]), as_text(function["name"]), arguments_of(function))
        )
    return talk.Message(role, tuple(parts))


def stored_content(content: Any, raw: talk.Raw | None = None) -> list[talk.Part]:
    """Read the content of a message in either of OpenAI's forms."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [talk.Text(content, raw)]
    return [_stored_piece(item, raw) for item in content]


def _stored_piece(item: Stored, raw: talk.Raw | None) -> talk.Part:
    match item["type"]:
        case "text" | "input_text" | "output_text":
            return talk.Text(as_text(item["text"]), raw)
        case "refusal":
            return talk.Text(as_text(item["refusal"]), raw)
        case "image_url":
            return talk.File(as_text(item["image_url"]["url"]), "image/*")
        case "input_image":
            return talk.File(as_text(item["image_url"]), "image/*")
        case "file":
            return _stored_file(item["file"])
        case "input_file":
            return _stored_file(item)
        case other:
            raise ValueError(f"content of type {other!r}")


def _stored_file(item: Stored) -> talk.File:
    uri = as_text(item.get("file_data") or item["file_url"])
    mime = uri.removeprefix("data:").partition(";")[0] if uri.startswith("data:") else ""
    return talk.File(uri, mime or UNKNOWN, as_text(item.get("filename") or ""))
