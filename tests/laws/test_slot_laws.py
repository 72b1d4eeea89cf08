"""Laws 5, 6 and 8, and what else must hold of every slot set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import msgspec
import regex
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from laws.slot_oracle import by_hand, exhaustive
from laws.slot_sets import SlotSet, slot_sets
from sightline.context.dialects.request import slot_names
from sightline.context.messages.parts import Message, ToolCall, ToolResult
from sightline.context.slots import units
from sightline.context.slots.options import TrimBehavior
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.context.slots.slots import Slots
from sightline.context.tokens.tokens import counter_for
from sightline.errors import DoesNotFit
from support.share import share

# Each law is for 10,000 slot sets; law 6 has two halves. Drawing may be slow on a busy machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
many = settings(unhurried, max_examples=share(10_000))
law_6 = settings(unhurried, max_examples=share(5_000))
some = settings(unhurried, max_examples=share(2_500))


COUNTERS = ("chars/4", "chars/4", "o200k_base", "gpt-4o", "claude-opus-5-5")


def rendered(given_set: SlotSet) -> Prompt | None:
    """Render it, or check that it really cannot fit."""
    try:
        return given_set.render()
    except DoesNotFit as error:
        reason = str(error)
    must_stay = int(reason.rpartition("= ")[2].split()[0])
    assert must_stay > given_set.budget
    no_priorities = all(not options.get("priority") for _, _, options in given_set.slots)
    assert no_priorities or "(request frame) = " in reason
    return None


def offered_messages(given_set: SlotSet) -> Iterator[Message]:
    for _, content, options in given_set.slots:
        if isinstance(content, str) and content:
            yield Message.of(options.get("role") or "user", content)
        elif isinstance(content, list):
            yield from content


def kept_messages(prompt: Prompt) -> dict[str, list[Message]]:
    """What is left of each slot, as the prompt has it."""
    found: dict[str, list[Message]] = {}
    for name, message in zip(slot_names(prompt), prompt.messages, strict=True):
        found.setdefault(name, []).append(message)
    return found


def kept_by_slot(prompt: Prompt) -> dict[str, int]:
    return {line.name: line.kept for line in prompt.receipt.slots}


@many
@given(slot_sets(), st.sampled_from(COUNTERS))
def test_law_5_tokens_offered_are_kept_or_cut_and_the_budget_holds(
    given_set: SlotSet, counter_name: str
) -> None:
    given_set = replace(given_set, counter=counter_name)
    prompt = rendered(given_set)
    assume(prompt is not None)
    assert prompt is not None
    assert given_set.render() == prompt, "the same slots give the same prompt"
    counter, receipt = counter_for(counter_name), prompt.receipt
    weight = counter.request_overhead + sum(counter.weigh(prompt.messages))
    assert receipt.total == weight <= given_set.budget
    assert receipt.total + receipt.free == given_set.budget
    assert receipt.total == receipt.overhead + sum(line.kept for line in receipt.slots)
    offered = sum(counter.weigh(list(offered_messages(given_set))))
    assert offered == sum(line.offered for line in receipt.slots)
    for line in receipt.slots:
        assert line.offered == line.kept + line.cut
        assert line.kept == sum(message.kept for message in line.messages)
        assert line.present == sum(message.is_present for message in line.messages)
        for message in line.messages:
            assert message.offered == message.kept + message.cut
            assert message.kept >= 0
            assert message.cut >= 0


@many
@given(slot_sets())
def test_law_8_calls_and_their_results_enter_or_leave_together(given_set: SlotSet) -> None:
    prompt = rendered(given_set)
    assume(prompt is not None)
    assert prompt is not None
    answered = {
        part.call_id
        for message in offered_messages(given_set)
        for part in message.parts
        if isinstance(part, ToolResult)
    }
    calls = {p.id for m in prompt.messages for p in m.parts if isinstance(p, ToolCall)}
    results = {p.call_id for m in prompt.messages for p in m.parts if isinstance(p, ToolResult)}
    assert calls & answered == results


@some
@given(slot_sets())
def test_the_receipt_survives_json(given_set: SlotSet) -> None:
    prompt = rendered(given_set)
    if prompt is not None:
        assert Receipt.decode(prompt.receipt.encode()) == prompt.receipt


@many
@given(
    slot_sets(slack=False, spanning=False),
    st.sampled_from(COUNTERS),
    st.integers(0, 4),
    st.integers(1, 60),
)
def test_all_else_equal_a_larger_budget_never_keeps_fewer_tokens_of_a_slot(
    given_set: SlotSet, counter_name: str, chosen: int, more: int
) -> None:
    """The others are what the small budget left of them, and cannot be cut any further."""
    small = rendered(replace(given_set, counter=counter_name))
    assume(small is not None)
    assert small is not None
    name, content, options = given_set.slots[chosen % len(given_set.slots)]
    others = {line.name: line for line in small.receipt.slots if line.name != name}
    slots = [(name, content, {**options, "priority": -1})]
    for other, messages in kept_messages(small).items():
        if other in others:
            held = {"priority": 1, "min_tokens": others[other].kept}
            slots.append((other, messages, held))
    fixed = SlotSet(given_set.budget, tuple(slots), counter_name)
    poorer, richer = fixed.render(), fixed.with_budget(given_set.budget + more).render()
    before, after = kept_by_slot(poorer), kept_by_slot(richer)
    for other in others.keys() & before:
        assert before[other] == after[other] == others[other].kept
    if options.get("trim_behavior") == "char" and counter_name != "chars/4":
        # A tokenizer may find a token less in a longer text; a mark may have more bytes than
        # the characters whose place it takes.
        kept = [msgspec.json.encode(kept_messages(made).get(name)) for made in (poorer, richer)]
        assert len(kept[1].decode()) >= len(kept[0].decode())
    else:
        assert after[name] >= before[name]


@some
@given(slot_sets(slack=False), st.integers(1, 60))
def test_a_larger_budget_takes_from_a_slot_only_what_another_gains(
    given_set: SlotSet, more: int
) -> None:
    small = rendered(given_set)
    assume(small is not None)
    assert small is not None
    large = given_set.with_budget(given_set.budget + more).render()
    before, after = kept_by_slot(small), kept_by_slot(large)
    gained = any(after[name] > before[name] for name in before)
    assert gained or before == after


@some
@given(slot_sets(slack=False, minima=False), st.integers(1, 60))
def test_without_minima_a_slot_yields_only_to_a_more_protected_one(
    given_set: SlotSet, more: int
) -> None:
    small = rendered(given_set)
    assume(small is not None)
    assert small is not None
    large = given_set.with_budget(given_set.budget + more).render()
    after = kept_by_slot(large)
    trimmed_last = sorted(
        enumerate(small.receipt.slots), key=lambda item: (item[1].priority, item[0]), reverse=True
    )
    for _, line in trimmed_last:
        if after[line.name] != line.kept:
            assert after[line.name] > line.kept
            break


@some
@given(slot_sets(slack=False, char=False, spanning=False))
def test_an_exhaustive_search_and_trimming_by_hand_agree(given_set: SlotSet) -> None:
    small = SlotSet(given_set.budget, given_set.slots[:3])
    prompt = rendered(small)
    kept = None if prompt is None else kept_by_slot(prompt)
    assert kept == exhaustive(small)
    assert kept == by_hand(small)


@law_6
@given(slot_sets(spanning=False), st.binary(max_size=40), st.binary(max_size=40))
def test_law_6_what_is_volatile_never_moves_what_is_not(
    given_set: SlotSet, now: bytes, then: bytes
) -> None:
    def prompt_with(state: bytes) -> Prompt:
        slots = Slots(10**9, given_set.counter)
        slots.add("state", state.hex(), stability="volatile", position=-100)
        for name, content, options in given_set.slots:
            slots.add(name, content, **options)
        return slots.render()

    first, second = prompt_with(now), prompt_with(then)
    assert first.prefix_bytes() == second.prefix_bytes()
    assert first.receipt.prefix_digest == second.receipt.prefix_digest
    in_front = [line for line in first.receipt.slots if line.stability != "volatile"]
    assert first.receipt.slots[: len(in_front)] == tuple(in_front)
    assert sum(counter_for("chars/4").weigh(first.prefix)) == sum(line.kept for line in in_front)


@law_6
@given(slot_sets(slack=False, spanning=False), st.integers(1, 4))
def test_law_6_appended_turns_extend_the_bytes_up_to_the_boundary(
    given_set: SlotSet, turns: int
) -> None:
    history = list(offered_messages(given_set))
    earlier = b""
    for turn in range(turns + 1):
        slots = Slots(10**9, given_set.counter)
        slots.add("system", "You are.", role="system", stability="frozen")
        slots.add("history", history)
        slots.add("input", f"question {turn}")
        slots.add("state", f"tick {turn * 7919}", stability="volatile")
        current = slots.render().prefix_bytes()
        assert current.startswith(earlier)
        earlier = current
        history += [Message.of("user", f"question {turn}"), Message.of("assistant", "answer")]


@some
@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=60),
    st.sampled_from((0.05, 0.1, 0.3)),
    st.sampled_from(("message", "char")),
)
def test_law_6_a_slot_with_slack_folds_once_per_step_of_its_grid(
    sizes: list[int], slack: float, trim_behavior: TrimBehavior
) -> None:
    budget, starts = 400, []
    history = [Message.of("user", "x" * 4 * 10) for _ in range(40)]
    for number, size in enumerate(sizes):
        history.append(Message.of("user", f"{number:04}" + "x" * 4 * size))
        slots = Slots(budget, "chars/4")
        slots.add("history", history, slack=slack, trim_behavior=trim_behavior)
        prompt = slots.render()
        starts.append(prompt.messages[0])
        assert prompt.receipt.total > budget * (1 - slack) - 61
    folds = sum(before != after for before, after in pairwise(starts))
    steps = (sum(sizes) + len(sizes)) / (budget * slack)
    assert folds <= steps + 1


@some
@given(slot_sets(slack=False, minima=False))
def test_character_trimming_keeps_whole_graphemes_of_what_was_said(given_set: SlotSet) -> None:
    text = "".join(message.text for message in offered_messages(given_set))
    assume(text)
    slots = Slots(given_set.budget, "chars/4")
    slots.add("text", text, trim_behavior="char")
    kept = "".join(message.text for message in slots.render().messages)
    assert text.endswith(kept)
    boundaries = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    assert len(text) - len(kept) in boundaries


def said(kind: int, number: int) -> list[Message]:
    """A turn of one of several kinds: plain, with a tool, answering late, answering nothing."""
    asked = Message.of("user", f"question {number} " + "x" * (kind * 7 % 40))
    call, late = (Message("assistant", (ToolCall(f"c{number - n}", "look"),)) for n in (0, 2))
    results = [Message("tool", (ToolResult(f"c{number - n}", "found " * kind),)) for n in (0, 2)]
    answer = Message.of("system" if kind == 7 else "assistant", "answer " * (kind + 1))
    turns = ([asked, answer], [asked, call, results[0], answer], [asked, late, answer])
    return turns[kind % 3] if kind < 8 else [asked, results[1]]


@settings(unhurried, max_examples=share(1_000))
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), min_size=3, max_size=16),
    st.sampled_from((0, 1)),
    st.sampled_from((150, 400, 10**6)),
    st.sampled_from(
        ({"slack": 0.1}, {"keep": "head"}, {"keep": "middle-out"}, {"trim_behavior": "char"})
    ),
)
def test_a_conversation_that_was_seen_before_makes_the_same_prompt_as_a_new_one(
    steps: list[tuple[int, int]], priority: int, budget: int, options: dict[str, Any]
) -> None:
    """Whatever happened to it since: more was said, taken back, dropped, or cut shorter."""

    def prompt_of(history: list[Message], counter: str) -> Prompt:
        slots = Slots(budget, counter)
        slots.add("system", "You are.", role="system", priority=priority)
        slots.add("history", history, **options)
        slots.add("input", "what now?", priority=priority)
        return slots.render()

    history: list[Message] = []
    for number, (kind, at) in enumerate(steps):
        history += said(kind, number)
        if at < len(history) and kind % 4 == 3:
            history[at] = Message.of(history[at].role, "cut")
        elif at < len(history) and kind % 4 == 2:
            del history[at : at + kind]
        counter = ("chars/4", "estimate")[at % 3 == 0]
        with patch.object(units, "BLOCK", 2):
            seen = prompt_of(history, counter)
        assert seen == prompt_of([msgspec.structs.replace(one) for one in history], counter)
        assert seen.receipt.prefix_digest == sha256(seen.prefix_bytes()).hexdigest()
