"""An export for the page, made beside the server.

It takes seconds, and memory for a whole session; in a process of its own neither is the
server's, and both are given back.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from sightline.errors import Unreachable

__all__ = ["exported_beside"]

CHUNK_BYTES: Final = 256 * 1024


async def exported_beside(ledger: Path, session: int) -> AsyncGenerator[bytes, None]:
    """Have `sightline inspect --export` write a session, and hand it on as it comes.

    The process ends when nobody reads any more. What it complains of goes to our own
    stderr; raises `Unreachable` if it cannot be started or fails, for a page without an end
    must not look whole.
    """
    # -P: nothing is imported from the directory that the inspector was started in.
    own = (sys.executable, "-P", "-m", "sightline")
    wanted = ("inspect", "--db", str(ledger), "--export", str(session), "--output", "-")
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*own, *wanted, stdin=nothing, stdout=pipe)
    except OSError as error:
        raise Unreachable(
            f"the export of session {session} cannot be started: {error.strerror or error}"
        ) from error
    page = process.stdout
    try:
        while page is not None and (chunk := await page.read(CHUNK_BYTES)):
            yield chunk
        if await process.wait() != 0:
            raise Unreachable(
                f"the export of session {session} failed; the inspector's terminal says why"
            )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
