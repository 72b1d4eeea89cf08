"""A long session, recorded: 1,000 turns, the last two with an app of 50,000 nodes.

    python -m browser.long LEDGER

The first turn and the last two are taken by a host. Between them the ledger is given the
same conversation in one go, and the journal the request of the first turn again and again
with another question, each encoded and recorded as the host does.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.host.helpers import hosted, turn
from sightline import App, Message
from sightline.agent.host import Host
from sightline.agent.host.journal import Journal, Recorded, Sent
from sightline.context.dialects import encode
from sightline.context.ledger import Ledger
from sightline.context.ledger.usage import StoredUsage
from sightline.context.slots.prompt import Receipt
from sightline.slop.app.local import local_dial

TURNS = 1_000
NODES = 50_000
FOLDERS, THREADS, MESSAGES = 97, 30, 16
SAID = "Nothing new in {n}.\n\n### STATE\nGoal: go on with {n}"


def folder(number: int, unread: dict[str, int]) -> dict[str, Any]:
    """A folder of threads of messages."""
    threads = [
        {
            "id": f"t{thread}",
            "type": "group",
            "props": {"title": f"Thread {thread} of folder {number}"},
            "children": [
                {
                    "id": f"m{n}",
                    "type": "item",
                    "props": {"title": f"Message {number}.{thread}.{n}"},
                }
                for n in range(MESSAGES)
            ],
        }
        for thread in range(THREADS)
    ]
    props = {"label": f"Folder {number}", "unread": unread.get(str(number), 0)}
    return {"type": "collection", "props": props, "children": threads}


def mail(unread: dict[str, int]) -> App:
    """An app of exactly `NODES` nodes."""
    app = App("mail", "Mail")
    for number in range(FOLDERS):
        app.node(f"f{number}")(partial(folder, number, unread))
    rest = NODES - 2 - FOLDERS * (1 + THREADS * (1 + MESSAGES))
    notes = [{"id": f"n{n}", "props": {"title": f"Note {n}"}} for n in range(rest)]
    app.node("notes")(lambda: {"type": "collection", "items": notes})
    return app


async def first_turn(directory: Path) -> None:
    async with hosted(directory, [SAID.format(n=1)]) as (host, _):
        await turn(host, "Question 1")


def the_turns_between(path: Path) -> None:
    """Write turns 2 to `TURNS` - 2."""
    numbers = range(2, TURNS - 1)
    said: list[Message] = []
    for n in numbers:
        said += Message.of("user", f"Question {n}"), Message.of("assistant", SAID.format(n=n))
    with Ledger(path) as ledger:
        journal = Journal(path)
        first = journal.request(1, 1)
        [kept] = ledger.accounts.receipts(1)
        receipt = Receipt.decode(msgspec.json.encode(kept.body))
        first = replace(first, prompt=msgspec.structs.replace(first.prompt, receipt=receipt))
        entries = ledger.append(1, said, strategy=first.profile.dialect)
        used = StoredUsage(first.line.model, 3_000, 10, 2_900)
        ledger.accounts.record(1, used, group_id=entries[-1].group_id)
        for n, entry in zip(numbers, entries[::2], strict=True):
            row = journal.record(_again(first, entry.group_id, n))
            journal.finish(row, "end", {"first_ms": 3, "last_ms": 5 + n % 7})
        journal.close()


def _again(first: Recorded, group: int, number: int) -> Sent:
    asked = [
        Message.of("user", f"Question {number}") if message.text == "Question 1" else message
        for message in first.prompt.messages
    ]
    prompt = msgspec.structs.replace(first.prompt, messages=tuple(asked))
    request = encode(prompt, first.profile, first.options)
    return Sent(
        1, group, number, 1, first.line.model, first.line.sent_at, prompt, first.profile,
        first.options, first.world, request.data,
    )  # fmt: skip


async def last_turns(directory: Path) -> None:
    unread: dict[str, int] = {}
    app = mail(unread)
    async with hosted(directory, ["Looked.", "Looked again."], session=1) as (host, _):
        host.hub.add("mail", local_dial(app))
        await _seen(host, 0)
        await turn(host, f"Question {TURNS - 1}, with mail")
        unread["7"] = 3
        app.refresh("f7")
        await _seen(host, 3)
        await turn(host, f"Question {TURNS}, after a change")


async def _seen(host: Host, unread: int) -> None:
    async for world in host.hub.changes():
        mail = world.app("mail")
        if mail and mail.tree and mail.tree.at("/f7").properties["unread"] == unread:
            return


if __name__ == "__main__":
    ledger = Path(sys.argv[1])
    asyncio.run(first_turn(ledger.parent))
    the_turns_between(ledger)
    asyncio.run(last_turns(ledger.parent))
