"""A log file as live state, over standard streams: the host starts this program itself.

    sightline watch "stdio:python examples/logwatch.py /var/log/app.log"
    sightline invoke "stdio:python examples/logwatch.py app.log" / search --params '{"text": "E"}'

Each command starts a program of its own, which ends with it. So `search` answers, but what
`mark_seen` changes lasts only as long as one connection: it is for a host that stays.

Errors come first: they are more salient than warnings, and the newest line is marked.
No port, no socket, no note: whoever starts the program is the only one who sees it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any

from sightline import App
from sightline.slop import serve_stdio

LEVEL = re.compile(r"\b(ERROR|WARNING|INFO|DEBUG)\b")
SALIENCE = {"ERROR": 1.0, "WARNING": 0.7, "INFO": 0.3, "DEBUG": 0.1}
SHOWN = 20
PAUSE_S = 0.1


class LogWatch:
    """The last lines of a file, as they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: deque[tuple[int, str]] = deque(maxlen=SHOWN)
        self.counts: Counter[str] = Counter()
        self.seen = 0
        self._read = 0
        self._half = b""
        self.app = App("logwatch", f"Log {path.name}", mark_changed=True)
        self.app.node("log")(self.describe)
        self.app.action("/", "mark_seen", description="Count errors from here on")(self.mark_seen)
        self.app.action("/", "search")(self.search)

    def describe(self) -> dict[str, Any]:
        """The tail of the log, errors in front of a model's eyes."""
        items = [
            {
                "id": f"line-{number}",
                "type": "status",
                "props": {"level": level_of(line), "text": line[:500]},
                "meta": {"salience": SALIENCE[level_of(line)]},
            }
            for number, line in self.lines
        ]
        return {
            "type": "collection",
            "props": {"errors": self.counts["ERROR"], "warnings": self.counts["WARNING"]},
            "summary": f"{self.seen} lines, {self.counts['ERROR']} new errors",
            "window": {"items": items, "total": self.seen, "offset": self.seen - len(items)},
        }

    async def mark_seen(self) -> None:
        """Start counting anew; the lines stay."""
        self.counts.clear()

    async def search(self, text: str, limit: int = 20) -> list[str]:
        """Look through the whole file, not only what is shown."""

        def matching() -> list[str]:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                found = deque((line.rstrip("\n") for line in file if text in line), maxlen=limit)
            return list(found)

        return await asyncio.to_thread(matching)

    def read_more(self) -> bool:
        """Take in what was written since; a file that became shorter is a new one."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            if file.seek(0, 2) < self._read:
                self._read, self._half = 0, b""
            file.seek(self._read)
            data = file.read()
            self._read = file.tell()
        *whole, self._half = (self._half + data).split(b"\n")
        for raw in whole:
            line = raw.decode("utf-8", "replace")
            self.seen += 1
            self.counts[level_of(line)] += 1
            self.lines.append((self.seen, line))
        return bool(whole)

    async def follow(self) -> None:
        """Look again and again; only what changed is told."""
        while True:
            if await asyncio.to_thread(self.read_more):
                self.app.refresh("log")
            await asyncio.sleep(PAUSE_S)


def level_of(line: str) -> str:
    """How bad a line is."""
    found = LEVEL.search(line)
    return found[1] if found else "INFO"


async def main(path: Path) -> None:
    """Serve whoever started this program, until they go."""
    watch = LogWatch(path)
    watch.read_more()
    following = asyncio.create_task(watch.follow())
    await serve_stdio(watch.app.handle)
    following.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/logwatch.py FILE")
    asyncio.run(main(Path(sys.argv[1])))
