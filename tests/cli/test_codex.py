"""Where Codex would have gone, and the words that lead it elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.cli.gateway import SIGNED_IN, VENDOR, codex_way, led_codex

HERE = "http://127.0.0.1:1/secret/openai/v1"
OWN = """
model_provider = "own"
[model_providers.own]
base_url = "http://own.example/api"
"""
TOKENS = {"OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("config", "login", "words", "goes", "key"),
    [
        ("", {}, [], VENDOR, "openai_base_url"),
        (
            "not [ toml",
            {"OPENAI_API_KEY": "k", **TOKENS, "auth_mode": "apikey"},
            [],
            VENDOR,
            "openai_base_url",
        ),
        ("", TOKENS, [], SIGNED_IN, "openai_base_url"),
        ("", {**TOKENS, "auth_mode": "chatgpt"}, [], SIGNED_IN, "openai_base_url"),
        ('openai_base_url = "http://a/v1"', TOKENS, [], "http://a/v1", "openai_base_url"),
        (OWN, {}, [], "http://own.example/api", "model_providers.own.base_url"),
        (OWN, {}, ["-c", "model_provider=openai"], VENDOR, "openai_base_url"),
        (
            OWN,
            {},
            ["-c", 'model_providers.own.base_url="http://b"'],
            "http://b",
            "model_providers.own.base_url",
        ),
    ],
)
def test_codex_goes_where_it_would_have_gone(
    home: Path, config: str, login: object, words: list[str], goes: str, key: str
) -> None:
    (home / "config.toml").write_text(config)
    (home / "auth.json").write_text(json.dumps(login))
    program = ["/bin/codex", "exec", *words, "what is it?"]
    assert codex_way(program) == {"OPENAI_BASE_URL": goes}
    packed = ["-c", "features.enable_request_compression=false"]
    mine = ["-c", f'{key}="{HERE}"', *packed]
    # The last one of a name counts; before a subcommand they are for all.
    before = ["exec", *words] if words else []
    after = ["what is it?"] if words else ["exec", "what is it?"]
    assert led_codex(program, HERE) == ["/bin/codex", *before, *mine, *after]


def test_another_program_is_left_alone(home: Path) -> None:
    (home / "config.toml").write_text(OWN)
    assert codex_way(["claude", "-c"]) == {}
    assert led_codex(["claude", "-c"], HERE) == ["claude", "-c"]
    assert codex_way([]) == {}
