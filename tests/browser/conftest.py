"""A real browser on a real inspector of a real session; each page must stay quiet and at home."""

from __future__ import annotations

import http.client
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import benchmarks.inspector as inspector_benchmark
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    expect,
    sync_playwright,
)

TIMEOUT_MS = 20_000
expect.set_options(timeout=TIMEOUT_MS)  # a busy machine is no fault of the page

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / ".artefacts"
LINES = ["hello", "do count", "what now?", "<b>bold</b> & plain"]
_PATH = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
VIEWS = (
    "Picture", "Conversation", "Changes", "Prompt", "State", "Not seen", "Trace", "What if",
    "Ledger",
)  # fmt: skip
REBOUND = "rebound.example"  # a name of somebody else's that leads to this machine
FLAGS = [*inspector_benchmark.FLAGS, f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
chromium = inspector_benchmark.browser_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for a file's tests: its library runs an event loop, which no others may meet."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here: `make test` says why it could not get one")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


class Chat:
    """A chat in another process."""

    def __init__(self, ledger: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "browser.chatting", str(ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _PATH},
        )

    def begin(self, line: str) -> None:
        """Begin a turn, or go on with one that waits for a line."""
        _stream(self._process.stdin).write(f"{line}\n")
        _stream(self._process.stdin).flush()

    def say(self, *lines: str) -> None:
        """Take a turn for each line."""
        for line in lines:
            self.begin(line)
            assert _stream(self._process.stdout).readline() == "ended\n"

    def leave(self) -> None:
        _stream(self._process.stdin).close()
        assert self._process.wait(timeout=30) == 0
        _stream(self._process.stdout).close()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with one recorded session of a few turns."""
    path = tmp_path_factory.mktemp("recorded") / "work.db"
    chat = Chat(path)
    chat.say(*LINES)
    chat.leave()
    return path


@pytest.fixture(scope="session")
def long_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with one session of 1,000 turns; see `browser.long`."""
    path = tmp_path_factory.mktemp("long") / "work.db"
    subprocess.run(
        [sys.executable, "-m", "browser.long", str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": _PATH},
    )
    return path


class Inspector:
    """`sightline inspect` in another process."""

    def __init__(
        self, ledger: Path, *options: str, directory: Path | None = None, strategy: str = ""
    ) -> None:
        own = {} if directory is None else {"SLOP_PROVIDERS": str(directory)}
        if strategy:
            own["SIGHTLINE_STRATEGY"] = strategy
        self._terminal, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "sightline",
                "inspect",
                "--db",
                str(ledger),
                "--no-open",
                *options,
            ],
            stdin=theirs,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **own},
        )
        os.close(theirs)
        self.launch = _stream(self._process.stdout).readline().strip()
        self.netloc = urlsplit(self.launch).netloc
        self.origin = f"http://{self.netloc}"

    @property
    def address(self) -> str:
        """Type Enter: another address that lets one browser in."""
        os.write(self._terminal, b"\n")
        return _stream(self._process.stdout).readline().strip()

    @cached_property
    def ticket(self) -> tuple[str, str]:
        """The cookie of somebody who was let in, and where it is good."""
        connection = http.client.HTTPConnection(self.netloc, timeout=30)
        connection.request("GET", self.address.split(self.netloc)[1])
        cookie = connection.getresponse().getheader("Set-Cookie") or ""
        connection.close()
        assert {"httponly", "samesite=strict"} <= set(cookie.lower().split("; "))
        return cookie.split(";")[0], cookie.split("Path=")[1].split(";")[0]

    def stop(self) -> None:
        """End it, unless it was ended before."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        self._process.wait(timeout=30)
        _stream(self._process.stdout).close()
        os.close(self._terminal)


@pytest.fixture(scope="session")
def inspector(ledger: Path) -> Iterator[Inspector]:
    started = Inspector(ledger)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    """An inspector of a session that a gateway recorded; see `browser.agents`."""
    path = tmp_path_factory.mktemp("agents") / "work.db"
    run = [sys.executable, "-m", "browser.agents", str(path)]
    subprocess.run(run, check=True, env={**os.environ, "PYTHONPATH": _PATH})
    started = Inspector(path)
    yield started
    started.stop()


@pytest.fixture
def inspect() -> Iterator[Callable[..., Inspector]]:
    """Start inspectors for one test; they outlive its pages."""
    running: list[Inspector] = []

    def start(ledger: Path, *options: str, **given: Any) -> Inspector:
        running.append(Inspector(ledger, *options, **given))
        return running[-1]

    yield start
    for one in running:
        one.stop()


class Watch:
    """What a page did that nobody should see. It is kept, whatever the test was about."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._home = home
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _error(self, error: Error) -> None:
        self.problems.append(f"page error: {error}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "file") and parts.netloc != self._home:
            self.problems.append(f"a request off the host: {request.url}")

    def check(self, name: str) -> None:
        """Keep a picture; nothing ran that was not ours, nothing was complained about."""
        ARTEFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.png")
        assert self.page.evaluate("window.hacked") is None
        foreign = (
            "[href^='javascript:' i], [src^='javascript:' i], img, iframe, [onerror], [onload]"
        )
        assert self.page.locator(foreign).count() == 0
        self.page.context.close()
        assert self.problems == []


@pytest.fixture
def visit(
    browser: Browser,
    inspect: Callable[..., Inspector],  # noqa: ARG001 - so that it ends after the pages
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Page]]:
    """Open addresses in pages; at the end each of them must have been quiet and at home."""
    watches: list[Watch] = []

    def go(address: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(TIMEOUT_MS)
        opened = context.new_page()
        watches.append(Watch(opened, urlsplit(address).netloc or "nowhere"))
        opened.goto(address)
        opened.get_by_role("heading", name="Sightline").wait_for()
        return opened

    yield go
    for number, watch in enumerate(watches):
        watch.check(f"{request.node.name}{f'-{number}' if number else ''}")


@pytest.fixture
def page(visit: Callable[..., Page], inspector: Inspector) -> Page:
    """A page of the recorded session, let in by the launch address."""
    return visit(inspector.address)


def view(page: Page, name: str) -> None:
    """Go to a view by its link."""
    page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()


def picture_and_changes(page: Page) -> tuple[set[str], set[str]]:
    """Return the slots that Changes calls the same and those that changed, as Picture agrees.

    Picture shows a slot that is the same wholly as before, and never one that changed.
    """
    view(page, "Picture")
    table = page.get_by_role("table", name="Slots in prompt order")
    table.wait_for()
    rows = {}
    for row in table.locator("tbody tr").all():
        name = row.get_by_role("rowheader").inner_text().split("\n")[0].removesuffix("tail")
        cells = [int(text.replace(",", "")) for text in row.locator("td").all_inner_texts()[1:5]]
        rows[name.strip()] = cells
    picture = page.get_by_role("region", name="Picture").inner_text().replace(",", "")
    published, evaluated = map(int, re.findall(r"(?:begin with it|evaluated): (\d+)", picture))
    total = sum(kept for kept, *_ in rows.values())
    assert published == sum(reusable for *_, reusable in rows.values()) == total - evaluated
    view(page, "Prompt")
    drift = page.get_by_role("region", name="Against the request before it").inner_text()
    assert f"about {published} tokens" in drift.replace(",", "")
    view(page, "Changes")
    changes = page.get_by_role("region", name="Changes", exact=True)
    changes.locator(".lead").wait_for()
    found = re.search("the same: (.*)", changes.inner_text())
    same = set(found[1].split(", ")) if found else set()
    changed = set(changes.get_by_role("heading").all_inner_texts())
    for name, (kept, _, as_before, _) in rows.items():
        if kept and name in same:
            assert as_before == kept, name
        elif kept and name in changed:
            assert as_before < kept, name
    assert evaluated > 0 or not changed
    return same, changed
