"""What a web site says of its app is believed about that site, and nothing else."""

from __future__ import annotations

import json

import pytest

from sightline.errors import InvalidInput
from sightline.slop.discovery.wellknown import describe_app, document_url, websocket_url
from sightline.slop.protocol.messages import ProviderInfo

HERE = "http://127.0.0.1:8765/.well-known/slop"
FAR = "https://app.example/.well-known/slop"


def document(url: str) -> bytes:
    return describe_app(ProviderInfo("mail", "Mail"), url)


@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("https://app.example", FAR),
        ("https://app.example/", FAR),
        (FAR, FAR),
        ("https://app.example:8443/agents/", "https://app.example:8443/agents/.well-known/slop"),
        ("http://localhost:1", "http://localhost:1/.well-known/slop"),
        ("http://[::1]:1", "http://[::1]:1/.well-known/slop"),
    ],
)
def test_an_address_leads_to_its_description(address: str, where: str) -> None:
    assert document_url(address) == where


@pytest.mark.parametrize(
    "address",
    [
        "http://app.example", "https://", "https://me:secret@app.example", "https://[::1",
        "https://app.example:port", "https://app.example/a b", "https://app.example/\r\nHost: x",
        "ftp://app.example",
    ],
)  # fmt: skip
def test_an_address_that_is_not_safe_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        document_url(address)


@pytest.mark.parametrize(
    ("asked", "said", "websocket"),
    [
        (HERE, "ws://127.0.0.1:8765/slop", "ws://127.0.0.1:8765/slop"),
        # Two names of this machine are one place; it is called by the name that was typed.
        (HERE, "ws://localhost:8765/slop?a=1", "ws://127.0.0.1:8765/slop?a=1"),
        (FAR, "wss://app.example/slop", "wss://app.example/slop"),
        (FAR, "wss://app.example:443/slop", "wss://app.example/slop"),
        # What came encrypted goes on encrypted, whatever a server behind a proxy knows.
        (FAR, "ws://app.example/slop", "wss://app.example/slop"),
    ],
)
def test_a_description_names_a_websocket_at_its_own_place(
    asked: str, said: str, websocket: str
) -> None:
    assert websocket_url(document(said), asked) == websocket


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (HERE, "ws://127.0.0.1:9999/slop"),
        (HERE, "ws://127.0.0.1/slop"),
        (HERE, "ws://app.example:8765/slop"),
        (HERE, "wss://127.0.0.1.evil.example:8765/slop"),
        (FAR, "wss://evil.example/slop"),
        (FAR, "wss://app.example:8443/slop"),
        (FAR, "wss://app.example@evil.example/slop"),
        (FAR, "wss://evil.example\\@app.example/slop"),
        (FAR, "wss://user@app.example/slop"),
        (FAR, "ws://127.0.0.1/slop"),
        (FAR, "https://app.example/slop"),
        (FAR, "wss://app.example/slop#x"),
        (FAR, "wss://app.example/sl op"),
        (FAR, "wss://app.example/\r\nAuthorization: x"),
        (FAR, "//app.example/slop"),
    ],
)
def test_a_description_that_points_elsewhere_is_refused(asked: str, said: str) -> None:
    with pytest.raises(InvalidInput):
        websocket_url(document(said), asked)


@pytest.mark.parametrize(
    "said",
    [
        b"", b"[]", b"{}", b"nonsense", b"\xff", b"[" * 100_000,
        b'{"transport":{"type":"unix","path":"/run/a.sock"}}',
        b'{"transport":{"type":"stdio","command":["rm"]}}',
        b'{"transport":{"type":"ws","url":"wss://app.example/slop"}}' + b" " * 70_000,
    ],
)  # fmt: skip
def test_what_describes_no_websocket_is_refused(said: bytes) -> None:
    with pytest.raises(InvalidInput):
        websocket_url(said, FAR)


def test_a_description_never_tells_a_token() -> None:
    told = json.loads(document("ws://127.0.0.1:1/slop"))
    assert told["transport"] == {"type": "ws", "url": "ws://127.0.0.1:1/slop"}
