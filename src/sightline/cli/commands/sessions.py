"""`/session …`, `/export`: which conversation this is, and what is kept with it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sightline.cli.commands.command import Argument, Command, CommandCall
from sightline.cli.commands.lines import columns, cut
from sightline.context.ledger import Ledger, Session
from sightline.errors import InvalidInput, NotFound

__all__ = ["COMMANDS"]

_SESSION: Final = Argument("SESSION", source="sessions", rest=True)
_NAME: Final = Argument("NAME", rest=True)


async def _list(call: CommandCall) -> None:
    sessions = await call.ledger(lambda ledger: ledger.sessions.recent())
    rows = [("", "ID", "last used", "groups", "tokens", "name")]
    rows.extend(
        (
            "*" if session.id == call.host.session.id else "",
            str(session.id),
            session.updated_at[:16].replace("T", " "),
            str(session.groups),
            f"{session.tokens:,}",
            session.name,
        )
        for session in sessions
    )
    lines = columns(rows, right=(1, 3, 4))
    await call.console.page("\n".join(cut(line, call.console.width) for line in lines))


async def _new(call: CommandCall) -> None:
    _tell(call, await call.host.new_session(call.text("NAME")))


async def _switch(call: CommandCall) -> None:
    _tell(call, await call.host.switch(call.text("SESSION")))


async def _clone(call: CommandCall) -> None:
    source = call.host.session
    copy = await call.ledger(lambda ledger: ledger.sessions.clone(source.id, call.text("NAME")))
    _tell(call, await call.host.switch(copy))


async def _rename(call: CommandCall) -> None:
    session_id, name = call.host.session.id, call.text("NAME")
    _tell(call, await call.ledger(lambda ledger: ledger.sessions.rename(session_id, name)))


async def _delete(call: CommandCall) -> None:
    reference = call.text("SESSION")
    session = await call.ledger(lambda ledger: ledger.sessions.resolve(reference))
    call.console.write(_describe(session))
    if not await call.may_delete(f"session {session.id}"):
        return
    if session.id == call.host.session.id:
        # The host needs a session to be in: the most recent of the others, or a new one.
        other = await call.ledger(lambda ledger: _another(ledger, session.id))
        if other is None:
            await call.host.new_session("")
        else:
            await call.host.switch(other)
    with suppress(NotFound):  # a session without a word in it is gone when it is left
        await call.ledger(lambda ledger: ledger.sessions.delete(session.id, confirm=session.uuid))
    call.console.write(f"Session {session.id} is deleted.")
    _tell(call, call.host.session)


def _another(ledger: Ledger, session_id: int) -> Session | None:
    return next((one for one in ledger.sessions.recent() if one.id != session_id), None)


async def _scratchpad(call: CommandCall) -> None:
    session_id = call.host.session.id
    text = await call.ledger(lambda ledger: ledger.scratchpad.read(session_id))
    if call.text("edit"):
        edited = await call.console.edit(text)
        if edited is None or edited == text:
            call.console.write("The scratchpad is as it was.")
            return
        await call.ledger(lambda ledger: ledger.scratchpad.replace(session_id, edited))
        call.console.write("The scratchpad is changed.")
    elif text:
        await call.console.page(text)
    else:
        call.console.write("The scratchpad is empty; the model writes to it, and so can you.")


async def _export(call: CommandCall) -> None:
    session = call.host.session
    target = Path(call.text("FILE") or f"session-{session.id}.jsonl").expanduser()

    def write(ledger: Ledger) -> int:
        lines = 0
        try:
            # Nobody else's business: what was said stays with whoever said it.
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                for line in ledger.export(session.id):
                    stream.write(line)
                    lines += 1
        except OSError as error:
            raise InvalidInput(f"{target}: {error.strerror}") from error
        return lines

    lines = await call.ledger(write)
    call.console.write(f"Wrote {lines} lines to {target}")


def _describe(session: Session) -> str:
    many = "1 group" if session.groups == 1 else f"{session.groups} groups"
    return f"session {session.id}, {session.name}: {many}, {session.tokens:,} tokens"


def _tell(call: CommandCall, session: Session) -> None:
    call.console.write(f"Now in {_describe(session)}")


COMMANDS: Final = (
    Command("session list", "List the sessions, the most recent first.", _list),
    Command(
        "session new", "Begin a new session.", _new,
        (Argument("NAME", optional=True, rest=True),), idle=True,
    ),
    Command(
        "session switch", "Go on with another session: its number, name or uuid.", _switch,
        (_SESSION,), idle=True, example="/session switch 3",
    ),
    Command(
        "session clone", "Copy this session and go on in the copy.", _clone,
        (Argument("NAME", optional=True, rest=True),), idle=True,
    ),
    Command("session rename", "Give this session another name.", _rename, (_NAME,), idle=True),
    Command(
        "session scratchpad", "Show the session's scratchpad, or change it in your editor.",
        _scratchpad, (Argument("edit", choices=("edit",), optional=True),), idle=True,
    ),
    Command(
        "session delete", "Delete a session for good, after asking.", _delete, (_SESSION,),
        idle=True,
    ),
    Command(
        "export", "Write this session as JSON Lines to a new file.", _export,
        (Argument("FILE", source="files", optional=True, rest=True),), example="/export talk.jsonl",
    ),
)  # fmt: skip
