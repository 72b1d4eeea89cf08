"""What an MCP server lists, as nodes of an app; and what it answers, as data. Bounded.

    tools       one node each, with `call`      resources   one each, with its content
    templates   one each, with `read`           prompts     one each, with `get`

Names, texts and schemas are a stranger's. A name becomes a legal id; a schema that is too long,
too deep or none is left out, and the node says so: then anything is taken, and the server checks.
The lists are folded: a model reads their names, and the rest when it looks there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

import mcp_types as types
import msgspec
from mcp.shared.uri_template import UriTemplate

from sightline.errors import InvalidInput
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.ids import legal_id
from sightline.slop.protocol.jsontext import nests_deeper

Handler: TypeAlias = Callable[..., Any]
Node: TypeAlias = dict[str, Any]

SCHEMA_BYTES: Final = 64 * 1024
SCHEMAS_BYTES: Final = 6 * 1024 * 1024
SCHEMA_LEVELS: Final = 40
DATA_BYTES: Final = 256 * 1024
_ABOUT_CHARS: Final = 2_000
_NAME_CHARS: Final = 200
_NAMES_CHARS: Final = 500
_VARIABLES: Final = 50
_ANYTHING: Final = {"type": "object"}


def clipped(text: object, most: int = _ABOUT_CHARS) -> str:
    """Return a text, or its beginning and how much more there is."""
    whole = str(text).encode(errors="replace").decode()
    return whole if len(whole) <= most else f"{whole[:most]}… ({len(whole) - most} more characters)"


def unique_ids(names: Iterable[str]) -> list[str]:
    """Make a legal id of every name, the same for the same list; of one that comes twice, two."""
    seen: dict[str, int] = {}
    ids = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        ids.append(legal_id(name if count == 1 else f"{name}%{count}"))
    return ids


def summary_of(kind: str, names: Sequence[str], problem: str = "") -> str:
    """Say how many there are, and the names of the first."""
    count = f"{len(names)} {kind if len(names) != 1 else kind.removesuffix('s')}"
    shown: list[str] = []
    room = _NAMES_CHARS
    for name in names:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(clipped(name, _NAME_CHARS))
    more = f", and {len(names) - len(shown)} more" if shown and len(shown) < len(names) else ""
    listed = f": {', '.join(shown)}{more}" if shown else ""
    return f"{count}{listed}{f' ({problem})' if problem else ''}"


def tool_nodes(tools: Sequence[types.Tool], handler: Callable[[str], Handler]) -> Iterator[Node]:
    """Describe tools; `handler` makes what calls the one of a name."""
    room = _Room()
    for tool, node_id in zip(tools, unique_ids(tool.name for tool in tools), strict=True):
        props, hints = _named(node_id, tool.name, tool.title), tool.annotations
        params, problem = room.schema(tool.input_schema)
        returns, _ = room.schema(tool.output_schema) if tool.output_schema else (None, "")
        if problem:
            props["problem"] = problem
        title, about = tool.title or "", tool.description or ""
        if problem or len(title) > _NAME_CHARS or len(about) > _ABOUT_CHARS:
            # A consent covers what is left out here, too.
            whole = msgspec.json.encode((title, about, tool.input_schema, tool.output_schema))
            props["digest"] = sha256(whole).hexdigest()[:16]
        # MCP, tools, annotations: what is not said to only read may destroy. A hint is the
        # server's own word: it makes nothing allowed.
        reads = hints is not None and hints.read_only_hint is True
        harmless = hints is not None and hints.destructive_hint is False
        if hints is not None:
            given = hints.model_dump(by_alias=True, exclude_none=True)
            props["hints"] = [
                f"{'' if value is True else 'not '}{key.removesuffix('Hint')}"
                for key, value in given.items() if isinstance(value, bool)
            ]  # fmt: skip
        repeatable = reads or (hints is not None and hints.idempotent_hint is True)
        call = _action(
            handler(tool.name), params, tool.description, returns=returns,
            dangerous=not reads and not harmless, idempotent=repeatable,
        )  # fmt: skip
        yield {"id": node_id, "props": props, "actions": {"call": call}}


def resource_nodes(
    resources: Sequence[types.Resource],
    live: Mapping[str, str],
    actions: Callable[[str, bool], Mapping[str, Any]],
) -> Iterator[Node]:
    """Describe resources. `live` has the text of those that are watched, by their URIs."""
    ids = unique_ids(str(resource.uri) for resource in resources)
    for resource, node_id in zip(resources, ids, strict=True):
        uri = str(resource.uri)
        props = _named(node_id, resource.name, resource.title)
        props["uri"] = clipped(uri)
        if resource.description:
            props["description"] = clipped(resource.description)
        mime = clipped(resource.mime_type or "text/plain", _NAME_CHARS)
        reference: dict[str, Any] = {"mime": mime, "summary": clipped(resource.name, _NAME_CHARS)}
        if isinstance(resource.size, int) and resource.size >= 0:
            reference["size"] = resource.size
        if uri in live:
            props["text"] = clipped(live[uri])
        yield {
            "id": node_id, "type": "document", "props": props, "content_ref": reference,
            "actions": actions(uri, uri in live),
        }  # fmt: skip


def template_nodes(
    templates: Sequence[types.ResourceTemplate], handler: Callable[[UriTemplate], Handler]
) -> Iterator[Node]:
    """Describe the templates of URIs; what fills them in must be given."""
    ids = unique_ids(template.uri_template for template in templates)
    for template, node_id in zip(templates, ids, strict=True):
        props = _named(node_id, template.name, template.title)
        props["uri"] = clipped(template.uri_template)
        node: Node = {"id": node_id, "props": props}
        try:
            parsed = UriTemplate.parse(template.uri_template)
            names = list(parsed.variable_names)[:_VARIABLES]
        except ValueError as error:
            props["problem"] = clipped(f"its template cannot be read: {error}", _NAME_CHARS)
        else:
            params = _strings({clipped(name, _NAME_CHARS): "" for name in names}, names)
            read = _action(handler(parsed), params, template.description, idempotent=True)
            node["actions"] = {"read": read}
        yield node


def prompt_nodes(
    prompts: Sequence[types.Prompt], handler: Callable[[str], Handler]
) -> Iterator[Node]:
    """Describe prompts."""
    ids = unique_ids(prompt.name for prompt in prompts)
    for prompt, node_id in zip(prompts, ids, strict=True):
        arguments = (prompt.arguments or [])[:_VARIABLES]
        params = _strings(
            {one.name: clipped(one.description or "") for one in arguments},
            [one.name for one in arguments if one.required],
        )
        get = _action(handler(prompt.name), params, prompt.description, idempotent=True)
        props = _named(node_id, prompt.name, prompt.title)
        yield {"id": node_id, "props": props, "actions": {"get": get}}


def result_data(result: types.CallToolResult) -> dict[str, Any]:
    """Write what a tool answered: its structured content, its text, and what was left out."""
    data: dict[str, Any] = {}
    texts, left_out = _texts(result.content)
    if result.structured_content is not None:
        encoded = msgspec.json.encode(result.structured_content)
        if len(encoded) > DATA_BYTES or nests_deeper(encoded, SCHEMA_LEVELS):
            left_out.append(f"structured content of {len(encoded)} bytes")
        else:
            data["structured"] = result.structured_content
            texts = [text for text in texts if not _is_same(text, result.structured_content)]
    if texts:
        data["text"] = clipped("\n".join(texts), DATA_BYTES)
    if left_out:
        data["left_out"] = left_out
    return data


def result_text(result: types.CallToolResult) -> str:
    """Write what a tool answered as text, for a person or an error."""
    texts, left_out = _texts(result.content)
    if not texts and result.structured_content is not None:
        texts = [msgspec.json.encode(result.structured_content).decode()]
    return clipped("\n".join([*texts, *left_out]), DATA_BYTES)


def prompt_data(result: types.GetPromptResult) -> dict[str, Any]:
    """Write the messages of a prompt."""
    messages = []
    for message in result.messages[:_VARIABLES]:
        texts, left_out = _texts([message.content])
        text = clipped("\n".join([*texts, *left_out]), DATA_BYTES // 8)
        messages.append({"role": message.role, "text": text})
    return {"messages": messages}


def content_of(contents: Sequence[types.ResourceContents]) -> str | bytes:
    """Put the parts of a resource together: their text, or the bytes of one that has none."""
    texts = [one.text for one in contents if isinstance(one, types.TextResourceContents)]
    if texts:
        return "\n".join(texts)
    blobs = [one.blob for one in contents if isinstance(one, types.BlobResourceContents)]
    return b"".join(map(_bytes_of, blobs))


class _Room:
    """How many bytes of schemas a server still has."""

    def __init__(self) -> None:
        self._left = SCHEMAS_BYTES

    def schema(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return a schema that can be shown and checked, and what was wrong with the given one."""
        encoded = msgspec.json.encode(given)
        if len(encoded) > min(SCHEMA_BYTES, self._left):
            return _ANYTHING, f"its schema of {len(encoded)} bytes is too long to be shown"
        if nests_deeper(encoded, SCHEMA_LEVELS):
            return _ANYTHING, f"its schema is nested deeper than {SCHEMA_LEVELS} levels"
        schema = {**given, "type": "object"}
        try:
            Validator(schema)
        except InvalidInput as error:
            return _ANYTHING, clipped(f"its schema is {error}", _NAME_CHARS)
        self._left -= len(encoded)
        return schema, ""


