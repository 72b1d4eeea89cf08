"""What a host does differently for a model with a small window."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host.helpers import hosted, messages, turn
from sightline.context.dialects.profiles import profile_for
from sightline.demo.app import demo_app


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
