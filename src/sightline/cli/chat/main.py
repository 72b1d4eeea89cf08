"""`sightline chat`: talk to a model that sees your apps.

Only what the first prompt needs is imported before it is drawn; the host and everything
else is loaded behind it, while the user reads and types.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from sightline.cli.options import DB_HELP, examples
from sightline.errors import MissingExtra

if TYPE_CHECKING:
    from sightline.agent.models.keys import Key
    from sightline.cli.chat.terminal import Terminal


_ON_SCREEN: Final = "sightline.cli.chat.driver"
_PICK: Final = "?"


class ChatOptions(NamedTuple):
    """What the command line of `sightline chat` says."""

    model: str | None = None
    mode: str | None = None
    resume: str = ""
    latest: bool = False
    ledger: str | None = None
    connect: tuple[str, ...] = ()
    demo: bool = False
    yes: bool = False
    key: Key | None = None


@examples(
    "echo 'How many unread messages are in the inbox?' | sightline chat --demo --db work.db",
    "echo /help | sightline chat --db work.db",
)
@click.command()
@click.option("--model", help="ENDPOINT:MODEL, either of them, or 'local'.")
@click.option("--key-file", metavar="FILE", help="Its key is in this file.")
@click.option("--mode", type=click.Choice(["ask", "auto", "plan"]), help="What it may do.")
@click.option("-c", "--continue", "latest", is_flag=True, help="Go on with the latest session.")
@click.option(
    "-r", "--resume", metavar="[ID]", default="", is_flag=False, flag_value=_PICK,
    help="Go on with this one: number, name or uuid; without one, choose from a list.",
)  # fmt: skip
@click.option("--connect", metavar="ADDR", multiple=True, help="Connect this app as well.")
@click.option(
    "--demo",
    is_flag=True,
    help="Start the demo mail app and show it to the model, and nothing else.",
)
@click.option("--yes", is_flag=True, help="Without a terminal: approve what needs approval.")
@click.option("--db", "ledger", type=click.Path(dir_okay=False), help=DB_HELP)
def chat(*, key_file: str | None, resume: str, ledger: str | None, **given: Any) -> int:
    """Talk to a model that sees your apps as they are now, and acts on them with your consent.

    /help lists the commands. With a pipe on stdin each line is answered, and then it
    exits. Without --model the first usable one is taken: `sightline models` tells which.
    """
    if given["latest"] and resume:
        raise click.UsageError("-c and -r are two ways to choose a session: take one")
    if key_file == "-":
        raise click.UsageError("--key-file - would take the lines of the chat: give a file")
    key = None
    if key_file:
        from sightline.cli.opening import read_key

        key = read_key(key_file)
    if resume == _PICK:
        if not _has_screen():
            raise click.UsageError("-r without a session needs a terminal to choose one")
        from sightline.cli.chat.picker import pick_session

        if not (resume := pick_session(ledger)):
            return 0
    options = ChatOptions(resume=resume, ledger=ledger, key=key, **given)
    if _has_screen():
        return asyncio.run(_on_screen(options))
    from sightline.cli.chat.pipe import without_screen

    return asyncio.run(without_screen(options))


def _has_screen() -> bool:
    dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not dumb


async def _on_screen(options: ChatOptions) -> int:
    try:
        from sightline.cli.chat.terminal import Terminal, UserHistory
        from sightline.cli.chat.theme import ask_terminal
    except ModuleNotFoundError as error:
        from sightline._distribution import install

        raise MissingExtra(
            f"the chat needs {error.name}: {install('chat')}; "
            "without it, pipe lines in or use `sightline ask`"
        ) from error
    terminal = Terminal(history=UserHistory())
    if not os.environ.get("NO_COLOR"):
        terminal.hear(ask_terminal())
    behind = asyncio.create_task(_behind(terminal, options))
    behind.add_done_callback(partial(_end, terminal))
    try:
        await terminal.run()
    finally:
        behind.cancel()
        await asyncio.gather(behind, return_exceptions=True)
    return 0


async def _behind(terminal: Terminal, options: ChatOptions) -> None:
    """Load and run everything else, once the prompt is there."""
    await terminal.shown.wait()
    # In a thread: an import holds the event loop for as long as it takes, and keys wait.
    screen = await asyncio.to_thread(import_module, _ON_SCREEN)
    await screen.on_screen(terminal, options)


def _end(terminal: Terminal, behind: asyncio.Task[None]) -> None:
    """End the chat when there is nothing behind it any more; whatever the reason, it is told."""
    if not behind.cancelled():
        terminal.leave(behind.exception())
