"""A body is written once, of pieces that later requests use again."""

from __future__ import annotations

import json
import random

import pytest

from context.dialects.test_any_prompt import MODELS, Author
from laws.test_law_6_dialects import prompt, requests
from sightline.context.dialects import Options, Request, encode, profile_for, segments
from sightline.context.dialects.segments import Segment, SegmentMemory
from sightline.context.messages.parts import File, Part, Text
from sightline.context.slots.prompt import Prompt
from sightline.errors import InvalidInput

OPTIONS = Options(conversation="c", previous_id="before")


def seen(request: Request) -> tuple[object, ...]:
    return request.data, request.wire, request.notes, request.headers, request.marks


@pytest.mark.parametrize(("endpoint", "model"), MODELS)
def test_what_was_written_before_changes_nothing(endpoint: str, model: str) -> None:
    author = Author(f"{endpoint} {model}")
    profile = profile_for(endpoint, model, {"cache.min_tokens": 0})
    for made in (author.prompt() for _ in range(40)):
        try:
            first = encode(made, profile, OPTIONS)
        except InvalidInput:
            continue
        assert seen(encode(made, profile, OPTIONS)) == seen(first)
        assert seen(encode(Prompt.decode(made.encode()), profile, OPTIONS)) == seen(first)


@pytest.mark.parametrize(("endpoint", "model"), MODELS)
def test_marks_are_put_into_the_bytes_that_are_compared(endpoint: str, model: str) -> None:
    chance = random.Random(endpoint)
    profile = profile_for(endpoint, model, {"cache.min_tokens": 0})
    for stored in requests(chance):
        request = encode(prompt(stored, chance), profile, OPTIONS)
        data = request.data
        for offset, inserted in reversed(request.inserts):
            assert data[offset + _before(request, offset) :].startswith(inserted)
        assert len(data) == len(request.wire.data) + sum(len(i) for _, i in request.inserts)
        assert request.body == json.loads(data)
        words = json.dumps(request.body)
        names = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
        assert sum(words.count(f'"{name}"') for name in names) == request.marks
        assert not any(name.encode() in request.wire.data for name in names)


def _before(request: Request, offset: int) -> int:
    return sum(len(inserted) for at, inserted in request.inserts if at < offset)


def test_only_what_is_new_is_written() -> None:
    memory = SegmentMemory()
    written: list[tuple[Part, ...]] = []

    def write(parts: tuple[Part, ...]) -> list[Segment]:
        written.append(parts)
        return [Segment("user", b"{}")]

    old, new, file = (Text("old"),), (Text("new"),), (File("data:,", "text/plain"),)
    for parts in (old, old, new, old, file, file):
        assert memory.pieces(parts, "user", write) == [Segment("user", b"{}")]
    assert written == [old, new, file, file]
    memory.pieces(old, "system", write)
    assert len(written) == 5


def test_the_memory_of_what_was_written_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MEMORY_BYTES", 10_000)
    memory = SegmentMemory()
    held = [(Text(str(number)),) for number in range(200)]
    for parts in held:
        memory.pieces(parts, "user", lambda _: [Segment("user", b"x" * 1_000)])
    assert sum(len(p.data) for _, pieces in memory._held.values() for p in pieces) < 12_000
