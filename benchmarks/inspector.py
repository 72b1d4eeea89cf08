"""How soon the inspector shows a long session, and whether it keeps its memory.

    python -m benchmarks --only inspector

A session of 1,000 turns is recorded by a host with a scripted model. Then the page is opened in
a real browser: first paint as the browser reports it, the list of turns, the newest turn's
picture. After that the session goes on while the page follows it, and the memory of the
server is read from the system before and after; `inspector_hour` does that for longer. Last, a
session of 10,000 turns, of which the journal has the last half: when its first rows are there, how
long the server takes for a filter over all of them, and its memory; and the state of an app with
50,000 nodes, of requests that nobody has looked at: when its tree is there. Needs Chromium, as the
browser tests do.
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
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright

from benchmarks.harness import LeftOut, Row
from benchmarks.inspector_hour import resident_mb
from sightline import App, Message
from sightline.agent.host import Host
from sightline.agent.host.journal import Ended, Journal, Sent
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, Settings
from sightline.context.dialects.request import Request
from sightline.context.ledger import Ledger, StoredUsage
from sightline.slop.app.local import local_dial
from sightline.slop.hub.hub import Hub

ROOT = Path(__file__).parent.parent
PROMISE_S = 1.0
TURNS, QUICK_TURNS = 1_000, 20
MORE, QUICK_MORE = 300, 5
MANY, QUICK_MANY = 10_000, 60
NODES, QUICK_NODES = 50_000, 500
FIRST_ROWS_S, FILTER_S, MEMORY_MB, STATE_S = 0.5, 0.2, 100, 1.0
FOLDERS = 10
OPENED = 3  # states, the best of which counts
FILTERS = ("status:failed", "cache<50%", "sector", "cost>0.001 time>8ms -status:failed")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    # Chromium draws its own address bar with a page, which costs more than all of ours.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
]


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


def lengthen(path: Path, turns: int) -> None:
    """Make a session of two turns one of so many, as a host would have left them."""
    with Ledger(path) as ledger, closing(Journal(path)) as journal:
        last = journal.request(1, 2)
        line = last.line
        for turn in range(3, turns + 1):
            failed = turn % 97 == 0
            messages = [Message.of("user", f"Question {turn}: what is new in sector {turn % 13}?")]
            if not failed:
                messages.append(Message.of("assistant", "Nothing new there. " + "word " * 20))
            group = ledger.append(1, messages)[-1].group_id
            cached = 0 if turn % 31 == 0 else 2_800
            used = StoredUsage(line.model, 3_000, 20, cached, turn * 1_000, outcome="end")
            if failed:
                used = StoredUsage(line.model, 0, 0, 0, 0, outcome="model_failed", error="no room")
            ledger.accounts.record(1, used, group_id=group)
            sent = Sent(
                1, group, turn, 1, line.model, line.sent_at, last.prompt, last.profile,
                last.options, last.world, b"{}", line.receipt_id,
            )  # fmt: skip
            row = journal.record(sent)
            outcome = "model_failed" if failed else "end"
            journal.finish(row, outcome, {"first_ms": 3, "last_ms": 5 + turn % 7})
            journal.end_turn(row, Ended("failed" if failed else "answered"))


def many_turns(chromium: str, turns: int) -> list[Row]:
    """Open a session of very many turns, and filter it."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "work.db"
        asyncio.run(record(ledger, 2))
        lengthen(ledger, turns)
        with inspecting(ledger) as (pid, address), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page()
            begun = time.monotonic()
            page.goto(address)
            rows = page.get_by_role("listbox", name="Turns").get_by_role("option")
            rows.filter(has_text=f"Question {turns}:").wait_for()
            rows_s = time.monotonic() - begun
            box = page.get_by_role("searchbox", name="Filter turns")
            filter_s = max(filter_time(page, box, wanted) for wanted in FILTERS)
            memory = resident_mb(pid)
            browser.close()
    return [
        Row("first-rows", "the first rows are there", turns, rows_s, FIRST_ROWS_S, 1,
            note=f"the peer is the promise of {FIRST_ROWS_S:g} s"),
        Row("filter", "a filter is answered, the slowest of four", turns, filter_s, FILTER_S, 1,
            note=f"the peer is the promise of {FILTER_S:g} s"),
        Row("memory-many", "memory of the server", turns, memory * 2**20, MEMORY_MB * 2**20, 1,
            "bytes", note=f"the peer is the promise of {MEMORY_MB} MB"),
    ]  # fmt: skip


