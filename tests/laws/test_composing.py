"""One composer: what is shown before, sent, shown after and composed again are the same bytes."""

from __future__ import annotations

import ast
import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sightline.agent.host.compose as composer
from agent.host.helpers import hosted, invoke, turn
from sightline.agent.host.compose import compose
from sightline.agent.plugins.run import runner_of
from sightline.cli.main import run
from sightline.config import Settings, TailSettings, TruncationSettings, WindowSettings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import ToolCall
from sightline.inspector.reader import RecordReader
from sightline.inspector.whatif import recorded_inputs
from support.live import LiveApp

LONG = "A result that is longer than what is left of it once its turn is over. " * 30
GPT = profile_for("openai-chat", "gpt-5.5")
CLAUDE = profile_for("anthropic", "claude-sonnet-5-5")  # whose turns keep their tails
TINY = msgspec.structs.replace(GPT, window_tokens=16_000, max_output_tokens=1_000)
SCRIPT: list[Any] = [
    [invoke("a", "/", "echo", text=LONG)], [ToolCall("b", "describe_db", {})],
    "One.\n\n### STATE\nGoal: one",
    [invoke("c", "/", "echo", text=LONG)], "Two.",
    "Three.",
]  # fmt: skip
REQUESTS = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
SETTINGS: dict[str, tuple[dict[str, Any], Profile]] = {
    "default": ({}, GPT),
    "kept tails": ({}, CLAUDE),
    "tiny": ({}, TINY),
    "brief": ({"tail": TailSettings(repeat="brief")}, GPT),
    "turn": ({"tail": TailSettings(repeat="turn")}, GPT),
    "session": ({"tail": TailSettings(repeat="session", format="json")}, CLAUDE),
    "json": ({"tail": TailSettings(format="json", max_share=0.05)}, GPT),
    "sliding": ({"window": WindowSettings(size=1, slack=0)}, GPT),
    "hard cuts": ({"truncation": TruncationSettings(recent=100, inactive=50)}, GPT),
    "classic": ({"strategy": "classic"}, GPT),
    "minimal": ({"strategy": "minimal"}, GPT),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_everybody_who_makes_a_request_makes_the_same_bytes(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    given, profile = SETTINGS[name]
    shown: dict[tuple[int, int], bytes] = {}
    sent: list[bytes] = []

    async def talk() -> None:
        async with hosted(
            tmp_path, SCRIPT, app=LiveApp(), profile=profile, mode="auto", **given
        ) as (host, model):
            for number, text in enumerate(("first", "second", "third"), 1):
                shown[number, 1] = (await host.preview(text)).request.data
                await turn(host, text, answer=lambda _: True)
            sent.extend(request.data for request in model.requests)

    asyncio.run(talk())
    settings, path = Settings(**given), tmp_path / "work.db"
    assert len(sent) == len(REQUESTS)
    with Ledger(path, mode="read") as ledger:
        reader = RecordReader(ledger, settings)
        for place, data in zip(REQUESTS, sent, strict=True):
            recorded = reader._recorded(1, *place)
            assert recorded.digest == sha256(data).hexdigest()
            inputs = recorded_inputs(ledger, recorded, settings)
            for _ in range(2):  # the same inputs, the same bytes
                again = asyncio.run(compose(inputs, runner_of(settings)))
                assert again.request.data == data, place
            assert shown.get(place, data) == data
            assert reader.request(1, *place)["request"]["body"].encode() == data
    for (number, request), data in zip(REQUESTS, sent, strict=True):
        asked = ["context", "1", "--db", str(path), "--raw", "--turn", str(number)]
        assert run([*asked, "--request", str(request)]) == 0
        assert capfdbinary.readouterr().out == data


def test_the_composer_reads_no_ledger_no_apps_no_settings_and_no_clock() -> None:
    source = Path(str(composer.__file__)).read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
        if name is not None
    }
    barred = ("sightline.context.ledger", "sightline.slop.hub", "sightline.config", "time", "os")
    assert not [name for name in imported if name.startswith(barred)]
