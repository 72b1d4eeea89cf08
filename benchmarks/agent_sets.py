"""How well the gateway finds conversations and causes, with agents through a real socket.

    python -m benchmarks.agent_sets SET.jsonl            agent → `sightline gateway` → a vendor
    python -m benchmarks.agent_sets SET.jsonl --no-ids   without the ids of sessions and users
    python -m benchmarks.agent_sets own                  the set of `agent_sets_own`
    python -m benchmarks.agent_sets frozen FILE N        each Nth frozen case, 24 sessions in a lane

A set has one request in a line, in the order of sending, with the truth about it: its conversation,
its session, why the cache was lost and where. The vendor on loopback has a prefix cache of each
API: blocks of 128 tokens for OpenAI, of 64 for Gemini, and for Anthropic what a mark ended, found
again up to 20 blocks back. A token has four bytes of the request as it is serialized.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias

from sightline.context.ledger import Ledger
from sightline.gateway.sessions import SESSION_HEADERS

Line: TypeAlias = dict[str, Any]
LEAST: Final = 1_024  # tokens that a vendor keeps, at least
BLOCK: Final = {"openai-chat": 128, "openai-responses": 128, "gemini": 64}
LOOKBACK: Final = 20
BETWEEN: Final = "between conversations"
# What a vendor's prefix depends on besides tools, instructions and messages.
SETTINGS: Final = (
    "tool_choice", "reasoning", "reasoning_effort", "text", "response_format", "service_tier",
    "parallel_tool_calls", "truncation", "verbosity", "thinking", "output_config", "speed",
    "output_format", "toolConfig",
)  # fmt: skip
_DRAWN: Final = {"temperature", "topP", "topK", "seed", "maxOutputTokens", "stopSequences"}
_UPSTREAM: Final = {"anthropic": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}


class Cache:
    """The prompt caches of the vendors, by credential, model and routing key."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[str, ...], set[bytes]] = defaultdict(set)
        self._held: dict[str, list[Any]] = {}

    def read(self, line: Line, body: Line) -> tuple[int, int, int]:
        """Return the tokens of a prompt, those that were read, and those that were written."""
        api = line["api"]
        routing = str(body.get("prompt_cache_key") or body.get("user") or "")
        known = self._known[api, line["credential"], str(body.get("model")), routing]
        if api == "anthropic":
            return _marked(known, body)
        data = b"".join(map(_part, self._parts(api, line, body)))
        size, at, found = BLOCK[api] * 4, 0, 0
        reads, chain = True, blake2b(digest_size=16)
        for at in range(size, len(data) + 1, size):
            chain.update(data[at - size : at])
            mark = chain.digest()
            if reads and mark not in known:
                reads, found = False, at - size
            known.add(mark)
        found = at if reads else found
        tokens = len(data) // 4
        return tokens, found // 4 if found // 4 >= LEAST else 0, 0

    def _parts(self, api: str, line: Line, body: Line) -> Iterator[Any]:
        generation = body.get("generationConfig") or {}
        yield {name: body[name] for name in SETTINGS if body.get(name) is not None}
        yield {name: value for name, value in generation.items() if name not in _DRAWN}
        yield from body.get("tools") or ()
        yield body.get("instructions") or body.get("systemInstruction") or ""
        given = body.get("messages") or body.get("contents") or body.get("input") or ()
        held = self._held.get(body.get("previous_response_id") or "", [])
        said = [*held, *([given] if isinstance(given, str) else given)]
        yield from said
        reply = line.get("reply") or {}
        if reply.get("id"):
            self._held[reply["id"]] = [*said, *_output(reply)]


def _part(value: Any) -> bytes:
    """Write a part of a prompt: a vendor has read its fields by name, and not what is in them."""
    return _bytes(dict(sorted(value.items())) if isinstance(value, dict) else value)


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _blocks(body: Line) -> Iterator[tuple[bytes, bool]]:
    """List what Anthropic caches: the blocks of a request, and whether each is marked."""

    def block(value: Any, role: str = "") -> tuple[bytes, bool]:
        value = {"type": "text", "text": value} if isinstance(value, str) else value
        kept = {name: value[name] for name in value if name != "cache_control"}
        return role.encode() + _part(kept), value.get("cache_control") is not None

    for tool in body.get("tools") or ():
        yield block(tool)
    system = body.get("system") or []
    for value in [system] if isinstance(system, str) else system:
        yield block(value, "system")
    settings = {name: body[name] for name in SETTINGS if body.get(name) is not None}
    first = _bytes(settings)
    for message in body.get("messages") or ():
        content = message["content"]
        for value in [content] if isinstance(content, str) else content:
            data, marked = block(value, message["role"])
            yield first + data, marked
            first = b""


