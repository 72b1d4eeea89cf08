"""`sightline ledger`: look after the record of conversations from a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from sightline._amounts import dollars
from sightline.cli.commands.console import columns
from sightline.cli.options import attachments_url, db_option, examples, ledger_path, open_ledger
from sightline.cli.out import Progress, confirm, counted, into_file, say, tell, write_json_lines
from sightline.context.ledger import Ledger, SearchHit, Session, SessionOverview
from sightline.context.ledger.paths import address_of, database_url, expanded
from sightline.context.ledger.retrieval import QueryLimits
from sightline.errors import InvalidInput, LedgerUnusable
from sightline.slop.protocol.jsontext import escape_controls

_NANO: Final = 1_000_000_000
_OF_COPY: Final = "messages of the copy verified"
_SECONDS: Final = 30.0  # a person waits longer for an answer than a model's turn does


def _open_existing(db: Path | None) -> Ledger:
    """Open a ledger to change what is in it; one that is not there is not made for that."""
    path = ledger_path(db)
    return open_ledger(db, "write" if os.path.exists(path) or database_url(path) else "read")


@examples("sightline ledger sessions --db work.db", "sightline ledger verify --db work.db")
@click.group()
def ledger() -> None:
    """Check, query, copy and move conversations."""


@examples("sightline ledger path", "sightline ledger path --db work.db")
@ledger.command()
@db_option
def path(db: Path | None) -> None:
    """Print where the ledger is."""
    path = ledger_path(db)
    url = database_url(path)
    say(str(path) if url is None else address_of(url).name)


@examples(
    "sightline ledger verify --db work.db",
    "sightline ledger verify --db work.db --json",
    "sightline ledger verify --db work.db --since seals.json",
)
@ledger.command()
@db_option
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
@click.option(
    "--since",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Pass over sessions that have not changed since this file was written, and renew it.",
)
def verify(db: Path | None, as_json: bool, since: Path | None) -> None:
    """Check every row against its seal, and the file against SQLite's rules.

    Prints what was checked, or everything that is wrong, and then exits with 8.
    """
    known = _seals(since) if since is not None and os.path.exists(since) else None
    with open_ledger(db) as opened, Progress("messages verified") as progress:
        report = opened.verify(progress, since=known)
    if since is not None:
        with _file(since):
            since.write_bytes(msgspec.json.encode(report.seals))
    if as_json:
        write_json_lines([msgspec.structs.replace(report, seals={})])
    else:
        held = (
            counted(report.sessions, "session"), counted(report.groups, "group"),
            counted(report.messages, "message"), counted(report.memos, "memo"),
        )  # fmt: skip
        say(f"{', '.join(held)}: {'ok' if report.ok else 'DAMAGED'}")
        say(*(f"  {finding}" for finding in report.findings))
        say(*(f"  added by you: {addition}" for addition in report.additions))
    report.raise_if_damaged()


@contextmanager
def _file(path: Path) -> Iterator[None]:
    """Raise what a file that somebody named cannot do as a mistake of theirs."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from error


def _seals(path: Path) -> dict[int, str]:
    try:
        with _file(path):
            return msgspec.json.decode(path.read_bytes(), type=dict[int, str])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} is no file of `ledger verify --since`: {error}") from error


@examples(
    "sightline ledger query --db work.db 'SELECT id, name FROM sessions'",
    "sightline ledger query --db work.db --session 1 'SELECT role, content FROM messages'",
)
@ledger.command()
@click.argument("sql")
@db_option
@click.option("--session", help="Only this session's rows: its number, name or uuid.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows that come back at most.",
)
def query(sql: str, db: Path | None, session: str | None, rows: int) -> None:
    """Run one SELECT; a JSON object for each row. Dropped messages are not seen.

    Reads SQL from stdin if it is '-'. Where something was left out, a hint on
    stderr gives the query that continues.
    """
    text = sys.stdin.read() if sql == "-" else sql
    limits = QueryLimits(rows=rows, cell_chars=1_000_000, total_chars=16_000_000, seconds=_SECONDS)
    with open_ledger(db) as opened:
        session_id = opened.sessions.resolve(session).id if session else None
        result = opened.query(text, session_id=session_id, limits=limits)
    write_json_lines(line.encode() for line in result.lines())
    tell(*result.hints)


@examples(
    "sightline ledger search --db work.db hello",
    "sightline ledger search --db work.db --session 1 --json hel",
)
@ledger.command()
@click.argument("text")
@db_option
@click.option("--session", help="Only in this session: its number, name or uuid.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each message.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True,
    help="Messages that come back at most.",
)  # fmt: skip
def search(text: str, db: Path | None, session: str | None, as_json: bool, limit: int) -> None:
    """Find what was said, in any session, by its words; the newest first.

    All words must be there, in any case; of the last its beginning is enough.
    """
    with _open_to_index(db) as opened:
        session_id = opened.sessions.resolve(session).id if session else None
        for hit in opened.search(text, session_id=session_id, limit=limit):
            if as_json:
                write_json_lines([hit])
            else:
                say(hit_line(hit))


