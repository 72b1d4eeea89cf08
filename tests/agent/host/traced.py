"""Run as a program: a turn with three calls, traced as the command line does it; its events.

What is logged meanwhile goes to `log.txt` in the directory: the ids of each record, and its words.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

from opentelemetry import trace

import sightline.telemetry as telemetry
from agent.host.helpers import hosted, invoke, turn
from sightline import App
from sightline.cli.tracing import send_traces
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.errors import ActionError
from sightline.events import encode_event
from support.live import TREE

LINES = "%(trace_id)s %(span_id)s %(session)s %(turn)s %(message)s"
SECRET = "sk-ant-api03-" + "x" * 40


async def main(directory: Path) -> None:
    handler = logging.FileHandler(directory / "log.txt")
    handler.setFormatter(logging.Formatter(LINES))
    logging.getLogger("sightline").addHandler(handler)
    app = App("live", "Live")
    added: list[str] = []

    @app.node("/")
    def root() -> dict[str, Any]:
        if added:
            raise ValueError("it cannot be shown any more")
        return {"type": "root", "props": {"title": TREE.id}}

    @app.action("/", "add")
    def add(word: str) -> str:
        with trace.get_tracer("app").start_as_current_span("the app's own work"):
            added.append(word)
            return f"added {word}"

    @app.action("/", "fail")
    def fail() -> None:
        raise ActionError("conflict", "no")

    def done(_: Request) -> str:
        telemetry.logger("sightline.tests").warning("the last request")
        return "Done."

    script: list[Any] = [
        ["On it.", invoke("c1", "/", "add", word=SECRET), invoke("c2", "/", "fail")],
        ToolCall("c3", "describe_db", {}),
        done,
    ]
    async with hosted(directory, script, app=app, mode="auto") as (host, _):
        with trace.get_tracer("caller").start_as_current_span("the caller's own span"):
            for event in await turn(host, "add it"):
                sys.stdout.buffer.write(encode_event(event) + b"\n")


if __name__ == "__main__":
    send_traces()
    asyncio.run(main(Path(sys.argv[1])))
