"""An MCP server as an app: what it lists as nodes, what it can do as actions.

    python -m sightline.adapters.mcp.client     serves the server that a variable names

This is the program that a hub starts for each server (`sightline.slop.hub.mcp`). It speaks MCP
to the server, either era of it, by the official SDK, and SLOP to whoever started it, and it ends
with either of them: starting again, and waiting before that, is the hub's.

*Theory of operation.* `run` holds the connection. It fetches the lists that the server has, puts
them into the tree, and then waits for news: each list that is told to have changed is fetched
again, once a second at most, however often it is told. A call that takes longer than a moment
goes on as a task, with its progress, and its result stays under `calls` for a while.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import httpx2
import mcp.client.subscriptions as subscriptions
import mcp_types as types
import msgspec
from mcp.client.client import Client as McpClient
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import sightline.adapters.mcp.client_nodes as nodes
import sightline.telemetry as telemetry
from sightline.adapters.mcp.client_questions import WAIT_S, PendingQuestions
from sightline.adapters.mcp.client_wire import ServerWire
from sightline.errors import ActionError, InvalidInput, SightlineError, Unreachable
from sightline.slop.app.app import App
from sightline.slop.app.tasks import Task
from sightline.slop.hub.mcp import START_S, TARGET_VARIABLE, McpTarget
from sightline.slop.protocol.messages import ErrorInfo, ErrorMessage, serialize
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports.stdio import serve_stdio

LIST_S: Final = 10.0
PAGES: Final = 100
ITEMS: Final = 2_000
REFRESH_S: Final = 1.0
LONG_S: Final = 10.0
CALL_S: Final = 3_600.0
PROGRESS_S: Final = 0.2
CALLS_KEPT: Final = 10
WATCHED: Final = 50
READ_KEPT_S: Final = 5.0
LISTEN_AGAIN_S: Final = 5.0
_SUMMARY_CHARS: Final = 300
_FAILURE_CHARS: Final = 2_000
_TOOLS, _RESOURCES, _TEMPLATES, _PROMPTS = _KINDS = ("tools", "resources", "templates", "prompts")
# The lists that are fetched again when one of these is told, in either era.
_CHANGED: Final[Mapping[type, tuple[str, ...]]] = {
    types.ToolListChangedNotification: (_TOOLS,),
    types.PromptListChangedNotification: (_PROMPTS,),
    types.ResourceListChangedNotification: (_RESOURCES, _TEMPLATES),
    subscriptions.ToolsListChanged: (_TOOLS,),
    subscriptions.PromptsListChanged: (_PROMPTS,),
    subscriptions.ResourcesListChanged: (_RESOURCES, _TEMPLATES),
}
_FAILURES: Final = (
    MCPError,
    ValidationError,
    TimeoutError,
    httpx2.HTTPError,
    OSError,
    RuntimeError,
)

_log: Final = telemetry.logger(__name__)
_targets: Final = msgspec.json.Decoder(McpTarget)
_T = TypeVar("_T")


class McpApp:
    """One MCP server as an app. `run` is its life; `shown` is set when there is a tree to show."""

    def __init__(
        self, target: McpTarget, *, patience: Patience | None = None, long_s: float = LONG_S
    ) -> None:
        self.app = App(target.app_id, target.name, mark_changed=False)
        self.shown = asyncio.Event()
        self.questions = PendingQuestions(self.app)
        self._target = target
        self._patience = patience
        self._long_s = long_s
        self._client: McpClient | None = None
        self._limit: asyncio.Timeout | None = None
        self._lists: dict[str, list[Any]] = {}
        self._stale: set[str] = set()
        self._news = asyncio.Event()
        self._live: dict[str, str] = {}
        self._updated: set[str] = set()
        self._listening: asyncio.Task[None] | None = None
        self._read_last: tuple[str, float, str | bytes] = ("", 0.0, "")
        self._calls: dict[str, dict[str, Any]] = {}
        self._results: dict[str, str] = {}
        self.app.content(f"{_RESOURCES}/{{node_id}}")(self._content)
        self.app.content("calls/{node_id}", when=lambda props: "result" in props)(
            lambda node_id: self._results.get(node_id)
        )

    async def run(self) -> None:
        """Be connected until the server is gone. Raises Unreachable, saying why."""
        wire = ServerWire(self._target, self._auth(), self._patience)
        try:
            async with self._connected(wire) as self._client:
                self._show_root()
                await self._fetch(self._kinds())
                self.shown.set()
                await self._live_on(wire)
        except SightlineError:
            raise
        except (*_FAILURES, ExceptionGroup) as error:
            raise Unreachable(wire.reason if wire.ended.is_set() else _why(error)) from error
        raise Unreachable(wire.reason)

    @asynccontextmanager
    async def _connected(self, wire: ServerWire) -> AsyncIterator[McpClient]:
        client = McpClient(
            wire.streams(),
            client_info=types.Implementation(name="sightline", version="1"),
            elicitation_callback=self._elicit,
            message_handler=self._hear,
            cache=None,
        )
        try:
            async with asyncio.timeout(START_S) as self._limit, client:
                self._limit.reschedule(None)
                yield client
        finally:
            self._client = None

    def _signs_in(self) -> None:
        """Show what there is, and wait for the user, who has all the time that a question has."""
        self.shown.set()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + WAIT_S)

    async def _live_on(self, wire: ServerWire) -> None:
        refreshing = asyncio.create_task(self._refresh())
        self._listen_anew()
        gone = asyncio.create_task(wire.ended.wait())
        try:
            await asyncio.wait({gone, refreshing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, refreshing, self._listening):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    # What the server lists.

    def _kinds(self) -> set[str]:
        """Tell which lists the server says it has."""
        has = self._server.server_capabilities
        kinds = {_TOOLS: has.tools, _PROMPTS: has.prompts, _RESOURCES: has.resources}
        kinds[_TEMPLATES] = has.resources
        return {kind for kind, capability in kinds.items() if capability is not None}

    async def _fetch(self, kinds: set[str]) -> None:
        listed = await asyncio.gather(*(self._list(kind) for kind in _KINDS if kind in kinds))
        for kind, problem in listed:
            self._show(kind, problem)

    async def _list(self, kind: str) -> tuple[str, str]:
        """Fetch one list, page by page; return what of it could not be had."""
        client = self._server
        pages: dict[str, tuple[Callable[..., Awaitable[Any]], str]] = {
            _TOOLS: (client.list_tools, "tools"),
            _RESOURCES: (client.list_resources, "resources"),
            _TEMPLATES: (client.list_resource_templates, "resource_templates"),
            _PROMPTS: (client.list_prompts, "prompts"),
        }
        fetch, field = pages[kind]
        found: list[Any] = []
        cursors: set[str | None] = {None}
        cursor = None
        problem = ""
        try:
            async with asyncio.timeout(LIST_S):
                for _ in range(PAGES):
                    page = await fetch(cursor=cursor)
                    found += getattr(page, field)
                    cursor = page.next_cursor
                    if cursor in cursors or len(found) >= ITEMS:
                        break
                    cursors.add(cursor)
        except _FAILURES as error:
            problem = f"the list could not be had: {_why(error)}"
            found = found or self._lists.get(kind, [])
        if cursor is not None and not problem:
            problem = "the list does not end"
        self._lists[kind] = found[:ITEMS]
        return kind, nodes.clipped(problem, _SUMMARY_CHARS)

    def _show(self, kind: str, problem: str = "") -> None:
        items = self._lists.get(kind, [])
        if not items and not problem:
            with suppress(InvalidInput):
                self.app.unregister(kind)
            return
        describe: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
            _TOOLS: lambda tools: nodes.tool_nodes(tools, lambda name: partial(self._call, name)),
            _RESOURCES: lambda found: nodes.resource_nodes(
                found, self._live, self._resource_actions
            ),
            _TEMPLATES: lambda found: nodes.template_nodes(found, self._template_reader),
            _PROMPTS: lambda found: nodes.prompt_nodes(found, self._prompt_getter),
        }
        names = [item.name for item in items]
        node = {
            "type": "collection", "summary": nodes.summary_of(kind, names, problem),
            "meta": {"folded": True}, "items": [*describe[kind](items)],
        }  # fmt: skip
        self.app.register(kind, node)

    def _show_root(self) -> None:
        client = self._server
        info = client.server_info
        server = (
            {} if info is None else {"server": nodes.clipped(f"{info.name} {info.version}", 100)}
        )
        about = nodes.clipped(
            client.instructions or (info and info.description) or "", _SUMMARY_CHARS
        )
        props = {**server, "protocol": client.protocol_version}
        self.app.update("/", props=props, meta={"summary": about} if about else None)

    # What the server tells.

    async def _hear(self, message: IncomingMessage) -> None:
        self._take(message)

    def _take(self, news: IncomingMessage | subscriptions.ServerEvent) -> None:
        """Note what either era tells."""
        match news:
            case types.ResourceUpdatedNotification():
                self._has_changed(str(news.params.uri))
            case subscriptions.ResourceUpdated(uri=uri):
                self._has_changed(uri)
            case _ if kinds := _CHANGED.get(type(news)):
                self._is_stale(*kinds)
            case _:
                pass

    def _is_stale(self, *kinds: str) -> None:
        self._stale.update(kinds)
        self._news.set()

    def _has_changed(self, uri: str) -> None:
        if uri in self._live:
            self._updated.add(uri)
            self._news.set()

    async def _refresh(self) -> None:
        """Fetch what was told to have changed, as soon as that and no more often than it may be."""
        while True:
            await self._news.wait()
            self._news.clear()
            kinds, self._stale = self._stale & self._kinds(), set()
            uris, self._updated = self._updated, set()
            await self._fetch(kinds)
            for uri in uris & self._live.keys():
                with suppress(ActionError):
                    self._live[uri] = _as_text(await self._read(uri))
            if uris:
                self._show(_RESOURCES)
            await asyncio.sleep(REFRESH_S)

    def _listen_anew(self) -> None:
        """Open the stream of news that the 2026 era has; older servers just tell."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        if self._server.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        has = self._server.server_capabilities
        wanted = {
            "tools_list_changed": bool(has.tools and has.tools.list_changed),
            "prompts_list_changed": bool(has.prompts and has.prompts.list_changed),
            "resources_list_changed": bool(has.resources and has.resources.list_changed),
        }
        uris = sorted(self._live)
        if not uris and not any(wanted.values()):
            return
        while True:
            try:
                async with self._server.listen(**wanted, resource_subscriptions=uris) as events:
                    async for event in events:
                        self._take(event)
            except (*_FAILURES, subscriptions.SubscriptionLost) as error:
                _log.info("the stream of news ended: %s", _why(error))
            await asyncio.sleep(LISTEN_AGAIN_S)
            # MCP, subscriptions: nothing is sent again, so what was missed is fetched.
            self._is_stale(*(self._kinds()))
            self._updated.update(self._live)

    # What the server does.

    async def _call(self, name: str, /, **params: Any) -> dict[str, Any] | None:
        progress = _Progress()
        work = asyncio.create_task(
            self._server.call_tool(
                name, params, read_timeout_seconds=CALL_S, progress_callback=progress
            )
        )
        try:
            await asyncio.wait({work}, timeout=self._long_s)
            if work.done():
                return nodes.result_data(_checked(await _answered(work)))
            async with self.app.task(f"call {nodes.clipped(name, 100)}", params) as task:
                progress.show_on(task)
                self._note_call(task.id, name, "running")
                try:
                    result = await _answered(work)
                except BaseException:
                    self._note_call(task.id, name, "failed")
                    raise
                ended = "failed" if result.is_error else "done"
                self._note_call(task.id, name, ended, nodes.result_text(result))
                _checked(result)
            return None
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _note_call(self, task_id: str, name: str, status: str, result: str | None = None) -> None:
        """Show a call that takes long, and what came of it; the last few of them."""
        props = {"tool": nodes.clipped(name, 100), "status": status}
        node: dict[str, Any] = {"id": task_id, "type": "status", "props": props}
        if result is not None:
            props["result"] = nodes.clipped(result)
            self._results[task_id] = result
            node["content_ref"] = {"mime": "text/plain", "size": len(result), "summary": "result"}
        self._calls[task_id] = node
        while len(self._calls) > CALLS_KEPT:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._results.pop(oldest, None)
        items = list(self._calls.values())
        self.app.register("calls", {"type": "collection", "items": items})

    def _resource_actions(self, uri: str, is_live: bool) -> Mapping[str, Any]:
        has = self._server.server_capabilities.resources
        if is_live:
            return {"unwatch": {"handler": partial(self._unwatch, uri), "refreshes": ()}}
        if has is None or not has.subscribe:
            return {}
        about = "Show its text here, as it is from now on"
        return {
            "watch": {"handler": partial(self._watch, uri), "description": about, "refreshes": ()}
        }

    async def _watch(self, uri: str, /) -> None:
        if len(self._live) >= WATCHED:
            raise ActionError("conflict", f"{WATCHED} resources are watched, which is the most")
        text = _as_text(await self._read(uri))
        if self._server.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await _answered(self._server.session.send_request(request, types.EmptyResult))
        self._live[uri] = text
        self._listen_anew()
        self._show(_RESOURCES)

    async def _unwatch(self, uri: str, /) -> None:
        self._live.pop(uri, None)
        if self._server.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            with suppress(ActionError):
                await _answered(self._server.session.send_request(request, types.EmptyResult))
        self._listen_anew()
        self._show(_RESOURCES)

    async def _content(self, node_id: str) -> str | bytes | None:
        resources: list[types.Resource] = self._lists.get(_RESOURCES, [])
        uris = [str(resource.uri) for resource in resources]
        uri = dict(zip(nodes.unique_ids(uris), uris, strict=True)).get(node_id)
        if uri is None:
            return None
        last, read_at, content = self._read_last
        if last == uri and time.monotonic() - read_at < READ_KEPT_S:  # it is read piece by piece
            return content
        content = await self._read(uri)
        self._read_last = (uri, time.monotonic(), content)
        return content

    async def _read(self, uri: str) -> str | bytes:
        return nodes.content_of((await _answered(self._server.read_resource(uri))).contents)

    def _template_reader(self, template: UriTemplate) -> Callable[..., Any]:
        async def read(**variables: Any) -> dict[str, Any]:
            try:
                uri = template.expand(variables)
            except (ValueError, TypeError) as error:
                raise ActionError("invalid_params", nodes.clipped(f"/: {error}", 300)) from error
            return {"uri": uri, "text": _as_text(await self._read(uri))}

        return read

    def _prompt_getter(self, name: str) -> Callable[..., Any]:
        async def get(**arguments: Any) -> dict[str, Any]:
            return nodes.prompt_data(await _answered(self._server.get_prompt(name, arguments)))

        return get

    # What the server asks.

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestFormParams):
            form = msgspec.json.decode(msgspec.json.encode(params.requested_schema))
            action, content = await self.questions.ask(params.message, form)
            return types.ElicitResult(
                action=action, content=content if action == "accept" else None
            )
        action, _ = await self.questions.ask(params.message, url=params.url)
        return types.ElicitResult(action=action)

    def _auth(self) -> httpx2.Auth | None:
        """Sign in where a server wants it, unless a header says who we are."""
        known = {name.lower() for name in self._target.headers}
        if not self._target.url or "authorization" in known:
            return None
        from sightline.adapters.mcp.client_auth import sign_in  # most servers need none of it

        return sign_in(self._target.url, self.questions, self._signs_in)

    @property
    def _server(self) -> McpClient:
        if self._client is None:
            raise ActionError("conflict", "the server is not connected")
        return self._client


