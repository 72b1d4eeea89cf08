"""The inspector as a web application: routes, the door before them, and news of changes.

GET never changes anything. What asks for work (verify, SQL, what-if, invoke) is a POST
with a JSON body from our own page; that a query is refused or a prompt does not fit is
an answer to it, not a failure. Ledger and journal are read in lanes of threads, so that
nothing that is asked holds anything else; what cannot be shown is one line of JSON with a
status that says whose fault it is.

    whatever one lane is busy with, the other lanes answer
    a caller of a lane has its answer, or a refusal, within the lane's deadline

A thread cannot be stopped: work that is late keeps its place in its lane until it ends,
and only those who come to the same lane meanwhile wait behind it, a few at most.

Connections wait for nobody:

    a request is here, whole, within `request_s` of its connection or its first byte
    what was written is read within `write_s`
    at most `connections` are open; who waits longest makes room for who comes

Anybody on this machine can connect. Whoever sends half a request, reads nothing of an
answer, or opens more connections than a browser needs, is let go; those who are being
answered are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, ParamSpec, TypeAlias, TypeVar

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

import sightline.telemetry as telemetry
from sightline.errors import InvalidInput, NotFound, SightlineError, TimedOut, Unreachable
from sightline.inspector.door import COOKIE, HEADERS, SAFE, PageDoor, policy
from sightline.inspector.pages import importmap_hash, refused_page, served_page, static_file, way_in
from sightline.inspector.records import ROW_DIGITS
from sightline.slop.protocol.jsontext import NESTING, nests_deeper
from sightline.slop.transports.door import Refusal
from sightline.slop.transports.health import LIVE, READY, WORDS, Health
from sightline.slop.transports.http_connection import PortConnection, port_server
from sightline.slop.transports.sockets import Users, refusal_of

if TYPE_CHECKING:
    from sightline.inspector.reader import RecordReader

MAX_BODY_BYTES: Final = 1024 * 1024
MOST_EXPORTS: Final = 2
MOST_WAITING: Final = 64
POLL_S: Final = 0.5
BACKLOG: Final = 64
_UNANSWERED: Final = frozenset({h11.IDLE, h11.SEND_RESPONSE})
HEARTBEAT_POLLS: Final = 30
# The room is another one at every launch: what is in it as a file never changes.
STATIC_CACHE: Final = "private, max-age=86400, immutable"
_log = telemetry.logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=msgspec.Struct)
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


# Asks a live app to do something; None where the inspector may only look.
Invoke: TypeAlias = Callable[[str, str, str, dict[str, Any]], Awaitable[Any]]


class Lane:
    """Some threads for one kind of work, a bound on who waits for them, and a deadline."""

    def __init__(
        self, name: str, threads: int, deadline_s: float, most_waiting: int = MOST_WAITING
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, f"inspector-{name}")
        self._deadline_s = deadline_s
        self._most = threads + most_waiting
        self._taken: set[Future[Any]] = set()

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do some work in the lane. Raises `Unreachable` if it is full, `TimedOut` if late."""
        self._taken = {future for future in self._taken if not future.done()}
        if len(self._taken) >= self._most:
            raise Unreachable("too much is asked at once; ask again when something is answered")
        future = self._threads.submit(work, *args, **kwargs)
        self._taken.add(future)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                return future.result()  # which came with the deadline, or raises so itself
            raise TimedOut(f"no answer within {self._deadline_s:g} s") from None

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The threads in which each kind of the page's questions is answered, in no other's way.

    Trees are laid out one at a time and SQL has one process, so one thread each is enough.
    """

    looks: Lane = field(default_factory=lambda: Lane("looks", 2, 30.0))
    lists: Lane = field(default_factory=lambda: Lane("lists", 1, 30.0))
    trees: Lane = field(default_factory=lambda: Lane("trees", 1, 60.0))
    queries: Lane = field(default_factory=lambda: Lane("queries", 1, 30.0, most_waiting=8))
    works: Lane = field(default_factory=lambda: Lane("works", 1, 120.0, most_waiting=2))

    def close(self) -> None:
        for lane in (self.looks, self.lists, self.trees, self.queries, self.works):
            lane.close()


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    sql: str
    session: Annotated[int, msgspec.Meta(ge=0, lt=10**ROW_DIGITS)]


class _Invoke(msgspec.Struct, forbid_unknown_fields=True):
    app: str
    path: str
    action: str
    params: dict[str, Any] = {}


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_queries: Final = msgspec.json.Decoder(_Query)
_invokes: Final = msgspec.json.Decoder(_Invoke)


def inspector_app(
    answers: RecordReader,
    door: PageDoor,
    *,
    invoke: Invoke | None = None,
    lanes: Lanes | None = None,
) -> Starlette:
    """Make the inspector's web application: its routes, with the door before them."""
    lanes = lanes or Lanes()
    exports: set[object] = set()

    def asks(
        work: Callable[..., dict[str, Any]],
        lane: Lane = lanes.looks,
        *,
        seal: str = "",
        query: str = "",
    ) -> Answer:
        """Answer with what is asked by the numbers in an address and a field of its query.

        A `seal` is the name of what is read, as the news have it: who has that need not ask again.
        """

        def written(request: Request) -> bytes:
            arguments = [*request.path_params.values()]
            sealed = {}
            if seal:
                sealed["seal"] = answers.news(arguments[0] if arguments else 0)[seal]
            if query:
                arguments.append(request.query_params.get(query, ""))
            return msgspec.json.encode({**work(*arguments), **sealed})

        async def answer(request: Request) -> Response:
            content = await lane.run(written, request)
            return Response(content, media_type="application/json")

        return answer

    def about() -> dict[str, Any]:
        return {**answers.sessions(), "allow_invoke": invoke is not None}

    def rows(session: int, of: str) -> dict[str, Any]:
        return answers.rows(session, _numbers(of))

    async def page(_: Request) -> Response:
        newest = None
        with suppress(SightlineError):  # the page says itself what is wrong with the ledger
            newest = await lanes.looks.run(answers.newest)
        return Response(served_page(newest), media_type="text/html")

    async def export(request: Request) -> Response:
        session = request.path_params["session"]
        if len(exports) >= MOST_EXPORTS:
            raise Unreachable(f"{MOST_EXPORTS} exports are being written; ask again after them")
        ticket = object()
        exports.add(ticket)
        try:
            page = counted(await lanes.looks.run(answers.exported, session), ticket)
            first = await anext(page, b"")  # what cannot be begun is refused while it still can be
        except BaseException:
            exports.discard(ticket)
            raise
        name = f"attachment; filename=sightline-session-{session}.html"
        return _Exported(first, page, headers={"Content-Disposition": name})

    async def counted(
        page: AsyncGenerator[bytes, None], ticket: object
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(page):
                async for chunk in page:
                    yield chunk
        finally:
            exports.discard(ticket)

    def works(work: Callable[..., Awaitable[dict[str, Any]]]) -> Answer:
        async def answer(request: Request) -> Response:
            try:
                body = await _body(request)
                return _json(await work(*request.path_params.values(), body))
            except SightlineError as error:
                return _json({"error": str(error)})

        return answer

    async def query(body: bytes) -> dict[str, Any]:
        wanted = _read(body, _queries)
        return await lanes.queries.run(answers.query, wanted.sql, wanted.session)

    async def verify(_: bytes) -> dict[str, Any]:
        return await lanes.works.run(answers.verify)

    async def what_if(*arguments: Any) -> dict[str, Any]:
        return await lanes.works.run(answers.what_if, *arguments)

    async def what_if_all(*arguments: Any) -> dict[str, Any]:
        return await lanes.works.run(answers.what_if_all, *arguments)

    async def act(body: bytes) -> dict[str, Any]:
        if invoke is None:
            raise InvalidInput("this inspector may only look; start it with --allow-invoke")
        wanted = _read(body, _invokes)
        return {"result": await invoke(wanted.app, wanted.path, wanted.action, wanted.params)}

    health = Health(lambda: lanes.looks.run(answers.revision))

    async def tell_health(request: Request) -> Response:
        status = await health.status(request.url.path)
        if status is None:
            raise NotFound("there is no such page")
        return Response(WORDS[status], status, media_type="text/plain")

    async def events(request: Request) -> Response:
        [session, *_] = _numbers(request.query_params.get("session", "0"))
        news = _news(answers, lanes.looks, request, session)
        return StreamingResponse(news, media_type="text/event-stream")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        lanes.close()

    session_path = "/api/sessions/{session:row}"
    request_path = f"{session_path}/turns/{{turn:row}}/{{request:row}}"
    app_path = f"{request_path}/state/{{app:row}}"
    routes = [
        Route("/", page),
        Route("/static/{name:path}", _static),
        Route(LIVE, tell_health),
        Route(READY, tell_health),
        Route("/api/sessions", asks(about, seal="sessions")),
        Route("/api/choices", asks(answers.choices)),
        Route(
            f"{session_path}/turns", asks(answers.index, lanes.lists, seal="turns", query="filter")
        ),
        Route(f"{session_path}/rows", asks(rows, query="of")),
        Route(f"{session_path}/overview", asks(answers.overview, lanes.lists, seal="turns")),
        Route(request_path, asks(answers.request)),
        Route(f"{request_path}/unseen", asks(answers.unseen, lanes.trees)),
        Route(f"{request_path}/verdicts", asks(answers.verdicts)),
        Route(f"{request_path}/state", asks(answers.state, lanes.trees)),
        Route(f"{app_path}/nodes/{{page:row}}", asks(answers.nodes, lanes.trees)),
        Route(f"{app_path}/folds/{{node:row}}", asks(answers.folds, lanes.trees)),
        Route(f"{app_path}/find", asks(answers.find_nodes, lanes.trees, query="q")),
        Route(
            f"{request_path}/whatif",
            works(what_if),
            methods=["POST"],
        ),
        Route(
            f"{session_path}/whatif",
            works(what_if_all),
            methods=["POST"],
        ),
        Route(f"{session_path}/compare/{{old}}/{{new}}", asks(answers.compare)),
        Route(f"{session_path}/ledger", asks(answers.ledger, seal="turns")),
        Route(f"{session_path}/groups/{{group:row}}", asks(answers.group)),
        Route("/api/search", asks(answers.search, lanes.queries, query="q")),
        Route("/api/verify", works(verify), methods=["POST"]),
        Route("/api/query", works(query), methods=["POST"]),
        Route("/api/invoke", works(act), methods=["POST"]),
        Route("/api/events", events),
        Route("/export/{session:row}.html", export),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, door=door, policy=policy(importmap_hash()))],
        exception_handlers={SightlineError: _refuse, Exception: _fail},
        lifespan=lifespan,
    )


