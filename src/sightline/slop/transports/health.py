"""Two questions that anybody may ask a server: does it live, and is it ready?

    GET /healthz   200 while the process answers
    GET /readyz    200 while it can do its work, else 503

They are for supervisors and load balancers, which have no token. So an answer is one word, never
a reason; and however often it is asked, a store is looked at once a second at most, by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

LIVE: Final = "/healthz"
READY: Final = "/readyz"
WORDS: Final = {HTTPStatus.OK: b"ok\n", HTTPStatus.SERVICE_UNAVAILABLE: b"not ready\n"}
_FRESH_S: Final = 1.0
_PATIENCE_S: Final = 2.0


def health_status(path: str, *, is_ready: Callable[[], bool]) -> HTTPStatus | None:
    """Answer a question after the health of a server; None if a path is not one."""
    if path == LIVE or (path == READY and is_ready()):
        return HTTPStatus.OK
    return HTTPStatus.SERVICE_UNAVAILABLE if path == READY else None


class Health:
    """The health of a server that is ready while a look at its store raises nothing, in time."""

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look
        self._looking: asyncio.Task[bool] | None = None
        self._fresh_until = 0.0

    async def status(self, path: str) -> HTTPStatus | None:
        """Answer a question after the health of this server; None if a path is not one."""
        is_ready = path == READY and await self._is_ready()
        return health_status(path, is_ready=lambda: is_ready)

    async def _is_ready(self) -> bool:
        now = asyncio.get_running_loop().time()
        looking = self._looking
        # One that takes long is not joined by another.
        if looking is None or (looking.done() and now >= self._fresh_until):
            self._fresh_until = now + _FRESH_S
            looking = self._looking = asyncio.create_task(self._succeeds())
        done, _ = await asyncio.wait({looking}, timeout=_PATIENCE_S)
        return bool(done) and looking.result()

    async def _succeeds(self) -> bool:
        try:
            await self._look()
        except Exception:  # noqa: BLE001 - whatever it is, the work cannot be done
            return False
        return True