class _Progress:
    """How far a call is, as its server tells; shown so often and no more."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._last: tuple[float | None, str | None] = (None, None)
        self._shown_at = 0.0

    def show_on(self, task: Task) -> None:
        """Show what was told so far, and what will be, on a task."""
        self._task = task
        task.report(*self._last)

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        share = progress / total if total else None
        if share is not None and not math.isfinite(share):
            share = None
        self._last = (share, None if message is None else nodes.clipped(message, _SUMMARY_CHARS))
        if self._task is not None and time.monotonic() - self._shown_at >= PROGRESS_S:
            self._shown_at = time.monotonic()
            self._task.report(*self._last)


async def _answered(request: Awaitable[_T]) -> _T:
    """Await what a server answers. Raises ActionError for what it did not do."""
    try:
        return await request
    except _FAILURES as error:
        raise ActionError("internal", nodes.clipped(_why(error), _FAILURE_CHARS)) from error


def _checked(result: types.CallToolResult) -> types.CallToolResult:
    """Give a tool's result. Raises ActionError for one that is an error."""
    if result.is_error:
        raise ActionError("internal", nodes.clipped(nodes.result_text(result), _FAILURE_CHARS))
    return result


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return "its answer cannot be read"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return nodes.clipped(str(error) or type(error).__name__, _FAILURE_CHARS)