class _Exported(StreamingResponse):
    """A page that comes in pieces. If it breaks off, so does the connection."""

    def __init__(
        self, first: bytes, rest: AsyncGenerator[bytes, None], headers: dict[str, str]
    ) -> None:
        super().__init__(rest, headers=headers, media_type="text/html")
        self._first = first
        self._rest = rest

    async def stream_response(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        piece = {"type": "http.response.body", "more_body": True}
        async with aclosing(self._rest) as rest:
            await send(start)
            await send({**piece, "body": self._first})
            try:
                async for chunk in rest:
                    await send({**piece, "body": chunk})
            except SightlineError as error:
                _log.error("%s", error)
                return  # a response without its end: the server hangs up
        await send({**piece, "body": b"", "more_body": False})


class _RowConvertor(Convertor[int]):
    """The number of a row in an address; one that no row can have is not there."""

    regex = "[0-9]+"

    def convert(self, value: str) -> int:
        if len(value) > ROW_DIGITS:
            raise NotFound(f"there is no number {value[:40]}")
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("row", _RowConvertor())


_NOT_ADMITTED: Final = Refusal(
    HTTPStatus.UNAUTHORIZED,
    "open the address that `sightline inspect` printed: it works once, and Enter in its terminal "
    "prints another",
)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Nothing is served, not even an error page, before the door has looked."""

    app: ASGIApp
    door: PageDoor
    policy: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        answer = self._answer(Request(scope))
        if isinstance(answer, Response):
            await answer(scope, receive, self._sealed(send))
            return
        await self.app({**scope, "path": answer}, receive, self._sealed(send))

    def _answer(self, request: Request) -> Response | str:
        """Return the answer to a request that is rejected, else its path below our room."""
        door, path = self.door, request.url.path
        token = request.query_params.get("token") if path == "/" else None
        arriving = request.method == "GET" and token is not None
        refusal = door.stranger(request.method, request.headers, arriving=arriving)
        if refusal is None:
            if path in (LIVE, READY) and request.method in SAFE:
                return path
            inside = door.inside(path)
            cookie = request.cookies.get(COOKIE)
            admitted = door.admits(cookie) if inside else arriving and door.expects(token or "")
            refusal = refusal_of(request.scope) if admitted else _NOT_ADMITTED
            if refusal is None:
                return inside or self._let_in(token or "")
        answer = self._refused(refusal, reads_html="text/html" in request.headers.get("accept", ""))
        answer.headers["Connection"] = "close"  # a stranger keeps none
        return answer

    def _refused(self, refusal: Refusal, *, reads_html: bool) -> Response:
        """Say why somebody is not served: in a page to who opens an address, else as JSON."""
        if reads_html:
            return HTMLResponse(refused_page(refusal.reason), refusal.status)
        return _json({"error": refusal.reason}, refusal.status)

    def _let_in(self, token: str) -> Response:
        """Exchange a token for the cookie, and a page that continues automatically.

        A redirect would not do: it belongs to the site that the browser came from, and a
        strict cookie is not sent along.
        """
        self.door.exchanges(token)
        room = f"/{self.door.room}/"
        response = HTMLResponse(way_in(room, f"{room}static/icon.svg"))
        response.set_cookie(COOKIE, self.door.secret, httponly=True, samesite="strict", path=room)
        return response

    def _sealed(self, send: Send) -> Send:
        extra = {**HEADERS, "Content-Security-Policy": self.policy}

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                lines = ((k.lower().encode(), v.encode()) for k, v in extra.items())
                more = [(name, value) for name, value in lines if name not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return sealed


async def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    if found is None:
        return _json({"error": "no such file"}, 404)
    content, kind = found
    return Response(content, media_type=kind, headers={"Cache-Control": STATIC_CACHE})


async def _news(
    answers: RecordReader, lane: Lane, request: Request, session: int
) -> AsyncIterator[bytes]:
    """Tell the page what is new of a session; look twice a second, say it once.

    A ledger that cannot be read is news, too, and so is one that can be again.
    """
    seen = -1
    trouble = ""
    quiet = 0
    while not await request.is_disconnected():
        try:
            revision = await lane.run(answers.revision)
            if revision != seen:
                news = {"revision": revision, **await lane.run(answers.news, session)}
                seen, trouble, quiet = revision, "", 0
                yield _event("changed", news)
        except Unreachable:
            pass  # a busy lane is no news
        except SightlineError as error:
            if str(error) != trouble:
                seen, trouble, quiet = -1, str(error), 0
                yield _event("trouble", trouble)
        if quiet >= HEARTBEAT_POLLS:
            quiet = 0
            # WHATWG HTML, server-sent events: a line with a colon first is a comment.
            yield b": still here\n\n"
        quiet += 1
        await asyncio.sleep(POLL_S)


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"


async def _body(request: Request) -> bytes:
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > MAX_BODY_BYTES:
            raise InvalidInput(f"a body has at most {MAX_BODY_BYTES} bytes")
    return bytes(chunks)


def _read(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if nests_deeper(body, NESTING):
        raise InvalidInput(f"the body: nested deeper than {NESTING} levels")
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body: {error}") from error


def _numbers(text: str) -> list[int]:
    """Read the numbers of turns, which stand behind each other with commas."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) <= ROW_DIGITS for word in words):
        raise InvalidInput("turns are asked for by their numbers, like of=1,2,3")
    return [int(word) for word in words]


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def _refuse(_: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, InvalidInput) else 503
    return _json({"error": str(error)}, status)


async def _fail(_: Request, error: Exception) -> Response:
    _log.exception("the inspector failed", exc_info=error)
    return _json({"error": f"unexpected {type(error).__name__}; the log says more"}, 500)


# Connections.


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a connection is waited for, and how many there are."""

    request_s: float = 10.0
    write_s: float = 30.0
    connections: int = 64


def server_of(
    application: Any, limits: ConnectionLimits | None = None, *, users: Users = "own"
) -> uvicorn.Server:
    """Return a server for an application, whose connections keep to the limits."""
    limits = limits or ConnectionLimits()
    settings = {"limits": limits, "request_s": limits.request_s}
    # A WebSocket would leave the limits. At "critical", neither a stranger's invalid request nor
    # a request that the end of the program cuts off writes a line.
    return port_server(
        application, users, type("Limited", (_Connection,), settings),
        ws="none", backlog=BACKLOG, log_level="critical",
    )  # fmt: skip


class _Connection(PortConnection):
    """One connection, with a clock for its request and one for what it was sent."""

    limits: ClassVar[ConnectionLimits]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._unread: asyncio.TimerHandle | None = None
        # So we hear of every byte that waits to be read, also when we are closing already.
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP. What was being answered to it is heard by nobody any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in _UNANSWERED:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def shutdown(self) -> None:
        """End with the server. What is being streamed is cut off: news have no end of their own."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.resume_writing()

    def _waits(self) -> bool:
        """Tell whether nothing is being answered here. Before a request there is no cycle."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, _Connection) and other is not self and other._waits()
        ]
        oldest = min(waiting, key=lambda other: other._since, default=self)
        oldest.transport.abort()