def _marked(known: set[bytes], body: Line) -> tuple[int, int, int]:
    blocks = list(_blocks(body))
    if body.get("cache_control") and blocks:
        blocks[-1] = blocks[-1][0], True
    chain, size = blake2b(digest_size=16), 0
    ends: list[tuple[bytes, int]] = []
    for data, _ in blocks:
        chain.update(data)
        size += len(data)
        ends.append((chain.digest(), size // 4))
    marks = [at for at, (_, marked) in enumerate(blocks) if marked][-4:]
    reads = [
        ends[at][1]
        for mark in marks
        for at in range(mark, max(-1, mark - LOOKBACK), -1)
        if ends[at][0] in known
    ]
    read = max(reads, default=0)
    kept = [at for at in marks if ends[at][1] >= LEAST]
    known |= {ends[at][0] for at in kept}
    written = max((ends[at][1] for at in kept), default=read) - read
    return size // 4, read, max(0, written)


def _output(reply: Line) -> list[Line]:
    """Write what the model said as items of OpenAI's Responses."""
    said = [{"type": "output_text", "text": reply.get("text", ""), "annotations": []}]
    items: list[Line] = []
    if reply.get("text"):
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "content": said})
    for number, call in enumerate(reply.get("calls") or ()):
        arguments = json.dumps(call["arguments"])
        items.append(
            {"type": "function_call", "id": f"fc_{number}", "call_id": call["id"],
             "name": call["name"], "arguments": arguments}
        )  # fmt: skip
    return items


def answer(line: Line, used: tuple[int, int, int]) -> Line:
    """Write a reply as its vendor does, in one piece."""
    usage: Line
    parts: list[Line]
    tokens, read, written = used
    reply = line.get("reply") or {}
    text, calls = reply.get("text", ""), reply.get("calls") or []
    name = reply.get("id") or f"id_{line['n']}"
    if line["api"] == "anthropic":
        parts = [{"type": "text", "text": text}] if text else []
        parts += [
            {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["arguments"]}
            for c in calls
        ]
        usage = {"input_tokens": tokens - read - written, "cache_read_input_tokens": read,
                 "cache_creation_input_tokens": written, "output_tokens": 9}  # fmt: skip
        return {"id": name, "type": "message", "role": "assistant", "model": "m",
                "content": parts, "stop_reason": "tool_use" if calls else "end_turn",
                "stop_sequence": None, "usage": usage}  # fmt: skip
    if line["api"] == "openai-chat":
        made = [
            {"id": c["id"], "type": "function",
             "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}}
            for c in calls
        ]  # fmt: skip
        message = {"role": "assistant", "content": text or None, "tool_calls": made or None}
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9,
                 "prompt_tokens_details": {"cached_tokens": read}}  # fmt: skip
        reason = "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": name, "object": "chat.completion", "created": 1, "model": "m",
                "choices": [choice], "usage": usage}  # fmt: skip
    if line["api"] == "openai-responses":
        usage = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9,
                 "input_tokens_details": {"cached_tokens": read}}  # fmt: skip
        return {"id": name, "object": "response", "status": "completed",
                "output": _output(reply), "usage": usage}  # fmt: skip
    parts = [{"text": text}] if text else []
    parts += [{"functionCall": {"name": c["name"], "args": c["arguments"]}} for c in calls]
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 9,
             "cachedContentTokenCount": read, "totalTokenCount": tokens + 9}  # fmt: skip
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage, "responseId": name}  # fmt: skip


@contextlib.contextmanager
def vendor(lines: Sequence[Line]) -> Iterator[str]:
    """Run a vendor that answers each request of a set as the set says."""
    cache = Cache()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            line = lines[int(self.headers["x-number"])]
            status = line.get("status", 200)
            if status == 200:
                body = json.loads(data)
                body.setdefault("model", line["path"].partition("/models/")[2].partition(":")[0])
                found = _bytes(answer(line, cache.read(line, body)))
            else:
                found = _bytes({"type": "error", "error": {"type": "e", "message": "refused"}})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def without_ids(line: Line) -> Line:
    """Leave out what names a session or a user; what a planted loss needs stays."""
    headers = {k: v for k, v in (line.get("headers") or {}).items() if k not in SESSION_HEADERS}
    body = {k: v for k, v in line["body"].items() if k not in ("session_id", "metadata")}
    if not line.get("routed"):
        body = {k: v for k, v in body.items() if k not in ("prompt_cache_key", "user")}
    return {**line, "headers": headers, "body": body}


_KEYS: Final = {
    "anthropic": ("x-api-key", "{}"), "gemini": ("x-goog-api-key", "{}"),
    "openai-chat": ("authorization", "Bearer {}"),
    "openai-responses": ("authorization", "Bearer {}"),
}  # fmt: skip


