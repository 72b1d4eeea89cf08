"""Worlds from JSON: what is taken, and what an error says."""

from __future__ import annotations

import pytest

from sightline.context.projection.world_json import read_world
from sightline.errors import InvalidInput
from sightline.slop.protocol.world import AppState, AvailableApp


def test_a_world_is_read_with_its_defaults() -> None:
    world = read_world(
        b'{"apps":[{"id":"a","tree":{"id":"r","type":"root"}},{"id":"b","name":"B","tree":null},'
        b'{"id":"c","status":"disconnected","lastSeen":"2026-04-28T12:30:00+02:00","x":1}],'
        b'"available":[{"id":"d","transport":"unix","more":[]}]}'
    )
    assert world.apps[0].tree is not None
    assert world.apps[1:] == (
        AppState("b", "B", "awaiting"),
        AppState("c", "c", "disconnected", last_seen="2026-04-28T10:30:00Z"),
    )
    assert world.available == (AvailableApp("d", "d", "unix"),)
    assert read_world(b"{}").apps == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "line 1, column 2"),
        (b"[]", "expected `object`"),
        (b'{"apps":[{"id":"a"},{"name":"b"}]}', r"apps\[1\]: object missing required field `id`"),
        (b'{"apps":[{"id":""}]}', r"apps\[0\]: an app needs an id"),
        (b'{"apps":[{"id":"a","tree":{"id":"x/y","type":"t"}}]}', r"apps\[0\]: .*must not contain"),
        (b'{"apps":[{"id":"a","status":"asleep"}]}', r"apps\[0\]: invalid enum value"),
        (b'{"apps":[{"id":"a","last_seen":"noon"}]}', r"apps\[0\]: not an RFC 3339"),
        (b'{"apps":[{"id":"a"},{"id":"a"}]}', "two have the id 'a'"),
        (b'{"available":[{"id":""}]}', r"available\[0\]: an app needs an id"),
        (b'{"available":[7]}', r"available\[0\]: expected `object`"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_mistake_is_named_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_world(data)
