"""How soon the inspector shows a long session, and whether it keeps its memory.

    python -m benchmarks.inspector [--quick]        the table
    python -m benchmarks.inspector --seconds 3600   memory over an hour: see `inspector_hour`

A session of 1,000 turns is recorded by a host with a scripted model. Then the page is opened in
a real browser: first paint as the browser reports it, the list of turns, the newest turn's
picture. After that the session goes on while the page follows it, and the memory of the
server is read from the system before and after. Needs Chromium, as the browser tests do.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.inspector_hour import measure, resident_mb
from sightline.config import AppSettings, Settings
from sightline.dialects.request import Request
from sightline.host import Host
from sightline.hub.hub import Hub
from sightline.models.scripted import ScriptedModel

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


def paint_ms(page: Page) -> float:
    """When the browser first painted something of the page, by its own report."""
    return float(
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.inspector")
    parser.add_argument("--quick", action="store_true", help="few turns: does everything run?")
    parser.add_argument("--seconds", type=int, help="only the server's memory, over so long")
    parser.add_argument("--every", type=int, default=60, help="seconds between two samples")
    options = parser.parse_args(arguments)
    if options.seconds is not None:
        return measure(options.seconds, options.every)
    quick = options.quick
    turns, more = (QUICK_TURNS, QUICK_MORE) if quick else (TURNS, MORE)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        print("left out: there is no Chromium here", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "work.db"
        asyncio.run(record(ledger, turns))
        server = subprocess.Popen(
            [sys.executable, "-m", "sightline", "inspect", "--db", str(ledger), "--no-open"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
            page = browser.new_page()
            begun = time.monotonic()
            page.goto(address)
            page.get_by_role("group", name=re.compile("^The context window")).wait_for()
            picture_ms = (time.monotonic() - begun) * 1000
            first_ms = paint_ms(page)
            page.get_by_label("follow").check()
            before = resident_mb(server.pid)
            subprocess.run(
                [sys.executable, "-c", GO_ON.format(ledger=str(ledger), turns=more)], check=True
            )
            last = page.get_by_role("listbox", name="Turns").get_by_role("option").last
            page.wait_for_function(
                "(text) => [...document.querySelectorAll('[role=option]')]"
                ".some((row) => row.textContent.includes(text))",
                arg=f"Question {more - 1}:",
            )
            assert last.is_visible()
            after = resident_mb(server.pid)
            browser.close()
        server.terminate()
        server.wait()
        server.stdout.close()
    print("| work | figure |\n| --- | ---: |")
    print(f"| first paint, {turns:,} turns | {first_ms:.0f} ms |")
    print(f"| the newest turn's picture is there | {picture_ms:.0f} ms |")
    print(f"| memory of the server | {before:.0f} MB |")
    print(f"| the same after {more:,} more turns, followed live | {after:.0f} MB |")
    return 0


GO_ON = """
import asyncio, pathlib
from benchmarks.inspector import record
asyncio.run(record(pathlib.Path({ledger!r}), {turns}, session=1))
"""

if __name__ == "__main__":
    sys.exit(main())
