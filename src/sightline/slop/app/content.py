"""Large content, read in pieces: what stands behind `slop://content/…`.

A reader is a function for a pattern of paths that returns text or bytes. Nodes
that fit get a `read_content` action, which answers with a piece of it:
`{content, encoding, offset, size}`, where `encoding` is `utf-8` or `base64` and
`offset` and `size` count characters of text or bytes.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

from sightline.errors import ActionError, InvalidDescriptor
from sightline.slop.app.action import Action, When
from sightline.slop.app.call import Call
from sightline.slop.app.parameters import Parameters, underlying
from sightline.slop.app.pattern import Pattern

PIECE: Final = 128 * 1024


def content_action(path: str, reader: Callable[..., Any], when: When | None = None) -> Action:
    """Make the `read_content` action of a reader. Raises InvalidDescriptor."""
    pattern = Pattern.of(path)
    taken = Parameters.of(reader, placeholders=pattern.names)
    if taken.schema is not None:
        reason = "takes only the holes of its path, the session and a Call"
        raise InvalidDescriptor(path, "read_content", reason)
    is_async = inspect.iscoroutinefunction(underlying(reader))

    async def read_content(
        call: Call,
        offset: Annotated[int, "Where to start"] = 0,
        length: Annotated[int, "How much to read at most"] = PIECE,
    ) -> dict[str, Any]:
        arguments = taken.arguments({}, call.placeholders, call)
        content = (
            await reader(**arguments) if is_async else await asyncio.to_thread(reader, **arguments)
        )
        if content is None:
            raise ActionError("not_found", "there is no content here now")
        return _piece(content, offset, length)

    options = {
        "description": "Read this node's content",
        "idempotent": True,
        "refreshes": (),
        "when": when,
    }
    # SLOP, content references: `read_content` serves slop://content/.
    return Action.of(
        "read_content", read_content, path, pattern, placeholders=pattern.names, **options
    )


def _piece(content: str | bytes, offset: int, length: int) -> dict[str, Any]:
    if offset < 0 or length < 1:
        raise ActionError("invalid_params", "/offset, /length: must not be negative or nothing")
    piece = content[offset : offset + min(length, PIECE)]
    answer: dict[str, Any] = {"offset": offset, "size": len(content)}
    if isinstance(piece, str):
        return {"content": piece, "encoding": "utf-8", **answer}
    return {"content": base64.b64encode(piece).decode(), "encoding": "base64", **answer}
