"""What pages from elsewhere can do to the inspector: nothing."""

from __future__ import annotations

import http.client
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import REBOUND, Inspector


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
    inside = path if path.startswith("/?") else inspector.ticket[1].rstrip("/") + path
    connection.request(method, inside, headers={"Host": inspector.netloc, **named})
    response = connection.getresponse()
    body = response.read().decode()
    policy = response.getheader("Content-Security-Policy") or ""
    assert "frame-ancestors 'none'" in policy, "every answer carries the policy, errors too"
    assert response.getheader("X-Frame-Options") == "DENY"
    assert response.getheader("Set-Cookie") is None, "only the launch token is worth a cookie"
    connection.close()
    return response.status, body


@pytest.mark.parametrize("path", ["/", "/api/sessions", "/static/app/main.js", "/export/1.html"])
def test_nobody_gets_in_without_the_token(inspector: Inspector, path: str) -> None:
    assert ask(inspector, path)[0] == 401
    assert ask(inspector, path, Cookie="sightline=guess")[0] == 401


def test_only_the_loopback_interface_is_listened_on(inspector: Inspector) -> None:
    host, _, port = inspector.netloc.partition(":")
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), timeout=30)


def test_a_token_and_a_cookie_are_good_for_one_launch(
    inspector: Inspector, inspect: Callable[..., Inspector], ledger: Path
) -> None:
    cookie = inspector.ticket[0]
    other = inspect(ledger)
    assert ask(other, "/api/sessions", Cookie=cookie)[0] == 401
    assert ask(other, inspector.address.split(inspector.netloc)[1])[0] == 401


def test_a_token_is_good_for_one_use(inspect: Callable[..., Inspector], ledger: Path) -> None:
    inspector = inspect(ledger)
    path = inspector.launch.split(inspector.netloc)[1]
    connection = http.client.HTTPConnection(inspector.netloc, timeout=30)
    connection.request("GET", path, headers={"Sec-Purpose": "prefetch"})
    assert connection.getresponse().status == 403
    connection = http.client.HTTPConnection(inspector.netloc, timeout=30)
    connection.request("GET", path)
    first = connection.getresponse()
    assert (first.status, first.getheader("Set-Cookie") is None) == (200, False)
    connection.close()
    status, body = ask(inspector, path)
    assert status == 401
    assert "Enter" in body
    assert inspector.address != inspector.launch


def test_the_page_lives_where_no_other_port_of_this_machine_gets_its_cookie(
    browser: Browser, inspector: Inspector, elsewhere: str
) -> None:
    """Browsers send cookies to every port of a host (RFC 6265, 8.5)."""
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(inspector.address)
    expect(page.get_by_role("heading", name="Sightline")).to_be_visible()
    assert "token" not in page.url
    assert context.cookies(page.url) != []
    neighbour = elsewhere.replace("localhost", "127.0.0.1")
    page.goto(neighbour)
    assert context.cookies(neighbour) == []
    assert context.cookies(inspector.origin) == []
    context.close()


