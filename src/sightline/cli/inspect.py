"""`sightline inspect`: a local web page of exactly what the model saw."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import signal
import socket
import stat
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sightline.cli.options import (
    db_option,
    examples,
    loaded_config,
    needing,
    open_ledger,
    users_option,
)  # fmt: skip
from sightline.cli.out import Progress, say, write_page
from sightline.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    from sightline.inspector.door import PageDoor
    from sightline.inspector.reader import RecordReader
    from sightline.slop.transports.sockets import Users


LOOPBACK: Final = "127.0.0.1"
SECRET_BYTES: Final = 32
LINE_BYTES: Final = 4096
FOREGROUND_S: Final = 1.0


@examples(
    "sightline inspect --db talk.db --export 1",
    "sightline inspect --db talk.db --export 1 --output session.html",
    "sightline inspect --db talk.db --export 1 --output - | wc -c",
)
@click.command()
@db_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: any free one.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
@users_option
@click.option("--allow-invoke", is_flag=True, help="Let the page ask live apps to do things.")
@click.option(
    "--export",
    "session",
    type=click.IntRange(0, 2**63 - 1),
    help="Write this session as one HTML file instead.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Where to; - is stdout.",
)
def inspect(*, db: Path | None, session: int | None, output: Path | None, **serving: Any) -> None:
    """See the turns of every session: the prompt as sent, what was cut and why, and what if.

    Serves a page on this machine only, until interrupted. The address that is printed lets
    one browser in, once; Enter prints another. It follows a running chat. With --export it
    writes a file that opens without a server.
    """
    from sightline.inspector.reader import RecordReader

    if output is not None and session is None:
        raise click.UsageError("--output is for --export")
    with open_ledger(db) as ledger:
        reader = RecordReader(ledger, loaded_config().settings, os.environ)
        if session is not None:
            with Progress("turns read") as progress:
                page = reader.export(session, progress)
            save_page(page, output or Path(f"sightline-session-{session}.html"))
            return
        asyncio.run(_serve(reader, **serving))


def save_page(page: Iterator[str], target: Path) -> None:
    """Write a page to a file and print its name; `-` is stdout."""
    if str(target) == "-":
        write_page(page)
        return
    try:
        write_whole(page, target)
    except OSError as error:
        raise InvalidInput(f"{target}: {error.strerror or error}") from error
    say(str(target))


def write_whole(page: Iterator[str], target: Path) -> None:
    """Write a file under a name of its own first: under the one that was given it is whole.

    It is a whole conversation: nobody else can read it unless they could read what was there.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():  # a device, a pipe: there is no beside
        with target.open("w", encoding="utf-8") as file:
            file.writelines(page)
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "x", encoding="utf-8", opener=private) as file:
            file.writelines(page)
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file that nobody else can read, as `open` takes it."""
    return os.open(path, flags, 0o600)


async def _serve(
    reader: RecordReader, *, port: int, opens: bool, allow_invoke: bool, users: Users
) -> None:
    with needing("inspector", "the inspector needs starlette and uvicorn"):
        from sightline.inspector.door import PageDoor
        from sightline.inspector.server import Invoke, inspector_app, server_of
    from sightline.slop.discovery.directory import Discovery
    from sightline.slop.hub.hub import Hub

    listening = listen(port)
    door = PageDoor(_secret(), _secret(), listening.getsockname()[1])
    hub = Hub(Discovery(), lazy=True)

    async def act(app: str, path: str, action: str, params: dict[str, Any]) -> Any:
        return (await hub.invoke(app, path, action, params)).data

    def tell() -> None:
        say(_address(door))

    invoke: Invoke | None = act if allow_invoke else None
    server = server_of(inspector_app(reader, door, invoke=invoke), users=users)
    # The server raises SIGTERM once more when it has ended, which would end us before the clean-up.
    leave = functools.partial(server.handle_exit, signal.SIGTERM, None)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
    async with AsyncExitStack() as stack:
        if allow_invoke:
            await stack.enter_async_context(hub)
        tell()
        stack.enter_context(_at_enter(tell))
        if opens:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sightline-"))
            await asyncio.to_thread(_open_browser, door, Path(folder))
        await server.serve(sockets=[listening])


def _secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def _address(door: PageDoor, spent: Callable[[], None] | None = None) -> str:
    """Make an address that lets one browser in, once."""
    token = _secret()
    door.expect(token, *(() if spent is None else (spent,)))
    return f"http://{LOOPBACK}:{door.port}/?token={token}"


def _open_browser(door: PageDoor, folder: Path) -> None:
    """Open the page in a browser without a token on its command line, which everybody can read.

    The browser is given a file that leads on to the address; the folder is the user's alone.
    """
    from sightline.inspector.pages import way_in

    file = folder / "inspector.html"

    def remove() -> None:
        file.unlink(missing_ok=True)

    with open(file, "x", encoding="utf-8", opener=private) as page:
        page.write(way_in(_address(door, remove)))
    if not webbrowser.open(file.as_uri()):
        remove()


@contextmanager
def _at_enter(tell: Callable[[], None]) -> Iterator[None]:
    """Call for every line that is typed at the terminal, if there is one and it is ours."""
    loop = asyncio.get_running_loop()
    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()

    def typed() -> None:
        if not _in_foreground(terminal):  # to read would stop us; look again later
            loop.remove_reader(terminal)
            loop.call_later(FOREGROUND_S, loop.add_reader, terminal, typed)
        elif os.read(terminal, LINE_BYTES):
            tell()
        else:
            loop.remove_reader(terminal)

    loop.add_reader(terminal, typed)
    try:
        yield
    finally:
        loop.remove_reader(terminal)


def _in_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # not the terminal that controls us: nobody stops us for reading it
        return True


def listen(port: int) -> socket.socket:
    """Listen on a port of this machine alone; 0 is any free one."""
    # By the protocol's name: asyncio lets only such sockets send a small piece at once.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # the address is good from the moment it is printed
    except OSError as error:
        listening.close()
        raise Unreachable(f"port {port} cannot be had: {error.strerror}") from error
    return listening
