"""A vendor on loopback: one server, every API, in a thread of its own.

    with Vendor(says("Hello there."), Refuses("rate", retry_after="2")) as vendor:
        …  # a client with vendor.url as its base, or a process with vendor.environment()
    assert vendor.requests[0].body == request.data

The API is chosen by the path of each request; answers are given in order, and the last one
is repeated. Nothing is decided by time: a stalled reply ends when the client hangs up.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from support.vendors.answers import Answer, Breaks, Fails, Ignores, Refuses, Says, Sends
from support.vendors.apis import APIS, api_of, refusal_headers, refusal_status

KEY = "test-key-canary-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Vendor:
    """A server for as long as a block runs. `hung_up` is set when a client left in mid-stream.

    `named` are the resources of Gemini's that exist, `created` what they were made of.
    """

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[Seen] = []
        self.named: set[str] = set()
        self.created: list[dict[str, Any]] = []
        self.refuses_names = False
        self.hung_up = threading.Event()
        self.arrived = threading.Event()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="vendor")
        self._listening = threading.Event()
        self._stop = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Its base, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What a process needs to ask this server and nobody else, whichever API it speaks."""
        return {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.url,
            "OLLAMA_HOST": self.url,
            "OLLAMA_API_KEY": KEY,
        }

    def add(self, *answers: Answer) -> None:
        """Answer so from now on."""
        self._answers[:] = answers

    def __enter__(self) -> Self:
        self._thread.start()
        self._listening.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**24)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        # Who was accepted a moment ago has no transport yet, and gets none from a closed server;
        # and nobody is cancelled: what is cut off ends by itself, and closes what it has.
        for listening in server.sockets:
            self._loop.remove_reader(listening)
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait([task])

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except asyncio.IncompleteReadError:
            pass  # between two requests
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; tell whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
        if not head:
            return False
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        if "upgrade" in headers:
            return await self._socket(path, headers, head, reader, writer)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(Seen(method, path, headers, body))
        self.arrived.set()
        if "/cachedContents" in path:
            return await self._named(method, path, body, writer)
        if why := self._wrong_name(body):
            return await _whole(writer, *why, {})
        if (name := api_of(path)) is None:
            return await _whole(writer, 404, b'{"error":{"message":"no such path"}}', {})
        return await self._answer(name, self._next(), reader, writer)

    def _next(self) -> Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    async def _socket(
        self,
        path: str,
        headers: dict[str, str],
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """OpenAI's Responses over a WebSocket: a message asks, the events of a reply answer."""
        socket = ServerProtocol()
        socket.receive_data(head)
        [request] = socket.events_received()
        assert isinstance(request, Request)
        socket.send_response(socket.accept(request))
        while True:
            writer.write(b"".join(socket.data_to_send()))
            await writer.drain()
            if not (data := await reader.read(2**16)):
                return False
            socket.receive_data(data)
            for event in socket.events_received():
                if not isinstance(event, Frame) or event.opcode is not Opcode.TEXT:
                    continue
                self.requests.append(Seen("SOCKET", path, headers, bytes(event.data)))
                warming = b'"generate":false' in event.data
                if not warming:
                    self.arrived.set()
                for message in self._messages(Says() if warming else self._next()):
                    if message is None:
                        writer.write(b"".join(socket.data_to_send()))
                        return False
                    if message == b"":
                        writer.write(b"".join(socket.data_to_send()))
                        return await self._hold(reader, writer, b"")
                    socket.send_text(message)

    def _messages(self, answer: Answer) -> Iterator[bytes | None]:
        """Yield the messages of an answer; None breaks the connection, an empty one holds it."""
        api = APIS["responses"]
        if isinstance(answer, Refuses):
            status = refusal_status("responses", answer)
            yield json.dumps({"type": "error", "status": status, **api.refusal(answer)}).encode()
            return
        assert isinstance(answer, Says), "said by no WebSocket here"
        number = b"resp_%d" % len(self.requests)
        for at, frame in enumerate(api.frames(answer)):
            if answer.cut == at:
                yield None
            if answer.stall == at:
                yield b""
            yield frame.partition(b"data: ")[2].strip().replace(b"resp_1", number)

    async def _named(
        self, method: str, path: str, body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Gemini's named resources: created, updated and deleted as its API does."""
        name = "cachedContents/" + path.partition("?")[0].rpartition("/")[2]
        if self.refuses_names:
            return await _whole(writer, *_error(400, "INVALID_ARGUMENT", "too small"), {})
        if method == "POST":
            name = f"cachedContents/n{len(self.created) + 1}"
            self.named.add(name)
            self.created.append(json.loads(body))
        elif name not in self.named:
            return await _whole(writer, *_GONE, {})
        elif method == "DELETE":
            self.named.discard(name)
            return await _whole(writer, 200, b"{}", {})
        told = {"name": name, "model": "models/m", "expireTime": "2026-11-16T12:00:00Z"}
        return await _whole(writer, 200, json.dumps(told).encode(), {})

    def _wrong_name(self, body: bytes) -> tuple[int, bytes] | None:
        if b'"cachedContent":' not in body:
            return None
        asked = json.loads(body)
        if asked.keys() & {"tools", "toolConfig", "systemInstruction"}:
            return _error(400, "INVALID_ARGUMENT", "CachedContent can not be used with tools")
        return None if asked["cachedContent"] in self.named else _GONE

    async def _answer(
        self,
        name: str,
        answer: Answer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        api = APIS[name]
        if isinstance(answer, Ignores):
            return await self._hold(reader, writer, b"")
        if isinstance(answer, Sends):
            kind = {"content-type": answer.content_type}
            return await _whole(writer, answer.status, answer.body, kind)
        if isinstance(answer, Refuses):
            body = json.dumps(api.refusal(answer)).encode()
            return await _whole(
                writer, refusal_status(name, answer), body, refusal_headers(name, answer)
            )
        if isinstance(answer, Breaks):
            await _begin(writer, "application/json", 500)
            return await self._hold(reader, writer, answer.repeat)
        await _begin(writer, api.content_type)
        if isinstance(answer, Fails):
            said = list(api.frames(Says(answer.pieces)))
            # The pieces, and nothing of what closes a reply.
            until = next((i + 1 for i, f in enumerate(said) if _ends(f, answer.pieces)), 0)
            for frame in [*said[:until], api.failure(answer)]:
                await _chunk(writer, frame)
        else:
            for number, frame in enumerate(api.frames(answer)):
                if answer.cut == number:
                    return False
                if answer.stall == number:
                    return await self._hold(reader, writer, answer.repeat)
                await _chunk(writer, frame)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _hold(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, repeat: bytes
    ) -> bool:
        """Keep the connection until the client hangs up."""
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while repeat and not gone.done():
                await _chunk(writer, repeat)
                await asyncio.sleep(0)
            await gone
        finally:
            gone.cancel()
        self.hung_up.set()
        return False


def _error(status: int, name: str, message: str) -> tuple[int, bytes]:
    told = {"error": {"code": status, "message": message, "status": name}}
    return status, json.dumps(told).encode()


_GONE = _error(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")


def _ends(frame: bytes, pieces: tuple[str, ...]) -> bool:
    return bool(pieces) and pieces[-1].encode() in frame


async def _begin(writer: asyncio.StreamWriter, content_type: str, status: int = 200) -> None:
    head = f"content-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(f"HTTP/1.1 {status} Status\r\n{head}".encode())
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


async def _whole(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]
) -> bool:
    given = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + body)
    await writer.drain()
    return True