def test_a_browser_is_let_in_by_a_file_that_nobody_else_can_read(
    browser: Browser, ledger: Path, tmp_path: Path
) -> None:
    """The user's browser is a program that notes what it was started with."""
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\n')
    opener.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", "inspect", "--db", str(ledger)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": f"{opener} %s", "TMPDIR": str(tmp_path)},
    )
    try:
        (given,) = seen.read_text().split()
        assert "token" not in given
        file = Path(urlsplit(given).path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        token = re.findall(r"token=([\w-]+)", file.read_text())[0]
        assert token not in (process.stdout.readline() if process.stdout else "")
        context = browser.new_context()
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.goto(given)
        expect(page.get_by_role("heading", name="Sightline")).to_be_visible()
        assert token not in page.url
        assert page.evaluate("document.referrer") == ""
        assert not file.exists()
        context.close()
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout:
            process.stdout.close()
    assert not file.parent.exists()


def test_a_wrong_token_is_refused_and_sets_nothing(inspector: Inspector) -> None:
    status, body = ask(inspector, "/?token=wrong")
    assert status == 401
    assert "sightline inspect" in body


def test_a_rebound_name_is_refused_even_with_the_cookie(inspector: Inspector) -> None:
    cookie = inspector.ticket[0]
    assert ask(inspector, "/api/sessions", Cookie=cookie)[0] == 200
    assert ask(inspector, "/api/sessions", Cookie=cookie, Host="evil.example")[0] == 421
    assert ask(inspector, "/api/sessions", Cookie=cookie, Origin="http://evil.example")[0] == 403


@pytest.mark.parametrize(
    "path", ["/api/verify", "/api/query", "/api/invoke", "/api/sessions/1/turns/1/1/whatif"]
)
def test_getting_never_changes_anything(inspector: Inspector, path: str) -> None:
    cookie = inspector.ticket[0]
    assert ask(inspector, path, Cookie=cookie)[0] == 405


def test_looking_at_everything_changes_no_file(inspector: Inspector, ledger: Path) -> None:
    cookie = inspector.ticket[0]
    files = (ledger, ledger.with_name("work.wire.db"))
    before = [file.read_bytes() for file in files]
    one = "/api/sessions/1"
    turn = f"{one}/turns/2/2"
    for path in (
        "/", "/api/sessions", f"{one}/turns", turn, f"{turn}/state", f"{turn}/state/0/nodes/0",
        f"{turn}/state/0/folds/0", f"{turn}/state/0/find?q=a", f"{one}/compare/1.1/2.2",
        f"{one}/ledger", f"{one}/groups/1", "/api/search?q=count", "/export/1.html",
        f"{turn}/unseen", f"{turn}/verdicts",
    ):  # fmt: skip
        assert ask(inspector, path, Cookie=cookie)[0] == 200, path
    assert [file.read_bytes() for file in files] == before


def test_a_change_needs_our_origin_and_json(inspector: Inspector) -> None:
    cookie = inspector.ticket[0]
    ours = inspector.origin
    ask_to = {"Cookie": cookie, "Content_Type": "application/json"}
    assert ask(inspector, "/api/verify", "POST", **ask_to)[0] == 403
    assert ask(inspector, "/api/verify", "POST", **ask_to, Origin="http://evil.example")[0] == 403
    assert ask(inspector, "/api/verify", "POST", Cookie=cookie, Origin=ours)[0] == 415
    assert ask(inspector, "/api/verify", "POST", **ask_to, Origin=ours)[0] == 200


def test_without_consent_nothing_is_invoked(inspector: Inspector) -> None:
    headers = {
        "Cookie": inspector.ticket[0],
        "Content_Type": "application/json",
        "Origin": inspector.origin,
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
        f"{inspector.origin}{inspector.ticket[1]}api/sessions",
    )
    assert read == "blocked"
    page.evaluate(
        """(url) => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.onload = done;
            frame.src = url;
            document.body.append(frame);
        })""",
        inspector.origin + inspector.ticket[1],
    )
    framed = page.frames[-1]
    assert framed.get_by_role("heading", name="Sightline").count() == 0
    context.close()


def test_another_site_cannot_send_a_change_and_a_rebound_name_shows_nothing(
    browser: Browser, inspector: Inspector, elsewhere: str
) -> None:
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(inspector.address)
    expect(page.get_by_role("heading", name="Sightline")).to_be_visible()
    page.goto(elsewhere)
    sent = page.evaluate(
        """async (url) => {
            const how = {method: "POST", mode: "no-cors", credentials: "include", body: "{}"};
            try { return (await fetch(url, how)).type } catch { return "blocked" }
        }""",
        f"{inspector.origin}{inspector.ticket[1]}api/verify",
    )
    assert sent == "blocked"
    rebound = inspector.address.replace("127.0.0.1", REBOUND)
    answer = page.goto(rebound)
    assert answer is not None
    assert answer.status == 421
    assert context.cookies(rebound) == []
    context.close()


def test_markup_and_script_that_got_into_the_page_would_not_run(
    browser: Browser, inspector: Inspector
) -> None:
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(inspector.address)
    expect(page.get_by_role("heading", name="Sightline")).to_be_visible()
    tried = page.evaluate(
        """() => [
            () => (document.body.innerHTML = '<img src=x onerror="window.hacked=1">'),
            () => {
                const script = document.createElement("script");
                script.textContent = "window.hacked=1";
                document.body.append(script);
            },
            () => document.body.setAttribute("onclick", "window.hacked=1"),
            () => {
                const link = document.createElement("a");
                link.href = "javascript:window.hacked=1";
                document.body.append(link);
                link.click();
            },
            () => document.body.click(),
        ].map((attempt) => {
            try { attempt(); return "done" } catch (error) { return error.name }
        })"""
    )
    assert tried[0] == "TypeError"
    page.wait_for_function("() => document.readyState === 'complete'")
    assert page.evaluate("window.hacked") is None
    context.close()
