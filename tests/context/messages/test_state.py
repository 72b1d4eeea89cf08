"""The state block: where it is, where it is not, and history without it."""

from __future__ import annotations

import pytest

from context.messages.entry_values import call_entry, entry, text_entry
from sightline.context.dialects import encode, profile_for
from sightline.context.messages.parts import Message, Part, Raw, Text, ToolCall
from sightline.context.messages.state import (
    TEMPLATE,
    extract_state,
    rebuild_request,
    strip_state,
    strip_states,
)
from sightline.context.slots.prompt import Prompt, Receipt


@pytest.mark.parametrize(
    ("text", "state", "rest"),
    [
        ("Done.\n\n### STATE\nGoal: x\n", "### STATE\nGoal: x", "Done."),
        ("### STATE", "### STATE", ""),
        ("a\r\n### STATE\r\nGoal: x", "### STATE\r\nGoal: x", "a"),
        # what is taken off at the end makes no heading of what was none
        ("a\n### STATE\nGoal: x\n##\u2028 ", "### STATE\nGoal: x\n##\u2028", "a"),
        ("a\n### STATE\nGoal: x\n##\r\t", "### STATE\nGoal: x", "a\n\n##\r\t"),
        # the last one counts, and all of them leave
        ("a\n### STATE\nGoal: 1\n\nmore\n### STATE\nGoal: 2", "### STATE\nGoal: 2", "a"),
        ("a\n### STATE\nGoal: 1\n## Next\nb\n\n### STATE\nGoal: 2\n# End\n",
         "### STATE\nGoal: 2", "a\n\n## Next\nb\n\n# End\n"),
        # what is taken off before a block makes no heading either
        ("### STATE x\n\n### STATE\nGoal: x", "### STATE\nGoal: x", "### STATE x"),
        # to the next heading of the same or a higher level, not of a lower
        ("a\n### STATE\nGoal: x\n#### Detail\nd\n## Next\nb", "### STATE\nGoal: x\n#### Detail\nd",
         "a\n\n## Next\nb"),
        ("### STATE\nGoal: x\n### Other\nb", "### STATE\nGoal: x", "### Other\nb"),
        ("### STATE\nGoal: x\n#\nb", "### STATE\nGoal: x", "#\nb"),
        # a hash that is no heading
        ("### STATE\n#hashtag stays\n####### too", "### STATE\n#hashtag stays\n####### too", ""),
        # a fence inside the block does not end it
        ("### STATE\n```\n# comment\n```\nGoal: y", "### STATE\n```\n# comment\n```\nGoal: y", ""),
        # a fenced example after the real one is an example
        ("### STATE\nGoal: real\n```\n### STATE\nGoal: fake\n```",
         "### STATE\nGoal: real\n```\n### STATE\nGoal: fake\n```", ""),
    ],
)  # fmt: skip
def test_the_block_is_found_and_taken_out(text: str, state: str, rest: str) -> None:
    assert extract_state(text) == state
    assert strip_state(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no block",
        "### STATE::\nGoal",
        "### STATE: Goal",
        "### STATES",
        "###STATE\nGoal",
        "## STATE\nGoal",
        "    ### STATE\nGoal",
        "text ### STATE\nGoal",
        "### \u017ftate\nGoal",
        "```\n### STATE\nGoal: x\n```",
        "~~~~\n```\n### STATE\n```\n~~~\nstill inside",
        "````md\n```\n### STATE\n```\n````",
        "   ```\n### STATE\n   ```",
        "a\u2028### STATE\u2028Goal",
        "a\x0c### STATE",
    ],
)
def test_what_is_no_block_is_left_alone(text: str) -> None:
    assert extract_state(text) is None
    assert strip_state(text) is text


@pytest.mark.parametrize(
    "heading",
    ["### STATE ", "### STATE:", "### STATE : ", "### State", "### state", "   ### STATE",
     "###  STATE\t", "### STATE\r"],
)  # fmt: skip
def test_a_models_own_spelling_of_the_heading_is_the_heading(heading: str) -> None:
    text = f"Done.\n\n{heading}\nGoal: x\n"
    state = extract_state(text)
    assert state is not None
    assert state.replace("\r", "") == "### STATE\nGoal: x"
    assert strip_state(text) == "Done."


