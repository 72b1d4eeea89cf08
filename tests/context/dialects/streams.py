"""One reply, as every vendor streams it: reasoning, a text, two calls, usage."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any


def sse(*values: Any, named: bool = False, end: bytes = b"") -> bytes:
    out = b""
    for value in values:
        head = f"event: {value['type']}\n" if named else ""
        out += f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
    return out + end


def event_stream(*events: tuple[str, Any]) -> bytes:
    """Pack events as AWS does."""
    out = b""
    for name, value in events:
        payload = json.dumps(value).encode()
        kind = b":exception-type" if name.endswith("Exception") else b":event-type"
        pairs = ((kind, name.encode()), (b":content-type", b"application/json"))
        headers = b"".join(
            bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(text)) + text
            for key, text in pairs
        )
        prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
        body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
        out += body + struct.pack(">I", zlib.crc32(body))
    return out


CHAT = sse(
    {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"reasoning_content": "Let me "}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"reasoning_content": "see."}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "Søk"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "a", "type": "function",
         "function": {"name": "mail_search_pg3lc4uv", "arguments": '{"q":'}}]}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": '"☃"}'}},
        {"index": 1, "id": "b", "function": {"name": "now", "arguments": ""}}]}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"id": "c1", "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 4}}},
    end=b"data: [DONE]\n\n",
)  # fmt: skip
RESPONSES = sse(
    {"type": "response.created", "response": {"id": "r1"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Let me see."},
    {"type": "response.output_item.done", "output_index": 0, "item": {
        "type": "reasoning", "id": "rs1", "encrypted_content": "ZW5j",
        "summary": [{"type": "summary_text", "text": "Let me see."}],
        "status": None}},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Søk"},
    {"type": "response.output_item.done", "output_index": 1, "item": {
        "type": "message", "phase": "commentary"}},
    {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call"}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"q":'},
    {"type": "response.output_item.done", "output_index": 2, "item": {
        "type": "function_call", "call_id": "a", "name": "mail_search_pg3lc4uv",
        "arguments": '{"q":"☃"}'}},
    {"type": "response.output_item.done", "output_index": 3, "item": {
        "type": "function_call", "call_id": "b", "name": "now", "arguments": "{}"}},
    {"type": "response.completed", "response": {
        "id": "r1",
        "usage": {"input_tokens": 100, "output_tokens": 9,
                  "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 10},
                  "output_tokens_details": {"reasoning_tokens": 4}},
        "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed",
                                     "cache_missed_tokens": 70}}},
    named=True,
)  # fmt: skip
ANTHROPIC = sse(
    {"type": "message_start", "message": {
        "id": "m1",
        "diagnostics": {"cache_miss_reason": {"type": "tools_changed",
                                              "cache_missed_input_tokens": 70}},
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 80,
                  "cache_creation_input_tokens": 10, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0,
     "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0,
     "delta": {"type": "thinking_delta", "thinking": "Let me see."}},
    {"type": "content_block_delta", "index": 0,
     "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Søk"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {
        "type": "tool_use", "id": "a", "name": "mail_search_pg3lc4uv", "input": {}}},
    {"type": "content_block_delta", "index": 2,
     "delta": {"type": "input_json_delta", "partial_json": '{"q":'}},
    {"type": "content_block_delta", "index": 2,
     "delta": {"type": "input_json_delta", "partial_json": '"☃"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "content_block_start", "index": 3, "content_block": {
        "type": "tool_use", "id": "b", "name": "now", "input": {}}},
    {"type": "content_block_stop", "index": 3},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
     "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}},
    {"type": "message_stop"},
    named=True,
)  # fmt: skip
GEMINI = sse(
    {"responseId": "g1", "candidates": [{"content": {"role": "model", "parts": [
        {"text": "Let me see.", "thought": True}]}}]},
    {"responseId": "g1", "candidates": [{"content": {"role": "model", "parts": [
        {"text": "Søk"}]}}]},
    {"responseId": "g1", "candidates": [{"content": {"role": "model", "parts": [
        {"functionCall": {"id": "a", "name": "mail_search_pg3lc4uv", "args": {"q": "☃"}},
         "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "b", "name": "now", "args": {}}}]}, "finishReason": "STOP"}],
     "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 80,
                       "candidatesTokenCount": 5, "thoughtsTokenCount": 4}},
)  # fmt: skip
BEDROCK = event_stream(
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0,
                           "delta": {"reasoningContent": {"text": "Let me see."}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0,
                           "delta": {"reasoningContent": {"signature": "c2ln"}}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Søk"}}),
    ("contentBlockStart", {"contentBlockIndex": 2, "start": {
        "toolUse": {"toolUseId": "a", "name": "mail_search_pg3lc4uv"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"q":'}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '"☃"}'}}}),
    ("contentBlockStart", {"contentBlockIndex": 3, "start": {
        "toolUse": {"toolUseId": "b", "name": "now"}}}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": {"inputTokens": 10, "outputTokens": 9, "totalTokens": 109,
                            "cacheReadInputTokens": 80, "cacheWriteInputTokens": 10}}),
)  # fmt: skip
OLLAMA = b"".join(
    json.dumps(value, ensure_ascii=False).encode() + b"\n"
    for value in (
        {"message": {"role": "assistant", "content": "", "thinking": "Let me see."}},
        {"message": {"role": "assistant", "content": "Søk"}},
        {"message": {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "mail_search_pg3lc4uv", "arguments": {"q": "☃"}}},
            {"function": {"name": "now", "arguments": {}}}]}},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
         "prompt_eval_count": 100, "eval_count": 9, "created_at": "2026-11-15T06:00:00Z"},
    )
)  # fmt: skip

STREAMS: dict[str, bytes] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
    "ollama": OLLAMA,
}
NAMES = {"mail_search_pg3lc4uv": "mail.search"}
