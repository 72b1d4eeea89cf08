"""A request of any agent, as the vendor's cache sees it: units in the order of the prefix.

    settings · tools · system · messages

A vendor reads values, not bytes: a message that is first a list of blocks with a cache mark
and later a plain string is the same to it. So a unit is one tool, one block of instructions or
one part of a message, with marks left out and both spellings made one. Two requests share the
units that they begin with alike.

Nothing here changes a request, and nothing that an agent sends makes it raise: what cannot be
read is no request that we explain, and goes on as it came.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

Api: TypeAlias = Literal["anthropic", "openai-responses", "openai-chat", "gemini"]
Section: TypeAlias = Literal["tools", "system", "messages"]
DIGEST_BYTES: Final = 16
NAME_BYTES: Final = 256
KEPT_UNITS: Final = (
    8_192  # messages whose units are remembered, so that a request costs what is new
)
# Anthropic, "Prompt caching"; OpenAI, "Prompt caching": marks are no part of what is cached.
MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint", "cachePoint"})
# The vendors' words for what a unit can be.
REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "thought"})
IMAGES: Final = frozenset({"image", "input_image", "image_url", "inlineData", "inline_data"})
RESULTS: Final = frozenset(
    {
        "tool_result", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result",
        "function_call_output", "custom_tool_call_output", "local_shell_call_output",
        "shell_call_output", "apply_patch_call_output", "tool_search_output", "functionResponse",
    }
)  # fmt: skip
CALLS: Final = frozenset(
    {
        "tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call",
        "local_shell_call", "shell_call", "apply_patch_call", "mcp_call", "function", "custom",
        "functionCall",
    }
)  # fmt: skip
MODEL: Final = frozenset({"assistant", "model"})


class Unit(msgspec.Struct, frozen=True):
    """One part of a request, wherever it stood.

    `kind` is the vendor's word for it (`text`, `tool_use`, `image`), `text` what a person would
    read of it, `size` its weight in bytes, `call` the id of the call that it is or answers, `ttl`
    how long its mark asks to be kept. `meaning` is a tool's digest in any order of keys.
    """

    digest: bytes
    kind: str
    role: str = ""
    name: str = ""
    text: str = ""
    size: int = 0
    marked: bool = False
    call: str = ""
    ttl: str = ""
    meaning: bytes = b""


class RequestBody(msgspec.Struct, frozen=True):
    """A request: what is asked of the vendor besides its units, and the units by section.

    `follows` names what the vendor holds before it, `warms` is for a request for no answer.
    `session` is the id of a session in the body, `weak` an id that strangers may share. `brief`
    is for a request for one token.
    """

    api: Api
    model: str
    settings: dict[str, str]
    tools: tuple[Unit, ...] = ()
    system: tuple[Unit, ...] = ()
    messages: tuple[Unit, ...] = ()
    paths: tuple[str, ...] = ()
    follows: str = ""
    warms: bool = False
    session: str = ""
    weak: str = ""
    brief: bool = False

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, in the order in which vendors read them."""
        return self.tools + self.system + self.messages

    def section_of(self, index: int) -> Section:
        """Name the section that a unit is in."""
        if index < len(self.tools):
            return "tools"
        return "system" if index < len(self.tools) + len(self.system) else "messages"

    @property
    def marked(self) -> bool:
        """Whether anything in it is marked for the cache."""
        return any(unit.marked for unit in self.units)

    def behind(self, held: tuple[Unit, ...]) -> RequestBody:
        """Return the request with the messages that the vendor holds before its own."""
        at = len(self.tools) + len(self.system)
        paths = (*self.paths[:at], *(["held"] * len(held)), *self.paths[at:])
        return msgspec.structs.replace(self, messages=held + self.messages, paths=paths)


def api_of(path: str) -> tuple[Api, bool] | None:
    """Tell which API a path belongs to, and whether it asks for an answer (or only counts)."""
    path = path.partition("?")[0].rstrip("/")
    for end, found in _PATHS.items():
        if path.endswith(end) and ("/invoke" not in end or "/model/" in path):
            return found
    return None


# Vertex and Bedrock: the model is in the path, and the body is Anthropic's without it.
_PATHS: Final[dict[str, tuple[Api, bool]]] = {
    "/count-tokens:rawPredict": ("anthropic", False),
    ":rawPredict": ("anthropic", True),
    ":streamRawPredict": ("anthropic", True),
    "/invoke": ("anthropic", True),
    "/invoke-with-response-stream": ("anthropic", True),
    "/messages": ("anthropic", True),
    "/messages/count_tokens": ("anthropic", False),
    "/responses": ("openai-responses", True),
    "/responses/compact": ("openai-responses", False),
    "/chat/completions": ("openai-chat", True),
    ":generateContent": ("gemini", True),
    ":streamGenerateContent": ("gemini", True),
    ":countTokens": ("gemini", False),
}


