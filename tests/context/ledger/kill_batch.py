"""Run as a program: append in child processes and kill each of them with SIGKILL.

Arguments: the ledger's path, the number of kills, a seed, and `early` for a writer that
lies: it acknowledges before it has stored, so that losses must be found. A child tells through a
pipe each number it was acknowledged; the parent kills it after a random number of
them and a random moment, and checks the ledger at once. Prints a JSON summary.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from pathlib import Path

from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message


def append_until_killed(path: Path, session_id: int, first: int, pipe: int, *, early: bool) -> None:
    """The child: append numbers, and tell each one only after it was acknowledged."""
    with Ledger(path) as ledger:
        number = first
        while True:
            text = f"{number} {'x' * (number % 7) * 500}"
            if early:
                os.write(pipe, number.to_bytes(4, "big"))
            ledger.append(session_id, [Message.of("user", text)], strategy="s")
            if not early:
                os.write(pipe, number.to_bytes(4, "big"))
            number += 1


def kill_one(path: Path, session_id: int, first: int, chance: random.Random, *, early: bool) -> int:
    """Start a child at number `first` and kill it; the first number not acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        append_until_killed(path, session_id, first, writer, early=early)
    os.close(writer)
    acknowledged = bytearray()
    for _ in range(chance.randrange(1, 5)):
        acknowledged += os.read(reader, 4)
    select.select([], [], [], chance.random() * 0.003)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while piece := os.read(reader, 4096):
        acknowledged += piece
    os.close(reader)
    return int.from_bytes(acknowledged[-4:], "big") + 1


def main() -> None:
    path, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    early = sys.argv[4:] == ["early"]
    with Ledger(path) as ledger:
        session_id = ledger.sessions.create("killed").id
    next_number = lost = unacknowledged = 0
    gapless = clean = True
    for _ in range(kills):
        expected = kill_one(path, session_id, next_number, chance, early=early)
        with Ledger(path) as ledger:
            clean = clean and ledger.verify().ok
            numbers = [int(entry.message.text.split()[0]) for entry in ledger.window(session_id)]
        gapless = gapless and numbers == list(range(len(numbers)))
        lost += max(0, expected - len(numbers))
        unacknowledged += max(0, len(numbers) - expected)
        next_number = len(numbers)
    summary = {
        "kills": kills,
        "messages": next_number,
        "lost": lost,
        "unacknowledged": unacknowledged,
        "gapless": gapless,
        "clean": clean,
    }
    sys.stdout.write(json.dumps(summary))


if __name__ == "__main__":
    main()
