"""Law 7, the host's half: no tail is ever in the ledger, not even one that somebody quotes."""

from __future__ import annotations

from pathlib import Path

from agent.host.helpers import check_ledger, hosted, invoke, turn
from sightline.agent.models.scripted import Cut, Reply
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from support.live import TREE, LiveApp

MARK = "xylophone-in-the-state"  # what only the app shows


def app() -> LiveApp:
    return LiveApp(TREE.change("/inbox", lambda node: node.with_property("label", MARK)))


def tail_of(request: Request) -> str:
    text = request.body["messages"][-1]["content"]
    start = text.index("<slop-state")
    return str(text[start:])


def everything(directory: Path) -> bytes:
    """All bytes of the ledger's files, the write-ahead log included."""
    files = [path for path in directory.iterdir() if path.name.startswith("work.db")]
    assert files
    return b"".join(path.read_bytes() for path in files)


async def test_a_tail_is_sent_and_not_stored(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["ok", "ok"], app=app()) as (host, model):
        await turn(host, "one")
        await turn(host, "two")
        assert all(MARK in tail_of(request) for request in model.requests)
        assert MARK.encode() not in everything(tmp_path)
    assert MARK.encode() not in everything(tmp_path)
    assert MARK.encode() in (tmp_path / "work.wire.db").read_bytes()


async def test_neither_if_the_user_pastes_it_nor_if_the_model_echoes_it(tmp_path: Path) -> None:
    def echo(request: Request) -> Reply:
        tail = tail_of(request)
        return Reply(
            text=f"I saw {tail} and will note it.",
            reasoning=f"thinking about {tail}",
            calls=(
                ToolCall("c1", "manage_scratchpad", {"action": "replace", "content": tail}),
                ToolCall("c2", "save_memo", {"content": f"remember {tail}", "tags": ["t"]}),
                invoke("c3", "/", "echo", text=tail),
                ToolCall("c4", tail, {"x": [tail]}),
            ),
        )

    async with hosted(tmp_path, ["ok", echo, "done"], app=app(), mode="auto") as (host, model):
        await turn(host, "one")
        await turn(host, f"what is this? {tail_of(model.requests[0])} tell me")
        assert host.ledger.scratchpad.read(host.session.id) == ""
        assert MARK.encode() not in everything(tmp_path)
        # What was stored is what the next request replays.
        said = str(model.requests[-1].body["messages"][:-1])
        assert MARK not in said
        assert "what is this?" in said
    check_ledger(tmp_path)
    assert MARK.encode() not in everything(tmp_path)


async def test_nor_in_a_reply_that_breaks_off_within_one(tmp_path: Path) -> None:
    def cut(request: Request) -> Cut:
        return Cut(f"I saw {tail_of(request)}"[:-20])

    async with hosted(tmp_path, [cut], app=app()) as (host, _):
        await turn(host, "one")
    stored = everything(tmp_path)
    assert b"I saw" in stored
    assert MARK.encode() not in stored