def read_body(api: Api, data: bytes, path: str = "") -> RequestBody | None:
    """Read a request; None for what is none."""
    try:
        return read_fields(api, _fields.decode(data), path)
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def read_fields(api: Api, fields: Fields, path: str = "") -> RequestBody:
    """Read a request from the fields of its body; raises what that raises."""
    return _READERS[api](fields, path)


_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lists: Final = msgspec.json.Decoder(list[msgspec.Raw])
_values: Final = msgspec.json.Decoder()
Fields: TypeAlias = Mapping[str, msgspec.Raw]


def _model_in(path: str) -> msgspec.Raw:
    """Return the model that a path names: `…/models/M:verb`, or Bedrock's `/model/M/invoke`."""
    found = _MODEL.search(path.partition("?")[0])
    return msgspec.Raw(msgspec.json.encode(unquote(found[1]) if found else ""))


_MODEL: Final = re.compile(r"/models?/(.+?)(?::[A-Za-z]*|/invoke[a-z-]*)?$")


def _anthropic(fields: Fields, path: str) -> RequestBody:
    if "model" not in fields and "/model" in path:
        # Vertex and Bedrock offer models of other vendors at the same paths.
        if "anthropic_version" not in fields:
            raise ValueError("not a request of Anthropic's Messages API")
        fields = {"model": _model_in(path), **fields}
    messages = _units(fields, "messages", message_units)
    # Anthropic, "Prompt caching": a mark of the whole request is one of its last block.
    if messages and (mark := _value(fields.get("cache_control", _NULL))) is not None:
        path, last = messages[-1]
        messages[-1] = (
            path,
            msgspec.structs.replace(last, marked=True, ttl=_ttl({"cache_control": mark})),
        )
    return _body(
        "anthropic",
        fields,
        settings=("tool_choice", "thinking", "output_config", "speed", "output_format"),
        tools=_units(fields, "tools", _loaded_tool),
        system=_system(fields.get("system")),
        messages=messages,
    )


_NULL: Final = msgspec.Raw(b"null")
_OPENAI: Final = (
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier",
    "parallel_tool_calls", "truncation", "safety_identifier", "user",
)  # fmt: skip


def _responses(fields: Fields, _: str) -> RequestBody:
    given = fields.get("input", msgspec.Raw(b"[]"))
    if bytes(given)[:1] == b'"':
        given = msgspec.Raw(msgspec.json.encode([{"role": "user", "content": _value(given)}]))
    body = _body(
        "openai-responses",
        fields,
        settings=("tool_choice", "reasoning", "text", *_OPENAI),
        tools=_units(fields, "tools", _tool),
        system=_system(fields.get("instructions")),
        messages=_units({"input": given}, "input", message_units),
    )
    return msgspec.structs.replace(
        body,
        follows=_text_of(fields, "previous_response_id") or _conversation(fields),
        warms="generate" in fields and _value(fields["generate"]) is False,
    )


def _chat(fields: Fields, _: str) -> RequestBody:
    messages = _units(fields, "messages", message_units)
    # What instructs before anybody speaks is what other APIs have a field for.
    first = next((i for i, (_, one) in enumerate(messages) if one.role not in _INSTRUCTING), None)
    first = len(messages) if first is None else first
    return _body(
        "openai-chat",
        fields,
        settings=("tool_choice", "reasoning_effort", "response_format", "verbosity", *_OPENAI),
        tools=_units(fields, "tools", _tool),
        system=messages[:first],
        messages=messages[first:],
    )


_INSTRUCTING: Final = frozenset({"system", "developer"})


def _gemini(fields: Fields, path: str) -> RequestBody:
    instruction = fields.get("systemInstruction", fields.get("system_instruction"))
    return _body(
        "gemini",
        {"model": _model_in(path), **fields},
        settings=("toolConfig", "generationConfig", "cachedContent"),
        tools=_units(fields, "tools", _gemini_tools),
        system=_system(instruction),
        messages=_units(fields, "contents", message_units),
    )


_READERS: Final[dict[Api, Callable[[Fields, str], RequestBody]]] = {
    "anthropic": _anthropic,
    "openai-responses": _responses,
    "openai-chat": _chat,
    "gemini": _gemini,
}
APIS: Final = tuple(_READERS)

