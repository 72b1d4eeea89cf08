"""Ollama's own chat API.

    model · options · tools · messages[system … user … assistant … tool …] │ tail

Calls have no ids; a result names its tool, and results stand in the order of the calls.
The window is stated in every request, because a longer prompt is cut in silence. The
tail is appended to the user's text: the chat template decides what roles may follow
each other, and that is legal under all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import sightline.context.dialects.stored as stored
import sightline.context.messages.parts as talk
from sightline.context.dialects.decoder import Decoder, written
from sightline.context.dialects.events import Event, StopReason, Usage, UsageFields
from sightline.context.dialects.framing import LineReader
from sightline.context.dialects.names import inline, placeholder
from sightline.context.dialects.openai_chat import error_text, tool_json
from sightline.context.dialects.request import RequestDraft
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.turns import own_thoughts

NAME: Final = "ollama"


def write(draft: RequestDraft) -> None:
    """Write a prompt as the body of a request to Ollama's `/api/chat`."""
    draft.fields |= {
        "model": draft.profile.model,
        "stream": draft.options.stream,
        "options": {
            "num_ctx": draft.profile.window_tokens,
            "num_predict": draft.max_output_tokens,
        },
        **draft.extra,
    }
    if draft.tools:
        draft.fields["tools"] = draft.written_tools(tool_json)
    messages = draft.messages("messages")
    for turn in draft.turns:
        messages.add_turn(turn, partial(_pieces, draft, turn.role), turn.role)


def _pieces(draft: RequestDraft, role: str, parts: tuple[talk.Part, ...]) -> list[Segment]:
    if role == "tool":
        return [_result(draft, part) for part in parts if isinstance(part, talk.ToolResult)]
    message: dict[str, Any] = {"role": role}
    # Before the text, which is the last thing that may grow.
    images = [data.data for part in parts if (data := _image(part))]
    if images:
        message["images"] = images
    if thoughts := own_thoughts(parts, NAME):
        message["thinking"] = "".join(thoughts)
    message["content"] = "\n\n".join(_texts(draft, parts))
    calls = [part for part in parts if isinstance(part, talk.ToolCall)]
    if calls:
        message["tool_calls"] = [
            {"function": {"name": draft.names.wire(call.name), "arguments": call.arguments}}
            for call in calls
        ]
    return [Segment(role, to_json(message))]


def _result(draft: RequestDraft, result: talk.ToolResult) -> Segment:
    name, text = draft.names.wire(result.name), error_text(result)
    return Segment("tool", to_json({"role": "tool", "tool_name": name, "content": text}))


def _image(part: talk.Part) -> Any:
    return inline(part) if isinstance(part, talk.File) and part.mime.startswith("image/") else None


def _texts(draft: RequestDraft, parts: tuple[talk.Part, ...]) -> list[str]:
    texts = []
    for part in parts:
        if isinstance(part, talk.Text):
            texts.append(part.text)
        elif isinstance(part, talk.File) and not _image(part):
            draft.note("file_as_text", f"{part.name or part.uri[:40]} is sent as words")
            texts.append(placeholder(part))
    return texts


class OllamaDecoder(Decoder):
    """JSON lines; the one with `done` is the last and has the counts."""

    dialect = NAME
    reader = LineReader

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        if "error" in value:
            yield from self._end("error", str(value["error"]))
            return
        message = value.get("message") or {}
        if message.get("thinking"):
            self._part("reasoning", "reasoning").raw = {"field": "thinking"}
            yield from self._think("reasoning", message["thinking"])
        yield from self._say("text", message.get("content") or "")
        for call in message.get("tool_calls") or ():
            part = self._part(("call", len(self._open)), "tool_call")
            part.name = call["function"]["name"]
            part.text = written(call["function"].get("arguments") or {})
        if value.get("done"):
            self._usage = value
            self._response_id = str(value.get("created_at") or "")
            stop: StopReason = "length" if value.get("done_reason") == "length" else "end"
            yield from self._end(stop)

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        # It reports what it evaluated; what it reused is not told.
        return Usage(
            input_tokens=fields.count("prompt_eval_count"), output_tokens=fields.count("eval_count")
        )


def read_stored(data: stored.Stored) -> talk.Message:
    """Read a stored message of Ollama's, or the response that holds one."""
    data = data.get("message", data)
    role = stored.role_of(data["role"], {})
    text = stored.as_text(data.get("content") or "")
    seen: Counter[str] = Counter()
    if role == "tool":
        name = data.get("tool_name") or data["name"]
        call_id = stored.call_id_of(data.get("tool_call_id"), name, seen)
        return talk.Message(role, (talk.ToolResult(call_id, text, stored.as_text(name)),))
    parts: list[talk.Part] = []
    if thought := data.get("thinking"):
        parts.append(talk.Reasoning(stored.as_text(thought), talk.Raw(NAME, {"field": "thinking"})))
    if text:
        parts.append(talk.Text(text))
    parts += [_stored_image(stored.as_text(image)) for image in data.get("images") or ()]
    for call in data.get("tool_calls") or ():
        function = call["function"]
        call_id = stored.call_id_of(call.get("id"), function["name"], seen)
        parts.append(
            talk.ToolCall(call_id, stored.as_text(function["name"]), stored.arguments_of(function))
        )
    return talk.Message(role, tuple(parts))


def _stored_image(data: str) -> talk.File:
    """Name the kind of an image that is nothing but its base64, by how all of a kind begin."""
    kinds = (mime for start, mime in STORED_IMAGES.items() if data.startswith(start))
    mime = next(kinds, stored.UNKNOWN)
    return talk.File(f"data:{mime};base64,{data}", mime)


# How the base64 of all images of a kind begins.
STORED_IMAGES: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