def _as_text(content: str | bytes) -> str:
    return content if isinstance(content, str) else f"{len(content)} bytes"


async def serve(target: McpTarget) -> None:
    """Serve one server to whoever started this program, until either is gone."""
    server = McpApp(target)
    life = asyncio.create_task(server.run())
    shown = asyncio.create_task(server.shown.wait())
    await asyncio.wait({life, shown}, return_when=asyncio.FIRST_COMPLETED)
    if not life.done():
        served = asyncio.create_task(serve_stdio(server.app.handle))
        await asyncio.wait({life, served}, return_when=asyncio.FIRST_COMPLETED)
        served.cancel()
        await asyncio.gather(served, return_exceptions=True)
    shown.cancel()
    await server.app.close()
    if life.done() and not server.shown.is_set():
        reason = str(life.exception() or "it ended")
        body = serialize(ErrorMessage(ErrorInfo("internal", reason)))
        with suppress(BrokenPipeError):  # the program that started this one has ended
            os.write(sys.stdout.fileno(), body + b"\n")
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


def main() -> None:
    """Read what to reach from the variable, which nobody else gets to see, and serve it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for whoever started us
    _end_with_parent()
    logging.disable(logging.CRITICAL)
    asyncio.run(serve(_targets.decode(os.environ.pop(TARGET_VARIABLE))))


def _end_with_parent() -> None:
    """Have the system end this program if the one that started it is gone. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # prctl(2): PR_SET_PDEATHSIG


if __name__ == "__main__":
    main()
