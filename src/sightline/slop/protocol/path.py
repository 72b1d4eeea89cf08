"""Paths in a tree: how requests and patches name a node.

A *request path* names a node by the ids from the root: `/inbox/msg-42`; `/` and
the empty string are the root.

A *patch path* may go on into a field of that node: the first segment that is a
field name enters the field and always wins over a child's id (no id may be one),
and what follows is a JSON Pointer: `/inbox/msg-42/properties/a~1b`. Ids are never
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sightline.errors import InvalidPath

FIELDS: Final = frozenset({"properties", "children", "affordances", "meta", "content_ref", "type"})


class PatchPath(NamedTuple):
    """A patch path, taken apart: the node, its field, and the tokens inside the field."""

    ids: tuple[str, ...]
    field: str | None
    tokens: tuple[str, ...]


def parse_path(path: str) -> tuple[str, ...]:
    """Split a request path into ids. Raises InvalidPath on an empty segment."""
    body = path.removeprefix("/").removesuffix("/")
    if not body:
        if path in {"", "/"}:
            return ()
        raise InvalidPath(path, "a path must not have empty segments")
    ids = tuple(body.split("/"))
    if "" in ids:
        raise InvalidPath(path, "a path must not have empty segments")
    return ids


def format_path(ids: Iterable[str]) -> str:
    """Write ids as a request path."""
    return "/" + "/".join(ids)


def join(parent: str, node_id: str) -> str:
    """Extend a request path by one id."""
    return f"/{node_id}" if parent == "/" else f"{parent}/{node_id}"


def parse_patch_path(path: str) -> PatchPath:
    """Take a patch path apart. Raises InvalidPath."""
    if path in {"", "/"}:
        return PatchPath((), None, ())
    if not path.startswith("/"):
        raise InvalidPath(path, "a patch path must start with '/'")
    segments = path[1:].split("/")
    for at, segment in enumerate(segments):
        # SLOP, messages: a field name in a patch path enters that field.
        if segment in FIELDS:
            tokens = segments[at + 1 :]
            if "~" in path:
                tokens = [unescape(token, path) for token in tokens]
            return PatchPath(tuple(segments[:at]), segment, tuple(tokens))
        if not segment:
            raise InvalidPath(path, "a path must not have empty segments")
    return PatchPath(tuple(segments), None, ())


def escape(token: str) -> str:
    """Escape one token of a JSON Pointer."""
    # RFC 6901 §3: ~ is written ~0, and / is written ~1.
    return token.replace("~", "~0").replace("/", "~1")


def unescape(token: str, path: str) -> str:
    """Read one token of the JSON Pointer in `path`. Raises InvalidPath on a stray '~'."""
    if "~" not in token:
        return token
    if token.count("~") != token.count("~0") + token.count("~1"):
        raise InvalidPath(path, "in a field, '~' must be written '~0' and '/' must be '~1'")
    # RFC 6901 §4: ~1 first, or ~01 would become /.
    return token.replace("~1", "/").replace("~0", "~")
