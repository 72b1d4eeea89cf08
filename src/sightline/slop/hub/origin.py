"""Where an app comes from. What is bound to it is lost when it changes.

An id and a name are an app's own words. An origin is what the connection itself tells: the
socket and who serves it, the URL, the command, or that the host put the app there itself.
"""

from __future__ import annotations

import shlex
from typing import Final, Literal, TypeAlias

import msgspec

from sightline.slop.discovery.descriptor import Nats, Stdio, Transport, Unix, Ws
from sightline.slop.transports.link import Peer

OriginKind: TypeAlias = Literal[
    "own", "unix", "websocket", "nats", "stdio", "mcp", "page", "memory"
]

_KINDS: Final[dict[str, OriginKind]] = {
    "unix": "unix", "ws": "websocket", "nats": "nats", "stdio": "stdio", "mcp": "mcp",
    "page": "page",
}  # fmt: skip

# In one line, with the address and the owner.
_FORMS: Final[dict[OriginKind, str]] = {
    "own": "our own", "unix": "unix:{}{}", "websocket": "{}", "nats": "{}", "stdio": "command: {}",
    "mcp": "MCP server: {}", "page": "page: {}", "memory": "this process",
}  # fmt: skip


class Origin(msgspec.Struct, frozen=True):
    """Where an app comes from: one of ours, or the socket, URL or command it is reached by.

    `address` is a socket's path, a URL or a command line, of an MCP server too; of a page it is its
    origin as the browser says it; of our own apps, and of those in this process, it is the id.
    `owner` is the user id of who serves it, where the transport can tell.
    """

    kind: OriginKind
    address: str
    owner: int | None = None

    @classmethod
    def of_peer(cls, peer: Peer, app_id: str) -> Origin:
        """Tell the origin of an app that is connected, by who is at the other end."""
        kind = _KINDS.get(peer.transport, "memory")
        return cls(kind, app_id if kind == "memory" else peer.address, peer.uid)

    @classmethod
    def of_transport(cls, transport: Transport) -> Origin:
        """Tell the origin of an app that is not connected, by where it says it is."""
        match transport:
            case Unix(path):
                return cls("unix", path)
            case Ws(url=url):
                return cls("websocket", url)
            case Nats():
                return cls("nats", transport.shown)
            case Stdio(command):
                return cls("stdio", shlex.join(command))

    def __str__(self) -> str:
        """Say it in one line for an approval: `our own`, `unix:/run/a.sock (user 1000)`."""
        # An address is somebody else's text: what is not plain ASCII is written as an escape.
        owner = "" if self.owner is None else f" (user {self.owner})"
        return _FORMS[self.kind].format(ascii(self.address)[1:-1], owner)
