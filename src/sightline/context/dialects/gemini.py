"""Google's Gemini API (generateContent).

    parameters · tools · systemInstruction · contents[user · model · …] │ user: tail

Content that holds function responses is read as written by the model's side, so the
tail is a content of its own behind it and never shares one. Caching is automatic on
equal prefixes; a named `cachedContent` holds tools, instructions and the first
messages, and a request that builds upon it must not repeat them.

The decoder reads the stream as server-sent events (`alt=sse`); a JSON array is for `whole`.

Where a model signs its calls, the first call of a turn must come back signed; a call
that another vendor made gets the documented stand-in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec

import sightline.context.dialects.request as request
import sightline.context.messages.parts as talk
from sightline.context.dialects.decoder import Decoder, written
from sightline.context.dialects.events import Event, StopReason, Usage, UsageFields
from sightline.context.dialects.names import ToolDefinition, inline, wire_id
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.segments import Segment, to_json
from sightline.context.dialects.stored import (
    UNKNOWN,
    Stored,
    as_text,
    call_id_of,
    message_of,
    role_of,
)
from sightline.context.dialects.turns import begun, own_form, texts_of
from sightline.context.slots.prompt import Prompt
from sightline.context.tokens.tokens import counter_for
from sightline.errors import InvalidInput

NAME: Final = "gemini"
# Gemini, "Thought signatures": what stands for the signature of a call that has none.
UNSIGNED: Final = "skip_thought_signature_validator"
START: Final = "(the conversation begins with the model's message)"
RESPONSES, WORDS = 1, 0
# What a resource may hold, in the order of a request.
HELD: Final = ("tools", "toolConfig", "systemInstruction", "contents")


class Head(msgspec.Struct, frozen=True):
    """The tools and instructions of a prompt: what a named resource of them is made of and worth.

    `digest` is equal for the same bytes, `messages` how many messages of the prompt it holds.
    """

    digest: str
    tokens: int
    messages: int
    body: bytes

    def named(self, name: str) -> request.CachedContent:
        """What requests build upon, once it exists."""
        return request.CachedContent(name, self.messages, self.digest, self.tokens)


def head_of(prompt: Prompt, profile: Profile, ttl_s: int) -> Head:
    """Write what creates a named resource of a prompt's tools and instructions."""
    roles = [message.role for message in prompt.prefix]
    count = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    body = cached_content_body(prompt, profile, count, ttl_s)
    held = {key: body[key] for key in HELD if key in body}
    tokens = counter_for("estimate").count(to_json(held).decode())
    digest = _digest(body.get("tools"), body.get("systemInstruction"))
    return Head(digest, tokens, count, to_json(body))


def pays(profile: Profile, tokens: int, reads: Sequence[int], seconds: float, ttl_s: float) -> bool:
    """Whether a named resource of so many tokens would cost less than what was not cached.

    `reads` are the tokens that the last requests read from the automatic cache, within so many
    `seconds`; the next ones are taken to be like them. Google, "Context caching": to create it
    costs the price of input, to keep it a price by the hour, to read it what the automatic cache
    costs as well, which is free to keep and promises nothing.
    """
    prices = profile.prices
    if not prices.input or prices.cache_read is None or prices.cache_storage is None:
        return False
    if tokens < profile.cache.min_tokens or not reads:
        return False
    missed = sum(tokens - read for read in reads) / len(reads)
    requests = len(reads) * ttl_s / max(seconds, 1.0)
    saved = missed * requests * (prices.input - prices.cache_read)
    return saved > tokens * (prices.input + prices.cache_storage * ttl_s / 3600)


def _digest(tools: Any, system: Any) -> str:
    return sha256(to_json([tools, system])).hexdigest()


def cached_content_body(
    prompt: Prompt, profile: Profile, messages: int, ttl_s: int = 3600
) -> dict[str, Any]:
    """Write the body that creates a named resource of the first `messages` messages.

    The resource is worth its storage for what many requests share: tools, instructions,
    long documents. Name it in `Options.cached_content`, with the same `messages`.
    """
    if not 0 <= messages <= prompt.boundary:
        raise InvalidInput(f"{messages} messages: the prefix has {prompt.boundary}")
    held = Prompt(prompt.messages[:messages], messages, prompt.receipt, prompt.tools)
    body = request.assemble(held, profile, request.Options(), write).body
    kept = {key: body[key] for key in HELD if body.get(key)}
    return {"model": f"models/{profile.model}", "ttl": f"{ttl_s}s", **kept}


