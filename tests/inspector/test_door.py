"""Who may talk to the inspector, decided from headers alone."""

from __future__ import annotations

import pytest

from sightline.inspector.door import Door, policy

DOOR = Door("launch-token", "cookie-secret", 8123)
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


def test_only_the_exact_token_and_cookie_open() -> None:
    assert DOOR.exchanges("launch-token")
    assert not any(
        map(DOOR.exchanges, ("", "launch-toke", "launch-token ", "cookie-secret", "é\ud800"))
    )
    assert DOOR.admits("cookie-secret")
    assert not any(map(DOOR.admits, (None, "", "launch-token", "cookie-secre")))


def test_the_policy_allows_our_files_and_nothing_inline() -> None:
    text = policy("sha256-abc=")
    assert "script-src 'self' 'sha256-abc='" in text
    assert "'unsafe" not in text
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(
        text.split("; ")
    )
