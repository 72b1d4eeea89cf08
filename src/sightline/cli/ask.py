"""`sightline ask`: one question, one answer, for pipes and scripts."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec.structs import replace

import sightline.events as events
from sightline.cli.approval import Consent, LineAsker, approval_card, consent_to, unasked
from sightline.cli.commands.console import cut
from sightline.cli.io import STDIN, read_bytes
from sightline.cli.options import DB_HELP, examples
from sightline.cli.out import Outlet, prompt, say, tell, write_json_lines
from sightline.errors import ApprovalNeeded, DoesNotFit, InvalidInput, SightlineError

if TYPE_CHECKING:
    from sightline.agent.host import Host
    from sightline.agent.models.keys import Key
    from sightline.config import Settings
    from sightline.slop.hub.hub import Hub


MAX_INPUT: Final = 16 * 1024 * 1024
_SHOWN_CHARS: Final = 300


class _AskOptions(msgspec.Struct, frozen=True):
    """What the command line of `ask` says. `typed` is what of the text was not piped in."""

    text: str
    typed: str
    key: Key | None
    is_command: bool
    as_json: bool
    yes: bool
    latest: bool
    resume: str | None
    connect: tuple[str, ...]


@examples(
    'sightline ask --db work.db "What is unread?"',
    'sightline ask --db work.db -c "And who wrote it?"',
    'cat notes.txt | sightline ask --db work.db "Summarise this."',
    'sightline ask --db work.db --json "What is unread?"',
    "sightline ask --db work.db -c /stats",
)
@click.command()
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Every event, one JSON object per line.")
@click.option("--model", help="ENDPOINT:MODEL, either of them, or 'local'; see 'models'.")
@click.option("--key-file", metavar="FILE", help="Its key is in this file; - is stdin.")
@click.option("--mode", type=click.Choice(["ask", "auto", "plan"]), help="What actions may do.")
@click.option("-c", "--continue", "latest", is_flag=True, help="Go on with the latest session.")
@click.option("-r", "--resume", metavar="ID", help="Go on with this one: number, name or uuid.")
@click.option("--yes", is_flag=True, help="Approve every action that would be asked for.")
@click.option("--connect", metavar="ADDR", multiple=True, help="Connect to this app, too.")
@click.option("--db", type=click.Path(dir_okay=False), help=DB_HELP)
def ask(
    *,
    text: str | None,
    model: str | None,
    key_file: str | None,
    mode: str | None,
    db: str | None,
    **given: Any,
) -> int:
    """Ask once; the answer goes to stdout, everything else to stderr.

    What is piped in is part of the question; @FILE in TEXT attaches a file. The model sees
    the apps of this machine and the current directory. An action that needs your approval
    is asked for at a terminal; where nobody can be asked it is not done, and the exit code
    is 7. A request that would pass a limit in money (limits.turn_usd, session_usd, day_usd)
    is asked about in the same way; where nobody can be asked it is not sent, --yes or not, and
    the exit code is 6, as it is where another limit ended the turn. A TEXT like /stats is a
    command of the chat.
    """
    if given["latest"] and given["resume"]:
        raise InvalidInput("-c and -r name two sessions; give one of them")
    # Only what was typed is a command: a pipe may bring lines that begin with a slash.
    is_command = text is not None and text.startswith("/") and not text.startswith("//")
    question = text if text is not None and is_command else _question(text, key_file)
    # Imported here: the host brings most of the program with it.
    from sightline.cli.opening import read_key
    from sightline.config import load

    key = read_key(key_file) if key_file else None
    options = _AskOptions(question, text or "", key=key, is_command=is_command, **given)

    loaded = load(None, os.environ, {"model": model, "mode": mode, "ledger.path": db})
    tell(*loaded.refused)
    return asyncio.run(_run(loaded.settings, options))


def _question(text: str | None, key_file: str | None) -> str:
    """Put the argument and what is piped in together, unless that is the key."""
    if key_file == STDIN and text in (None, "-"):
        raise InvalidInput("stdin is the key: give the question as TEXT")
    piped = (
        ""
        if key_file == STDIN or sys.stdin.isatty()
        else read_bytes(STDIN, MAX_INPUT).decode(errors="replace")
    )
    parts = [part for part in (text if text != "-" else None, piped) if part and part.strip()]
    if not parts:
        raise InvalidInput("there is nothing to ask: give a text, or pipe one in")
    return "\n\n".join(parts)


async def _run(settings: Settings, options: _AskOptions) -> int:
    from sightline.cli.opening import opened_host

    async with opened_host(
        settings, options.key, resume=options.resume, latest=options.latest,
        connect=options.connect, kind="ask",
    ) as host:  # fmt: skip
        return await (_command if options.is_command else _follow)(host, options)


async def _command(host: Host, options: _AskOptions) -> int:
    """Run a slash command; what it has to say goes to the model."""
    from sightline.cli.commands.command import Leave
    from sightline.cli.commands.console import PlainConsole
    from sightline.cli.commands.registry import run

    out = io.StringIO() if options.as_json else Outlet()
    try:
        message = await run(options.text, host, PlainConsole(out, yes=options.yes))
    except Leave:
        return 0
    if isinstance(out, io.StringIO):
        ran = events.CommandRan(command=options.text, text=out.getvalue().rstrip("\n"))
        write_json_lines([events.encode_event(ran)])
    return await _follow(host, replace(options, text=message, typed=message)) if message else 0


async def _follow(host: Host, options: _AskOptions) -> int:
    from sightline.cli.attach import attach

    if missing := unasked(host):
        tell(missing)
        if options.as_json:
            notice = events.Noticed(code="instructions", message=missing)
            write_json_lines([events.encode_event(notice)])

    code = 0
    needed: list[str] = []
    warned: set[str] = set()
    attached = await attach(options.typed, host)
    for name in () if options.as_json else attached.names:
        tell(f"attached {name}")
    if options.as_json:
        _stop_when_interrupted(host)
    host.asks_about_loops = _is_attended(options) and not options.yes
    async for event in host.ask(attached.behind(options.text), attached.files):
        if options.as_json:
            write_json_lines([events.encode_event(event)])
        elif isinstance(event, events.RequestBuilt):
            # Once: what is peculiar about a request is so about the next one, too.
            tell(*(warning for warning in event.warnings if warning not in warned))
            warned.update(event.warnings)
        else:
            tell(*_lines(event))
        if isinstance(event, events.ApprovalAsked):
            given = await _approval(options, event, host.hub)
            if given is None:
                needed.append(f"{event.action} on {event.path} of {event.app}")
            if host.busy:
                host.answer(event.call_id, *(given or (False,)))
        elif isinstance(event, events.SpendingAsked):
            agreed = _is_attended(options) and await _spend_more(event)
            if host.busy:
                host.spend_more(agreed)
        elif isinstance(event, events.TurnEnded):
            if event.text and not options.as_json:
                say(event.text)
            code = exit_code_of(event)
    if needed:
        raise ApprovalNeeded(f"{', '.join(needed)} needs your approval; --yes gives it")
    return code


def _stop_when_interrupted(host: Host) -> None:
    """Let Ctrl-C end the turn, so that its end is told, too; a second one ends the program."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        host.cancel()

    with suppress(ValueError, RuntimeError):  # signals are the main thread's
        loop.add_signal_handler(signal.SIGINT, stop)