def folder(size: int) -> dict[str, Any]:
    """A node of so many messages."""
    rows = [{"id": f"m{n}", "props": {"title": f"Message {n}"}} for n in range(size)]
    return {"type": "collection", "items": rows}


async def show(ledger: Path, nodes: int, turns: int) -> None:
    """Have a conversation of so many turns before an app of so many nodes."""
    app = App("mail", "Mail")
    size = (nodes - 1) // FOLDERS  # with the folder itself; the first has what is left over
    sizes = [nodes - 1 - size * (FOLDERS - 1), *[size] * (FOLDERS - 1)]
    for number, many in enumerate(sizes):
        app.node(f"f{number}")(partial(folder, many - 1))
    settings = Settings(apps=AppSettings(discover=False, workspace=False))
    model = ScriptedModel(["Looked."] * turns)
    async with Hub() as hub, Host.open(settings, model=model, ledger=ledger, hub=hub) as host:
        hub.add("mail", local_dial(app))
        async for world in hub.changes():
            mail = world.app("mail")
            if mail is not None and mail.tree is not None and mail.tree.children:
                break
        for number in range(turns):
            async for _ in host.ask(f"Question {number}: what is new?"):
                pass


def large_state(chromium: str, nodes: int) -> Row:
    """Open the state of an app of very many nodes, each time of another request."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "work.db"
        asyncio.run(show(ledger, nodes, OPENED))
        with inspecting(ledger) as (_, address), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page()
            page.goto(address)
            page.get_by_role("group", name=re.compile("^The context window")).wait_for()
            took = []
            for _ in range(OPENED):
                begun = time.monotonic()
                page.keyboard.press("5")
                tree = page.get_by_role("treegrid", name="Nodes of Mail")
                tree.get_by_text("f0").wait_for()
                took.append(time.monotonic() - begun)
                page.keyboard.press("1")
                page.keyboard.press("k")
                page.get_by_role("group", name=re.compile("^The context window")).wait_for()
            browser.close()
    return Row("state", "the state of a large app is there", nodes, min(took), STATE_S, 1,
               note=f"the peer is the promise of {STATE_S:g} s")  # fmt: skip


def filter_time(page: Page, box: Locator, wanted: str) -> float:
    """Type a filter twice, for the first time brings in an index; how long the second took."""
    for text in (wanted, "turn=1", wanted):
        page.evaluate("performance.clearResourceTimings()")
        with page.expect_response(re.compile(r"/turns\?filter=")):
            box.fill(text)
    entries = "performance.getEntriesByType('resource').filter((e) => e.name.includes('filter='))"
    page.wait_for_function(f"() => {entries}.length > 0")
    return float(page.evaluate(f"{entries}[0].duration")) / 1000


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
    many = many_turns(chromium, QUICK_MANY if quick else MANY)
    large = large_state(chromium, QUICK_NODES if quick else NODES)
    promise = f"the peer is the promise of {PROMISE_S:g} s"
    followed = f"memory of the server after {more:,} more turns, followed live"
    return [
        Row("paint", "first paint", turns, first_s, PROMISE_S, 1, note=promise),
        Row("picture", "the newest turn's picture is there", turns, picture_s),
        Row("memory", "memory of the server", turns, before * 2**20, unit="bytes"),
        Row("memory-after", followed, turns + more, after * 2**20, unit="bytes"),
        *many,
        large,
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