def write(draft: request.RequestDraft) -> None:
    """Write a request."""
    fields, held = draft.fields, draft.options.cached_content
    if limit := draft.options.max_output_tokens:
        fields["generationConfig"] = {"maxOutputTokens": limit}
    fields |= draft.extra
    system, rest = draft.system_and_rest()
    head: dict[str, Any] = {}
    if draft.tools:
        head["tools"] = [{"functionDeclarations": draft.written_tools(tool_json)}]
    if system:
        head["systemInstruction"] = {"parts": [{"text": text} for text in texts_of(system)]}
    if held is not None and held.digest:
        same = held.digest == _digest(head.get("tools"), head.get("systemInstruction"))
        held = held if same else None
    if held is None:
        fields |= head
        rest = begun(rest, START)
    else:
        fields[request.CACHED_CONTENT] = held.name
        rest = [turn for turn in rest if not 0 <= turn.origin < held.messages]
        if held.messages <= len(system):
            rest = begun(rest, START)
    contents = draft.messages("contents", "parts")
    for turn in rest:
        if turn.role == "system":
            draft.note("system_as_user", "a later system message is sent as the user's")
        role = "model" if turn.role == "assistant" else "user"
        lane = RESPONSES if turn.role == "tool" else WORDS
        contents.add_turn(turn, partial(_pieces, draft, role, lane), role, lane=lane)


def tool_json(tool: ToolDefinition) -> dict[str, Any]:
    """Write one tool as a function declaration."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": tool.parameters,
    }


def _pieces(
    draft: request.RequestDraft, role: str, lane: int, parts: tuple[talk.Part, ...]
) -> list[Segment]:
    first = next((part for part in parts if isinstance(part, talk.ToolCall)), None)
    written = (_part(draft, part, first=part is first) for part in parts)
    return [Segment(role, to_json(part), lane=lane) for part in written if part is not None]


def _part(draft: request.RequestDraft, part: talk.Part, *, first: bool) -> dict[str, Any] | None:
    signed: dict[str, Any] = {}
    if (raw := own_form(part, NAME)) is not None:
        signed = {"thoughtSignature": raw["thoughtSignature"]}
    if isinstance(part, talk.Text):
        return {"text": part.text, **signed}
    if isinstance(part, talk.ToolCall):
        if first and not signed:
            signed = {"thoughtSignature": UNSIGNED}
        call = {
            "id": wire_id(part.id, draft.profile.tools.ids),
            "name": draft.names.wire(part.name),
            "args": part.arguments,
        }
        return {"functionCall": call, **signed}
    if isinstance(part, talk.ToolResult):
        response = {
            "id": wire_id(part.call_id, draft.profile.tools.ids),
            "name": draft.names.wire(part.name or part.call_id),
            "response": {"error" if part.is_error else "output": part.content},
        }
        return {"functionResponse": response}
    if isinstance(part, talk.Reasoning):
        # Thoughts are summaries, not input; what must return is the signature on other parts.
        return None
    return _file(draft, part)


def _file(draft: request.RequestDraft, file: talk.File) -> dict[str, Any]:
    data = inline(file)
    if data is not None:
        return {"inlineData": {"mimeType": data.mime, "data": data.data}}
    if file.uri.startswith(("https://", "gs://")):
        return {"fileData": {"mimeType": file.mime, "fileUri": file.uri}}
    return {"text": draft.in_words(file)}


STOPS: Final[dict[str, StopReason]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "incomplete",
    "MALFORMED_RESPONSE": "incomplete",
    "UNEXPECTED_TOOL_CALL": "incomplete",
    "TOO_MANY_TOOL_CALLS": "incomplete",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
    "LANGUAGE": "refused",
}


class GeminiDecoder(Decoder):
    """Whole responses, one after the other; the last one has the reason and the usage.

    There is no end mark: the stream is over when it is closed after a finish reason.
    """

    dialect = NAME

    def _receive(self, event: str, value: Any) -> Iterator[Event]:
        if "error" in value:
            yield from self._end("error", str(value["error"].get("message", "")))
            return
        self._response_id = value.get("responseId") or self._response_id
        self._usage = value.get("usageMetadata") or self._usage
        blocked = (value.get("promptFeedback") or {}).get("blockReason")
        if blocked:
            self._stop = ("refused", blocked)
        for candidate in (value.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._receive_part(part)
            reason = candidate.get("finishReason")
            if reason:
                stop = STOPS.get(reason, "end")
                self._stop = (stop, "" if stop in ("end", "length") else reason)

    def _whole(self, value: Any) -> Iterator[Event]:
        """A reply is one of the stream's; or all of them in a list, as they come without SSE."""
        for response in value if isinstance(value, list) else [value]:
            yield from self._receive("", response)

    def _receive_part(self, part: dict[str, Any]) -> Iterator[Event]:
        signature = part.get("thoughtSignature")
        raw = {"thoughtSignature": signature} if signature else None
        if "functionCall" in part:
            call = part["functionCall"]
            opened = self._part(("call", len(self._open)), "tool_call")
            opened.call_id, opened.name, opened.raw = call.get("id") or "", call["name"], raw
            opened.text = written(call.get("args") or {})
        elif part.get("thought"):
            yield from self._think("reasoning", part.get("text") or "")
        elif "text" in part:
            # Pieces of one text are one part, until a signature closes it.
            last = next(reversed(self._open.items()), None)
            same = last is not None and last[1].kind == "text" and last[1].raw is None
            key = last[0] if same and last is not None else ("text", len(self._open))
            yield from self._say(key, part["text"])
            if raw is not None:
                self._part(key, "text").raw = raw

    @staticmethod
    def _read_usage(fields: UsageFields) -> Usage:
        thoughts = fields.count("thoughtsTokenCount")
        return Usage(
            input_tokens=fields.count("promptTokenCount") + fields.count("toolUsePromptTokenCount"),
            output_tokens=fields.count("candidatesTokenCount") + thoughts,
            cache_read_tokens=fields.count("cachedContentTokenCount"),
            reasoning_tokens=thoughts,
        )


