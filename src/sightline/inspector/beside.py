"""An export for the page, made beside the server.

It takes seconds, and memory for a whole session; in a process of its own neither is the
server's, and both are given back.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from typing import Final

from sightline.errors import TimedOut, Unreachable

CHUNK_BYTES: Final = 256 * 1024
DEADLINE_S: Final = 600.0


async def exported_beside(
    ledger: str, session: int, deadline_s: float = DEADLINE_S
) -> AsyncGenerator[bytes, None]:
    """Have `sightline inspect --export` write a session, and hand it on as it comes.

    The process ends when nobody reads any more, and at its deadline. What it complains of
    goes to our own stderr; raises `Unreachable` if it cannot be started, fails or is late, for
    a page without an end must not look whole.
    """
    # -P: nothing is imported from the directory that the inspector was started in.
    program = (sys.executable, "-P", "-m", "sightline")
    wanted = ("inspect", "--export", str(session), "--output", "-")
    # Not as an argument: everybody on the machine could read a password in its URL.
    environment = {**os.environ, "SIGHTLINE_LEDGER": ledger}
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *program, *wanted, stdin=nothing, stdout=pipe, env=environment
        )
    except OSError as error:
        raise Unreachable(
            f"the export of session {session} cannot be started: {error.strerror or error}"
        ) from error
    page = process.stdout
    ends = asyncio.get_running_loop().time() + deadline_s
    try:
        while page is not None:
            async with asyncio.timeout_at(ends):
                chunk = await page.read(CHUNK_BYTES)
            if not chunk:
                break
            yield chunk
        if await process.wait() != 0:
            raise Unreachable(
                f"the export of session {session} failed; the inspector's terminal says why"
            )
    except TimeoutError:
        raise TimedOut(
            f"the export of session {session} took longer than {deadline_s:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
