"""`/session …`, `/export`: which conversation this is, and what is kept with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import click

from sightline.cli.commands.command import CommandCall, Section, rest
from sightline.cli.commands.console import cut
from sightline.cli.commands.offers import offering
from sightline.cli.ledger import hit_line, overview_table, write_session
from sightline.cli.out import counted
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.paths import expanded
from sightline.errors import NotFound

COMMANDS: Final = Section("Sessions")
_session: Final = rest("session", offers=offering(lambda here, *_: here.sessions()))
_any_name: Final = rest("name", required=False)


@COMMANDS.command("session list", example="/session list --all")
@click.option("--all", "single", is_flag=True)
async def _list(call: CommandCall, single: bool) -> None:
    """List the sessions, those of this directory first; `--all` shows single questions, too."""
    here = call.host.session
    listed = await call.ledger(
        lambda ledger: ledger.sessions.overview(project=here.project, single=single)
    )
    lines = overview_table(listed, here.id)
    await call.console.page("\n".join(cut(line, call.console.width) for line in lines))


@COMMANDS.command("search", example="/search parser tests")
@rest("text")
async def _search(call: CommandCall, text: str) -> None:
    """Find what was said in any session, by its words."""
    hits = await call.ledger(lambda ledger: ledger.search(text))
    if not hits:
        call.console.write("Nothing that was said has these words.")
        return
    here = call.host.session.id
    lines = [cut(hit_line(hit), call.console.width) for hit in hits]
    ways = ["/session switch ID goes on there"]
    if any(hit.session_id == here for hit in hits):
        ways.append("/message show ID shows a group of this session whole")
    await call.console.page("\n".join([*lines, f"{'; '.join(ways)}."]))


@COMMANDS.command("session new", idle=True)
@_any_name
async def _new(call: CommandCall, name: str) -> None:
    """Begin a new session."""
    _tell(call, await call.host.new_session(name))


@COMMANDS.command("session switch", idle=True, example="/session switch 3")
@_session
async def _switch(call: CommandCall, session: str) -> None:
    """Go on with another session: its number, name or uuid."""
    _tell(call, await call.host.switch(session))


@COMMANDS.command("session clone", idle=True)
@_any_name
async def _clone(call: CommandCall, name: str) -> None:
    """Copy this session and go on in the copy."""
    copy = await call.ledger(lambda ledger: ledger.sessions.clone(call.host.session.id, name))
    _tell(call, await call.host.switch(copy))


@COMMANDS.command("session rename", idle=True)
@rest("name")
async def _rename(call: CommandCall, name: str) -> None:
    """Give this session another name."""
    session_id = call.host.session.id
    _tell(call, await call.ledger(lambda ledger: ledger.sessions.rename(session_id, name)))


@COMMANDS.command("session delete", idle=True)
@_session
async def _delete(call: CommandCall, session: str) -> None:
    """Forget a session everywhere, after asking: words, requests, checkpoints, input history."""
    from sightline.cli.forget import forget, traces_of

    found = await call.ledger(lambda ledger: ledger.sessions.resolve(session))
    traces = await call.ledger(lambda ledger: traces_of(ledger, found))
    call.console.write(traces.described)
    if not await call.may_delete(f"session {found.id}"):
        return
    if found.id == call.host.session.id:
        # The host needs a session to be in: the most recent of the others, or a new one.
        other = await call.ledger(lambda ledger: _another(ledger, found.id))
        if other is None:
            await call.host.new_session("")
        else:
            await call.host.switch(other)
    with suppress(NotFound):  # a session without a word in it is gone when it is left
        await call.ledger(lambda ledger: forget(ledger, [traces]))
    call.console.write(f"Session {found.id} is deleted.")
    _tell(call, call.host.session)


def _another(ledger: Ledger, session_id: int) -> Session | None:
    others = (one for one in ledger.sessions.recent() if one.id != session_id)
    return next((one for one in others if one.parent is None and not one.is_foreign), None)


@COMMANDS.command("session scratchpad", idle=True)
@click.argument("edit", type=click.Choice(["edit"]), required=False)
async def _scratchpad(call: CommandCall, edit: str | None) -> None:
    """Show the session's scratchpad, or change it in your editor."""
    session_id = call.host.session.id
    text = await call.ledger(lambda ledger: ledger.scratchpad.read(session_id))
    if edit:
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


@COMMANDS.command("export", example="/export talk.jsonl")
@rest("file", required=False, offers=offering(lambda here, word, _: here.files(word)))
async def _export(call: CommandCall, file: str) -> None:
    """Write this session as JSON Lines to a new file."""
    session = call.host.session
    target = expanded(file or f"session-{session.id}.jsonl")
    lines = await call.ledger(lambda ledger: write_session(ledger.export(session.id), target))
    call.console.write(f"Wrote {lines} lines to {target}")


def _tell(call: CommandCall, session: Session) -> None:
    weight = f"{counted(session.groups, 'group')}, {session.tokens:,} tokens"
    call.console.write(f"Now in session {session.id}, {session.name}: {weight}")
