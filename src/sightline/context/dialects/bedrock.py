"""Amazon Bedrock's Converse API.

    parameters · toolConfig · system · messages[user · assistant · …] cachePoint │ tail

The model is named in the path, as AWS's own client writes it, and nowhere in the body.

A mark is a block of its own, `cachePoint`, behind the last stable block; it may not
follow a document. Claude and Nova take the tail in the turn of the tool results; Llama
and Mistral accept nothing beside those, and because turns of one role are merged, a
short assistant turn stands in between.

Files are base64 text here, as in the JSON that Bedrock reads; boto3 encodes bytes itself
and wants them decoded first.

Bound reasoning (see `anthropic`) is left out: the control that makes the API drop
stale blocks is not documented for Converse.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

import sightline.context.messages.parts as talk
from sightline.context.dialects.anthropic import AnthropicDecoder
from sightline.context.dialects.decoder import Decoder, Open, read_frame, written
from sightline.context.dialects.events import Event, StopReason, Usage, UsageFields, at
from sightline.context.dialects.framing import EventStreamReader, Frame
from sightline.context.dialects.names import ToolDefinition, inline, wire_id
from sightline.context.dialects.request import RequestDraft
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.stored import UNKNOWN, Stored, as_text, message_of, role_of
from sightline.context.dialects.turns import PromptTurn, begun, last_question, own_form, texts_of
from sightline.errors import InvalidInput

NAME: Final = "bedrock"
BOUND: Final = "strip"
WORDLESS: Final = talk.Text("(sent without words)")
IMAGES: Final = {"png", "jpeg", "gif", "webp"}
DOCUMENTS: Final = {
    "application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt",
    "text/markdown": "md",
}  # fmt: skip


def write(draft: RequestDraft) -> None:
    """Write a prompt as the body of a request to the Converse API."""
    if draft.thinking == "drop":
        raise InvalidInput("bedrock: thinking 'drop' is not documented for Converse; use 'strip'")
    fields = draft.fields
    if limit := draft.options.max_output_tokens:
        fields["inferenceConfig"] = {"maxTokens": limit}
    draft.note_thinking()
    fields |= draft.extra
    if draft.tools:
        fields["toolConfig"] = {"tools": draft.written_tools(tool_json)}
    elif any(turn.calls for turn in draft.turns):
        # A conversation with calls in it is refused without a tool definition.
        fields["toolConfig"] = {"tools": [{"toolSpec": _NO_TOOL}]}
    system, rest = draft.system_and_rest()
    if system:
        fields["system"] = [{"text": text} for text in texts_of(system)]
    _say(draft, begun(rest))
    _mark(draft)


_NO_TOOL: Final[dict[str, Any]] = {
    "name": "none",
    "description": "There is no tool at the moment.",
    "inputSchema": {"json": {"type": "object", "properties": {}}},
}


def tool_json(tool: ToolDefinition) -> dict[str, Any]:
    """Write one tool; a description of nothing is refused."""
    about = {"description": tool.description} if tool.description else {}
    return {"toolSpec": {"name": tool.name, **about, "inputSchema": {"json": tool.parameters}}}


def _say(draft: RequestDraft, turns: list[PromptTurn]) -> None:
    last_user = last_question(turns)
    messages = draft.messages("messages", "content")
    for index, turn in enumerate(turns):
        if turn.role == "system":
            draft.note("system_as_user", "a later system message is sent as the user's")
        role = "assistant" if turn.role == "assistant" else "user"
        in_loop = index > last_user or not draft.profile.reasoning.bound
        keep = draft.thinking == "auto" or (draft.thinking == "turn_append" and in_loop)
        messages.add_turn(_worded(turn), partial(_pieces, draft, role, keep), role, keep)


def _worded(turn: PromptTurn) -> PromptTurn:
    """Put words beside a document that has none, which is refused."""
    # Bedrock, API reference, `Message`: a document needs a text block in the same message.
    papers = any(isinstance(part, talk.File) and part.mime in DOCUMENTS for part in turn.parts)
    if not papers or any(isinstance(part, talk.Text) for part in turn.parts):
        return turn
    edge = turn.edge and turn.edge + 1
    return msgspec.structs.replace(turn, parts=(WORDLESS, *turn.parts), edge=edge)


def _pieces(
    draft: RequestDraft, role: str, keep: bool, parts: tuple[talk.Part, ...]
) -> list[Segment]:
    pieces = []
    for part in parts:
        block = _block(draft, part, keep=keep)
        if block is not None:
            data = to_json(block)
            bare = part is WORDLESS or block.keys() & {"document", "reasoningContent"}
            pieces.append(Segment(role, data, 0 if bare else len(data)))
    return pieces


def _block(draft: RequestDraft, part: talk.Part, *, keep: bool) -> dict[str, Any] | None:
    ids = draft.profile.tools.ids
    if isinstance(part, talk.Text):
        return {"text": part.text}
    if isinstance(part, talk.ToolCall):
        use = {"toolUseId": wire_id(part.id, ids), "name": draft.names.wire(part.name)}
        return {"toolUse": {**use, "input": part.arguments}}
    if isinstance(part, talk.ToolResult):
        result: dict[str, Any] = {
            "toolUseId": wire_id(part.call_id, ids),
            "content": [{"text": part.content if part.content.strip() else "(nothing)"}],
            "status": "error" if part.is_error else "success",
        }
        return {"toolResult": result}
    if isinstance(part, talk.Reasoning):
        raw = own_form(part, NAME)
        replay = keep and draft.profile.reasoning.replay == "always"
        return {"reasoningContent": raw} if replay and raw is not None else None
    return _file(draft, part)


def _file(draft: RequestDraft, file: talk.File) -> dict[str, Any]:
    data = inline(file)
    source: dict[str, Any] | None = None
    if data is not None:
        source = {"bytes": data.data}
    elif file.uri.startswith("s3://"):
        source = {"s3Location": {"uri": file.uri}}
    kind = file.mime.partition("/")[2]
    if source is not None and file.mime.startswith("image/") and kind in IMAGES:
        return {"image": {"format": kind, "source": source}}
    if source is not None and file.mime in DOCUMENTS:
        name = re.sub(r"[^A-Za-z0-9 ()\[\]-]|\s(?=\s)", "-", file.name or "document")
        return {"document": {"format": DOCUMENTS[file.mime], "name": name, "source": source}}
    return {"text": draft.in_words(file)}


def _mark(draft: RequestDraft) -> None:
    if not draft.wants_marks("cache_point"):
        return
    point = {"type": "default"}
    if draft.options.cache_ttl:
        point["ttl"] = draft.options.cache_ttl
    data = b"," + to_json({"cachePoint": point})
    draft.mark(data, "system" if "system" in draft.fields else "", len("]"))


STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
    "malformed_model_output": "incomplete",
    "malformed_tool_use": "incomplete",
}


class BedrockDecoder(Decoder):
    """Events named in their headers. `metadata` follows `messageStop` and is the end.

    From an SDK that unpacks events itself, hand each one to `receive` as it is.
    """

    dialect = NAME
    reader = EventStreamReader

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        if not event and len(value) == 1:
            [(event, value)] = value.items()
        index = value.get("contentBlockIndex", 0)
        if event == "contentBlockStart":
            tool = value["start"].get("toolUse")
            if tool:
                part = self._part(index, "tool_call")
                part.call_id, part.name = tool["toolUseId"], tool["name"]
        elif event == "contentBlockDelta":
            yield from self._grow(index, value["delta"])
        elif event == "messageStop":
            reason = value["stopReason"]
            stop = STOPS.get(reason, "end")
            self._stop = (stop, "" if stop in ("end", "tool_calls", "length") else reason)
        elif event == "metadata":
            self._usage = value.get("usage")
            yield from self._end_as_stopped("no stop reason")
        elif event.endswith("Exception"):
            yield from self._end("error", f"{event}: {value.get('message', '')}")

    def _whole(self, value: Any) -> Iterator[Event]:
        if "output" not in value:
            yield from self._end(
                "error", str(value.get("message") or value.get("Message") or value)
            )
            return
        for index, block in enumerate(value["output"]["message"]["content"]):
            if "toolUse" in block:
                yield from self._receive(
                    "contentBlockStart", {"contentBlockIndex": index, "start": block}
                )
                text = written(block["toolUse"].get("input") or {})
                yield from self._grow(index, {"toolUse": {"input": text}})
            elif "reasoningContent" in block:
                thought = block["reasoningContent"]
                thinking = {"reasoningContent": thought.get("reasoningText", thought)}
                yield from self._grow(index, thinking)
            else:
                yield from self._grow(index, block)
        yield from self._receive("messageStop", value)
        yield from self._receive("metadata", value)

    def _grow(self, index: int, delta: dict[str, Any]) -> Iterator[Event]:
        if "text" in delta:
            yield from self._say(index, delta["text"])
        elif "toolUse" in delta:
            self._part(index, "tool_call").text += delta["toolUse"].get("input", "")
        elif "reasoningContent" in delta:
            thought = delta["reasoningContent"]
            part = self._part(index, "reasoning")
            if "redactedContent" in thought:
                part.raw = {"redactedContent": thought["redactedContent"]}
                return
            part.raw = part.raw or {"reasoningText": {"text": ""}}
            signed = part.raw["reasoningText"]
            signed["text"] += thought.get("text", "")
            if "signature" in thought:
                signed["signature"] = signed.get("signature", "") + thought["signature"]
            yield from self._think(index, thought.get("text", ""))

    def _finished(self, part: Open) -> talk.Part | None:
        """Reasoning without its signature is refused when it comes back: keep only its text."""
        if part.raw is not None and "signature" not in part.raw.get("reasoningText", {"signature"}):
            part.raw = None
        return super()._finished(part)

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        read, write = fields.count("cacheReadInputTokens"), fields.count("cacheWriteInputTokens")
        details = at(fields.reported, "cacheDetails")
        long = [d for d in details if at(d, "ttl") == "1h"] if isinstance(details, list) else []
        return Usage(
            input_tokens=fields.count("inputTokens") + read + write,
            output_tokens=fields.count("outputTokens"),
            cache_read_tokens=read,
            cache_write_tokens=write,
            cache_write_long_tokens=sum(
                UsageFields(detail).count("inputTokens") for detail in long
            ),
        )


class InvokeDecoder(AnthropicDecoder):
    """Decodes Anthropic's events from the event stream of `InvokeModelWithResponseStream`.

    Each `chunk` has one event in base64. Other frames are errors.
    """

    reader = EventStreamReader

    def _parse(self, frame: Frame) -> Any:
        value = super()._parse(frame)
        if frame.event == "chunk":
            return read_frame(b64decode(value["bytes"]))
        return {"type": "error", "error": {"type": frame.event, **value}}


def read_stored(data: Stored) -> talk.Message:
    """Read a stored message of the Converse API, or the response that holds one."""
    if "output" in data:
        data = data["output"]["message"]
    role = role_of(data["role"], {})
    return message_of(
        role, tuple(part for block in data["content"] for part in _stored_block(block))
    )


def _stored_block(block: Stored) -> Iterator[talk.Part]:
    [(kind, value)] = block.items()
    match kind:
        case "text":
            yield talk.Text(as_text(value))
        case "toolUse":
            use = dict(value.get("input") or {})
            yield talk.ToolCall(as_text(value["toolUseId"]), as_text(value["name"]), use)
        case "toolResult":
            content = "\n".join(_stored_answer(piece) for piece in value["content"])
            is_error = value.get("status") == "error"
            yield talk.ToolResult(as_text(value["toolUseId"]), content, is_error=is_error)
        case "reasoningContent":
            thought = value.get("reasoningText") or {}
            # Without its signature a thought is not accepted when it comes back.
            signed = "redactedContent" in value or "signature" in thought
            raw = talk.Raw(NAME, dict(value)) if signed else None
            yield talk.Reasoning(as_text(thought.get("text", "")), raw)
        case "image":
            yield talk.File(_stored_uri(value, mime := f"image/{value['format']}"), mime)
        case "document":
            mime = STORED_DOCUMENTS.get(value["format"], UNKNOWN)
            yield talk.File(_stored_uri(value, mime), mime, as_text(value.get("name") or ""))
        case "cachePoint":
            pass  # a mark for the vendor; nothing is said
        case other:
            raise ValueError(f"block of type {other!r}")


def _stored_uri(value: Stored, mime: str) -> str:
    source = value["source"]
    if "s3Location" in source:
        return as_text(source["s3Location"]["uri"])
    return f"data:{mime};base64,{as_text(source['bytes'])}"


def _stored_answer(piece: Stored) -> str:
    if "text" in piece:
        return as_text(piece["text"])
    return msgspec.json.encode(piece.get("json", piece)).decode()


STORED_DOCUMENTS: Final = {kind: mime for mime, kind in DOCUMENTS.items()}
