"""How soon the inspector shows a long session, and whether it keeps its memory.

    python -m benchmarks --only inspector

A session of 1,000 turns is recorded by a host with a scripted model. Then the page is opened in
a real browser: first paint as the browser reports it, the list of turns, the newest turn's
picture. After that the session goes on while the page follows it, and the memory of the
server is read from the system before and after; `inspector_hour` does that for longer. Needs
Chromium, as the browser tests do.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.harness import LeftOut, Row
from benchmarks.inspector_hour import resident_mb
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, Settings
from sightline.context.dialects.request import Request
from sightline.slop.hub.hub import Hub

ROOT = Path(__file__).parent.parent
PROMISE_S = 1.0
TURNS, QUICK_TURNS = 1_000, 20
MORE, QUICK_MORE = 300, 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


async def record(ledger: Path, turns: int, *, session: int | None = None) -> None:
    """Have a conversation of so many turns."""

    def reply(_: Request) -> str:
        return "Here is what I found, in a few words.\n\n### STATE\nGoal: go on"

    settings = Settings(apps=AppSettings(discover=False, workspace=False))
    model = ScriptedModel([reply] * turns)
    async with (
        Hub() as hub,
        Host.open(settings, model=model, ledger=ledger, hub=hub, session=session) as host,
    ):
        for number in range(turns):
            async for _ in host.ask(f"Question {number}: what is new?"):
                pass


def paint_s(page: Page) -> float:
    """When the browser first painted something of the page, by its own report."""
    asked = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(asked)) / 1000


def run(*, quick: bool = False) -> list[Row]:
    """Record a session, open it in a browser, let it go on."""
    turns, more = (QUICK_TURNS, QUICK_MORE) if quick else (TURNS, MORE)
    chromium = browser_path()
    if chromium is None:
        raise LeftOut("there is no Chromium here")
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "work.db"
        asyncio.run(record(ledger, turns))
        with inspecting(ledger) as (pid, address), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page()
            begun = time.monotonic()
            page.goto(address)
            page.get_by_role("group", name=re.compile("^The context window")).wait_for()
            picture_s = time.monotonic() - begun
            first_s = paint_s(page)
            page.get_by_label("follow").check()
            before = resident_mb(pid)
            go_on(ledger, more)
            last = page.get_by_role("listbox", name="Turns").get_by_role("option").last
            page.wait_for_function(
                "(text) => [...document.querySelectorAll('[role=option]')]"
                ".some((row) => row.textContent.includes(text))",
                arg=f"Question {more - 1}:",
            )
            assert last.is_visible()
            after = resident_mb(pid)
            browser.close()
    promise = f"the peer is the promise of {PROMISE_S:g} s"
    followed = f"memory of the server after {more:,} more turns, followed live"
    return [
        Row("paint", "first paint", turns, first_s, PROMISE_S, 1, note=promise),
        Row("picture", "the newest turn's picture is there", turns, picture_s),
        Row("memory", "memory of the server", turns, before * 2**20, unit="bytes"),
        Row("memory-after", followed, turns + more, after * 2**20, unit="bytes"),
    ]


def browser_path() -> str | None:
    """Find the browser, where the tests find it."""
    own = ROOT / ".venv" / "browser" / "chromium"
    names = ("chromium", "chromium-browser", "google-chrome", str(own))
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def inspecting(ledger: Path) -> Iterator[tuple[int, str]]:
    """Run the inspector: its process and its address."""
    command = [sys.executable, "-m", "sightline", "inspect", "--db", str(ledger), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.pid, server.stdout.readline().strip()
        finally:
            server.terminate()


def go_on(ledger: Path, turns: int) -> None:
    """Let another program continue the session."""
    code = GO_ON.format(ledger=str(ledger), turns=turns)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


GO_ON = """
import asyncio, pathlib
from benchmarks.inspector import record
asyncio.run(record(pathlib.Path({ledger!r}), {turns}, session=1))
"""
