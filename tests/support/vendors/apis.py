"""The wire formats: how each vendor streams a reply, and how it says no.

Written from the vendors' documented formats and their SDKs' types, independently of our
decoders. `API[name].frames(says)` are the pieces that are written one by one.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from support.vendors.answers import Fails, Refuses, Says, Trouble

Frames = Callable[[Says], Iterator[bytes]]
_NUMBERS = count(1)  # Claude Code takes two messages with one id for one


def sse(value: Any, event: str = "") -> bytes:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(value)}\n\n".encode()


def chat(answer: Says) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return sse({**head, "choices": [choice], "usage": None})

    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield chunk({"role": "assistant", "content": ""})
    for piece in answer.pieces:
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        start = {"index": index, "id": call.id, "type": "function", "function": function}
        yield chunk({"tool_calls": [start]})
        for half in halves(json.dumps(call.arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    used = answer.usage
    usage = {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }
    yield sse({**head, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def responses(answer: Says) -> Iterator[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return sse({"type": kind, **more}, kind)

    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield event("response.created", response=response)
    output: list[dict[str, Any]] = []
    if answer.pieces:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
        yield event("response.output_item.added", output_index=0, item=item)
        for piece in answer.pieces:
            yield event("response.output_text.delta", output_index=0, content_index=0,
                        item_id="msg_1", delta=piece)  # fmt: skip
        text = {"type": "output_text", "text": "".join(answer.pieces), "annotations": []}
        output.append({**item, "content": [text], "status": "completed"})
        yield event("response.output_item.done", output_index=0, item=output[-1])
    for call in answer.calls:
        index = len(output)
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call.id,
                "name": call.name, "arguments": ""}  # fmt: skip
        if call.namespace:
            item["namespace"] = call.namespace
        yield event("response.output_item.added", output_index=index, item=item)
        written = json.dumps(call.arguments)
        for half in halves(written):
            yield event("response.function_call_arguments.delta", output_index=index, delta=half,
                        item_id=item["id"])  # fmt: skip
        output.append({**item, "arguments": written, "status": "completed"})
        yield event("response.output_item.done", output_index=index, item=output[-1])
    used = answer.usage
    usage = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "input_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }
    done = {**response, "status": "completed", "output": output, "usage": usage}
    yield event("response.completed", response=done)


def anthropic(answer: Says) -> Iterator[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return sse({"type": kind, **more}, kind)

    used = answer.usage
    fresh = used.input_tokens - used.cache_read_tokens
    usage = {"input_tokens": fresh, "cache_read_input_tokens": used.cache_read_tokens,
             "cache_creation_input_tokens": 0, "output_tokens": 1}  # fmt: skip
    message: dict[str, Any] = {
        "id": f"msg_{next(_NUMBERS)}", "type": "message", "role": "assistant", "content": [],
        "model": "m", "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield event("message_start", message=message)
    yield event("ping")
    index = 0
    if answer.pieces:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in answer.pieces:
            delta = {"type": "text_delta", "text": piece}
            yield event("content_block_delta", index=0, delta=delta)
        yield event("content_block_stop", index=0)
        index = 1
    for number, call in enumerate(answer.calls, index):
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield event("content_block_start", index=number, content_block=block)
        for half in halves(json.dumps(call.arguments)):
            delta = {"type": "input_json_delta", "partial_json": half}
            yield event("content_block_delta", index=number, delta=delta)
        yield event("content_block_stop", index=number)
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={**usage, "output_tokens": used.output_tokens})
    yield event("message_stop")


def gemini(answer: Says) -> Iterator[bytes]:
    def chunk(parts: list[dict[str, Any]], **more: Any) -> bytes:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        ended = more.pop("finishReason", None)
        if ended:
            candidate["finishReason"] = ended
        return sse({"candidates": [candidate], "modelVersion": "m", "responseId": "r1", **more})

    for piece in answer.pieces:
        yield chunk([{"text": piece}])
    for call in answer.calls:
        called = {"id": call.id, "name": call.name, "args": call.arguments}
        yield chunk([{"functionCall": called}])
    used = answer.usage
    usage = {
        "promptTokenCount": used.input_tokens,
        "candidatesTokenCount": used.output_tokens,
        "cachedContentTokenCount": used.cache_read_tokens,
        "totalTokenCount": used.input_tokens + used.output_tokens,
    }
    yield chunk([{"text": ""}], finishReason="STOP", usageMetadata=usage)


def bedrock(answer: Says) -> Iterator[bytes]:
    yield aws_event("messageStart", {"role": "assistant"})
    index = 0
    for piece in answer.pieces:
        yield aws_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})
    if answer.pieces:
        yield aws_event("contentBlockStop", {"contentBlockIndex": 0})
        index = 1
    for number, call in enumerate(answer.calls, index):
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        yield aws_event("contentBlockStart", {"contentBlockIndex": number, "start": start})
        for half in halves(json.dumps(call.arguments)):
            delta = {"toolUse": {"input": half}}
            yield aws_event("contentBlockDelta", {"contentBlockIndex": number, "delta": delta})
        yield aws_event("contentBlockStop", {"contentBlockIndex": number})
    yield aws_event("messageStop", {"stopReason": "tool_use" if answer.calls else "end_turn"})
    used = answer.usage
    usage = {
        "inputTokens": used.input_tokens - used.cache_read_tokens,
        "outputTokens": used.output_tokens,
        "totalTokens": used.input_tokens + used.output_tokens,
        "cacheReadInputTokens": used.cache_read_tokens,
        "cacheWriteInputTokens": 0,
    }
    yield aws_event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def invoke(answer: Says) -> Iterator[bytes]:
    """Anthropic's events as `InvokeModelWithResponseStream` sends them: in base64, one a chunk."""
    for frame in anthropic(answer):
        data = frame.partition(b"data: ")[2].strip()
        if b'"ping"' not in data:
            yield aws_event("chunk", {"bytes": b64encode(data).decode(), "p": "abcd"})


