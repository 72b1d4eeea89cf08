"""Who may talk to the inspector, decided from headers alone."""

from __future__ import annotations

import pytest

from sightline.inspector.door import PageDoor, policy

DOOR = PageDoor("cookie-secret", "room", 8123)
OURS = {"host": "127.0.0.1:8123"}
CHANGE = {**OURS, "origin": "http://127.0.0.1:8123", "content-type": "application/json"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8123", "localhost:8123", "[::1]:8123", "LOCALHOST:8123"]
)
def test_our_own_names_are_served(host: str) -> None:
    assert DOOR.stranger("GET", {"host": host}) is None


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "127.0.0.1", "127.0.0.1:9", "127.0.0.1.evil.example:8123", ""]
)
def test_a_name_rebound_to_loopback_is_not_ours(host: str) -> None:
    refusal = DOOR.stranger("GET", {"host": host})
    assert refusal is not None
    assert (refusal.status, "Host" in refusal.reason) == (421, True)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:8123",
        "http://127.0.0.1:9",
        "http://localhost",
    ],
)
def test_a_page_from_elsewhere_may_not_even_look(origin: str) -> None:
    refusal = DOOR.stranger("GET", {**OURS, "origin": origin})
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_another_site_asked_is_believed(site: str) -> None:
    refusal = DOOR.stranger("GET", {**OURS, "sec-fetch-site": site})
    assert refusal is not None
    assert refusal.status == 403


def test_a_change_needs_our_origin_and_a_json_body() -> None:
    assert DOOR.stranger("POST", CHANGE) is None
    without_origin = {name: value for name, value in CHANGE.items() if name != "origin"}
    assert (refused := DOOR.stranger("POST", without_origin)) is not None
    assert refused.status == 403
    form = {**CHANGE, "content-type": "application/x-www-form-urlencoded"}
    assert (refused := DOOR.stranger("POST", form)) is not None
    assert refused.status == 415
    assert DOOR.stranger("POST", {**CHANGE, "content-type": "application/json; charset=x"}) is None


def test_a_token_opens_once_and_says_that_it_did() -> None:
    door = PageDoor("cookie-secret", "room", 8123)
    spent: list[str] = []
    door.expect("launch-token", lambda: spent.append("launch-token"))
    door.expect("another")
    wrong = ("", "launch-toke", "launch-token ", "cookie-secret", "é\ud800")
    assert not any(map(door.exchanges, wrong))
    assert spent == []
    assert door.exchanges("launch-token")
    assert spent == ["launch-token"]
    assert not door.exchanges("launch-token")
    assert door.exchanges("another")


def test_only_the_exact_cookie_opens() -> None:
    assert DOOR.admits("cookie-secret")
    assert not any(map(DOOR.admits, (None, "", "launch-token", "cookie-secre")))


def test_who_arrives_with_a_token_may_come_from_a_file() -> None:
    from_file = {**OURS, "sec-fetch-site": "cross-site"}
    assert DOOR.stranger("GET", from_file, arriving=True) is None
    assert DOOR.stranger("GET", {**OURS, "origin": "null"}, arriving=True) is not None
    assert DOOR.stranger("GET", {"host": "evil.example:8123"}, arriving=True) is not None
    early = {**OURS, "sec-purpose": "prefetch;prerender"}
    assert DOOR.stranger("GET", early, arriving=True) is not None


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/room/", "/"),
        ("/room/api/x", "/api/x"),
        ("/room", None),
        ("/", None),
        ("/api/x", None),
        ("/rooms/api", None),
        ("//room/", None),
    ],
)
def test_only_addresses_in_the_room_are_served(path: str, inside: str | None) -> None:
    assert DOOR.inside(path) == inside


def test_the_policy_allows_our_files_and_nothing_inline() -> None:
    text = policy("sha256-abc=")
    assert "script-src 'self' 'sha256-abc='" in text
    assert "'unsafe" not in text
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(
        text.split("; ")
    )
