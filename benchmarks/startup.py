"""How long a person waits: CPU time of the program until its prompt is there, or a request leaves.

`sightline chat` runs in a pseudo-terminal and ends itself as soon as the prompt is drawn, in the
place of loading what comes behind it; `sightline ask` ends itself where it would connect for its
first request, in an empty directory. The CPU time is what the system counted by then. The peer of
the chat is an interpreter that does nothing (`python -c pass`), which nobody who writes Python
can beat; that of a connection is the vendor's SDK with a client of its own. The promises are
150 ms to the prompt and 500 ms to the request.

Models of OpenAI's have a public tokenizer, so their requests are counted and not estimated: its
vocabulary is read before the first one, which is a row of its own and no part of the promise.
"""

from __future__ import annotations

import os
import pty
import sys
import tempfile
from collections.abc import Mapping

from benchmarks.harness import Row

__all__ = ["run"]

PROMPT_S = 0.15
REQUEST_S = 0.5
CHAT = """
import os
from sightline.cli import main
from sightline.cli.chat import main as chat

async def behind(terminal, options):
    await terminal.shown.wait()
    os._exit(0)

chat._behind = behind
main(["chat"])
"""
ASK = """
import asyncio, os
from sightline.cli import main

async def leave(self, *address, **options):
    os._exit(0)

asyncio.BaseEventLoop.getaddrinfo = asyncio.BaseEventLoop.create_connection = leave
main(["ask", "--db", "work.db", "--model", "{model}", "hello"])
"""
CONNECTION = """
from sightline.agent.models.access import Access
from sightline.agent.models.connected import ConnectedModel
from sightline.agent.models.keys import Key
from sightline.context.dialects.profiles import profile_for
access = Access("", profile_for("{row}"), "https://127.0.0.1", Key("none", ""))
{end}
from sightline.agent.models.posting import {kind}
{kind}(access)
"""
VOCABULARY = """
from sightline.context.tokens.tokens import counter_for
counter = counter_for("o200k_base")
{end}
counter.count("hello")
"""
# Ends a program before the part that is measured: what it took until then is taken off.
_BEFORE = "import os; os._exit(0)"
SDKS = {
    "openai": ("OpenAI", "openai-chat", "import openai; openai.AsyncOpenAI(api_key='none')"),
    "anthropic": (
        "Anthropic", "anthropic", "import anthropic; anthropic.AsyncAnthropic(api_key='none')",
    ),
    "gemini": ("Gemini", "gemini", "from google import genai; genai.Client(api_key='none')"),
}  # fmt: skip
MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "gemini": "gemini:gemini-3.8-flash",
    "ollama": "ollama:qwen3.5:7b",
}


def run(*, quick: bool) -> list[Row]:
    """Start each program by turns; the best of each counts."""
    runs = 1 if quick else 9
    models = {"anthropic": MODELS["anthropic"]} if quick else MODELS
    sdks = {"openai": SDKS["openai"]} if quick else SDKS
    programs = {
        "chat": CHAT,
        "bare": "pass",
        **{f"ask-{name}": ASK.format(model=model) for name, model in models.items()},
        "ask-openai": ASK.format(model="openai:gpt-6.1-sol"),
        "words": VOCABULARY.format(end=""),
        "words-not": VOCABULARY.format(end=_BEFORE),
        **{f"sdk-{name}": code for name, (_, _, code) in sdks.items()},
    }
    for name, (kind, row, _) in sdks.items():
        programs[f"own-{name}"] = CONNECTION.format(kind=kind, row=row, end="")
        programs[f"own-{name}-not"] = CONNECTION.format(kind=kind, row=row, end=_BEFORE)
    with tempfile.TemporaryDirectory() as home:
        env = {
            **os.environ, "HOME": home, "TERM": "xterm-256color", "SLOP_PROVIDERS": home,
            "OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "GEMINI_API_KEY": "none",
            "OLLAMA_API_KEY": "none",
        }  # fmt: skip
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
        best = {
            name: min(_cpu_s(code, env, home) for _ in range(runs))
            for name, code in programs.items()
        }
    words = best["words"] - best["words-not"]
    asked = best["ask-openai"] - words
    return [
        Row(
            "chat", "start of the chat, to its prompt", 1, best["chat"], best["bare"],
            note="against `python -c pass`",
        ),
        Row("chat-promise", "the same, against what is promised", 1, best["chat"], PROMPT_S, bar=1),
        *(
            Row(f"ask-{name}", f"ask, until the request leaves: {model}", 1, best[f"ask-{name}"],
                REQUEST_S, bar=1)
            for name, model in models.items()
        ),
        Row("ask-openai", "the same of an OpenAI model, without its vocabulary", 1, asked,
            REQUEST_S, bar=1),
        Row("vocabulary", "the vocabulary that its tokens are counted with", 1, words),
        *(
            Row(
                f"connection-{name}", f"our connection to {name}, against its SDK", 1,
                best[f"own-{name}"] - best[f"own-{name}-not"], best[f"sdk-{name}"] - best["bare"],
            )
            for name in sdks
        ),
    ]  # fmt: skip


def _cpu_s(code: str, env: Mapping[str, str], directory: str) -> float:
    """Run code on a terminal of its own to its end; return the CPU seconds of its process."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(directory)
        os.execve(sys.executable, [sys.executable, "-c", code], dict(env))  # noqa: S606 - no shell
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(terminal)
    _, status, used = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "it did not come up"
    return used.ru_utime + used.ru_stime
