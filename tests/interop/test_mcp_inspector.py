"""The official MCP inspector's command line on `sightline mcp`: run by `make mcp-servers`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.test_mcp_server import Shop

INSPECTOR = Path(sys.prefix) / "mcp-inspector/node_modules/.bin/mcp-inspector"
# What the program exits with where a tool says that it did not do it.
REFUSED = 5

pytestmark = [
    pytest.mark.no_cover,
    pytest.mark.skipif(not INSPECTOR.exists(), reason="not installed: make mcp-servers"),
]


async def inspect(era: str, home: Path, method: str, *options: str) -> tuple[Any, str]:
    """What the program answers to a method, and what it says about it."""
    command = [str(shutil.which("node")), str(INSPECTOR), "--cli", "--protocol-era", era]
    command += ["--connect-timeout", "120000"]
    running = await asyncio.create_subprocess_exec(
        *command, "--method", method, *options, "--format", "json",
        "-e", f"SLOP_PROVIDERS={home}",
        sys.executable, "-m", "sightline", "mcp",
        env={**os.environ, "HOME": str(home)}, cwd=home,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    answer, words = await running.communicate()
    assert running.returncode in (0, REFUSED), words.decode()
    return json.loads(answer)["result"], words.decode()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_official_inspector_lists_looks_reads_and_acts(era: str, tmp_path: Path) -> None:
    shop = Shop()
    async with shop.app.serving(unix=tmp_path / "shop.sock", directory=tmp_path):
        listed, words = await inspect(era, tmp_path, "tools/list", "--strict")
        assert [tool["name"] for tool in listed["tools"]] == [
            "apps", "look", "act", "act_many", "wait",
        ]  # fmt: skip
        assert "0 errors" in words
        called, _ = await inspect(
            era, tmp_path, "tools/call", "--tool-name", "act", "--tool-args-json",
            json.dumps({"app": "shop", "path": "/shelf", "action": "add", "params": {"count": 3}}),
        )  # fmt: skip
        assert called["structuredContent"]["data"]["apples"] == shop.apples == 3
        read, _ = await inspect(era, tmp_path, "resources/read", "--uri", "slop://shop/shelf")
        assert "apples=3" in read["contents"][0]["text"]
        offered, _ = await inspect(era, tmp_path, "resources/templates/list")
        assert [one["uriTemplate"] for one in offered["resourceTemplates"]] == [
            "slop://{app}/{+path}"
        ]
        prompts, _ = await inspect(era, tmp_path, "prompts/list")
        assert prompts["prompts"][0]["name"] == "state"
        # It cannot ask its user, so what is dangerous is refused, with the words that allow it.
        refused, _ = await inspect(
            era, tmp_path, "tools/call", "--tool-name", "act", "--tool-args-json",
            json.dumps({"app": "shop", "path": "/shelf", "action": "clear", "params": {}}),
        )  # fmt: skip
        assert refused["isError"]
        assert shop.apples == 3
