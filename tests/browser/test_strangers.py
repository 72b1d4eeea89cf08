"""What pages from elsewhere can do to the inspector: nothing."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import Inspector


class Elsewhere(BaseHTTPRequestHandler):
    """Another site: an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(inspector: Inspector, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Send a request by hand; a browser would not let us forge these headers."""
    connection = http.client.HTTPConnection(inspector.netloc, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers={"Host": inspector.netloc, **named})
    response = connection.getresponse()
    body = response.read().decode()
    policy = response.getheader("Content-Security-Policy") or ""
    assert "frame-ancestors 'none'" in policy, "every answer carries the policy, errors too"
    assert response.getheader("X-Frame-Options") == "DENY"
    connection.close()
    return response.status, body


def let_in(inspector: Inspector) -> str:
    """Exchange the launch token for the cookie."""
    connection = http.client.HTTPConnection(inspector.netloc, timeout=30)
    connection.request("GET", inspector.address.split(inspector.netloc)[1])
    response = connection.getresponse()
    cookie = response.getheader("Set-Cookie") or ""
    assert response.status == 303
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    connection.close()
    return cookie.split(";")[0]


@pytest.mark.parametrize("path", ["/", "/api/sessions", "/static/app/main.js", "/export/1.html"])
def test_nobody_gets_in_without_the_token(inspector: Inspector, path: str) -> None:
    assert ask(inspector, path)[0] == 401
    assert ask(inspector, path, Cookie="sightline=guess")[0] == 401


def test_a_wrong_token_is_refused_and_sets_nothing(inspector: Inspector) -> None:
    status, body = ask(inspector, "/?token=wrong")
    assert status == 401
    assert "sightline inspect" in body


def test_a_rebound_name_is_refused_even_with_the_cookie(inspector: Inspector) -> None:
    cookie = let_in(inspector)
    assert ask(inspector, "/api/sessions", Cookie=cookie)[0] == 200
    assert ask(inspector, "/api/sessions", Cookie=cookie, Host="evil.example")[0] == 421
    assert ask(inspector, "/api/sessions", Cookie=cookie, Origin="http://evil.example")[0] == 403


@pytest.mark.parametrize("path", ["/api/verify", "/api/query", "/api/invoke"])
def test_getting_never_changes_anything(inspector: Inspector, path: str) -> None:
    cookie = let_in(inspector)
    assert ask(inspector, path, Cookie=cookie)[0] == 405


def test_a_change_needs_our_origin_and_json(inspector: Inspector) -> None:
    cookie = let_in(inspector)
    ours = inspector.root.rstrip("/")
    ask_to = {"Cookie": cookie, "Content_Type": "application/json"}
    assert ask(inspector, "/api/verify", "POST", **ask_to)[0] == 403
    assert ask(inspector, "/api/verify", "POST", **ask_to, Origin="http://evil.example")[0] == 403
    assert ask(inspector, "/api/verify", "POST", Cookie=cookie, Origin=ours)[0] == 415
    assert ask(inspector, "/api/verify", "POST", **ask_to, Origin=ours)[0] == 200


def test_without_consent_nothing_is_invoked(inspector: Inspector) -> None:
    headers = {
        "Cookie": let_in(inspector),
        "Content_Type": "application/json",
        "Origin": inspector.root.rstrip("/"),
    }
    status, body = ask(inspector, "/api/invoke", "POST", **headers)
    assert status == 200
    assert "--allow-invoke" in body


def test_another_site_can_neither_read_nor_frame_us(
    browser: Browser, inspector: Inspector, elsewhere: str
) -> None:
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(inspector.address)
    expect(page.get_by_role("heading", name="Sightline")).to_be_visible()
    page.goto(elsewhere)
    read = page.evaluate(
        """async (url) => {
            try { return (await fetch(url, {credentials: "include"})).status }
            catch { return "blocked" }
        }""",
        f"{inspector.root}api/sessions",
    )
    assert read == "blocked"
    page.evaluate(
        """(url) => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.onload = done;
            frame.src = url;
            document.body.append(frame);
        })""",
        inspector.root,
    )
    framed = page.frames[-1]
    assert framed.get_by_role("heading", name="Sightline").count() == 0
    context.close()
