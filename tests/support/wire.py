"""A consumer that says exactly what a test wants said, and reads exactly what comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from sightline.slop.transports.link import Link

# Nothing in the tests takes long; this bounds what would otherwise hang.
PATIENCE_S = 20.0


class Wire:
    """Messages as Python values, over a link."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._is_greeted = False

    async def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Send messages; bytes go as they are."""
        await self.link.send(
            [item if isinstance(item, bytes) else json.dumps(item).encode() for item in messages]
        )

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(PATIENCE_S):
            data = await self.link.receive()
        assert data is not None, "the connection is gone"
        message = json.loads(data)
        assert isinstance(message, dict)
        if message["type"] == "hello":
            # On a broker it is repeated every ten seconds, as a sign of life.
            if self._is_greeted and self.link.peer.transport == "nats":
                return await self.receive()
            self._is_greeted = True
        return message

    async def expect(self, kind: str) -> dict[str, Any]:
        """Return the next message, which must be of a type."""
        message = await self.receive()
        assert message["type"] == kind, message
        return message

    async def invoke(self, action: str, node: str = "/", /, **params: Any) -> list[dict[str, Any]]:
        """Invoke an action on a node; returns everything up to its result."""
        await self.send(
            {"type": "invoke", "id": "invoked", "path": node, "action": action, "params": params}
        )
        messages = [await self.receive()]
        while messages[-1]["type"] != "result":
            messages.append(await self.receive())
        return messages