_K = TypeVar("_K")
_V = TypeVar("_V")
Placed: TypeAlias = list[tuple[str, Unit]]


def _body(
    api: Api,
    fields: Fields,
    *,
    settings: tuple[str, ...],
    tools: Placed,
    system: Placed,
    messages: Placed,
) -> RequestBody:
    model = _value(fields.get("model", msgspec.Raw(b'""')))
    session, weak = _ids(fields)
    return RequestBody(
        api,
        model.strip() if isinstance(model, str) and _is_name(model) else "",
        {name: _plain(fields[name]) for name in settings if name in fields},
        tuple(unit for _, unit in tools),
        tuple(unit for _, unit in system),
        tuple(unit for _, unit in messages),
        tuple(path for path, _ in (*tools, *system, *messages)),
        session=session,
        weak=weak,
        brief=any(bytes(fields.get(name, b"")) == b"1" for name in _LIMITS),
    )


_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Claude Code names its session in one of two forms in the field for a user's id.
_IN_USER_ID: Final = re.compile(r'(?:session_|"session_id"\s*:\s*")([0-9a-fA-F-]{36})')


def _ids(fields: Fields) -> tuple[str, str]:
    """Find the id of a session, and one that a user, a program or a conversation may have."""
    metadata = _value(fields.get("metadata", _NULL))
    given = metadata if isinstance(metadata, Mapping) else {}
    user = str(given.get("user_id") or "")
    named = _IN_USER_ID.search(user)
    found = (named[1] if named else "", str(given.get("session_id") or ""))
    session = next(filter(None, found), "") or _text_of(fields, "session_id")
    weak = _text_of(fields, "prompt_cache_key") or ("" if named else user)
    return session or _conversation(fields), weak or _text_of(fields, "user")


def _conversation(fields: Fields) -> str:
    """Read the id of a conversation that the vendor holds: a text, or an object with it."""
    given = _value(fields.get("conversation", _NULL))
    return str((given.get("id") if isinstance(given, Mapping) else given) or "")


def _text_of(fields: Fields, name: str) -> str:
    value = _value(fields.get(name, _NULL))
    return value if isinstance(value, str) else ""


def _is_name(text: str) -> bool:
    return text.isprintable() and len(text.encode()) <= NAME_BYTES


def _plain(raw: msgspec.Raw) -> str:
    value = _value(raw)
    if isinstance(value, dict):
        value.pop("comparison_response_id", None)  # OpenAI: it asks for a diagnosis, no more
    return msgspec.json.encode(value, order="sorted").decode()


def _value(raw: msgspec.Raw) -> Any:
    return _values.decode(raw)


def _units(fields: Fields, name: str, read: Callable[[bytes], tuple[Unit, ...]]) -> Placed:
    """Read a list: the units of each of its items, each with its path."""
    given = fields.get(name)
    if given is None or bytes(given) == b"null":
        return []
    placed: Placed = []
    for index, item in enumerate(_lists.decode(given)):
        units = read(bytes(item))
        many = len(units) > 1
        for part, unit in enumerate(units):
            placed.append((f"{name}[{index}]" + (f"[{part}]" if many else ""), unit))
    return placed


def _system(raw: msgspec.Raw | None) -> Placed:
    """Read instructions: a text, a list of blocks, or an object of parts."""
    if raw is None:
        return []
    value = _value(raw)
    if isinstance(value, Mapping):
        value = value.get("parts", value)
    blocks = value if isinstance(value, list) else [] if value is None else [value]
    return [(f"system[{i}]", _block("system", block)) for i, block in enumerate(blocks)]


@lru_cache(KEPT_UNITS)
def _tool(data: bytes) -> tuple[Unit, ...]:
    value = _values.decode(data)
    if isinstance(value, Mapping) and isinstance(value.get("tools"), list):
        # OpenAI, "Namespaces": tools under a name of their server's.
        head = {k: v for k, v in value.items() if k != "tools"}
        within = f"{value.get('name', '')}."
        return (_one_tool(head), *(_one_tool(one, within) for one in value["tools"]))
    return (_one_tool(value),)


def _one_tool(value: Any, within: str = "") -> Unit:
    given = value if isinstance(value, Mapping) else {}
    function = given.get("function")
    if isinstance(function, Mapping):
        value = {**given, "function": {k: function[k] for k in sorted(function)}}
    else:
        function = given
    names = (function.get(name) for name in ("name", "server_label", "type"))
    name = next(filter(None, names), next(iter(given), ""))
    text = str(function.get("description") or "")
    return _unit("tool", "", value, name=f"{within}{name}", text=text)


