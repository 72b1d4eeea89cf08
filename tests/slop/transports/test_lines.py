"""Lines out of a byte stream: any chunking, any length."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from sightline.slop.transports.lines import LineSplitter


def lines_of(chunks: list[bytes], max_bytes: int = 10) -> list[bytes]:
    splitter = LineSplitter(max_bytes)
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\r\n\n  \n\ntwo\n", [b"one\r", b"two"]),
        (b"unfinished", []),
        (b"0123456789\n", [b"0123456789"]),
        (b"0123456789A\nnext\n", [b"0123456789A", b"next"]),
        (b"0123456789ABCDEFGHIJKLMNOP\nnext\n", [b"0123456789A", b"next"]),
    ],
)
def test_any_chunking_gives_the_same_lines(stream: bytes, lines: list[bytes]) -> None:
    assert lines_of([stream]) == lines
    assert lines_of([stream[at : at + 1] for at in range(len(stream))]) == lines
    rng = random.Random(7)
    for _ in range(50):
        cut = sorted(rng.choices(range(len(stream) + 1), k=3))
        bounds = [0, *cut, len(stream)]
        chunks = [stream[a:b] for a, b in pairwise(bounds)]
        assert lines_of(chunks) == lines


def test_an_endless_line_takes_no_more_than_its_limit() -> None:
    splitter = LineSplitter(1000)
    assert splitter.feed(b"x" * 5000) == [b"x" * 1001]
    assert splitter.feed(b"x" * 5000) == []
    assert splitter.feed(b"\nend\n") == [b"end"]
