"""The state block: where it is, where it is not, and history without it."""

from __future__ import annotations

import pytest

from context.entry_values import call_entry, entry, text_entry
from sightline.context.parts import Message, Raw, Text, ToolCall
from sightline.context.state import (
    TEMPLATE,
    extract_state,
    rebuild_request,
    strip_state,
    strip_states,
)


@pytest.mark.parametrize(
    ("text", "state", "rest"),
    [
        ("Done.\n\n### STATE\nGoal: x\n", "### STATE\nGoal: x", "Done."),
        ("### STATE", "### STATE", ""),
        ("a\r\n### STATE\r\nGoal: x", "### STATE\r\nGoal: x", "a"),
        # what is taken off at the end makes no heading of what was none
        ("a\n### STATE\nGoal: x\n##\u2028 ", "### STATE\nGoal: x\n##\u2028", "a"),
        ("a\n### STATE\nGoal: x\n##\r\t", "### STATE\nGoal: x", "a\n\n##\r\t"),
        # the last one counts
        (
            "### STATE\nGoal: 1\n\nmore\n### STATE\nGoal: 2",
            "### STATE\nGoal: 2",
            "### STATE\nGoal: 1\n\nmore",
        ),
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
        "### STATE:\nGoal",
        "### STATES",
        "## STATE\nGoal",
        " ### STATE\nGoal",
        "### STATE \nGoal",
        "text ### STATE\nGoal",
        "### state\nGoal",
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
