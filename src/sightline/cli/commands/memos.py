"""`/memo …`: knowledge that outlives its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sightline.cli.commands.command import Argument, Call, Command
from sightline.cli.commands.lines import columns, cut
from sightline.context.memos import Memo

__all__ = ["COMMANDS"]

_MEMO: Final = Argument("ID", source="memos", number=True)
_TEXT: Final = Argument("TEXT", rest=True)
_TAGS: Final = Argument("TAGS")
_LISTED: Final = 20


async def _list(call: Call) -> None:
    limit = call.number("N", _LISTED)
    await _table(call, await call.ledger(lambda ledger: ledger.memos.recent(limit)))


async def _search(call: Call) -> None:
    text = call.text("TEXT")
    await _table(call, await call.ledger(lambda ledger: ledger.memos.relevant(text, limit=_LISTED)))


async def _show(call: Call) -> None:
    memo = await call.ledger(lambda ledger: ledger.memos.get(call.number("ID")))
    await call.console.page(_whole(memo))


async def _save(call: Call) -> None:
    tags = call.text("TAGS").split(",")
    memo = await call.ledger(lambda ledger: ledger.memos.save(call.text("TEXT"), tags))
    call.console.write(f"Memo {memo.id} is saved, tagged {', '.join(memo.tags)}.")


async def _edit(call: Call) -> None:
    memo_id, text = call.number("ID"), call.text("TEXT")
    memo = await call.ledger(lambda ledger: ledger.memos.get(memo_id))
    changed = text or await call.console.edit(memo.content)
    if not changed or changed == memo.content:
        call.console.write(f"Memo {memo_id} is as it was.")
        return
    await call.ledger(lambda ledger: ledger.memos.edit(memo_id, content=changed))
    call.console.write(f"Memo {memo_id} is changed.")


async def _tag(call: Call) -> None:
    memo_id, tags = call.number("ID"), call.text("TAGS").split(",")
    memo = await call.ledger(lambda ledger: ledger.memos.edit(memo_id, tags=tags))
    call.console.write(f"Memo {memo.id} is tagged {', '.join(memo.tags)}.")


async def _delete(call: Call) -> None:
    memo_id = call.number("ID")
    memo = await call.ledger(lambda ledger: ledger.memos.get(memo_id))
    call.console.write(_whole(memo))
    if not await call.console.ask(f"Delete memo {memo_id} for good?"):
        call.console.write("Nothing was deleted.")
        return
    await call.ledger(lambda ledger: ledger.memos.delete(memo_id))
    call.console.write(f"Memo {memo_id} is deleted.")


async def _table(call: Call, memos: Sequence[Memo]) -> None:
    if not memos:
        call.console.write("There are no such memos.")
        return
    rows = [("ID", "changed", "tags", "memo")]
    rows.extend(
        (str(memo.id), memo.updated_at[:10], " ".join(memo.tags), memo.content) for memo in memos
    )
    lines = columns(rows, right=(0,))
    await call.console.page("\n".join(cut(line, call.console.width) for line in lines))


def _whole(memo: Memo) -> str:
    return (
        f"memo {memo.id}, changed {memo.updated_at}, tagged {', '.join(memo.tags)}\n{memo.content}"
    )


COMMANDS: Final = (
    Command(
        "memo list", "List memos, the most recently changed first.", _list,
        (Argument("N", number=True, optional=True),),
    ),
    Command("memo show", "Show a memo whole.", _show, (_MEMO,)),
    Command(
        "memo save", "Keep a text for later sessions; tags are separated by commas.", _save,
        (_TAGS, _TEXT), example="/memo save gotcha,auth Tokens expire after 9 minutes, not 10.",
    ),
    Command(
        "memo edit", "Change a memo's text; without one, in your editor.", _edit,
        (_MEMO, Argument("TEXT", optional=True, rest=True)),
    ),
    Command("memo tag", "Give a memo other tags.", _tag, (_MEMO, _TAGS)),
    Command("memo delete", "Delete a memo for good, after showing it.", _delete, (_MEMO,)),
    Command("memo search", "Find the memos that a text calls for.", _search, (_TEXT,)),
)  # fmt: skip
