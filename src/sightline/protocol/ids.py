"""Which strings may name a node, and how to make one from any string.

`legal_id` is injective and stable: two strings never share an id, and the same
string has the same id tomorrow. Readable strings stay readable; `%` is the
escape character, as in URLs:

    "msg-42"              →  "msg-42"
    "src/main.py"         →  "src%2Fmain.py"
    "type" (reserved)     →  "%74ype"
    ""                    →  "%"
    longer than an id     →  its beginning, "%-", and the SHA-256 of the whole
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["ID_BYTES", "RESERVED", "id_problem", "legal_id"]

RESERVED: Final = frozenset(
    {"properties", "children", "affordances", "meta", "content_ref", "id", "type"}
)
ID_BYTES: Final = 256

_FORBIDDEN: Final = re.compile("[/~]")
_ESCAPED: Final = re.compile("[%/~\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DIGEST_CHARS: Final = 64


def id_problem(node_id: object, max_bytes: int = ID_BYTES) -> str | None:
    """Say which rule a node id breaks, or None if it is legal."""
    if not isinstance(node_id, str):
        return "an id must be a string"
    if not node_id:
        return "an id must not be empty"
    if node_id in RESERVED:
        return f"an id must not be the reserved field name {node_id!r}"
    if _FORBIDDEN.search(node_id):
        return f"an id must not contain '/' or '~': {node_id[:80]!r}"
    try:
        size = len(node_id.encode())
    except UnicodeEncodeError:
        return f"an id must not contain a lone surrogate: {node_id[:80]!r}"
    if size > max_bytes:
        return f"an id must not be longer than {max_bytes} bytes (this one has {size})"
    return None


def legal_id(text: str) -> str:
    """Make the legal id of any string: a URL, a file path, a foreign key."""
    if not text:
        return "%"
    escaped = _ESCAPED.sub(_percent, text)
    if escaped in RESERVED:
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    if len(escaped.encode()) <= ID_BYTES:
        return escaped
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    room = ID_BYTES - _DIGEST_CHARS - len("%-")
    head = escaped.encode()[:room].decode(errors="ignore")
    return f"{head}%-{digest}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
