"""From an empty virtual environment to the first live answer, by the commands of the guide.

    python -m proof.first_answer [PROGRAM …]

Whatever docs/add-to-your-agent.md prints as a block of commands is typed here as it stands, in a
copy of this repository and an environment that has nothing but pip; a vendor on loopback answers.
The answer is live if the request had the app's state in it. pip has no cache, and needs a package
index. Prints the guide's table; exits with 1 where no answer came.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from support.vendors.answers import Sends
from support.vendors.server import Vendor

__all__ = ["FirstAnswer", "copied", "first_answer", "main", "programs"]

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "add-to-your-agent.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^python examples/(\w+)\.py", re.MULTILINE)
SAID = "Two messages are unread."
_TEXT = {"type": "output_text", "text": SAID, "annotations": []}
# A reply in OpenAI's two APIs and in Anthropic's at once: each client reads its own members.
_REPLY = {
    "id": "r", "created": 1, "created_at": 1, "model": "m", "object": "chat.completion",
    "type": "message", "role": "assistant", "status": "completed", "stop_reason": "end_turn",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": SAID}}],
    "content": [{"type": "text", "text": SAID}],
    "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [_TEXT]}],
    "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    "usage": {"input_tokens": 1, "output_tokens": 1, "prompt_tokens": 1, "completion_tokens": 1,
              "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
              "output_tokens_details": {"reasoning_tokens": 0}},
}  # fmt: skip


class FirstAnswer(NamedTuple):
    """How long each command took, in seconds, and whether the answer came of the app's state."""

    seconds: tuple[float, ...]
    is_live: bool


def programs() -> dict[str, list[str]]:
    """The commands that the guide gives for each of its programs."""
    found = (block for block in _BLOCK.findall(GUIDE.read_text("utf-8")) if "examples/" in block)
    return {_PROGRAM.findall(block)[0]: block.splitlines() for block in found}


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of this repository, as its source archive has it."""
    with tempfile.TemporaryDirectory() as directory:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", directory]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        [archive] = Path(directory).glob("*.tar.gz")
        with tarfile.open(archive) as sources:
            # Pythons before 3.11.4 have no filters, and need none for what we built.
            sources.extraction_filter = getattr(tarfile, "data_filter", None)
            sources.extractall(directory)  # noqa: S202
        [copy] = (path for path in Path(directory).iterdir() if path.is_dir())
        yield copy


def first_answer(commands: list[str], copy: Path) -> FirstAnswer:
    """Type commands one after the other. Raises CalledProcessError, with the output."""
    reply = Sends(json.dumps(_REPLY).encode(), 200, "application/json")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subprocess.run([sys.executable, "-m", "venv", home / "env"], check=True)
        vendor = stack.enter_context(Vendor(reply))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            **vendor.environment(),
            "PATH": f"{home / 'env' / 'bin'}:{os.environ['PATH']}", "PIP_NO_CACHE_DIR": "1",
            "SLOP_PROVIDERS": str(home / "apps"),
        }  # fmt: skip
        seconds, out = list[float](), b""
        for command in commands:
            began = time.perf_counter()
            if command.endswith("&"):
                out = stack.enter_context(_behind(command.removesuffix("&"), copy, environment))
            else:
                out = subprocess.run(  # noqa: S602 - our own page
                    command, shell=True, cwd=copy, env=environment, check=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                ).stdout  # fmt: skip
            seconds.append(time.perf_counter() - began)
        state = any(b"<slop-state " in request.body for request in vendor.requests)
        return FirstAnswer(tuple(seconds), state and SAID.encode() in out)


@contextmanager
def _behind(command: str, copy: Path, environment: dict[str, str]) -> Iterator[bytes]:
    """Run a command in the background, from its first line of output on."""
    running = subprocess.Popen(  # noqa: S602 - our own page
        f"exec {command}", shell=True, cwd=copy, env=environment, stdout=subprocess.PIPE
    )  # fmt: skip
    with running as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()


def main(names: list[str]) -> int:
    """Try programs, all of them where none is named; print the table."""
    failed = 0
    print("| program | commands | installing | until the answer |")
    print("| --- | ---: | ---: | ---: |")
    with copied() as copy:
        for name, commands in programs().items():
            if names and name not in names:
                continue
            try:
                answer = first_answer(commands, copy)
            except subprocess.CalledProcessError as error:
                print(error.output.decode(), file=sys.stderr)
                answer = FirstAnswer((0.0,), is_live=False)
            failed += not answer.is_live
            total = f"{sum(answer.seconds):.0f} s" if answer.is_live else "**no answer**"
            print(f"| `{name}` | {len(commands)} | {answer.seconds[0]:.0f} s | {total} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