@lru_cache(KEPT_UNITS)
def _loaded_tool(data: bytes) -> tuple[Unit, ...]:
    # Anthropic, "Tool search tool": a tool whose loading is deferred is no part of the prefix.
    value = _values.decode(data)
    is_deferred = isinstance(value, Mapping) and value.get("defer_loading") is True
    return () if is_deferred else _tool(data)


@lru_cache(KEPT_UNITS)
def _gemini_tools(data: bytes) -> tuple[Unit, ...]:
    value = _values.decode(data)
    names = ("functionDeclarations", "function_declarations")
    declared = [value[name] for name in names if isinstance(value, Mapping) and name in value]
    if not (declared and isinstance(declared[0], list)):
        return (_one_tool(value),)
    return tuple(map(_one_tool, declared[0]))


@lru_cache(KEPT_UNITS)
def message_units(data: bytes) -> tuple[Unit, ...]:
    """Read one message, or one item, into the units of its content."""
    value = _values.decode(data)
    role = str(value.get("role", ""))
    units: list[Unit] = []
    if value.get("type", "message") != "message":
        # OpenAI's Responses: what is no message has no role, and a maker all the same. Its id and
        # its state are not the model's to read; Codex adds a note of its own, which is neither.
        maker = "tool" if str(value["type"]).endswith("_output") else "assistant"
        unread = ("id", "status", "internal_chat_message_metadata_passthrough")
        return (_block(maker, {k: v for k, v in value.items() if k not in unread}),)
    if "tool_call_id" in value:
        # OpenAI, Chat Completions: a result is a message of its own.
        result = {"type": "tool_result", "content": value.get("content")}
        return (_block(role, {**result, "tool_use_id": value["tool_call_id"]}),)
    thought = {name: value[name] for name in _THOUGHT if value.get(name)}
    if thought:
        words = next(iter(thought.values()))
        text = words if isinstance(words, str) else ""
        units.append(_unit("reasoning", role, thought, text=text))
    parts = [*_blocks(value), *(value.get("tool_calls") or ())]
    units += [_block(role, part) for part in parts]
    return tuple(units)


# What those who speak OpenAI's Chat Completions call it: DeepSeek, OpenRouter.
_THOUGHT: Final = ("reasoning_content", "reasoning", "reasoning_details")


def _blocks(message: Mapping[str, Any]) -> Iterator[Any]:
    content = message.get("content", message.get("parts"))
    if isinstance(content, list):
        yield from content
    elif content not in (None, ""):
        yield content


def _block(role: str, block: Any) -> Unit:
    """Make the unit of one block: a string is a text block, marks and empty fields are nothing."""
    if isinstance(block, str):
        return _unit("text", role, block, text=block)
    if not isinstance(block, Mapping):
        return _unit("value", role, block)
    marked = _is_marked(block)
    ttl = _ttl(block)
    text = block.get("text")
    if isinstance(text, str) and block.get("type", "text") in _TEXTS:
        kind = "thought" if block.get("thought") is True else "text"  # Gemini's reasoning
        return _unit(kind, role, text, text=text, marked=marked, ttl=ttl)
    names = (name for name in block if name not in MARKS and name != "thoughtSignature")
    kind = str(block.get("type") or next(names, "value"))
    shown, name = _readable(block)
    value, inner = _without_marks(block)
    call = _call_id(block)
    marked = marked or inner
    return _unit(kind, role, value, name=name, text=shown, marked=marked, call=call, ttl=ttl)


_TEXTS: Final = frozenset({"text", "input_text", "output_text"})


def _readable(block: Mapping[str, Any]) -> tuple[str, str]:
    """What a person reads of a block that is not text: a result's words, a call's arguments."""
    names = ("function", "functionCall", "functionResponse")
    function = next(filter(None, map(block.get, names)), block)
    name = function.get("name", "") if isinstance(function, Mapping) else ""
    answer = function.get("response") if isinstance(function, Mapping) else None
    if isinstance(answer, Mapping) and len(answer) == 1:
        [output] = answer.values()
        if isinstance(output, str):
            return output, str(name)
    fields = (
        "content", "output", "arguments", "args", "input", "action", "thinking", "functionResponse",
    )  # fmt: skip
    for field in fields:
        found = block.get(field, function.get(field) if isinstance(function, Mapping) else None)
        if isinstance(found, str):
            return found, str(name)
        if isinstance(found, list):
            texts = [_part_text(one) for one in found if isinstance(one, Mapping)]
            return "\n".join(text for text in texts if text is not None), str(name)
        if isinstance(found, Mapping):
            return msgspec.json.encode(found).decode(), str(name)
    return "", str(name)