def _action(
    handler: Handler, params: Mapping[str, Any], about: str | None, **more: Any
) -> dict[str, Any]:
    described = clipped(about or "")
    return {"handler": handler, "params": params, "description": described, "refreshes": (), **more}


def _named(node_id: str, name: str, title: str | None) -> dict[str, Any]:
    props = {"label": clipped(title or name, _NAME_CHARS)}
    if name not in (node_id, props["label"]):
        props["name"] = clipped(name, _NAME_CHARS)
    return props


def _strings(about: Mapping[str, str], required: Sequence[str]) -> dict[str, Any]:
    properties = {
        name: {"type": "string", **({"description": text} if text else {})}
        for name, text in about.items()
    }
    return {"type": "object", "properties": properties, "required": [*required]}


def _texts(blocks: Sequence[types.ContentBlock]) -> tuple[list[str], list[str]]:
    """Split content into what can be read and what is left out."""
    texts, left_out = [], []
    for block in blocks:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ResourceLink():
                texts.append(f"resource: {block.uri} ({block.name})")
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append(f"{resource.uri}:\n{resource.text}")
            case types.EmbeddedResource(resource=resource):
                left_out.append(f"{resource.mime_type or 'bytes'} at {resource.uri}")
            case _:
                left_out.append(f"{block.type}, {block.mime_type}, {len(block.data)} characters")
    return texts, [clipped(one, _NAME_CHARS) for one in left_out]


def _is_same(text: str, value: object) -> bool:
    """Tell whether a text is a value once more, as servers write it for older clients."""
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False


def _bytes_of(blob: str) -> bytes:
    try:
        return base64.b64decode(blob)
    except (binascii.Error, ValueError):
        return blob.encode()
