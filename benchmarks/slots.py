"""What a prompt costs to assemble, against trimming the same conversation elsewhere.

    python -m benchmarks --only slots

Ours is a whole `render`: weigh, decide, receipt, digest, of a conversation that grew by an
exchange since the last one, as it does in every turn but the first. The peer is langchain-core's
`trim_messages`, given the same tokenizer per message, which is how its documentation
counts; and once more with those counts remembered in a dictionary, which is ours to
give, not its habit. Times are the best of several, in processor time: a busy machine
measures the same.
"""

from __future__ import annotations

import base64
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import tiktoken
import tiktoken.load
import toktok
from tiktoken_ext import openai_public

from benchmarks.data import WORDS
from benchmarks.harness import Row
from benchmarks.peers import run_peer
from sightline.context.messages.parts import Message, Role, Text, ToolCall, ToolResult
from sightline.context.slots.slots import Slots
from sightline.context.tokens.tokens import counter_for

BUDGET = 128_000
ENCODING = "o200k_base"
SIZES = (100, 1_000, 10_000, 100_000)
RACES = (1_000, 10_000)
SECOND_S = 0.0015


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything once and return the rows."""
    sizes, races = (SIZES[:2], ()) if quick else (SIZES, RACES)
    warm = {size: render_s(size) for size in sizes}
    peers = (peer_s() if races else None) or {}
    rows = [
        Row(
            f"warm-{size}", "render, warm", size, ours, peers.get(f"plain {size}"),
            50 if size in races else None,
        )
        for size, ours in warm.items()
    ]  # fmt: skip
    for size in races:
        theirs = peers.get(f"remembered {size}")
        work = "render, peer given our counts"
        rows.append(Row(f"remembered-{size}", work, size, warm[size], theirs))
    for size in sizes[-2:]:
        work = "the second prompt of a process (the peer is the promise of 1.5 ms)"
        rows.append(Row(f"second-{size}", work, size, warm[size], SECOND_S, 1))
    rows.append(Row("cold", "first render, nothing counted", sizes[-2], cold_s(sizes[-2])))
    megabytes, ours_s, theirs_s = counting_s()
    note = f"{megabytes / ours_s:.0f} against {megabytes / theirs_s:.0f} MB/s"
    work = "count code, nothing counted before"
    rows.append(Row("count-code", work, 1, ours_s, theirs_s, 5, note=note))
    for what, letter in (("one letter", "a"), ("spaces", " ")):
        for length in (500_000, 1_000_000):
            spent = best_s(partial(counter_for(ENCODING).count, letter * length), repeats=3)
            slug = f"count-{what.split()[-1]}-{length}"
            rows.append(Row(slug, f"count {what}, this many times", length, spent))
    return rows


def conversation(size: int) -> list[dict[str, str]]:
    """Write a conversation: questions, tool rounds in half of the turns, answers."""
    chance = random.Random(7)

    def text(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    said: list[dict[str, str]] = []
    turn = 0
    while len(said) < size:
        turn += 1
        said.append({"kind": "user", "text": text(40)})
        if turn % 2:
            said.append({"kind": "call", "id": f"c{turn}", "text": ""})
            said.append({"kind": "result", "id": f"c{turn}", "text": text(250)})
        said.append({"kind": "assistant", "text": text(120)})
    return said[:size]


def messages(size: int) -> list[Message]:
    made: list[Message] = []
    for row in conversation(size):
        if row["kind"] == "call":
            made.append(Message("assistant", (ToolCall(row["id"], "search", {"q": "x"}),)))
        elif row["kind"] == "result":
            made.append(Message("tool", (ToolResult(row["id"], row["text"]),)))
        else:
            role: Role = "user" if row["kind"] == "user" else "assistant"
            made.append(Message(role, (Text(row["text"]),)))
    return made


def render(history: list[Message]) -> None:
    slots = Slots(BUDGET, ENCODING)
    slots.add("system", "You are a helpful assistant.", role="system", priority=100)
    slots.add("history", history, slack=0.1)
    slots.add("input", "What changed since yesterday?", priority=50)
    assert slots.render().receipt.total <= BUDGET


def render_s(size: int) -> float:
    """The best time of the next prompt after an exchange."""
    history = messages(size)
    render(history)
    best = float("inf")
    for number in range(15):
        history.append(Message.of("user", f"question {number}"))
        history.append(Message.of("assistant", f"answer {number}"))
        best = min(best, best_s(lambda: render(history), repeats=1))
    return best


def cold_s(size: int) -> float:
    counter_for(ENCODING).count("the vocabulary is loaded before the clock starts")
    history = [
        Message(
            m.role, tuple(Text(f"{p.text} again") if isinstance(p, Text) else p for p in m.parts)
        )
        for m in messages(size)
    ]
    return best_s(lambda: render(history), repeats=1)


def best_s(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peer_s() -> dict[str, float]:
    """Run the peer in its own environment and return its best times."""
    given = json.dumps({str(size): conversation(size) for size in RACES})
    found: dict[str, float] = run_peer("slots_peer.py", stdin=given) or {}
    return {name: ms / 1000 for name, ms in found.items()}


def counting_s() -> tuple[float, float, float]:
    """Count the standard library's sources, one thread each, in texts of a message's size.

    Returns the megabytes, our time and the reference's.
    """
    whole = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted(Path(random.__file__).parent.glob("*.py"))
    )[:4_000_000]
    texts = [whole[start : start + 1_000] for start in range(0, len(whole), 1_000)]
    size = sum(len(text.encode()) for text in texts) / 1e6
    reference = tiktoken_offline()
    toktok.batch_count(["load"], ENCODING)
    ours = best_s(lambda: toktok.batch_count(texts, ENCODING, threads=1), repeats=5)
    theirs = best_s(lambda: list(map(reference.encode_ordinary, texts)), repeats=3)
    return size, ours, theirs


def tiktoken_offline() -> tiktoken.Encoding:
    """Give tiktoken its vocabulary from the wheel instead of a download; it checks the hash."""
    vocabulary, lines, rank = toktok._encoding(ENCODING), [], 0
    while token := bytes(vocabulary.decode_bytes([rank])):
        lines.append(base64.b64encode(token) + b" %d\n" % rank)
        rank += 1
    instead = patch.object(tiktoken.load, "read_file", return_value=b"".join(lines))
    with instead, tempfile.TemporaryDirectory() as home:
        os.environ["TIKTOKEN_CACHE_DIR"] = home
        return tiktoken.Encoding(**getattr(openai_public, ENCODING)())
