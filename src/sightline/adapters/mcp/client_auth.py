"""Sign in at a remote MCP server by OAuth, as the SDK does it; tokens are kept in the keyring.

The user opens a URL, which is asked for as any question of a server is, and comes back to a
listener on this machine that lives as long as the question. Without the extra `keyring`, or
where the system has none, tokens are kept in memory alone, and the question says so.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import mcp.shared.auth as oauth
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from pydantic import AnyUrl, BaseModel, ValidationError

from sightline._distribution import install
from sightline.adapters.mcp.client_questions import PendingQuestions
from sightline.slop.hub.mcp import checked_url
from sightline.slop.transports.sockets import user_refusal

SERVICE: Final = "sightline-mcp"
_REQUEST_BYTES: Final = 16 * 1024
_FIRST_PORT: Final = 49_152  # RFC 6335: dynamic ports
_PORTS: Final = 16_000
_PAGE: Final = "You are signed in, and can close this page."
_M = TypeVar("_M", bound=BaseModel)


def sign_in(
    url: str,
    questions: PendingQuestions,
    begun: Callable[[], None],
    shelf: TokenShelf | None = None,
) -> OAuthClientProvider:
    """Make what signs in at a server when it wants that; `begun` is called when it does."""
    shelf = shelf or TokenShelf(url)
    # The same one each time: a server remembers where its clients come back to.
    port = _FIRST_PORT + zlib.crc32(url.encode()) % _PORTS
    visit = _Visit(url, port, questions, begun, shelf)
    about = oauth.OAuthClientMetadata(
        client_name="Sightline",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        token_endpoint_auth_method="none",  # noqa: S106 - a method, no password
    )
    return OAuthClientProvider(url, about, shelf, visit.send, visit.back)


class TokenShelf:
    """The tokens for one server: in the keyring, or in memory where there is none."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept: dict[str, Any] | None = None
        self.is_lasting = False

    async def get_tokens(self) -> oauth.OAuthToken | None:
        return await self._read("tokens", oauth.OAuthToken)

    async def set_tokens(self, tokens: oauth.OAuthToken) -> None:
        await self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> oauth.OAuthClientInformationFull | None:
        return await self._read("client", oauth.OAuthClientInformationFull)

    async def set_client_info(self, client_info: oauth.OAuthClientInformationFull) -> None:
        await self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    async def _read(self, name: str, kind: type[_M]) -> _M | None:
        if self._kept is None:
            text = await asyncio.to_thread(self._recall)
            self._kept = {} if text is None else msgspec.json.decode(text)
        try:
            return kind.model_validate(self._kept[name])
        except (KeyError, ValidationError):
            return None

    async def _write(self, name: str, value: Any) -> None:
        self._kept = {**(self._kept or {}), name: value}
        await asyncio.to_thread(self._keep, msgspec.json.encode(self._kept).decode())

    def _recall(self) -> str | None:
        try:
            import keyring

            found = keyring.get_password(SERVICE, self._url)
        except Exception:  # noqa: BLE001 - not installed, or of a system that has none
            return None
        self.is_lasting = True
        return found

    def _keep(self, text: str) -> None:
        try:
            import keyring

            keyring.set_password(SERVICE, self._url, text)
        except Exception:  # noqa: BLE001 - as above
            self.is_lasting = False


class _Visit:
    """One way of the user to the server's page and back."""

    def __init__(
        self, url: str, port: int, questions: PendingQuestions, begun: Callable[[], None],
        shelf: TokenShelf,
    ) -> None:  # fmt: skip
        self._host = urlsplit(url).netloc
        self._port = port
        self._questions = questions
        self._begun = begun
        self._shelf = shelf
        self._result: asyncio.Future[oauth.AuthorizationCodeResult] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None

    async def send(self, url: str) -> None:
        """Ask the user to open a page. Raises InvalidInput for a URL that is not safe."""
        checked_url(url)
        self._result = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=_REQUEST_BYTES
        )
        self._begun()
        self._asking = asyncio.create_task(self._ask(url, self._result))

    async def back(self) -> oauth.AuthorizationCodeResult:
        """Wait until the user comes back."""
        if self._result is None or self._asking is None or self._server is None:
            raise OAuthFlowError("nobody was sent anywhere")
        try:
            return await self._result
        finally:
            self._asking.cancel()
            self._server.close()

    async def _ask(self, url: str, result: asyncio.Future[oauth.AuthorizationCodeResult]) -> None:
        message = f"Sign in at {self._host}: open the page and come back."
        if not self._shelf.is_lasting:
            missing = f"there is no keyring ({install('keyring')})"
            message += f" The token is kept until the server is disconnected: {missing}."
        action, _ = await self._questions.ask(message, url=url)
        if action != "accept" and not result.done():
            result.set_exception(OAuthFlowError("the user did not sign in"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if user_refusal(writer.transport) is not None:
                raise ConnectionError("another user's connection")
            line = await reader.readuntil(b"\r\n\r\n")
            target = line.split(b" ", 2)[1].decode("ascii")
            given = parse_qs(urlsplit(target).query)
            # RFC 6749, section 3.1: a parameter that is there more than once is a ValueError here.
            [code], [state] = given.get("code", [""]), given.get("state", [None])
            [iss] = given.get("iss", [None])
            if urlsplit(target).path == "/callback" and self._result and not self._result.done():
                self._result.set_result(
                    oauth.AuthorizationCodeResult(code=code, state=state, iss=iss)
                )
            body = _PAGE.encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (OSError, ValueError, IndexError, asyncio.IncompleteReadError,
                asyncio.LimitOverrunError):  # fmt: skip
            pass
        finally:
            writer.close()
