"""How an app is served to others (`App.serving`): by a Unix socket, a WebSocket or a broker.

The Unix socket is for this user alone. A port on loopback is for every user of the machine, so
who comes there shows a token, which is made where none is given, unless the app's author says in
so many words that it is open, perhaps because the app asks itself who comes (`authenticate`).
Who asks the port for `/.well-known/slop` is told where the WebSocket is, and no token.
Who comes by a broker was let in by the broker.

A descriptor file (mode 0600) names one way in: the Unix socket, or the WebSocket and
its token where there is no other. All of it ends with the block.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

from sightline.errors import InvalidInput
from sightline.slop.app.javascript import SCRIPT, javascript
from sightline.slop.discovery.wellknown import WELL_KNOWN, describe_app
from sightline.slop.protocol.messages import ProviderInfo

_TOKEN_BYTES: Final = 32


class Addresses(tuple[str, ...]):
    """Where an app is served, the Unix socket first.

    `token` is what its port asks for, if any; `announced_as` is the id by which it is found,
    which has a number behind it where another app has the id already; None if it is not.
    """

    token: str | None
    announced_as: str | None

    def __new__(
        cls, addresses: Iterable[str], token: str | None, announced_as: str | None = None
    ) -> Addresses:
        """Put addresses, the token and the id together."""
        self = super().__new__(cls, addresses)
        self.token = token
        self.announced_as = announced_as
        return self

    def notice(self, name: str) -> str:
        """Write for the person who started the app where it is, and the command that shows it."""
        shown = "" if self.token is None else f" (token: {self.token})"
        where = self.announced_as or self[0]
        needs = self.announced_as is None and self[0].startswith("ws") and self.token is not None
        see = f"{'SIGHTLINE_TOKEN=… ' if needs else ''}sightline watch {where}"
        return f"{name} is at {', '.join(self)}{shown}\nsee it with: {see}\n"


def port_token(token: str | None, *, is_open: bool) -> str | None:
    """The token that a port asks for; None if it is open."""
    if is_open and token is not None:
        raise InvalidInput("a port that is open asks for no token: choose one of the two")
    if is_open or token is not None:
        return token
    return secrets.token_urlsafe(_TOKEN_BYTES)


def pages_of(info: ProviderInfo, description: str | None) -> dict[str, Callable[[str], bytes]]:
    """What an app answers to anybody over HTTP, by path: made from the URL of its WebSocket."""
    return {
        WELL_KNOWN: lambda url: describe_app(info, url, description),
        SCRIPT: lambda _: javascript("sightline"),
    }


@contextmanager
def told_to_end() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM sets, so that the process can tidy up before it ends.

    A second time ends it at once. A program that takes the signal itself keeps it, and so does
    one whose loop runs in a thread that signals do not come to.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )

    def end() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        ended.set()

    if is_ours:
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield ended
    finally:
        if is_ours:
            loop.remove_signal_handler(signal.SIGTERM)


def socket_path(stack: AsyncExitStack, app_id: str) -> Path:
    """A socket path that only this user can reach, for as long as the app runs."""
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="slop-"))
    return Path(home) / f"{app_id[:40]}.sock"
