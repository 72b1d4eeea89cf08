"""An app that can be seen and used: its state as a tree, its functions as actions.

    app = App("todos", "Todos")

    @app.node("list")
    def todo_list(): return {"type": "collection", "items": [...]}

    @app.action("list", "add")
    def add(title: str): ...

This class puts the parts together: `scope` (what the app registers), `registry`
(what it shows to whom), `invoking` (what is done with an invoke), `resolving` (what is
made on a query), `tasks`, and `serving`, the loop around the protocol's own machine.

*Sessions.* `authenticate` turns a peer into a session, any hashable value; connections
whose sessions are equal share one tree and one rendering of it, others share nothing
but what does not depend on the session. So return what the tree depends on, and only
that. Without the hook the session is None and everybody sees the same.

*Threads.* The protocol's machine lives in the event loop. `refresh`, `update`, `emit` and
registrations may come from any thread; what they change is handed to the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import sightline.telemetry as telemetry
from sightline._keywords import names_keywords
from sightline.errors import ActionError, InvalidInput, InvalidPath, InvalidTree, Violation
from sightline.slop.app.announce import Addresses, pages_of, port_token, socket_path, told_to_end
from sightline.slop.app.asgi import AsgiApp
from sightline.slop.app.attention import Views
from sightline.slop.app.invoking import Invoker, running
from sightline.slop.app.parameters import as_json
from sightline.slop.app.registry import Registry, Where
from sightline.slop.app.resolving import Resolvers
from sightline.slop.app.scope import Scope
from sightline.slop.app.serving import COALESCE_S, PATIENCE, Answer, Serving
from sightline.slop.app.tasks import Clock, Task, Tasks, system_clock
from sightline.slop.discovery.descriptor import Descriptor, Transport, Unix, Ws
from sightline.slop.discovery.directory import announced
from sightline.slop.protocol.connection import Connection, QueryRequested, event_body
from sightline.slop.protocol.ids import app_id_problem, id_problem, suggested_app_id
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.messages import ErrorInfo, ErrorMessage, ProviderInfo, serialize
from sightline.slop.protocol.path import parse_path
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.provider import CAPABILITIES, Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Bound
from sightline.slop.transports.door import Door
from sightline.slop.transports.link import Link, LinkClosed, Peer
from sightline.slop.transports.nats_url import nats_module
from sightline.slop.transports.sockets import Users
from sightline.slop.transports.stdio import serve_stdio
from sightline.slop.transports.unix import serve_unix

INVOKE_S: Final = 30.0
TASK_LINGER_S: Final = 30.0
HANDSHAKE_S: Final = 5.0
_log: Final = telemetry.logger(__name__)
F = TypeVar("F", bound=Callable[..., Any])


class App(Scope):
    """A program that shows its state and takes actions on it."""

    @names_keywords
    def __init__(
        self,
        id: str,  # noqa: A002 - the protocol's own name for it
        name: str | None = None,
        *,
        props: Mapping[str, Any] | None = None,
        version: str | None = None,
        description: str | None = None,
        mark_changed: bool = False,
        invoke_timeout_s: float = INVOKE_S,
        task_linger_s: float = TASK_LINGER_S,
        threads: int = 1,
        coalesce_s: float = COALESCE_S,
        clock: Clock = system_clock,
        limits: ProviderLimits | None = None,
        patience: Patience | None = None,
        max_depth: int | None = None,
        max_nodes: int | None = None,
    ) -> None:
        """Make an app; without a name it is called by its id.

        `max_depth` and `max_nodes` limit what any subscription is shown at once: beyond so many
        levels nodes are stubs, and of more nodes the least salient subtrees are collapsed.
        Queries of their paths have them whole. Raises InvalidTree if its id is not a legal one,
        and says which would be; InvalidInput for a limit that means nothing.
        """
        problem = id_problem(id) or app_id_problem(id)
        if problem:
            instead = f"App({suggested_app_id(str(id))!r}, {name or str(id)!r}) would do"
            raise InvalidTree([Violation("/id", f"{problem}; {instead}")])
        super().__init__(self, "")
        name = name or id
        root = Node.of(id, "root", properties={"label": name, **(props or {})})
        capabilities = (*CAPABILITIES, "async", "content_refs")
        self.info = ProviderInfo(id, name, capabilities=capabilities, epoch=uuid.uuid4().hex)
        self.version = version
        self.description = description
        self.views = Views()
        self.registry = Registry(root, self.views.hides, marks_changes=mark_changed)
        self.resolvers = Resolvers(self.registry.patterns, self.views.hides)
        self._provider = Provider(self.info, root, limits)
        self.limit((), max_depth, max_nodes)
        self._tasks = Tasks(self.registry, self.notify, clock, task_linger_s)
        self._invoker = Invoker(
            self.registry, self.resolvers, self._tasks.action_at, self._publish,
            timeout_s=invoke_timeout_s, threads=threads,
        )  # fmt: skip
        self._serving = Serving(
            self._provider,
            self._invoker.invoke,
            self._query,
            coalesce_s=coalesce_s,
            patience=patience or PATIENCE,
        )
        self._authenticate: Callable[[Peer], Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._served = 0
        self._watched: dict[Hashable, int] = {}
        self.registry.register_fixed((), root)

    def tree(self, session: Hashable = None) -> Node:
        """The tree as a session sees it now."""
        tree = self.registry.tree(session)
        if session is not None and session not in self._watched:
            self.registry.close(session)
        return tree

    def authenticate(self, hook: F) -> F:
        """Let a function turn a peer into a session, or raise ActionError("unauthorized", …)."""
        self._authenticate = hook
        return hook

    def authorize(self, hook: F) -> F:
        """Let a function decide on every invoke; False is `unauthorized`. It may take `call`."""
        self._invoker.authorize = hook
        return hook

    def focus(self, path: str, session: Hashable = None) -> None:
        """Open a view for a session; the one that was open becomes a stub."""
        self.views.focus(path, session)
        self.registry.refresh(where=lambda other: bool(other == session))
        self.notify()

    def forget_view(self, ids: tuple[str, ...]) -> None:
        """Take what stands at a path for no view: what is below it is shown, and all are told."""
        if self.views.remove("/".join(ids)):
            self.registry.refresh()
        self.notify()

    def task(self, action: str | None = None, params: Mapping[str, Any] | None = None) -> Task:
        """Work that is shown while it runs: `async with app.task() as task`.

        In a handler the caller is answered `accepted` when the block is entered, and the
        action's name and params are taken from the call.
        """
        current = running.get()
        call = None if current is None else current.call

        def start(task_id: str) -> None:
            if current is not None and not current.accepted.done():
                current.accepted.set_result(task_id)

        if action is None and call is None:
            raise InvalidInput("outside of a handler a task must be given a name")
        return Task(
            self._tasks,
            action or (call.action if call else ""),
            dict(params if params is not None else (call.params if call else {})),
            None if call is None else call.session,
            start,
        )

    def emit(self, name: str, data: object = None, *, where: Where | None = None) -> None:
        """Tell every consumer, or those of some sessions, that something happened.

        Events are not state: a consumer that is too far behind does not learn of one. Raises
        InvalidInput for data that is not JSON.
        """
        event = event_body(name, as_json(data))

        def send() -> None:
            for connection in self._serving.connections:
                if where is None or where(connection.audience):
                    connection.send_event(event)
            self._serving.wake()

        self._in_loop(send)

    def limit(self, ids: tuple[str, ...], max_depth: int | None, max_nodes: int | None) -> None:
        """Show no more than so many levels and nodes from a path on, unless it is queried."""
        self._provider.bounds.set(ids, Bound(max_depth, max_nodes))

    def makes_nodes(self) -> None:
        """Note that some nodes are made when they are asked for."""
        self._provider.makes_nodes = True

    def notify(self) -> None:
        """Tell the loop that something may have changed. From any thread."""
        self._in_loop(self._publish_and_tell)

    def refresh_paths(self, path: str | None, prefix: str, where: Where | None) -> None:
        """Evaluate the node function at a path, or all below a prefix."""
        self._tasks.forget_ended()
        if path is not None:
            self.registry.refresh(parse_path(path), where)
        else:
            self.registry.refresh(where=where, below=parse_path(prefix))
        self.notify()

    async def handle(self, link: Link) -> None:
        """Serve one link until it ends: find out who it is, then speak the protocol.

        One more than the app's limit of connections is told so, and not served.
        """
        self._loop = asyncio.get_running_loop()
        if not self._has_room():
            most = self._provider.limits.connections
            await _refuse(link, ActionError("conflict", f"it serves {most:,} connections, no more"))
            return
        self._served += 1
        try:
            await self._handle(link)
        finally:
            self._served -= 1

    async def _handle(self, link: Link) -> None:
        try:
            session = await self._session_of(link.peer)
        except ActionError as refusal:
            await _refuse(link, refusal)
            return
        self._watched[session] = self._watched.get(session, 0) + 1
        try:
            self.registry.open(session)
            self._publish()
            # It may have been shown before, to nobody, and not have changed since.
            self._provider.publish(self.registry.tree(session), session)
            await self._serving.serve(link, session)
        finally:
            self._watched[session] -= 1
            if not self._watched[session]:
                self._leave(session)

    @asynccontextmanager
    async def serving(
        self,
        *,
        port: int | None = None,
        unix: str | Path | bool = True,
        discoverable: bool = True,
        host: str = "127.0.0.1",
        token: str | None = None,
        open: bool = False,  # noqa: A002 - the author says it in so many words
        origins: Iterable[str] = (),
        hosts: Iterable[str] | None = None,
        users: Users = "own",
        directory: Path | None = None,
        nats: str | None = None,
    ) -> AsyncIterator[Addresses]:
        """Serve while the block runs: a Unix socket, and a note for consumers.

        A `port` adds a WebSocket, which asks for a `token` (one is made if none is given, see
        the `token` of what this gives). `open` lets every user of the machine in, or leaves it
        to an `authenticate` hook. On loopback the port accepts this user and root alone, unless
        it is `open` or `users` is "any", for example for a reverse proxy. Yields the addresses.
        `unix` False leaves the socket out. Port 0 and True choose a place. A `host` beyond
        loopback takes the `hosts` by which clients name it. `nats` is the address of a broker
        (`nats://host:4222`) on which whoever it lets in can mirror the app from any machine.
        Raises InvalidInput.
        """
        info = self.info
        async with AsyncExitStack() as stack:
            addresses: list[str] = []
            ways: list[Transport] = []
            shown: str | None = None
            if unix is not False:
                path = socket_path(stack, info.id) if unix is True else Path(unix).absolute()
                addresses.append(await stack.enter_async_context(serve_unix(self.handle, path)))
                ways.append(Unix(str(path)))
            if port is not None:
                # Loaded by whoever asks for a port: the agent's own apps have none.
                from sightline.slop.transports.websocket import serve_websocket

                shown = port_token(token, is_open=open)
                served = serve_websocket(
                    self.handle, host, port, token=shown, origins=origins, hosts=hosts,
                    users="any" if open else users,
                    pages=pages_of(info, self.description), is_ready=self._has_room,
                )  # fmt: skip
                addresses.append(await stack.enter_async_context(served))
                ways.append(Ws(addresses[-1], shown))
            if nats is not None:
                on_broker = nats_module("nats_app").serve_nats(self.handle, info, nats)
                addresses.append(await stack.enter_async_context(on_broker))
            if not addresses:
                raise InvalidInput("an app needs a port, a Unix socket or a broker to be served at")
            announced_as: str | None = None
            if discoverable and ways:
                descriptor = Descriptor(
                    info.id, info.name, ways[0], info.capabilities, os.getpid(), self.version,
                    self.description,
                )  # fmt: skip
                try:
                    announced_as = stack.enter_context(announced(descriptor, directory)).stem
                except InvalidInput as error:
                    if directory is not None:
                        raise
                    # Whoever has the address can still come: other users' directories stop nothing.
                    _log.warning("%s is not announced: %s", info.id, error)
            try:
                yield Addresses(addresses, shown, announced_as)
            finally:
                await self.close()

    def serve(self, **options: Any) -> None:
        """Serve as `serving` does, until interrupted or ended; then leave nothing behind.

        Says on stderr where it is, the token, and how to see it.
        """

        async def forever() -> None:
            with told_to_end() as ended:
                async with self.serving(**options) as addresses:
                    # Not on the log, which others may keep: the token is for who started the app.
                    if sys.stderr is not None:
                        sys.stderr.write(addresses.notice(self.info.name))
                        sys.stderr.flush()
                    await ended.wait()

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(forever())

    def serve_stdio(self) -> None:
        """Serve the program that started this one, on the standard streams, until it goes.

        Where an event loop runs already: `await serve_stdio(app.handle)`.
        """

        async def until_gone() -> None:
            try:
                await serve_stdio(self.handle)
            finally:
                await self.close()

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(until_gone())

    async def close(self) -> None:
        """Cancel actions and tasks that still run."""
        await self._invoker.close()

    def asgi(
        self,
        path: str = "/slop",
        *,
        hosts: tuple[str, ...] | list[str] | None = None,
        origins: tuple[str, ...] | list[str] = (),
        token: str | None = None,
    ) -> AsgiApp:
        """The app as an ASGI application: a WebSocket at `path` and `GET /.well-known/slop`.

        Mount it into any framework. Only loopback hosts and no web page may connect unless
        they are named; hosts beyond loopback need a token or an `authenticate` hook. Without
        either, whoever reaches the server gets in, which on loopback is every user of the
        machine: unless the framework asks who comes, give one.
        """
        door = Door.of(hosts, origins, token, has_hook=self._authenticate is not None)
        pages = pages_of(self.info, self.description)
        return AsgiApp(self.handle, path, door, pages, self._has_room)

    def _has_room(self) -> bool:
        """Whether one more connection is served."""
        return self._served < self._provider.limits.connections

    async def _session_of(self, peer: Peer) -> Hashable:
        if self._authenticate is None:
            return None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                session = self._authenticate(peer)
                if inspect.isawaitable(session):
                    session = await session
            hash(session)
        except ActionError:
            raise
        except Exception as error:
            # The app's own code: whoever it cannot tell apart does not get in.
            _log.exception("a connection was refused: who it is could not be found out")
            raise ActionError("unauthorized", "could not be authenticated") from error
        return session  # type: ignore[no-any-return]  # its hash was taken

    def _leave(self, session: Hashable) -> None:
        del self._watched[session]
        if session is not None:
            self.registry.close(session)
            self.views.forget(session)
            self._provider.drop_audience(session)

    async def _query(self, connection: Connection, request: QueryRequested) -> Answer | None:
        query = request.query
        self._publish()
        tree = self.registry.tree(connection.audience)
        try:
            left, filled = await self.resolvers.resolve(query, tree, connection.audience)
        except InvalidPath as error:
            connection.refuse(query.id, "not_found", str(error))
        except ActionError as error:
            connection.refuse(query.id, error.code, error.message)
        except Exception:  # noqa: BLE001 - a resolver is the app's own code
            _log.exception("the query of %s failed", query.path)
            connection.refuse(query.id, "internal", "the app failed to answer this")
        else:
            return left, None if filled is tree else filled
        return None

    def _publish(self) -> None:
        """Hand the trees to the protocol's machine. In the loop only."""
        for session, tree in self.registry.changed_trees():
            if session in self._watched:
                self._provider.publish(tree, session)

    def _publish_and_tell(self) -> None:
        self._publish()
        self._serving.changed()

    def _in_loop(self, work: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return  # nobody was ever connected: whoever comes gets the tree as it is then
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is loop:
            work()
        else:
            loop.call_soon_threadsafe(work)


async def _refuse(link: Link, refusal: ActionError) -> None:
    message = ErrorMessage(ErrorInfo(refusal.code, refusal.message))
    try:
        await link.send([serialize(message)])
    except LinkClosed:
        _log.debug("a refused peer was gone already")
    await link.close(refusal.message)
