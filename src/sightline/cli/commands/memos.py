"""`/memo …`: knowledge that outlives its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from sightline.cli.commands.command import NUMBER, CommandCall, Section, rest
from sightline.cli.commands.console import columns, cut
from sightline.cli.commands.offers import offering
from sightline.context.ledger import Memos
from sightline.context.messages.memos import Memo

COMMANDS: Final = Section("Memos")
_LISTED: Final = 20
_memo: Final = click.argument(
    "name", metavar="ID", shell_complete=offering(lambda here, *_: here.memos())
)
_tags: Final = click.argument("tags")
_text: Final = rest("text")


@COMMANDS.command("memo list")
@click.argument("n", type=NUMBER, default=_LISTED)
async def _list(call: CommandCall, n: int) -> None:
    """List memos, this project's first, and of them the last changed."""
    await _table(call, await call.memos(lambda shelf: shelf.recent(n)))


@COMMANDS.command("memo search")
@_text
async def _search(call: CommandCall, text: str) -> None:
    """Find the memos that a text calls for."""
    await _table(call, await call.memos(lambda shelf: shelf.relevant(text, limit=_LISTED)))


@COMMANDS.command("memo show")
@_memo
async def _show(call: CommandCall, name: str) -> None:
    """Show a memo whole."""
    _, memo = await _found(call, name)
    await call.console.page(_whole(call, memo))


@COMMANDS.command(
    "memo save", example="/memo save gotcha,auth Tokens expire after 9 minutes, not 10."
)
@click.option("--user", is_flag=True)
@_tags
@_text
async def _save(call: CommandCall, user: bool, tags: str, text: str) -> None:
    """Keep a text for later sessions, with tags separated by commas; --user: for all projects."""
    memo = await call.memos(lambda shelf: shelf.save(text, tags.split(","), "user" if user else ""))
    where = " for all projects" if memo.home != call.host.memos.names[0] else ""
    called = call.host.memos.reference(memo)
    call.console.write(f"Memo {called} is saved{where}, tagged {', '.join(memo.tags)}.")


@COMMANDS.command("memo edit")
@_memo
@rest("text", required=False)
async def _edit(call: CommandCall, name: str, text: str) -> None:
    """Change a memo's text; without one, in your editor."""
    home, memo = await _found(call, name)
    changed = text or await call.console.edit(memo.content)
    if not changed or changed == memo.content:
        call.console.write(f"Memo {name} is as it was.")
        return
    await call.memos(lambda _: home.edit(memo.id, content=changed))
    call.console.write(f"Memo {name} is changed.")


@COMMANDS.command("memo tag")
@_memo
@_tags
async def _tag(call: CommandCall, name: str, tags: str) -> None:
    """Give a memo other tags."""
    home, found = await _found(call, name)
    memo = await call.memos(lambda _: home.edit(found.id, tags=tags.split(",")))
    call.console.write(f"Memo {name} is tagged {', '.join(memo.tags)}.")


@COMMANDS.command("memo delete")
@_memo
async def _delete(call: CommandCall, name: str) -> None:
    """Delete a memo for good, after showing it."""
    home, memo = await _found(call, name)
    call.console.write(_whole(call, memo))
    if not await call.may_delete(f"memo {name}"):
        return
    await call.memos(lambda _: home.delete(memo.id))
    call.console.write(f"Memo {name} is deleted.")


async def _found(call: CommandCall, name: str) -> tuple[Memos, Memo]:
    return await call.memos(lambda shelf: shelf.find(name))


async def _table(call: CommandCall, memos: Sequence[Memo]) -> None:
    if not memos:
        call.console.write("There are no such memos.")
        return
    rows = [("ID", "changed", "tags", "memo")]
    rows.extend(
        (call.host.memos.reference(memo), memo.updated_at[:10], " ".join(memo.tags), memo.content)
        for memo in memos
    )
    lines = columns(rows, right=(0,))
    await call.console.page("\n".join(cut(line, call.console.width) for line in lines))


def _whole(call: CommandCall, memo: Memo) -> str:
    called = call.host.memos.reference(memo)
    tags = ", ".join(memo.tags)
    return f"memo {called}, changed {memo.updated_at}, tagged {tags}\n{memo.content}"
