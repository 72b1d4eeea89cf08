"""Three public MCP servers as apps: `make mcp-servers` installs them, and runs this."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("mcp")

from sightline import Hub
from sightline.adapters.mcp.client import McpApp
from sightline.slop.app.local import local_dial
from sightline.slop.hub.mcp import McpTarget

SERVERS = Path(sys.prefix) / "mcp-servers"

pytestmark = [
    pytest.mark.no_cover,
    pytest.mark.skipif(not SERVERS.is_dir(), reason="not installed: make mcp-servers"),
]


@asynccontextmanager
async def seen(module: str, *arguments: str) -> AsyncIterator[Hub]:
    """A hub with one of the servers, by the name of its package."""
    command = (sys.executable, "-m", module, *arguments)
    env = {"PYTHONPATH": str(SERVERS), "NO_PROXY": "*"}
    server = McpApp(McpTarget("public", command, env))
    life = asyncio.create_task(server.run())
    try:
        shown = asyncio.create_task(server.shown.wait())
        await asyncio.wait({life, shown}, return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            life.result()
        async with Hub() as hub:
            hub.add("mcp-public", local_dial(server.app))
            await hub.ready()
            yield hub
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def call(hub: Hub, tool: str, **params: Any) -> Any:
    return (await hub.invoke("mcp-public", f"/tools/{tool}", "call", params)).data


async def test_the_time_server_tells_the_time() -> None:
    async with seen("mcp_server_time") as hub:
        told = await call(hub, "get_current_time", timezone="Asia/Kathmandu")
        assert told["structured"]["datetime"].endswith("+05:45")


async def test_the_git_server_reads_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    async with seen("mcp_server_git", "--repository", str(tmp_path)) as hub:
        assert "new.txt" in (await call(hub, "git_status", repo_path=str(tmp_path)))["text"]
        state = hub.world.apps[0].tree
        assert state is not None
        dangerous = {
            node.id for node in state.at("/tools").children if node.affordances[0].dangerous
        }
        assert "git_reset" in dangerous
        assert "git_status" not in dangerous


@contextmanager
def site(directory: Path) -> Iterator[str]:
    """A directory as a web site on this machine."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def test_the_fetch_server_fetches_a_page(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html><body><p>Paint is <b>wet</b>.</p></body></html>")
    with site(tmp_path) as url:
        async with seen("mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips") as hub:
            assert "wet" in (await call(hub, "fetch", url=f"{url}/page.html", raw=True))["text"]
            prompts = hub.world.apps[0].tree
            assert prompts is not None
            assert [node.id for node in prompts.at("/prompts").children] == ["fetch"]