async def _approval(options: _AskOptions, event: events.ApprovalAsked, hub: Hub) -> Consent | None:
    """Show what is asked for, and return what is answered; None if nobody can be asked."""
    asker = LineAsker(Outlet(err=True), _typed, width=get_terminal_size().columns)
    somebody = _is_attended(options)
    if not options.as_json:
        # Where nobody can ask to see more, all of it is shown.
        asker.draw(approval_card(event, asker.width, whole=options.yes or not somebody))
    if options.yes and not event.is_question:  # what a server asks only its user knows
        return Consent(True)
    return await consent_to(event, asker, hub) if somebody else None


def _is_attended(options: _AskOptions) -> bool:
    return not options.as_json and sys.stdin.isatty() and sys.stderr.isatty()


async def _spend_more(event: events.SpendingAsked) -> bool:
    tell(str(event))
    return (await _typed(f"{event.question} [y/n] ")).strip().lower() in ("y", "yes")


async def _typed(question: str) -> str:
    return await asyncio.to_thread(prompt, question)


def _lines(event: events.HostEvent) -> Iterator[str]:
    """What a person at a terminal should know beside the answer."""
    match event:
        case events.CallStarted():
            what = f"{event.action} on {event.path} of {event.app}" if event.app else ""
            given = cut(msgspec.json.encode(event.arguments).decode(), _SHOWN_CHARS)
            yield f"→ {event.name} {what or given}"
        case events.CallFinished() if not event.ok:
            yield f"✗ {event.name}: {cut(event.content, _SHOWN_CHARS)}"
        case events.Retrying():
            yield f"… again in {event.after_s:g} s: {event.reason}"
        case events.Noticed():
            yield event.message
        case events.TurnEnded(outcome="cancelled"):
            yield event.detail or "stopped"
        case events.TurnEnded() if event.outcome != "answered":
            yield f"{event.outcome}: {event.detail or event.code}"
        case _:
            return


def exit_code_of(event: events.TurnEnded) -> int:
    """Say what the turn's end is to a script: its error's own code where it has one."""
    match event.outcome:
        case "answered":
            return 0
        case "cancelled":
            return 130
        case "limit":  # rounds, tokens, money, the length of a reply
            return DoesNotFit.exit_code
        case _:
            return _codes().get(event.code, 1)


def _codes() -> dict[str, int]:
    codes: dict[str, int] = {}
    kinds: list[type[SightlineError]] = [SightlineError]
    while kinds:
        kind = kinds.pop()
        codes.setdefault(kind.code, kind.exit_code)
        kinds += kind.__subclasses__()
    return codes