def hit_line(hit: SearchHit) -> str:
    """Write where something was said, and the words around it."""
    when = hit.created_at[:16].replace("T", " ")
    return f"session {hit.session_id}, group {hit.group_id}, {when}, {hit.role}: {hit.excerpt}"


def _open_to_index(db: Path | None) -> Ledger:
    """Open a ledger so that what is found once is found faster again, if it can be written."""
    try:
        return _open_existing(db)
    except LedgerUnusable:
        return open_ledger(db)


@examples(
    "sightline ledger export 1 --db work.db",
    "sightline ledger export refactoring --db work.db > talk.jsonl; cat talk.jsonl",
)
@ledger.command()
@click.argument("session")
@db_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Into a file."
)
def export(session: str, db: Path | None, output: Path | None) -> None:
    """Write a session as JSON Lines: the session first, then its messages.

    What a gateway recorded of another agent is no message, and not in it; a line says so.
    """
    with open_ledger(db) as opened:
        found = opened.sessions.resolve(session).id
        lines = map(escape_controls, opened.export(found))
        if left := opened.exchanges.count(found):
            tell(f"what a gateway recorded is not in it: {left} exchanges; 'backup' copies them")
        with Progress("lines written") as progress:
            if output is not None:
                write_session(progress.over(lines), output)
                return
            # On a screen the lines themselves are seen; whoever reads a pipe tells how far it is.
            watched = progress.over(lines) if into_file() else lines
            write_json_lines(line.removesuffix(b"\n") for line in watched)


def write_session(lines: Iterable[bytes], target: Path) -> int:
    """Write an exported session to a new file, for its user alone; count its lines.

    Raises InvalidInput where there is a file, or can be none.
    """
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            return sum(1 for line in lines if stream.write(line))
    except OSError as error:
        raise InvalidInput(f"{target}: {error.strerror}") from error


@examples(
    "sightline ledger import talk.jsonl --db other.db",
    "sightline ledger export 1 --db work.db | sightline ledger import --db other.db",
)
@ledger.command(name="import")
@click.argument("source", type=click.File("rb"), default="-")
@db_option
@click.option("--name", default="", help="The name of the new session.")
def import_(source: Any, db: Path | None, name: str) -> None:
    """Bring an exported session in, as a new one; prints its number."""
    with open_ledger(db, "write") as opened, Progress("lines read") as progress:
        session = opened.import_(progress.over(source), name=name)
    say(str(session.id))


@examples("sightline ledger backup copy.db --db work.db")
@ledger.command()
@click.argument("target", type=click.Path(path_type=Path))
@db_option
def backup(target: Path, db: Path | None) -> None:
    """Copy the whole ledger to a new file, while it is in use, and verify the copy."""
    with open_ledger(db) as opened, Progress("copied") as copying, Progress(_OF_COPY) as progress:
        path = opened.backup(target, progress, copying=copying)
    say(str(path))


@examples("sightline ledger copy work.db copy.db")
@ledger.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--attachments", metavar="URL", help="The copy's object store, if it is another than yours."
)
def copy(source: Path, target: Path, attachments: str | None) -> None:
    """Copy a ledger into another, and verify the copy.

    Each is a file or postgresql://user@host/database?tenant=name. Numbers and seals stay as they
    are. A copy that ended too soon goes on where it was. Attachments in an object store are copied
    into another one, and shared in the same: what is forgotten in one copy is gone in both.
    """
    url = attachments_url()
    with (
        Ledger(expanded(source), mode="read", attachments=url) as original,
        Ledger(expanded(target), attachments=attachments or url) as copied,
        Progress("messages copied") as copying,
        Progress(_OF_COPY) as progress,
    ):
        report = original.copy_into(copied, progress, copying=copying)
    say(f"{copied.name}: {report.copied} copied, {report.there} there already")


@examples("sightline ledger sessions --db work.db", "sightline ledger sessions --db work.db --json")
@ledger.group(invoke_without_command=True)
@db_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each session.")
@click.option(
    "--all", "single", is_flag=True,
    help="Single questions, other agents' sessions and what others began, too.",
)  # fmt: skip
@click.pass_context
def sessions(context: click.Context, db: Path | None, as_json: bool, single: bool) -> None:
    """List the sessions, the most recent first; or rename, clone or delete one."""
    context.obj = db
    if context.invoked_subcommand is not None:
        return
    with open_ledger(db) as opened:
        listed = opened.sessions.overview(single=single)
    if as_json:
        for one in listed:
            cost = {"cost_nanousd": one.cost_nanousd, "unpriced": one.unpriced}
            row = {**msgspec.to_builtins(one.session), "title": one.title, **cost}
            write_json_lines([row])
    else:
        say(*overview_table(listed))


