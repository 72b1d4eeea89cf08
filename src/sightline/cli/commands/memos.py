"""`/memo …`: knowledge that outlives its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sightline.cli.commands.command import Argument, Command, CommandCall
from sightline.cli.commands.lines import columns, cut
from sightline.context.ledger import Memos
from sightline.context.messages.memos import Memo

__all__ = ["COMMANDS"]

_MEMO: Final = Argument("ID", source="memos")
_USER: Final = Argument("--user", flag=True)
_TEXT: Final = Argument("TEXT", rest=True)
_TAGS: Final = Argument("TAGS")
_LISTED: Final = 20


async def _list(call: CommandCall) -> None:
    limit = call.number("N", _LISTED)
    await _table(call, await call.memos(lambda shelf: shelf.recent(limit)))


async def _search(call: CommandCall) -> None:
    text = call.text("TEXT")
    await _table(call, await call.memos(lambda shelf: shelf.relevant(text, limit=_LISTED)))


async def _show(call: CommandCall) -> None:
    _, memo = await _found(call)
    await call.console.page(_whole(call, memo))


async def _save(call: CommandCall) -> None:
    tags = call.text("TAGS").split(",")
    home = "user" if call.text(_USER.name) else ""
    memo = await call.memos(lambda shelf: shelf.save(call.text("TEXT"), tags, home))
    where = " for all projects" if memo.home != call.host.memos.names[0] else ""
    called = call.host.memos.reference(memo)
    call.console.write(f"Memo {called} is saved{where}, tagged {', '.join(memo.tags)}.")


async def _edit(call: CommandCall) -> None:
    called, text = call.text("ID"), call.text("TEXT")
    home, memo = await _found(call)
    changed = text or await call.console.edit(memo.content)
    if not changed or changed == memo.content:
        call.console.write(f"Memo {called} is as it was.")
        return
    await call.memos(lambda _: home.edit(memo.id, content=changed))
    call.console.write(f"Memo {called} is changed.")


async def _tag(call: CommandCall) -> None:
    called, tags = call.text("ID"), call.text("TAGS").split(",")
    home, found = await _found(call)
    memo = await call.memos(lambda _: home.edit(found.id, tags=tags))
    call.console.write(f"Memo {called} is tagged {', '.join(memo.tags)}.")


async def _delete(call: CommandCall) -> None:
    called = call.text("ID")
    home, memo = await _found(call)
    call.console.write(_whole(call, memo))
    if not await call.may_delete(f"memo {called}"):
        return
    await call.memos(lambda _: home.delete(memo.id))
    call.console.write(f"Memo {called} is deleted.")


async def _found(call: CommandCall) -> tuple[Memos, Memo]:
    return await call.memos(lambda shelf: shelf.find(call.text("ID")))


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


COMMANDS: Final = (
    Command(
        "memo list", "List memos, this project's first, and of them the last changed.", _list,
        (Argument("N", number=True, optional=True),),
    ),
    Command("memo show", "Show a memo whole.", _show, (_MEMO,)),
    Command(
        "memo save",
        "Keep a text for later sessions, with tags separated by commas; --user: for all projects.",
        _save, (_USER, _TAGS, _TEXT),
        example="/memo save gotcha,auth Tokens expire after 9 minutes, not 10.",
    ),
    Command(
        "memo edit", "Change a memo's text; without one, in your editor.", _edit,
        (_MEMO, Argument("TEXT", optional=True, rest=True)),
    ),
    Command("memo tag", "Give a memo other tags.", _tag, (_MEMO, _TAGS)),
    Command("memo delete", "Delete a memo for good, after showing it.", _delete, (_MEMO,)),
    Command("memo search", "Find the memos that a text calls for.", _search, (_TEXT,)),
)  # fmt: skip
