"""What a request weighs before anybody has said anything: bounded, whatever is added."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host.helpers import hosted, turn
from sightline.cli.commands.picture import picture_of
from sightline.config import AppSettings
from sightline.config.settings import WorkspaceSettings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for

MOST_TOKENS = 2_700
COUNTED = profile_for("openai-chat", "gpt-4o")  # its tokens are counted, not estimated
HEAVIEST = profile_for("anthropic", "claude-sonnet-5-5")  # by our estimate


@pytest.mark.parametrize("profile", [COUNTED, HEAVIEST], ids=lambda profile: profile.model)
async def test_tools_and_standing_texts_have_a_bound_and_instructions_are_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "AGENTS.md").write_text("Write tests first.\n" * 40)
    monkeypatch.setenv("SIGHTLINE_CONFIG", str(tmp_path / "config/sightline.toml"))
    monkeypatch.chdir(project)
    told = WorkspaceSettings(instructions="always")
    async with hosted(
        tmp_path, ["ok"], profile=profile, apps=AppSettings(discover=False), workspace=told
    ) as (host, _):
        await turn(host, "hi")
        assert host.last is not None
        receipt = host.last.prompt.receipt
    weights = {slot.name: slot.kept for slot in receipt.slots if slot.kept}
    picture = picture_of(receipt, profile.window_tokens)
    shown = {share.name: share.tokens for share in picture.shares}
    assert shown["instructions"] == weights["instructions"] > 100
    overhead = receipt.overhead + receipt.tools + weights["system"] + weights["guidelines"]
    assert overhead <= MOST_TOKENS
    if profile is COUNTED:
        assert receipt.provenance == "counted"
        # With what the workspace shows of itself: all that a default request has of its own.
        assert receipt.total - weights["instructions"] - weights["input"] <= MOST_TOKENS
    assert set(weights) == {"system", "guidelines", "instructions", "input", "state"}