@pytest.mark.parametrize(
    "before",
    [
        "```python\nx = 1",
        "~~~\n```",
        "````\n```\na\n```\n~~~",
        "```\na\n```\n```",
        "`````\n````\n```",
    ],
)
def test_a_fence_that_was_never_closed_quotes_nothing(before: str) -> None:
    assert extract_state(f"{before}\n### STATE\nGoal: x") == "### STATE\nGoal: x"
    assert strip_state(f"{before}\n### STATE\nGoal: x") == before


def test_inline_code_does_not_open_a_fence() -> None:
    assert extract_state("```not a fence``` here\n### STATE\nGoal: x") == "### STATE\nGoal: x"


def test_history_is_replayed_without_blocks_and_users_texts_untouched() -> None:
    block = "### STATE\nGoal: x"
    history = [
        text_entry(0, "user", block),
        text_entry(1, "assistant", f"Done.\n\n{block}"),
        entry(2, Message("assistant", (Text(block), ToolCall("c", "ls")))),
        call_entry(3, "d"),
        entry(4, Message("assistant", (Text("plain", raw=Raw("gemini", {"sig": 1})),))),
    ]
    shown = strip_states(history)
    assert shown[0] is history[0]
    assert shown[1].message == Message.of("assistant", "Done.")
    assert shown[2].message.parts == (ToolCall("c", "ls"),)
    assert shown[3] is history[3]
    assert shown[4] is history[4]


def stripped(*parts: Part) -> tuple[Part, ...]:
    (shown,) = strip_states([entry(0, Message("assistant", parts))])
    return shown.message.parts


def test_a_block_that_goes_on_in_the_next_text_leaves_both() -> None:
    call = ToolCall("c", "ls")
    assert stripped(Text("Hi\n\n### STATE\nGoal: a\n"), Text("Context: b")) == (Text("Hi"),)
    assert stripped(Text("Hi\n\n### STATE\nGoal: a"), call, Text("b\n## Next\nc")) == (
        Text("Hi"),
        call,
        Text("## Next\nc"),
    )


def test_a_fence_that_goes_on_in_the_next_text_still_quotes() -> None:
    quoted = (Text("```"), Text("### STATE\nGoal: x\n```"))
    assert stripped(*quoted) == quoted


def test_a_text_that_changed_keeps_what_is_said_of_its_message_and_no_signature() -> None:
    said = "Done.\n\n### STATE\nGoal: x"
    phase = Raw("openai_responses", {"phase": "final_answer"})
    assert stripped(Text(said, phase)) == (Text("Done.", phase),)
    signed = Raw("gemini", {"text": said, "thoughtSignature": "xyz"})
    assert stripped(Text(said, signed)) == (Text("Done."),)
    assert stripped(Text("before", signed), Text(said, phase)) == (
        Text("before", signed),
        Text("Done.", phase),
    )


def test_the_phase_of_a_reply_with_a_state_is_sent_again() -> None:
    text = Text("Done.\n\n### STATE\nGoal: x", Raw("openai_responses", {"phase": "final_answer"}))
    history = [text_entry(0, "user", "q"), entry(1, Message("assistant", (text,)))]
    messages = tuple(shown.message for shown in strip_states(history))
    receipt = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
    prompt = Prompt(messages, len(messages), receipt)
    body = encode(prompt, profile_for("openai-responses", "gpt-5.6")).body
    assert body["input"][-1] == {
        "type": "message",
        "role": "assistant",
        "content": "Done.",
        "phase": "final_answer",
    }


def test_the_template_is_a_state_in_the_seeds_form() -> None:
    assert extract_state(TEMPLATE) == TEMPLATE.strip()
    assert [line.split(":")[0] for line in TEMPLATE.splitlines()] == [
        "### STATE", "Goal", "Context", "Resolved", "Technical Anchors",
    ]  # fmt: skip


def test_a_rebuild_is_a_value_for_the_host_to_run() -> None:
    history = [text_entry(0, "user", "q", group=1), text_entry(1, "user", "r", group=2)]
    request = rebuild_request(1, history)
    assert (request.session_id, request.group_id, request.history) == (1, 2, tuple(history))
    assert TEMPLATE in request.prompt
