"""How Codex is led through a gateway: where it would have gone, and the words that say otherwise.

It takes no address from the environment; its file of settings and its command line have it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

VENDOR: Final = "https://api.openai.com/v1"
SIGNED_IN: Final = "https://chatgpt.com/backend-api/codex"


def led_codex(program: Sequence[str], address: str) -> list[str]:
    """Return the command with what leads Codex to an address; other programs' as they are."""
    if not _is_codex(program):
        return [*program]
    name = _config(program).get("model_provider", "openai")
    key = "openai_base_url" if name == "openai" else f"model_providers.{name}.base_url"
    # It may pack requests with zstd, of which nobody here could read a copy.
    words = ["-c", f'{key}="{address}"', "-c", "features.enable_request_compression=false"]
    at = 1 + max((at + 1 for at, _ in _given(program)), default=0)  # the last one counts
    return [*program[:at], *words, *program[at:]]


def codex_way(program: Sequence[str]) -> dict[str, str]:
    """Return where Codex would have gone, as the variable that others heed would say it."""
    if not _is_codex(program):
        return {}
    config = _config(program)
    name = config.get("model_provider", "openai")
    found = config.get("model_providers", {}).get(name, {}).get("base_url")
    if name == "openai":
        found = config.get("openai_base_url", SIGNED_IN if _is_signed_in() else VENDOR)
    return {"OPENAI_BASE_URL": found} if isinstance(found, str) else {}


def _is_codex(program: Sequence[str]) -> bool:
    return bool(program) and Path(program[0]).name == "codex"


def _is_signed_in() -> bool:
    """Whether its user signed in to ChatGPT, and gave no key."""
    login = _read("auth.json", json.loads)
    mode = login.get("auth_mode") or ("apikey" if login.get("OPENAI_API_KEY") else "chatgpt")
    return bool(login.get("tokens")) and mode != "apikey" and not os.environ.get("CODEX_API_KEY")


def _config(program: Sequence[str]) -> dict[str, Any]:
    """Read its settings: those of its file, and those behind `-c` on its command line."""
    config = _read("config.toml", tomllib.loads)
    for _, word in _given(program):
        try:
            _merge(config, tomllib.loads(word))
        except tomllib.TOMLDecodeError:  # a text without its quotes
            key, _, text = word.partition("=")
            config[key.strip()] = text.strip()
    return config


def _given(program: Sequence[str]) -> list[tuple[int, str]]:
    """List the settings on its command line, each with the place of its flag."""
    words = enumerate(pairwise(program))
    return [(at, word) for at, (flag, word) in words if flag in ("-c", "--config")]


def _read(name: str, read: Callable[[str], Any]) -> dict[str, Any]:
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    try:
        found = read((home / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