def _call_id(block: Mapping[str, Any]) -> str:
    inner = block.get("functionCall") or block.get("functionResponse") or block
    names = ("tool_use_id", "call_id", "id")
    found = (inner.get(name) for name in names) if isinstance(inner, Mapping) else iter(())
    return str(next(filter(None, found), ""))


def _part_text(part: Mapping[str, Any]) -> str | None:
    """What stands for a part of a result: its text, or which image it is."""
    if "image" in str(part.get("type", "")):
        value = msgspec.json.encode(_without_marks(part)[0])
        return f"[image {blake2b(value, digest_size=4).hexdigest()}]"
    text = part.get("text")
    return text if isinstance(text, str) else None


def _ttl(block: Mapping[str, Any]) -> str:
    """How long the mark of a block asks to be kept."""
    marks = (block.get(name) for name in MARKS)
    return next((str(mark.get("ttl") or "") for mark in marks if isinstance(mark, Mapping)), "")


def _is_marked(block: Any) -> bool:
    return isinstance(block, Mapping) and any(block.get(name) is not None for name in MARKS)


def _without_marks(block: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Leave marks out, here and in a result's own blocks; a text alone is its string."""
    value = {k: block[k] for k in sorted(block) if k not in MARKS and block[k] is not None}
    marked = False
    for field in ("content", "output"):
        content = value.get(field)
        if not isinstance(content, list):
            continue
        marked = marked or any(map(_is_marked, content))
        parts = [
            {k: one[k] for k in sorted(one) if k not in MARKS} if isinstance(one, Mapping) else one
            for one in content
        ]
        if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"text", "type"}:
            value[field] = parts[0]["text"]
        else:
            value[field] = parts
    return value, marked


def _unit(
    kind: str,
    role: str,
    value: Any,
    *,
    name: str = "",
    text: str = "",
    marked: bool = False,
    call: str = "",
    ttl: str = "",
) -> Unit:
    if kind == "tool" and isinstance(value, Mapping):
        marked, ttl = _is_marked(value), _ttl(value)
        value = {k: value[k] for k in sorted(value) if k not in MARKS and value[k] is not None}
    data = msgspec.json.encode([role, kind, value])
    digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
    sorted_data = msgspec.json.encode(value, order="sorted") if kind == "tool" else b""
    meaning = sorted_data and blake2b(sorted_data, digest_size=DIGEST_BYTES).digest()
    return Unit(digest, kind, role, name, text, len(data), marked, call, ttl, meaning)


class _Done(msgspec.Struct):
    item: msgspec.Raw = msgspec.Raw(b"{}")


_done: Final = msgspec.json.Decoder(_Done)


def replied_units(reply: bytes) -> tuple[Unit, ...]:
    """Read what OpenAI's Responses said, streamed or whole, as a later request would repeat it."""
    if reply[:1] == b"{":
        items = _lists.decode(_fields.decode(reply).get("output", msgspec.Raw(b"[]")))
    else:
        lines = (line[5:] for line in reply.splitlines() if line.startswith(b"data:"))
        done = (line for line in lines if b'"response.output_item.done"' in line)
        items = [_done.decode(line).item for line in done]
    return tuple(unit for item in items for unit in message_units(bytes(item)))


def pieces_of(data: bytes) -> tuple[bytes, ...]:
    """Cut a body at its items: put together again the pieces are the body, byte for byte."""
    try:
        edges = [0, *_cuts(data), len(data)]
    except (msgspec.MsgspecError, RecursionError):
        return (data,)
    if edges != sorted(edges):  # a name that comes twice has its last value at its first place
        return (data,)
    return tuple(data[a:b] for a, b in pairwise(edges) if b > a)


def _cuts(data: bytes) -> Iterator[int]:
    """Yield where the items of a body's lists begin, and where the last of each ends."""
    at = 0
    for raw in map(bytes, _fields.decode(data).values()):
        end = data.find(raw, at) + len(raw)
        if raw[:1] == b"[":
            at = end - len(raw)
            for item in map(bytes, _lists.decode(raw)):
                at = data.find(item, at)
                yield at
                at += len(item)
            yield at
        at = end


def remember(kept: OrderedDict[_K, _V], key: _K, value: _V, most: int) -> None:
    """Keep a value as the newest of a table that has no more than so many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