def aws_event(name: str, value: Any, kind: str = "event") -> bytes:
    """One message of `application/vnd.amazon.eventstream`."""
    payload = json.dumps(value).encode()
    named = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for key, text in named.items()
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def ollama(answer: Says) -> Iterator[bytes]:
    def line(message: dict[str, Any], **more: Any) -> bytes:
        head = {"model": "m", "created_at": "2026-11-15T00:00:00Z"}
        value = {**head, "message": {"role": "assistant", **message}, "done": False, **more}
        return json.dumps(value).encode() + b"\n"

    for piece in answer.pieces:
        yield line({"content": piece})
    for call in answer.calls:
        function = {"name": call.name, "arguments": call.arguments}
        yield line({"content": "", "tool_calls": [{"function": function}]})
    used = answer.usage
    counts = {"prompt_eval_count": used.input_tokens, "eval_count": used.output_tokens}
    yield line({"content": ""}, done=True, done_reason="stop", **counts)


def halves(text: str) -> tuple[str, str]:
    """Arguments arrive in pieces that are no JSON by themselves."""
    middle = len(text) // 2
    return text[:middle], text[middle:]


STATUS: dict[Trouble, int] = {
    "key": 401, "rate": 429, "quota": 429, "server": 500, "overloaded": 529, "overflow": 400,
    "missing": 404,
}  # fmt: skip

OPENAI_SAYS: dict[Trouble, tuple[str, str]] = {
    "key": ("invalid_api_key", "Incorrect API key provided: {saying}. You can find your API key at"
            " https://platform.openai.com/account/api-keys."),
    "rate": ("rate_limit_exceeded", "Rate limit reached for m in organization org-1 on tokens per"
             " min (TPM): Limit 30000, Used 29000, Requested 2000."),
    "quota": ("insufficient_quota", "You exceeded your current quota, please check your plan and"
              " billing details."),
    "server": ("server_error", "The server had an error while processing your request. {saying}"),
    "overloaded": ("server_error", "That model is currently overloaded with other requests."),
    "overflow": ("context_length_exceeded", "This model's maximum context length is 128000 tokens."
                 " However, your messages resulted in 131072 tokens."),
    "missing": ("model_not_found", "The model `m` does not exist or you do not have access to it."),
}  # fmt: skip


def openai_refusal(answer: Refuses) -> dict[str, Any]:
    code, message = OPENAI_SAYS[answer.trouble]
    message = message.format(saying=answer.saying)
    return {"error": {"message": message, "type": "error", "param": None, "code": code}}


ANTHROPIC_SAYS: dict[Trouble, tuple[str, str]] = {
    "key": ("authentication_error", "invalid x-api-key {saying}"),
    "rate": ("rate_limit_error", "This request would exceed your organization's rate limit."),
    "quota": ("billing_error", "Your credit balance is too low to access the API."),
    "server": ("api_error", "Internal server error {saying}"),
    "overloaded": ("overloaded_error", "Overloaded"),
    "overflow": ("invalid_request_error", "prompt is too long: 210542 tokens > 200000 maximum"),
    "missing": ("not_found_error", "model: m"),
}


def anthropic_refusal(answer: Refuses) -> dict[str, Any]:
    kind, message = ANTHROPIC_SAYS[answer.trouble]
    error = {"type": kind, "message": message.format(saying=answer.saying)}
    return {"type": "error", "error": error, "request_id": "req_1"}


GEMINI_SAYS: dict[Trouble, tuple[str, str]] = {
    "key": ("UNAUTHENTICATED", "API key not valid. Please pass a valid API key. {saying}"),
    "rate": ("RESOURCE_EXHAUSTED", "You exceeded your current rate. Please retry in 13.2s."),
    "quota": ("RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and"
              " billing details."),
    "server": ("INTERNAL", "An internal error has occurred. {saying}"),
    "overloaded": ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    "overflow": ("INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number"
                 " of tokens allowed (1048576)."),
    "missing": ("NOT_FOUND", "models/m is not found for API version v1beta."),
}  # fmt: skip


