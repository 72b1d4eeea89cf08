"""What a consumer sends cannot break an app's connection, nor keep it from others."""

from __future__ import annotations

import asyncio
import json

import pytest

from sightline.slop.app.app import App
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports.memory import memory_pair
from support.live import LiveApp
from support.wire import Wire


@pytest.mark.parametrize(
    "message",
    [
        b'{"type":"query","id":"\\ud800","path":1}',
        b'{"type":"subscribe","id":"\\udfff"}',
        b'{"type":"invoke","id":"\\ud800","path":"/","action":"\\ud800"}',
        b'{"type":"\\ud800","id":"\\ud800"}',
        b'{"type":"unsubscribe","id":"a\\ud800b","x":1}',
    ],
)
def test_an_id_with_a_lone_surrogate_is_refused_and_the_connection_lives_on(
    message: bytes,
) -> None:
    connection = LiveApp().provider.connect()
    connection.receive(message)
    connection.receive(b'{"type":"query","id":"after"}')
    _, refused = (json.loads(frame) for frame in connection.frames_to_send())
    assert (refused["type"], refused["error"]["code"]) == ("error", "bad_request")
    assert refused.get("id") is None


async def test_who_sends_only_rubbish_is_let_go_and_told_why() -> None:
    app = App("app", "App", patience=Patience(faults=3))
    ours, theirs = memory_pair()
    serving = asyncio.create_task(app.handle(theirs))
    wire = Wire(ours)
    await wire.expect("hello")
    for _ in range(4):
        await wire.send(b"rubbish")
    told: list[bytes] = []
    while (message := await ours.receive()) is not None:
        told.append(message)
    last = json.loads(told[-1])["error"]
    assert last["message"] == "let go: it sent more than 3 faulty messages in 60 s"
    await serving
    await app.close()