def overview_table(listed: Sequence[SessionOverview], current: int = 0) -> list[str]:
    """Write sessions as lines to choose from; the current one has a star."""
    rows: list[tuple[str, ...]] = [
        ("", "ID", "last used", "groups", "tokens", "cost", "about", "directory")
    ]
    rows += [_overview_row(one, current) for one in listed]
    return columns(rows, right=(1, 3, 4, 5))


def _overview_row(one: SessionOverview, current: int) -> tuple[str, ...]:
    session = one.session
    named = session.name != f"session {session.id}"
    return (
        "*" if session.id == current else "",
        str(session.id),
        session.updated_at[:16].replace("T", " "),
        str(session.groups),
        f"{session.tokens:,}",
        dollars(one.cost_nanousd and one.cost_nanousd / _NANO, one.unpriced),
        ("↳ " if session.parent else "")
        + (f"{session.name}: {one.title}" if named and one.title else one.title or session.name),
        shortened(session.project),
    )


def shortened(directory: str) -> str:
    """Write a directory as people write it: their own home is `~`."""
    home = str(Path.home())
    return f"~{directory[len(home) :]}" if f"{directory}/".startswith(f"{home}/") else directory


@examples("sightline ledger sessions --db work.db rename 1 'parser rewrite'")
@sessions.command()
@click.argument("session")
@click.argument("name")
@click.pass_obj
def rename(db: Path | None, session: str, name: str) -> None:
    """Give a session another name."""
    with _open_existing(db) as opened:
        found = opened.sessions.resolve(session)
        say(_session_line(opened.sessions.rename(found.id, name)))


@examples("sightline ledger sessions --db work.db clone 1 --name 'another way'")
@sessions.command()
@click.argument("session")
@click.option("--name", default="", help="The name of the clone.")
@click.pass_obj
def clone(db: Path | None, session: str, name: str) -> None:
    """Copy a session; nothing done in one of the two touches the other."""
    with _open_existing(db) as opened:
        found = opened.sessions.resolve(session)
        say(_session_line(opened.sessions.clone(found.id, name)))


@examples("sightline ledger sessions --db work.db delete 1 --yes")
@sessions.command()
@click.argument("session")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete(db: Path | None, session: str, yes: bool) -> None:
    """Forget a session everywhere, after asking: ledger, search index, wire file, file
    checkpoints, the sessions that it began, and what of it is in the input history.
    """
    from sightline.cli.forget import forget, traces_of

    with _open_existing(db) as opened:
        traces = traces_of(opened, opened.sessions.resolve(session))
        if not yes:
            tell(traces.described)
            if not confirm("Delete this session for good?"):
                raise click.Abort
        forget(opened, [traces])
        say(f"deleted {traces}")


@examples(
    "sightline ledger prune --db work.db --older-than 30d",
    "sightline ledger prune --db work.db --max-size 500MB --yes",
)
@ledger.command()
@db_option
@click.option("--older-than", metavar="AGE", help="Sessions not used for so long: 30d, 12h, 8w.")
@click.option("--max-size", metavar="SIZE", help="The oldest, until the rest takes at most 500MB.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune(db: Path | None, older_than: str | None, max_size: str | None, yes: bool) -> None:
    """Forget old sessions everywhere, after saying which and asking, and give their room back.

    The size is that of the ledger, the wire file beside it and the file checkpoints of its
    sessions. A session that another program uses stays.
    """
    from sightline.cli.forget import bytes_in, bytes_of, chosen_to_prune, forget, moment_before
    from sightline.cli.forget import size_of as read_size

    if older_than is None and max_size is None:
        raise InvalidInput("say what is to go: --older-than AGE, --max-size SIZE, or both")
    before = moment_before(older_than) if older_than is not None else None
    most = read_size(max_size) if max_size is not None else None
    with _open_existing(db) as opened:
        if most is not None:
            opened.shrink()  # what is free already is no reason to forget anything
        chosen = list(chosen_to_prune(opened, before, most))
        if not chosen:
            say("nothing to forget")
            return
        for traces in chosen:
            say(str(traces)) if yes else tell(traces.described)
        size = bytes_in(opened)
        many = counted(len(chosen), "session")
        if not yes and not confirm(f"Forget {many} for good?"):
            raise click.Abort
        with Progress("sessions forgotten") as progress:
            forget(opened, chosen, progress)
        opened.shrink()
        say(f"forgot {many}; {bytes_of(size)} before, {bytes_of(bytes_in(opened))} now")


def _session_line(session: Session) -> str:
    return (
        f"{session.id:>5}  {session.updated_at[:16].replace('T', ' ')}  "
        f"{session.groups:>6} groups  {session.tokens:>9} tokens  {session.name}"
    )