def gemini_refusal(answer: Refuses) -> dict[str, Any]:
    status, message = GEMINI_SAYS[answer.trouble]
    details: list[dict[str, Any]] = []
    if answer.trouble == "rate":
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        details.append({"@type": kind, "retryDelay": "13s"})
    code, text = STATUS[answer.trouble], message.format(saying=answer.saying)
    return {"error": {"code": code, "message": text, "status": status, "details": details}}


BEDROCK_SAYS: dict[Trouble, tuple[str, str]] = {
    "key": ("UnrecognizedClientException", "The security token included in the request is invalid."
            " {saying}"),
    "rate": ("ThrottlingException", "Too many requests, please wait before trying again."),
    "quota": ("ServiceQuotaExceededException", "Your request exceeds the service quota."),
    "server": ("InternalServerException", "The system encountered an unexpected error. {saying}"),
    "overloaded": ("ServiceUnavailableException", "Bedrock is unable to process your request."),
    "overflow": ("ValidationException", "The model returned the following errors: Input is too"
                 " long for requested model."),
    "missing": ("ResourceNotFoundException", "Could not resolve the foundation model."),
}  # fmt: skip


def bedrock_refusal(answer: Refuses) -> dict[str, Any]:
    return {"message": BEDROCK_SAYS[answer.trouble][1].format(saying=answer.saying)}


OLLAMA_SAYS: dict[Trouble, str] = {
    "key": "unauthorized {saying}",
    "rate": "too many requests",
    "quota": "you have reached your usage limit",
    "server": "llama runner process has terminated {saying}",
    "overloaded": "server busy, please try again. maximum pending requests exceeded",
    "overflow": "the input length exceeds the context length",
    "missing": "model 'm' not found",
}


def ollama_refusal(answer: Refuses) -> dict[str, Any]:
    return {"error": OLLAMA_SAYS[answer.trouble].format(saying=answer.saying)}


def chat_failure(_: Fails) -> bytes:
    return sse({"error": {"message": "The server had an error.", "type": "server_error"}})


def responses_failure(_: Fails) -> bytes:
    error = {"code": "server_error", "message": "The server had an error."}
    return sse({"type": "error", **error}, "error")


def anthropic_failure(_: Fails) -> bytes:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    return sse({"type": "error", "error": error}, "error")


def gemini_failure(_: Fails) -> bytes:
    error = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    return sse({"error": error})


def bedrock_failure(_: Fails) -> bytes:
    told = {"message": "The model is overloaded."}
    return aws_event("serviceUnavailableException", told, "exception")


def ollama_failure(_: Fails) -> bytes:
    return b'{"error":"llama runner process has terminated"}\n'


@dataclass(frozen=True, slots=True)
class Api:
    """One wire format."""

    frames: Frames
    refusal: Callable[[Refuses], dict[str, Any]]
    failure: Callable[[Fails], bytes]
    content_type: str = "text/event-stream"


APIS: dict[str, Api] = {
    "chat": Api(chat, openai_refusal, chat_failure),
    "responses": Api(responses, openai_refusal, responses_failure),
    "anthropic": Api(anthropic, anthropic_refusal, anthropic_failure),
    "gemini": Api(gemini, gemini_refusal, gemini_failure),
    "bedrock": Api(bedrock, bedrock_refusal, bedrock_failure, "application/vnd.amazon.eventstream"),
    "invoke": Api(invoke, bedrock_refusal, bedrock_failure, "application/vnd.amazon.eventstream"),
    "ollama": Api(ollama, ollama_refusal, ollama_failure, "application/x-ndjson"),
}
ENDS: dict[str, str] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/v1/messages": "anthropic",
    ":streamGenerateContent": "gemini",
    "/converse-stream": "bedrock",
    "/invoke-with-response-stream": "invoke",
    ":rawPredict": "anthropic",
    ":streamRawPredict": "anthropic",
    "/api/chat": "ollama",
}


def api_of(path: str) -> str | None:
    """Which API a path belongs to."""
    bare = path.partition("?")[0]
    return next((name for end, name in ENDS.items() if bare.endswith(end)), None)


def refusal_headers(api: str, answer: Refuses) -> dict[str, str]:
    """The headers that come with a refusal."""
    headers = {"retry-after": answer.retry_after} if answer.retry_after else {}
    if api in ("bedrock", "invoke"):
        headers["x-amzn-errortype"] = BEDROCK_SAYS[answer.trouble][0]
    return headers


def refusal_status(api: str, answer: Refuses) -> int:
    """The status of a refusal; overload has many."""
    if api in ("bedrock", "invoke") and answer.trouble == "key":
        return 403
    return 503 if answer.trouble == "overloaded" and api != "anthropic" else STATUS[answer.trouble]
