"""A real `App` that shows what `support.live` shows, in this process or in one of its own.

The same requests have the same effects in both, so that one suite can talk to either.
`python -m support.real` serves it on the standard streams, or on a socket until stdin ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from sightline.slop.app.app import App
from sightline.slop.transports.stdio import serve_stdio
from support.live import command_of

MESSAGES: list[dict[str, Any]] = [
    {
        "id": f"msg-{n}",
        "type": "item",
        "props": {"subject": f"Message {n}"},
        "meta": {"salience": salience},
        "items": [{"id": "body", "type": "document"}],
    }
    for n, salience in ((1, 1.0), (2, 0.5), (3, 0.1))
]


class Mailbox:
    """A mailbox as its author would write it, and what was really done to it."""

    def __init__(self, **options: Any) -> None:
        self.app = App("app", "Live", coalesce_s=0, **options)
        self.n = 0
        self.props: dict[str, Any] = {"label": "Inbox"}
        self.messages = copy.deepcopy(MESSAGES)
        self.go_on = asyncio.Event()
        self.done: list[str] = []
        app = self.app
        app.node("/")(lambda: {"type": "root", "props": {"n": self.n}})
        app.register("me", {"type": "context", "props": {"user": "ada"}})
        app.node("inbox")(self._inbox)
        lazy = {"pinned": True, "total_children": 7, "summary": "7 notes"}
        app.register("notes", {"type": "group", "children": None, "meta": lazy})
        app.children("notes")(lambda: [{"id": f"note-{n}", "type": "item"} for n in range(7)])
        text = {"type": "text", "mime": "text/plain", "summary": "how to read mail"}
        app.register("manual", {"type": "document", "content_ref": text})
        app.content("manual")(lambda: "open it, then look")
        for action in (
            self.count,
            self.set,
            self.add,
            self.remove,
            self.fill,
            self.notify,
            self.export,
        ):
            app.action("/", action.__name__)(action)
        app.action("/", "echo")(lambda: "heard")
        app.action("/", "done")(lambda: self.done)
        app.action("/", "knock", authorize=_is_modest, guard=self._is_quiet)(self.knock)
        app.action("/", "hang")(asyncio.Event().wait)
        app.action("/", "crash")(lambda: os._exit(1))
        app.action("inbox", "archive_all")(self.messages.clear)
        # The later one counts: one shape and one name are one action, whatever the hole is called.
        app.action("inbox/{other}", "archive")(lambda other: self.remove(f"/inbox/not-{other}"))
        written = app.action("inbox/{own}", "archive", when=lambda props: "subject" in props)
        written(lambda own: self.remove(f"/inbox/{own}"))

    def _inbox(self) -> dict[str, Any]:
        return {
            "type": "collection",
            "props": self.props,
            "summary": "3 messages",
            "meta": {"salience": 0.9},
            "items": self.messages,
        }

    def _is_quiet(self) -> str | None:
        return "somebody is counting" if self.n else None

    def knock(self, times: int) -> None:
        """Be heard, while nobody counts."""
        self.done.append(f"knock {times}")

    def count(self) -> dict[str, int]:
        """Count one more."""
        self.n += 1
        return {"n": self.n}

    def set(self, path: str, key: str, value: Any) -> None:
        """Set a property of the inbox or of a message."""
        own = path.removeprefix("/inbox").strip("/")
        found = [message for message in self.messages if message["id"] == own]
        (found[0].setdefault("props", {}) if own else self.props)[key] = value

    def add(self, path: str, node: dict[str, Any], index: int = 0) -> None:
        """Put a message into the inbox."""
        if path == "/inbox":
            self.messages.insert(index, node)

    def remove(self, path: str) -> None:
        """Take a message away."""
        own = path.rpartition("/")[2]
        self.messages[:] = [message for message in self.messages if message["id"] != own]

    def fill(self, size: int) -> None:
        """Get so many bytes of mail."""
        text = "x" * 10_000
        notes = range(size // len(text) + 1)
        self.messages[:] = [{"id": f"note-{n}", "props": {"text": text}} for n in notes]

    async def notify(self, n: int) -> None:
        """Tell everybody."""
        self.app.emit("ping", {"n": n})

    async def export(self, month: str = "may") -> None:
        """Work until told to go on."""
        async with self.app.task() as task:
            task.report(0.5, f"reading {month}")
            await self.go_on.wait()


def _is_modest(times: int) -> bool:
    return times < 10


command = partial(command_of, "support.real")


async def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--unix", type=Path)
    parser.add_argument("--ws", type=int)
    options = parser.parse_args()
    app = Mailbox().app
    if options.unix is None and options.ws is None:
        await serve_stdio(app.handle)
        return
    place: dict[str, Any] = {"unix": options.unix or False, "port": options.ws}
    async with contextlib.AsyncExitStack() as stack:
        serving = app.serving(discoverable=False, open=True, **place)
        [address] = await stack.enter_async_context(serving)
        print(f"ready {address}", flush=True)  # noqa: T201 - the parent waits for it
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
