"""Threads that are the first to read a type at the same moment read it."""

from __future__ import annotations

import subprocess
import sys

# Each child begins where nothing has been read yet; chance seldom hits the moment.
TRIALS = """
import os, sys, threading

from sightline.context.slots.prompt import Prompt
from sightline.context.slots.prompt import Receipt
from sightline.inspector.whatif import read_wishes

sys.setswitchinterval(1e-6)
receipt = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
told = receipt.encode(), Prompt((), 0, receipt).encode()


def read(gate):
    gate.wait()
    Receipt.decode(told[0])
    Prompt.decode(told[1])
    read_wishes(b'{"budget": 3000}', ())


def together():
    gate = threading.Barrier(4)
    threads = [threading.Thread(target=read, args=(gate,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for _ in range(100):
    child = os.fork()
    if child == 0:
        together()
        os._exit(0)
    if status := os.waitpid(child, 0)[1]:
        sys.exit(f"a child ended with {status}")
"""


def test_types_are_known_before_threads_read_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRIALS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
