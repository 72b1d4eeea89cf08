"""What a host does differently for a model with a small window."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.host.helpers import hosted, messages, turn
from sightline.context.dialects.profiles import profile_for
from sightline.demo.app import demo_app
from sightline.events import RequestBuilt


async def test_who_says_more_than_there_is_room_for_is_told_how_much_is_sent(
    tmp_path: Path,
) -> None:
    profile = profile_for("local", "smollm2-135m-instruct")
    async with hosted(tmp_path, ["Long.", "Short."], profile=profile) as (host, _):
        told, untold = [
            next(event for event in await turn(host, words) if isinstance(event, RequestBuilt))
            for words in ("a word " * 20_000, "a word")
        ]
    [cut] = [warning for warning in told.warnings if "your message is too long" in warning]
    assert re.search(r": [\d,]+ of its [\d,]+ tokens are sent, its middle is left out$", cut)
    assert not any("your message" in warning for warning in untold.warnings)


@pytest.mark.parametrize(
    ("endpoint", "model", "reminded"),
    [("local", "smollm2-135m-instruct", True), ("openai-chat", "scripted", False)],
)
async def test_a_tiny_model_reads_the_question_last(
    tmp_path: Path, endpoint: str, model: str, reminded: bool
) -> None:
    profile = profile_for(endpoint, model)
    async with hosted(tmp_path, ["Two."], app=demo_app(), app_id="desk", profile=profile) as (
        host,
        scripted,
    ):
        await turn(host, "What is unread?")
        said = scripted.requests[0].body["messages"][-1]["content"]
    assert said.endswith("Answer the user: What is unread?") == reminded
    assert [message.text for message in messages(tmp_path)] == ["What is unread?", "Two."]
