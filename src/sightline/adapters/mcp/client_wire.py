"""The wire to an MCP server: a process that ends with us, or HTTP; whatever comes is bounded.

A line, a response and the working time that a server takes have limits, as those of any app.
What it writes to stderr is read and dropped but for its end, which says why it went.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from sightline.agent.workspace.command import leader
from sightline.errors import InvalidInput, LetGo, Unreachable
from sightline.slop.hub.mcp import McpTarget, checked_url
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports.background import end_child, end_tasks, finish
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.link import LinkClosed, Peer, why
from sightline.slop.transports.pace import Pace

MESSAGE_BYTES: Final = 8 * 1024 * 1024
# What a server may send over HTTP: so much at once, and from then on so much a second.
BURST_BYTES: Final = 32 * 1024 * 1024
BYTES_PER_S: Final = 1024 * 1024
_STDERR_BYTES: Final = 2_000
_CHUNK_BYTES: Final = 64 * 1024
_GRACE_S: Final = 1.0
# The reaper gives all that it ends so much, and then gives up.
_REAPER_S: Final = 6.0
_CONNECT_S: Final = 30.0
_READ_S: Final = 300.0
# MCP, transports, stdio: a server gets what it is given, and these, as in the SDK.
_PASSED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")


class ServerWire:
    """The connection to one server. `ended` is set when it went, and `reason` says why."""

    def __init__(
        self, target: McpTarget, auth: httpx2.Auth | None = None, patience: Patience | None = None
    ) -> None:
        self.ended = asyncio.Event()
        self._target = target
        self._auth = auth
        self._patience = patience or Patience()
        self._is_closing = False
        self._fault = ""
        self._stderr = b""
        self._silent = asyncio.Event()

    @property
    def reason(self) -> str:
        """Why the server is gone: what was wrong with it, or the last that it said."""
        words = self._stderr.decode(errors="replace").strip().rpartition("\n")[2].strip()
        return self._fault or (f"the server ended: {words}" if words else "the server ended")

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Open the wire for as long as a block runs. Raises Unreachable."""
        async with self._http() if self._target.url else self._process() as streams:
            yield streams

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[TransportStreams]:
        client = httpx2.AsyncClient(
            transport=_BoundedTransport(self._target.url),
            headers={**self._target.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_CONNECT_S, read=_READ_S),
            auth=self._auth,
        )
        async with (
            client,
            streamable_http_client(
                self._target.url, http_client=client, max_sse_event_size=MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[TransportStreams]:
        process = await self._start()
        assert process.stdout is not None  # noqa: S101 - it was asked for
        assert process.stdin is not None  # noqa: S101
        link = LineLink(process.stdout, process.stdin, Peer("mcp"), MESSAGE_BYTES)
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._read(link, incoming), self._write(link, sent), self._drain(process),
            )
        ]  # fmt: skip
        try:
            yield received, outgoing
        finally:
            self._is_closing = True
            try:
                await finish(_end(process, link, *tasks))
            finally:
                for stream in (incoming, received, outgoing, sent):
                    await stream.aclose()

    async def _start(self) -> Process:
        name, *arguments = self._target.command
        env = {key: os.environ[key] for key in _PASSED if key in os.environ} | {**self._target.env}
        found = shutil.which(name, path=env.get("PATH"))
        if found is None:
            raise Unreachable(f"there is no program {name!r}")
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *leader(), os.path.abspath(found), *arguments,  # noqa: PTH100 - links stay
                stdin=pipe, stdout=pipe, stderr=pipe, env=env,
                cwd=self._target.directory or None, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unreachable(f"{name}: {why(error)}") from error

    async def _read(
        self, link: LineLink, incoming: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        pace = Pace(self._patience)
        try:
            while (line := await link.receive()) is not None:
                try:
                    with pace.work():
                        # One that is too long has lost its end, and so is none.
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    pace.fault()
                else:
                    await incoming.send(SessionMessage(message))
                await pace.turn()
        except LetGo as error:
            self._fault = str(error)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # nobody listens any more
        finally:
            if not self._is_closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_S):  # its last words may be on the way
                        await self._silent.wait()
                self.ended.set()
            await incoming.aclose()

    async def _write(
        self, link: LineLink, sent: anyio.abc.ObjectReceiveStream[SessionMessage]
    ) -> None:
        with suppress(LinkClosed, anyio.ClosedResourceError):
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await link.send([text.encode()])

    async def _drain(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while data := await process.stderr.read(_CHUNK_BYTES):
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
        self._silent.set()


async def _end(process: Process, link: LineLink, *tasks: asyncio.Task[None]) -> None:
    """End a server and all that it started: ask by the end of its input, then insist.

    `tasks` read and write its pipes. They end first.
    """
    await end_tasks(*tasks)
    await link.close()

    def insist(number: signal.Signals) -> None:
        # The reaper ends everything that the server started. Without it there is the group.
        process.send_signal(number) if leader() else os.killpg(process.pid, number)

    await end_child(
        process,
        (_GRACE_S, partial(insist, signal.SIGTERM)),
        (_REAPER_S, partial(insist, signal.SIGKILL)),
    )
    if not leader():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """HTTP to safe addresses only, of which no more is read than a server may send."""

    def __init__(self, url: str) -> None:
        host = httpx2.URL(url).host
        proxy = None if proxy_bypass(host) else getproxies().get("https")
        self._inner = httpx2.AsyncHTTPTransport(proxy=proxy)
        self._allowance = _Allowance()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            checked_url(str(request.url))
        except InvalidInput as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        response = await self._inner.handle_async_request(request)
        # What is packed may be a thousand times as much, and nobody asked for it.
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("a packed answer was not asked for", request=request)
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - of an async transport
        return httpx2.Response(
            response.status_code, headers=response.headers, extensions=response.extensions,
            stream=_BoundedStream(stream, self._allowance),
        )  # fmt: skip

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Allowance:
    """Bytes that a server may send: some at once, saved up again while it is quiet."""

    def __init__(self) -> None:
        self._left = float(BURST_BYTES)
        self._at = time.monotonic()

    def take(self, count: int) -> None:
        now = time.monotonic()
        self._left = min(BURST_BYTES, self._left + (now - self._at) * BYTES_PER_S) - count
        self._at = now
        if self._left < 0:
            raise httpx2.ReadError(f"let go: it sent more than {BURST_BYTES} bytes in one go")


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, allowance: _Allowance) -> None:
        self._inner = inner
        self._allowance = allowance

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._allowance.take(len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