def play(lines: Sequence[Line], db: Path) -> list[tuple[int, Line]]:
    """Send a set through the gateway; return (session, about) of each exchange in the ledger."""
    program = str(Path(sys.executable).with_name("sightline"))
    clients: dict[str, HTTPConnection] = {}
    with vendor(lines) as upstream:
        command = [program, "gateway", "--db", str(db), "--upstream", upstream]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        try:
            found = (
                re.match(r"export (\w+)='?([^'\n]+)", process.stdout.readline()) for _ in "123"
            )
            ways = {match[1]: match[2] for match in found if match}
            for line in lines:
                way = ways[_UPSTREAM.get(line["api"], "OPENAI_BASE_URL")].removesuffix("/v1")
                host, slash, base = way.removeprefix("http://").partition("/")
                client = clients.setdefault(line["agent"], HTTPConnection(host, timeout=60))
                name, value = _KEYS[line["api"]]
                headers = {**(line.get("headers") or {}), name: value.format(line["credential"])}
                headers |= {"content-type": "application/json", "x-number": str(line["n"])}
                target, data = slash + base + line["path"], _bytes(line["body"])
                try:
                    client.request("POST", target, data, headers)
                    response = client.getresponse()
                except (ConnectionError, HTTPException):  # the gateway closed an idle connection
                    client.close()
                    client.request("POST", target, data, headers)
                    response = client.getresponse()
                response.read()
        finally:
            process.terminate()
            process.wait(timeout=120)
            process.stdout.close()
            for client in clients.values():
                client.close()
    with Ledger(db, mode="read") as ledger:
        kept = [one for s in ledger.sessions.recent() for one in ledger.exchanges.list(s.id)]
    return [(one.session_id, one.about) for one in sorted(kept, key=lambda one: one.id)]


_SYSTEM: Final = ("instructions", "systemInstruction", "system_instruction", "system")


def is_placed(line: Line, loss: Mapping[str, Any]) -> bool:
    """Whether a place is right: the same field at the top, and the same index in it."""
    truth, path = str(line.get("where") or ""), str(loss.get("path", ""))
    if not truth or not path:
        return True
    (top, index), (mine, number) = (
        (re.match(r"\w*", text)[0], re.search(r"\[(\d+)\]", text))  # type: ignore[index]
        for text in (truth, path)
    )
    if top in _SYSTEM or mine in _SYSTEM:
        in_chat = line["api"] == "openai-chat" and {top, mine} & {"messages"}
        return (top in _SYSTEM and mine in _SYSTEM) or bool(in_chat)
    return top == mine and (not index or not number or index[1] == number[1])


def score(lines: Sequence[Line], kept: Sequence[tuple[int, Line]]) -> dict[str, Any]:
    """Compare what the gateway found with the truth."""
    assert len(lines) == len(kept), f"{len(lines)} requests, {len(kept)} in the ledger"
    ids: dict[str, defaultdict[str, set[object]]] = {
        "conversation": defaultdict(set), "session": defaultdict(set)
    }  # fmt: skip
    wrong: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    causes = named = placed = quiet = between = uncertain = 0
    for line, (session, about) in zip(lines, kept, strict=True):
        ids["session"][line["session"]].add(session)
        ids["conversation"][line["conversation"]].add((session, about.get("conversation")))
        loss, cause = about.get("loss"), line.get("cause")
        uncertain += "alike" in about.get("trouble", "")
        note = f"{line['api']} {line['agent']} n{line['n']} {line.get('note', '')[:50]}"
        if cause:
            causes += 1
            is_named = loss is not None and loss["cause"] == cause
            is_right = is_named and is_placed(line, loss or {})
            named, placed = named + is_named, placed + is_right
            if not is_right:
                called = "nothing" if loss is None else f"{loss['cause']} at {loss.get('path')}"
                wrong[f"{cause} at {line.get('where')} called {called}: {note}"] += 1
        else:
            quiet += 1
            if loss is not None and loss.get("detail") == BETWEEN:
                between += 1
            elif loss is not None:
                alarms[f"{loss['cause']} at {loss.get('path')}: {note}"] += 1
    result: dict[str, Any] = {"requests": len(lines), "causes": causes, "named": named,
                              "named and placed": placed, "quiet": quiet,
                              "false alarms": alarms.total(), BETWEEN: between,
                              "uncertain": uncertain}  # fmt: skip
    for kind, found in ids.items():
        owners = Counter(one for mine in found.values() for one in mine)
        right = [
            name for name, mine in found.items() if len(mine) == 1 and owners[next(iter(mine))] == 1
        ]
        right = [name for name in found if name in set(right)]
        mixed = sum(any(owners[one] > 1 for one in mine) for mine in found.values())
        result[f"{kind}s"] = len(found)
        result[f"{kind}s right"], result[f"{kind}s mixed"] = len(right), mixed
        result[f"{kind}s wrong"] = sorted(set(found) - set(right))[:40]
    return {**result, "wrong": dict(wrong), "alarms": dict(alarms)}


def main(words: Sequence[str]) -> None:
    """Play a set and print its scores."""
    if words[0] == "own":
        from benchmarks.agent_sets_own import lines_of

        lines = list(lines_of(1))
    elif words[0] == "frozen":
        from benchmarks.agent_sets_own import frozen

        lines = list(frozen(Path(words[1]), int(words[2]) if words[2:] else 1))
    else:
        opened = lzma.open if words[0].endswith(".xz") else open
        with opened(words[0], "rt", encoding="utf-8") as texts:
            lines = [json.loads(text) for text in texts]
    if "--no-ids" in words:
        routed = {line["agent"] for line in lines if line.get("cause") == "routing"}
        lines = [without_ids({**one, "routed": one["agent"] in routed}) for one in lines]
    with tempfile.TemporaryDirectory() as folder:
        kept = play(lines, Path(folder, "l.db"))
    print(json.dumps(score(lines, kept), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
