"""Whatever carries the messages, the conversation is the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sightline.slop.transports.link import LinkClosed
from support.live import TRANSPORTS, served
from support.wire import Wire


@pytest.fixture(params=TRANSPORTS)
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    """A connection over each transport."""
    async with served(request.param, tmp_path) as dial:
        link = await dial()
        yield Wire(link)
        await link.close()


async def test_a_conversation(wire: Wire) -> None:
    hello = await wire.expect("hello")
    assert hello["provider"]["id"] == "live"
    await wire.send({"type": "subscribe", "id": "s"})
    snapshot = await wire.expect("snapshot")
    assert (snapshot["id"], snapshot["seq"], snapshot["tree"]["id"]) == ("s", 0, "app")
    patch, result = await wire.invoke("count")
    assert (patch["type"], patch["seq"]) == ("patch", 1)
    assert patch["ops"] == [{"op": "replace", "path": "/properties/n", "value": 1}]
    assert (result["status"], result["data"]) == ("ok", {"n": 1})
    await wire.send({"type": "query", "id": "q", "path": "/inbox", "depth": 0})
    answer = await wire.expect("snapshot")
    assert (answer["id"], answer["tree"]["id"], "seq" in answer) == ("q", "inbox", False)
    await wire.send({"type": "query", "id": "q2", "path": "/nowhere"})
    error = await wire.expect("error")
    assert (error["id"], error["error"]["code"]) == ("q2", "not_found")


async def test_a_snapshot_of_five_mebibytes_passes(wire: Wire) -> None:
    await wire.expect("hello")
    size = 5 * 1024 * 1024
    [result] = await wire.invoke("fill", bytes=size)
    assert result["status"] == "ok"
    await wire.send({"type": "query", "id": "q"})
    tree = (await wire.expect("snapshot"))["tree"]
    assert sum(len(child["properties"]["text"]) for child in tree["children"]) > size - 10_000


async def test_a_message_over_the_limit_is_refused_and_the_next_one_answered(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send(b'{"type":"query","id":"' + b"x" * 1_200_000 + b'"}')
    error = await wire.expect("error")
    assert error["error"]["code"] == "bad_request"
    assert "1048576" in error["error"]["message"]
    await wire.send({"type": "query", "id": "q", "depth": 0})
    assert (await wire.expect("snapshot"))["id"] == "q"


async def test_many_messages_at_once_keep_their_order(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send(*({"type": "query", "id": f"q{n}", "depth": 0} for n in range(100)))
    answers = [(await wire.expect("snapshot"))["id"] for _ in range(100)]
    assert answers == [f"q{n}" for n in range(100)]


async def test_a_closed_link_says_so_to_both_directions(wire: Wire) -> None:
    await wire.expect("hello")
    waiting = asyncio.create_task(wire.link.receive())
    await wire.link.close()
    async with asyncio.timeout(10):
        assert await waiting is None
    with pytest.raises(LinkClosed):
        await wire.send({"type": "query", "id": "q"})
