"""`sightline context`: what a request was made of, and the request itself, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from sightline.agent.host.journal import Journal, Recorded, RequestLine
from sightline.agent.host.status import by_group, status_of
from sightline.cli.clean import clean, clean_line
from sightline.cli.options import db_option, examples, ledger_path
from sightline.cli.out import say, write_exactly, write_json_lines
from sightline.context.dialects.request import Request
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.work import hold_on
from sightline.context.messages.parts import File, Message, Reasoning, ToolCall, ToolResult
from sightline.context.slots.prompt import Receipt
from sightline.errors import InvalidInput, LedgerDamaged, NotFound

_RULE: Final = "──"


@examples(
    "sightline context --db talk.db",
    "sightline context 1 --db talk.db --turn 1",
    "sightline context 1 --db talk.db --turn 1 --request 1 --raw",
    "sightline context 1 --db talk.db --turn 1 --json",
)
@click.command()
@click.argument("session", required=False)
@click.option("--turn", type=click.IntRange(min=1), help="The turn; without it they are listed.")
@click.option("--request", type=click.IntRange(min=1), help="The request of that turn; default: 1.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with the receipt and the body.")
@click.option("--raw", is_flag=True, help="The bytes that were sent, and nothing else.")
@db_option
def context(
    *,
    session: str | None,
    turn: int | None,
    request: int | None,
    as_json: bool,
    raw: bool,
    db: Path | None,
) -> None:
    """Show what was sent to a model, turn by turn.

    SESSION is a number, name or uuid; the latest one by default. Without --turn its
    requests are listed. A request is made again from the wire journal and compared with
    the digest in the ledger's receipt: what is shown is what was sent, or the exit code
    is 8.
    """
    if raw and (as_json or turn is None):
        raise InvalidInput("--raw is for one request: give --turn, and not --json")
    if request is not None and turn is None:
        raise InvalidInput("--request counts within a turn: give --turn, too")
    with Ledger(ledger_path(db), mode="read") as ledger:
        found = ledger.sessions.resolve(session) if session else _latest(ledger)
        with closing(Journal(ledger.path, read_only=True)) as journal:
            if turn is None:
                _list(ledger, journal, found, as_json=as_json)
                return
            recorded = journal.request(found.id, turn, request or 1)
        if recorded.line.receipt_id is None:
            raise NotFound("the ledger has no receipt for this request")
        receipt = ledger.accounts.receipt(recorded.line.receipt_id).body
    sent = _sent_request(recorded, receipt)
    if raw:
        write_exactly(sent.data)
    elif as_json:
        shown = {
            "line": msgspec.to_builtins(recorded.line),
            "verified": True,
            "receipt": receipt,
            "headers": sent.headers,
            "request": sent.body,
        }
        write_json_lines([shown])
    else:
        say(*_text(recorded, receipt))


def _latest(ledger: Ledger) -> Session:
    for session in ledger.sessions.recent():
        if session.groups and session.parent is None:
            return session
    raise NotFound("there is no session in which anything was said")


def _list(ledger: Ledger, journal: Journal, session: Session, *, as_json: bool) -> None:
    hold = hold_on(ledger.work, session.id)
    lines = journal.requests(session.id)
    if not lines:
        raise NotFound(f"the wire journal knows no requests of session {session.id}")
    newest = [group.id for group in ledger.groups.recent(session.id, 1)]
    # A turn has its status with the last of its requests.
    statuses = {
        requests[-1].id: status_of(requests, hold if group in newest else "none")
        for group, requests in by_group(lines).items()
    }
    if as_json:
        rows = ({**msgspec.to_builtins(line), "status": statuses.get(line.id)} for line in lines)
        write_json_lines(rows)
        return
    rows_of_text = (_row(line, statuses.get(line.id)) for line in lines)
    say(*map(clean_line, (f"session {session.id}, {session.name}", *rows_of_text)))


def _row(line: RequestLine, status: str | None) -> str:
    first = line.timings.get("first_ms")
    pace = "" if first is None else f"  first word after {first} ms"
    code = "" if line.ended is None or line.ended.code in ("", status) else f" ({line.ended.code})"
    return (
        f"turn {line.turn:>3}  request {line.number:>2}  {line.sent_at[:19]}  {line.model}  "
        f"{line.bytes:>8} bytes  {status or line.outcome}{code}{pace}"
    )


def _sent_request(recorded: Recorded, receipt: dict[str, Any]) -> Request:
    """Encode a recorded request; raise `LedgerDamaged` unless it is the one that was sent."""
    request = recorded.to_request()
    digest = sha256(request.data).hexdigest()
    line = recorded.line
    for where, expected in (
        ("the receipt in the ledger", receipt["request"]["sha256"]),
        ("the wire journal", line.digest),
    ):
        if digest != expected:
            name = f"turn {line.turn}, request {line.number}"
            raise LedgerDamaged([f"{name}: what is made again is not what {where} says"])
    return request


def _text(recorded: Recorded, receipt: dict[str, Any]) -> Iterator[str]:
    account = msgspec.convert({k: v for k, v in receipt.items() if k != "request"}, Receipt)
    yield f"{recorded.line.model}, {recorded.line.bytes} bytes, sent {recorded.line.sent_at}"
    yield account.table()
    prompt = recorded.prompt
    for index, message in enumerate(prompt.messages):
        if index == prompt.boundary:
            yield f"\n{_RULE} boundary: what follows is made anew for every request {_RULE}"
        yield f"\n{_RULE} {index + 1} {message.role} {_RULE}"
        yield from _parts(message)


def _parts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case ToolCall():
                arguments = msgspec.json.encode(part.arguments).decode()
                yield clean(f"{part.name}({arguments})")
            case ToolResult():
                yield clean(part.content)
            case Reasoning():
                yield clean(f"(thinking) {part.text}")
            case File():
                yield clean(f"[{part.mime} {part.name or part.uri[:80]}]")
            case _:
                yield clean(part.text)
