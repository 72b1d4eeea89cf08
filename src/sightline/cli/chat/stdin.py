"""Lines from stdin, read without blocking the event loop and without a thread to wait for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from sightline.errors import TooLarge

__all__ = ["lines_of"]

MAX_LINE: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024


async def lines_of(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a pipe, a terminal or a file, without their ends.

    Raises TooLarge for a line over the limit. Bytes that are no text become signs for that.
    """
    rest = b""
    while chunk := await _read(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield _text(line)
        if len(rest) > MAX_LINE:
            raise TooLarge(f"a line of more than {MAX_LINE:,} bytes")
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _resolve, ready)
    except PermissionError:  # a file on a disk: it is always ready, and cannot be waited for
        return await asyncio.to_thread(os.read, descriptor, _CHUNK)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    # What is ready does not block: there are bytes, or the end.
    return os.read(descriptor, _CHUNK)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