def read_stored(data: Stored) -> talk.Message:
    """Read one stored `content` of the Gemini API."""
    role = role_of(data.get("role", "user"), {"model": "assistant", "function": "tool"})
    seen: Counter[str] = Counter()
    return message_of(role, tuple(_stored_part(part, seen) for part in data["parts"]))


def _stored_part(part: Stored, seen: Counter[str]) -> talk.Part:
    signature = part.get("thoughtSignature")
    raw = talk.Raw(NAME, dict(part)) if signature else None
    if call := part.get("functionCall"):
        call_id = call_id_of(call.get("id"), call["name"], seen)
        return talk.ToolCall(call_id, as_text(call["name"]), dict(call.get("args") or {}), raw)
    if answer := part.get("functionResponse"):
        call_id = call_id_of(answer.get("id"), answer["name"], seen)
        content, is_error = _stored_answer(answer.get("response", {}))
        return talk.ToolResult(call_id, content, as_text(answer["name"]), is_error)
    if held := part.get("inlineData"):
        return talk.File(
            f"data:{held['mimeType']};base64,{held['data']}", as_text(held["mimeType"])
        )
    if linked := part.get("fileData"):
        return talk.File(as_text(linked["fileUri"]), as_text(linked.get("mimeType") or UNKNOWN))
    if part.get("thought"):
        return talk.Reasoning(as_text(part["text"]), raw)
    return talk.Text(as_text(part["text"]), raw)


def _stored_answer(response: Any) -> tuple[str, bool]:
    """Read an answer of one text under the key that Google names for it; others stay JSON."""
    match response:
        case {"output": str(text), **rest} if not rest:
            return text, False
        case {"error": str(text), **rest} if not rest:
            return text, True
    return msgspec.json.encode(response).decode(), False


def read_stored_gca(data: Stored) -> talk.Message:
    """Read the code-assist variant: the same content, sometimes inside a request or response."""
    inner = data
    for key in ("response", "request"):
        inner = inner.get(key, inner)
    if candidates := inner.get("candidates"):
        inner = candidates[0]["content"]
    elif contents := inner.get("contents"):
        inner = contents[-1]
    return read_stored(inner)
