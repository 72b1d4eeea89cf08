"""A link to a page in a browser: messages that an extension passes on."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from typing import Final

from sightline.errors import InvalidInput, Unreachable
from sightline.slop.hub.relay import MESSAGE_BYTES, Absence, Relay, Tab, message_type
from sightline.slop.transports.link import LinkClosed, Outgoing, Peer

ABSENCES: Final[dict[Absence, str]] = {
    "closed": "its tab is closed",
    "asleep": "its tab is asleep",
    "lost": "the browser's extension is not connected",
}
# A page may not listen yet when its tab is opened: deployed consumers call it as often.
_CALLS: Final = 4
_CALL_S: Final = 0.3
_CONNECT: Final = b'{"type":"connect"}'
_UNREAD_BYTES: Final = 2 * MESSAGE_BYTES


class PageLink:
    """A link over a relay. When it is over `receive` raises Unreachable, which says why."""

    def __init__(self, relay: Relay, tab: Tab, peer: Peer) -> None:
        self.peer = peer
        self._inbox: deque[bytes] = deque()
        self._unread_bytes = 0
        self._arrived = asyncio.Event()
        self._over = ""
        self._call: asyncio.TimerHandle | None = None
        try:
            name = f"sightline (pid {os.getpid()})"
            self._opening = relay.open(tab.key, name, self._take, self._end)
        except InvalidInput as error:
            raise Unreachable(str(error)) from None
        self._call_page(_CALLS)

    async def receive(self) -> bytes | None:
        """Return the next message. Raises Unreachable at the end."""
        while not self._inbox:
            if self._over:
                raise Unreachable(self._over)
            self._arrived.clear()
            await self._arrived.wait()
        message = self._inbox.popleft()
        self._unread_bytes -= len(message)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages. Raises LinkClosed."""
        if self._over:
            raise LinkClosed(self._over)
        for message in messages:
            self._opening.send(message if isinstance(message, bytes) else b"".join(message))

    async def close(self, reason: str = "") -> None:
        """End the link; the page is not told the reason."""
        self._finish(reason or "the connection is closed")
        self._opening.close()

    def _take(self, message: bytes) -> None:
        if self._call is not None and message_type(message) == "hello":
            self._call.cancel()
            self._call = None
        self._inbox.append(message)
        self._unread_bytes += len(message)
        if self._unread_bytes > _UNREAD_BYTES:
            self._inbox.clear()
            self._finish("it sends faster than it can be read")
            self._opening.close()
        self._arrived.set()

    def _end(self, absence: Absence) -> None:
        self._finish(ABSENCES[absence])

    def _finish(self, reason: str) -> None:
        if self._call is not None:
            self._call.cancel()
        self._over = self._over or reason
        self._arrived.set()

    def _call_page(self, left: int) -> None:
        self._opening.send(_CONNECT)
        loop = asyncio.get_running_loop()
        self._call = loop.call_later(_CALL_S, self._call_page, left - 1) if left > 1 else None
