"""Every snippet of docs/models.md runs, and its tables say what the code does."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from shlex import quote

import msgspec
import pytest

from sightline.agent.models.local import install_all
from sightline.agent.models.vendors import EXTRAS, VENDORS
from sightline.config import Settings

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_python_of_the_page_runs_from_top_to_bottom() -> None:
    namespace: dict[str, object] = {}
    for code in [code for kind, code in BLOCKS if kind == "python"]:
        exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page
    settings = namespace["settings"]
    [toml] = [code for kind, code in BLOCKS if kind == "toml"]
    assert msgspec.convert(tomllib.loads(toml), Settings) == settings


def test_the_page_names_every_endpoint_and_every_extra_of_a_vendor() -> None:
    table = TEXT.partition("| extra | brings |")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in table for name in VENDORS)
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(EXTRAS) - {
        "watch", "tokens", "chat", "inspector", "gateway", "mcp", "openai-agents", "pydantic-ai",
        "langchain", "pdf", "otel", "postgres", "nats", "attachments",
    }  # fmt: skip


def test_the_page_installs_the_embedded_model_as_the_errors_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    [command] = [code for kind, code in BLOCKS if kind == "sh"]
    assert command.strip() == install_all().replace(f"{quote(sys.executable)} -m ", "")
