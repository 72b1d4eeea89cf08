"""One counter, one unit: what things weigh, where the figure comes from, and what it costs."""

from __future__ import annotations

import re
import struct
import sys
from base64 import b64encode
from collections.abc import Sequence

import pytest

from sightline._distribution import install
from sightline.context.messages.parts import File, Message, Reasoning, Text, ToolCall, ToolResult
from sightline.context.tokens.basis import PLAIN, Basis, basis_of, file_tokens
from sightline.context.tokens.estimate import Calibration, Calibrations, estimate
from sightline.context.tokens.tokens import (
    Engine,
    SeenMessages,
    TextCounter,
    counter_for,
    default_counter,
)
from sightline.errors import InvalidInput, MissingExtra

PHOTO = File("file:///a.png", "image/png")


class Recorder:
    """A tokenizer that counts characters and remembers what it was asked."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> list[int]:
        self.batches.append(sorted(texts))
        return [len(text) for text in texts]


def counting(recorder: Recorder, max_texts: int = 1_000) -> TextCounter:
    return TextCounter("test", Engine(recorder, max_texts), "counted", Basis(None, PLAIN))


def test_chars_per_four_rounds_up_per_message_and_adds_nothing() -> None:
    counter = counter_for("chars/4")
    messages = [Message.of("user", "x" * n) for n in (0, 1, 4, 5)]
    assert counter.weigh(messages) == [0, 1, 1, 2]
    assert counter.request_overhead == 0
    two_parts = Message("user", (Text("xxx"), Text("xx")))
    assert counter.weigh([two_parts]) == [2]


def test_an_encoding_counts_bare_text_and_a_model_adds_its_frame() -> None:
    message = Message.of("user", "hello world")
    assert counter_for("o200k_base").weigh([message]) == [2]
    assert counter_for("o200k_base").request_overhead == 0
    assert counter_for("gpt-4o").weigh([message]) == [2 + 3]
    assert counter_for("gpt-4o").request_overhead == 3


def test_every_part_of_a_message_is_weighed() -> None:
    message = Message(
        "assistant",
        (
            Reasoning("hm"),
            Text("ok"),
            ToolCall("1", "find", {"q": "x"}),
            ToolResult("1", "found"),
            File("file:///a", "image/png", tokens=7),
        ),
    )
    counter = counting(Recorder())
    assert counter.weigh([message]) == [2 + 2 + 4 + len('{"q":"x"}') + 5 + 7]
    framed = (
        counter_for("gpt-4o").weigh([message])[0] - counter_for("o200k_base").weigh([message])[0]
    )
    assert framed == 3 + 4 + 2


def test_a_text_is_counted_once_and_new_ones_in_one_batch() -> None:
    recorder = Recorder()
    counter = counting(recorder)
    history = [Message.of("user", f"message {n}") for n in range(3)]
    assert counter.weigh(history) == counter.weigh(history) == [9, 9, 9]
    counter.weigh([*history, Message.of("user", "new"), Message("user", (Text("new"), Text("er")))])
    assert recorder.batches == [["message 0", "message 1", "message 2"], ["er", "new"]]


def test_the_cache_forgets_what_is_not_used_and_keeps_what_is() -> None:
    recorder = Recorder()
    engine = Engine(recorder, max_texts=8)
    engine.learn(["kept"])
    for number in range(100):
        engine.learn([f"passing {number:03}"])
        assert engine.count("kept") == 4
    assert len(engine) <= 8
    assert recorder.batches.count(["kept"]) == 1
    assert engine.count("passing 000") == 11
    assert recorder.batches.count(["passing 000"]) == 2


def test_a_batch_larger_than_the_cache_is_still_right() -> None:
    counter = counting(Recorder(), max_texts=4)
    messages = [Message("user", (Text("a" * n), Text("b" * n))) for n in range(1, 9)]
    assert counter.weigh(messages) == [2 * n for n in range(1, 9)]


def test_models_that_share_a_vocabulary_share_what_was_counted() -> None:
    text = "shared between counters of one vocabulary"
    counter_for("gpt-4o").weigh([Message.of("user", text)])
    assert counter_for("gpt-5").weigh([Message.of("user", text)])[0] > 3
    assert counter_for("gpt-4o") is counter_for("gpt-4o")


@pytest.mark.parametrize(
    ("model", "provenance"),
    [
        ("o200k_base", "counted"),
        ("gpt-4o-mini", "counted"),
        ("openai/gpt-oss-120b", "counted"),
        ("ft:gpt-3.5-turbo:acme", "counted"),
        ("gpt-6.1-sol", "estimated"),
        ("claude-opus-5-5", "estimated"),
        ("gemini-4-argon", "estimated"),
        ("some-new-model", "estimated"),
    ],
)
def test_every_counter_says_where_its_figures_come_from(model: str, provenance: str) -> None:
    assert counter_for(model).provenance == provenance


def test_the_longest_matching_prefix_names_the_encoding() -> None:
    assert basis_of("gpt-4-turbo").encoding == "cl100k_base"
    assert basis_of("gpt-4o").encoding == "o200k_base"
    assert basis_of("gpt-4.1-nano").encoding == "o200k_base"
    assert basis_of("gpt-oss-20b").encoding == "o200k_harmony"


def test_a_message_is_as_sure_as_its_least_certain_part() -> None:
    counter = counter_for("o200k_base")
    assert counter.provenance_of(Message.of("user", "hi")) == "counted"
    assert counter.provenance_of(Message("user", (Text("hi"), PHOTO))) == "estimated"
    declared = File("file:///a.png", "image/png", tokens=9)
    assert counter.provenance_of(Message("user", (declared,))) == "declared"
    assert counter.provenance_of(Message("user", (declared, PHOTO))) == "estimated"
    assert counter_for("claude-x").provenance_of(Message("user", (declared,))) == "estimated"
    assert counter_for("chars/4").provenance_of(Message("user", (PHOTO,))) == "estimated"


def test_the_undocumented_frame_of_a_tool_call_is_an_estimate() -> None:
    called = Message("assistant", (ToolCall("1", "find", {}),))
    assert counter_for("gpt-4o").provenance_of(called) == "estimated"
    assert counter_for("o200k_base").provenance_of(called) == "counted"


def test_pictures_are_held_for_what_they_take_and_not_for_what_they_weigh() -> None:
    seen = SeenMessages(max_tokens=1_000)
    pictures = [
        Message("user", (File(f"data:image/png;base64,{n}{'A' * 8_000}", "image/png"),))
        for n in range(3)
    ]
    for picture in pictures:
        seen.learn(picture, 85)
    assert seen.get_many(pictures) == [None, None, 85]


def test_messages_are_remembered_until_they_are_too_many() -> None:
    seen = SeenMessages(max_tokens=100)
    first, second = Message.of("user", "a"), Message.of("user", "b")
    seen.learn(first, 90)
    assert seen.get_many([first, second]) == [90, None]
    seen.learn(second, 1)
    assert seen.get_many([first, second]) == [None, 1]


@pytest.mark.parametrize(
    ("rule", "size", "expected"),
    [
        ("openai_tiles", (1024, 1024), 85 + 4 * 170),
        ("openai_tiles", (2048, 4096), 85 + 6 * 170),
        ("openai_tiles", (None, None), 85 + 4 * 170),
        ("anthropic", (200, 200), 54),
        ("anthropic", (1000, 1000), 1334),
        ("anthropic", (None, None), 1600),
        ("gemini", (300, 300), 258),
        ("gemini", (1536, 768), 516),
        ("gemini", (None, None), 258),
    ],
)
def test_images_are_weighed_by_their_vendors_rule(
    rule: str, size: tuple[int | None, int | None], expected: int
) -> None:
    image = File("file:///a.png", "image/png", width=size[0], height=size[1])
    assert file_tokens(image, rule) == expected


def test_other_files_are_weighed_by_declaration_or_size() -> None:
    assert file_tokens(File("f", "application/pdf", tokens=12), "gemini") == 12
    assert file_tokens(File("f", "text/plain", size=401), "gemini") == 101
    assert file_tokens(File("f", "application/pdf"), "gemini") == 3000
    assert counter_for("chars/4").weigh([Message("user", (File("f", "text/plain", size=8),))]) == [
        2
    ]


def test_a_file_in_its_address_weighs_what_it_is() -> None:
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 2000, 500)
    image = File(f"data:image/png;base64,{b64encode(head + bytes(200_000)).decode()}", "image/png")
    known = File("file:///a.png", "image/png", width=2000, height=500)
    for rule in ("openai_tiles", "anthropic", "gemini"):
        assert file_tokens(image, rule) == file_tokens(known, rule)
    notes = File(f"data:text/plain;base64,{b64encode(b'x' * 400).decode()}", "text/plain")
    assert file_tokens(notes, "gemini") == pytest.approx(100, abs=1)
    lie = head[:16] + struct.pack(">II", 2**32 - 1, 2**32 - 1)
    liar = File(f"data:image/png;base64,{b64encode(lie).decode()}", "image/png")
    assert file_tokens(liar, "gemini") == file_tokens(File("f", "image/png"), "gemini")
    broken = File("data:image/png;base64,???", "image/png")
    assert file_tokens(broken, "gemini") == file_tokens(File("f", "image/png"), "gemini")


@pytest.mark.parametrize("unit", ["a", " ", "\n", "\t", "1", "'", "字", "👍", "\u200d", "ab", "a "])
@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "estimate", "chars/4"])
def test_pathological_texts_are_counted(name: str, unit: str) -> None:
    """A megabyte of one thing: a quadratic tokenizer would not come back from this."""
    text = unit * (1_000_000 // len(unit))
    assert counter_for(name).count(text) > 0


def test_surrogates_are_counted_as_what_tiktoken_makes_of_them() -> None:
    counter = counter_for("o200k_base")
    assert counter.count("\ud83d\ude00") == counter.count("😀")
    assert counter.count("a\ud800") == counter.count("a\ufffd")
    assert counter_for("estimate").count("\ud800") == 1


def test_special_tokens_in_a_text_are_only_text() -> None:
    assert counter_for("o200k_base").count("<|endoftext|>") > 1


def test_a_missing_tokenizer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from sightline.context.tokens import tokens

    monkeypatch.setitem(sys.modules, "toktok", None)
    tokens._tokenizer.cache_clear()
    tokens._counter_for.cache_clear()
    with pytest.raises(MissingExtra, match=re.escape(install("tokens"))):
        counter_for("o200k_base")
    assert default_counter().provenance == "estimated"
    monkeypatch.undo()
    assert default_counter().name == "o200k_base"


def test_a_counter_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="needs a name"):
        counter_for(" ")


def test_the_estimate_is_near_the_tokenizer_in_many_scripts() -> None:
    exact = counter_for("o200k_base")
    for text in (
        "The quick brown fox jumps over the lazy dog, and then it sleeps for a while. " * 9,
        "def f(x):\n    return [y for y in x if y]\n" * 9,
        "上下文引擎把应用的实时状态放进提示里。" * 9,
        "Оркестратор собирает запрос из слоёв контекста. " * 9,
    ):
        assert 0.5 < estimate(text) / exact.count(text) < 1.7
    assert estimate("") == 0


def test_reported_usage_corrects_the_estimate_of_its_model_only() -> None:
    table, raw = Calibrations(), 1000
    for _ in range(20):
        predicted = table.of("claude-x").apply(raw)
        table = table.observe("claude-x", predicted=predicted, reported=1400)
    assert table.of("claude-x").factor == pytest.approx(1.4, rel=0.001)
    assert table.of("other").factor == 1.1
    text = "word " * 100
    plain, corrected = counter_for("claude-x"), counter_for("claude-x", table.of("claude-x"))
    assert corrected.count(text) == pytest.approx(estimate(text) * 1.4, abs=1)
    assert (
        corrected.weigh([Message.of("user", text)])[0] > plain.weigh([Message.of("user", text)])[0]
    )
    assert corrected.provenance == "estimated"


def test_an_exact_count_is_left_alone_and_an_assumed_one_corrected() -> None:
    half_more = Calibration(estimated=2.0, reported=3.0)
    assert counter_for("gpt-4o", half_more).count("hello world") == 2
    assert counter_for("gpt-6-luna", half_more).count("hello world") == 3


def test_a_calibration_follows_a_model_that_changes() -> None:
    learnt, raw = Calibration(start=1.2), 1000
    assert learnt.factor == 1.2
    for reported in [1000] * 30 + [1500] * 30:
        learnt = learnt.observe(learnt.apply(raw), reported)
    assert learnt.factor == pytest.approx(1.5, rel=0.03)
    assert learnt.observe(0, 10) == learnt
    assert learnt.observe(10, 0) == learnt
    assert Calibration().observe(1, 10_000).factor == 4.0


def test_calibrations_survive_storage() -> None:
    table = Calibrations().observe("m", 10, 13)
    assert Calibrations.decode(table.encode()) == table
    with pytest.raises(InvalidInput, match="calibrations"):
        Calibrations.decode(b"[]")
