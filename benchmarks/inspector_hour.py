"""Whether the inspector keeps its memory while a chat goes on beside it.

    python -m benchmarks.inspector_hour [--seconds 3600] [--every 60]     a row a minute

Three processes: a chat that takes a turn every second, with an app that changes before each
of them; `sightline inspect`; and this one, which follows the events as the page does, opens
one view after the other, and reads the server's memory from the system. A session has
300 turns, then the next one begins: what one answer holds stays of one size, so memory that
still grows is kept by somebody.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sightline import App, Host, Hub
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, Settings
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.slop.app.local import local_dial

TURN_S: Final = 1.0
VIEW_S: Final = 3.0
EXPORT_VIEWS: Final = 80
SESSION_TURNS: Final = 300
MESSAGES: Final = 400
MOST_REQUESTS: Final = 1_000_000
WARM_UP: Final = 0.2  # of the run: caches fill, the first session reaches its length


async def chat(ledger: Path) -> None:
    """Take turns until stdin ends; every fifth has the model call a tool."""
    app = App("mail", "Mail")
    unread = 0

    @app.node("inbox")
    def inbox() -> dict[str, Any]:
        rows = [{"id": f"m{n}", "props": {"title": f"Message {n}"}} for n in range(MESSAGES)]
        return {"type": "collection", "props": {"unread": unread}, "items": rows}

    def reply(_: Request) -> Any:
        return script.pop(0)

    script: list[Any] = []
    stopped = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    settings = Settings(apps=AppSettings(discover=False, workspace=False))
    async with Hub() as hub:
        hub.add("mail", local_dial(app))
        async with Host.open(
            settings, model=ScriptedModel([reply] * MOST_REQUESTS), ledger=ledger, hub=hub
        ) as host:
            for number in itertools.count(1):
                begun = time.monotonic()
                unread = number
                app.refresh()
                if number % 5 == 0:
                    arguments = {"app": "mail", "path": "/inbox"}
                    script.append([ToolCall(f"c{number}", "slop_query", arguments)])
                script.append(f"There are {number} unread.\n\n### STATE\nGoal: go on {number}")
                async for _ in host.ask(f"Question {number}: what is new?"):
                    pass
                if number % SESSION_TURNS == 0:
                    await host.new_session()
                print(number, flush=True)
                rest = max(0.0, TURN_S - (time.monotonic() - begun))
                if (await asyncio.wait({stopped}, timeout=rest))[0]:
                    return


class Page:
    """What a page asks of the server, over a connection of its own."""

    def __init__(self, address: str) -> None:
        self.netloc = urlsplit(address).netloc
        connection = http.client.HTTPConnection(self.netloc, timeout=120)
        connection.request("GET", address.split(self.netloc)[1])
        response = connection.getresponse()
        response.read()
        cookie = SimpleCookie(response.getheader("Set-Cookie") or "")["sightline"]
        self._cookie = f"{cookie.key}={cookie.value}"
        self._room = cookie["path"].rstrip("/")
        connection.close()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask for an answer; fail if it is none."""
        connection = http.client.HTTPConnection(self.netloc, timeout=120)
        headers = {
            "Cookie": self._cookie,
            "Origin": f"http://{self.netloc}",
            "Content-Type": "application/json",
        }
        data = None if body is None else msgspec.json.encode(body)
        method = "GET" if body is None else "POST"
        connection.request(method, self._room + path, data, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        assert response.status == http.client.OK, f"{path}: {response.status} {data[:200]!r}"
        answer = None if path.startswith("/export") else msgspec.json.decode(data)
        assert "error" not in (answer or ()), f"{path}: {answer}"
        return answer

    def changes(self) -> Iterator[int]:
        """Follow the events; yield every revision."""
        connection = http.client.HTTPConnection(self.netloc, timeout=120)
        connection.request("GET", f"{self._room}/api/events", headers={"Cookie": self._cookie})
        response = connection.getresponse()
        while line := response.readline():
            if line.startswith(b"data: "):
                yield int(msgspec.json.decode(line[6:])["revision"])

    def newest(self) -> tuple[str, dict[str, Any]] | None:
        """What a page that follows shows: the newest turn of the newest session."""
        sessions = self.ask("/api/sessions")["sessions"]
        if not sessions:
            return None
        root = f"/api/sessions/{sessions[0]['id']}"
        turns = self.ask(f"{root}/turns")["turns"]
        return (root, turns[-1]) if turns else None


def follow(page: Page, counts: dict[str, int]) -> None:
    """Ask for the newest turn whenever there is news, as the page does."""
    for _ in page.changes():
        counts["events"] += 1
        found = page.newest()
        if found is not None and found[1]["requests"]:
            root, turn = found
            page.ask(f"{root}/turns/{turn['turn']}/{turn['requests']}")


def open_views(page: Page, counts: dict[str, int], stop: threading.Event) -> None:
    """Open one view after the other, of the newest turn; now and then export the session."""
    for number in itertools.count():
        found = page.newest()
        if found is not None and found[1]["requests"]:
            root, turn = found
            place = f"{root}/turns/{turn['turn']}/1"
            views: list[tuple[str, dict[str, Any] | None]] = [
                (f"{place}/state", None),
                (f"{place}/state/0/nodes/1", None),
                (f"{place}/state/0/find?q=message", None),
                (f"{root}/compare/1.1/{turn['turn']}.1", None),
                (f"{place}/whatif", {"window": 5, "slack": 0}),
                (f"{place}/whatif", {"strategy": "classic"}),
                (f"{root}/ledger", None),
                (f"{root}/groups/{turn['group']}", None),
                (f"{root}/search?q=unread", None),
                ("/api/query", {"sql": "SELECT count(*) FROM messages", "session": 1}),
                (place, None),
            ]
            page.ask(*views[number % len(views)])
            if number % EXPORT_VIEWS == EXPORT_VIEWS - 1:
                page.ask(f"/export/{root.rpartition('/')[2]}.html")
        counts["views"] += 1
        if stop.wait(VIEW_S):
            return


def resident_mb(pid: int) -> float:
    """Read a process's memory from the system."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of this package beside us; it ends with the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-m", *command], stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def measure(seconds: int, every: int) -> int:
    """Run it, print a row for every sample, then what became of the memory after warm-up."""
    counts = {"events": 0, "views": 0, "turns": 0}
    samples: list[tuple[float, float]] = []
    failures: list[str] = []
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "work.db"
        with started("benchmarks.inspector_hour", "--chat", str(ledger)) as talk:
            assert talk.stdout is not None
            talk.stdout.readline()
            with started("sightline", "inspect", "--db", str(ledger), "--no-open") as server:
                assert server.stdout is not None
                page = Page(server.stdout.readline().strip())

                def count_turns() -> None:
                    for line in talk.stdout or ():
                        counts["turns"] = int(line)

                def kept_at(work: Callable[..., None], *given: object) -> None:
                    try:
                        work(*given)
                    except Exception as error:  # noqa: BLE001 - told by the thread that measures
                        if not stop.is_set():
                            failures.append(f"{work.__name__}: {error}")

                for given in (
                    (count_turns,),
                    (follow, page, counts),
                    (open_views, page, counts, stop),
                ):
                    threading.Thread(target=kept_at, args=given, daemon=True).start()
                print("| second | turns | events | views | files | server |")
                print("| ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
                for second in range(every, seconds + 1, every):
                    time.sleep(every)
                    assert not failures, failures
                    assert talk.poll() is None, "the chat is gone"
                    files = sum(f.stat().st_size for f in Path(directory).iterdir()) / 2**20
                    samples.append((second, resident_mb(server.pid)))
                    print(
                        f"| {second} | {counts['turns']:,} | {counts['events']:,} | "
                        f"{counts['views']:,} | {files:.0f} MB | {samples[-1][1]:.1f} MB |",
                        flush=True,
                    )
                stop.set()
    warm = [(at, size) for at, size in samples if at > WARM_UP * seconds]
    slope = statistics.linear_regression(*zip(*warm, strict=True)).slope if len(warm) > 1 else 0.0
    sizes = [size for _, size in warm]
    print(f"\nafter the first {WARM_UP * seconds:.0f} s: {min(sizes):.1f} to {max(sizes):.1f} MB,")
    print(f"a line through them rises by {slope * 3600:+.1f} MB an hour")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Measure, or be the chat that is watched."""
    parser = argparse.ArgumentParser(prog="benchmarks.inspector_hour")
    parser.add_argument("--seconds", type=int, default=3600, help="for how long (default: an hour)")
    parser.add_argument("--every", type=int, default=60, help="seconds between two samples")
    parser.add_argument("--chat", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.chat is not None:
        asyncio.run(chat(options.chat))
        return 0
    return measure(options.seconds, options.every)


if __name__ == "__main__":
    sys.exit(main())
