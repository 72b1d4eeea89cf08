"""Run as a program: a turn with three calls, traced as the command line does it; its events."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from opentelemetry import trace

from agent.host.helpers import hosted, invoke, turn
from sightline import App
from sightline.cli.tracing import send_traces
from sightline.context.messages.parts import ToolCall
from sightline.errors import ActionError
from sightline.events import encode_event
from support.live import TREE

SECRET = "sk-ant-api03-" + "x" * 40


async def main(directory: Path) -> None:
    app = App("live", "Live")
    app.node("/")(lambda: {"type": "root", "props": {"title": TREE.id}})

    @app.action("/", "add")
    def add(word: str) -> str:
        with trace.get_tracer("app").start_as_current_span("the app's own work"):
            return f"added {word}"

    @app.action("/", "fail")
    def fail() -> None:
        raise ActionError("conflict", "no")

    script = [
        ["On it.", invoke("c1", "/", "add", word=SECRET), invoke("c2", "/", "fail")],
        ToolCall("c3", "describe_db", {}),
        "Done.",
    ]
    async with hosted(directory, script, app=app, mode="auto") as (host, _):
        with trace.get_tracer("caller").start_as_current_span("the caller's own span"):
            for event in await turn(host, "add it"):
                sys.stdout.buffer.write(encode_event(event) + b"\n")


if __name__ == "__main__":
    send_traces()
    asyncio.run(main(Path(sys.argv[1])))
