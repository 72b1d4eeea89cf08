"""News of resources: who watches what, told at most four times a second.

One loop takes the world as it is, tells of every watched resource that is not as it was told
last, and rests if there was something to tell. What happens meanwhile is in the next world:
nothing is queued, so that a thousand changes a second cost what four cost.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import anyio
import mcp.server.subscriptions as subscriptions
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult

from sightline.adapters.mcp.server_calls import node_at
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import World

TICK_S: Final = 0.25
GLANCE_S: Final = 0.01
SCHEME: Final = "slop://"
_MOST_URIS: Final = 4_096
_SESSIONS: Final = 256
_SEND_S: Final = 1.0
# What a resource is compared by: its app's status, and the node as an object.
_State: TypeAlias = tuple[str | None, Node | None]


def read_uri(uri: str) -> tuple[str, str] | None:
    """Read an address: an app's id and a path; None if it is none of ours."""
    app, slash, path = uri.removeprefix(SCHEME).partition("/")
    return (unquote(app), unquote(slash + path) or "/") if uri.startswith(SCHEME) and app else None


class Updates:
    """The resources that clients of both eras watch, and the loop that tells of them."""

    def __init__(self, hub: Hub, tick_s: float = TICK_S) -> None:
        self._hub = hub
        self._tick_s = tick_s
        self._bus = subscriptions.InMemorySubscriptionBus()
        self._listen = subscriptions.ListenHandler(self._bus)
        self._watched: Counter[str] = Counter()
        self._last_state: dict[str, _State] = {}
        # Clients with a session: whom to tell, and of what.
        self._sessions: OrderedDict[str, tuple[ServerSession, set[str]]] = OrderedDict()

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream of news (2026-07-28, `subscriptions/listen`) until its client leaves."""
        uris = set(params.notifications.resource_subscriptions or ())
        self._add(uris)
        try:
            return await self._listen(ctx, params)
        finally:
            self._drop(uris)

    def meet(self, key: str, session: ServerSession) -> None:
        """Remember a client with a session (2025 and before), to be told of lists that change."""
        _, uris = self._sessions.setdefault(key, (session, set()))
        self._sessions[key] = (session, uris)
        self._sessions.move_to_end(key)
        while len(self._sessions) > _SESSIONS:
            self._leave(next(iter(self._sessions)))

    def subscribe(self, key: str, session: ServerSession, uri: str) -> None:
        """Tell a client with a session of one resource from now on."""
        self.meet(key, session)
        uris = self._sessions[key][1]
        if uri not in uris:
            self._add({uri})
            uris.add(uri)

    def unsubscribe(self, key: str, uri: str) -> None:
        """Tell it no more."""
        _, uris = self._sessions.get(key, (None, set()))
        if uri in uris:
            uris.discard(uri)
            self._drop({uri})

    async def run(self) -> None:
        """Tell of what changes, until cancelled."""
        listed: list[str] | None = None
        async for world in self._hub.changes():
            apps = [app.id for app in world.apps]
            news = [uri for uri in self._watched if self._is_new(uri, _state(world, uri))]
            came_or_left = listed is not None and listed != apps
            listed = apps
            if came_or_left:
                await self._tell_lists()
            for uri in news:
                await self._tell(uri)
            await anyio.sleep(self._tick_s if news or came_or_left else GLANCE_S)

    def _is_new(self, uri: str, now: _State) -> bool:
        past = self._last_state.get(uri, now)
        self._last_state[uri] = now
        # A node never changes: another state is another object.
        return past[0] != now[0] or past[1] is not now[1]

    def _add(self, uris: set[str]) -> None:
        if len(self._watched) + len(uris) > _MOST_URIS:
            raise MCPError(INVALID_PARAMS, f"more than {_MOST_URIS:,} resources are watched")
        for uri in uris:
            if not self._watched[uri]:
                self._last_state[uri] = _state(self._hub.world, uri)
            self._watched[uri] += 1

    def _drop(self, uris: set[str]) -> None:
        for uri in uris:
            self._watched[uri] -= 1
            if self._watched[uri] <= 0:
                del self._watched[uri]
                self._last_state.pop(uri, None)

    def _leave(self, key: str) -> None:
        _, uris = self._sessions.pop(key)
        self._drop(uris)

    async def _tell(self, uri: str) -> None:
        await self._bus.publish(subscriptions.ResourceUpdated(uri=uri))
        for key, (session, uris) in [*self._sessions.items()]:
            if uri in uris:
                await self._send(key, session.send_resource_updated(uri))

    async def _tell_lists(self) -> None:
        await self._bus.publish(subscriptions.ResourcesListChanged())
        await self._bus.publish(subscriptions.PromptsListChanged())
        for key, (session, _) in [*self._sessions.items()]:
            await self._send(key, session.send_resource_list_changed())
            await self._send(key, session.send_prompt_list_changed())

    async def _send(self, key: str, sending: Any) -> None:
        """Send to a client, unless it has stopped reading; one that has gone is forgotten."""
        try:
            with anyio.move_on_after(_SEND_S):
                await sending
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, MCPError):
            with suppress(KeyError):
                self._leave(key)


def _state(world: World, uri: str) -> _State:
    found = read_uri(uri)
    if found is None:
        return None, None
    app = world.app(found[0])
    node = node_at(app, found[1])
    return None if app is None else app.status, node
