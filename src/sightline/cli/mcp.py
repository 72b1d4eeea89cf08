"""`sightline mcp`: every app on the machine as one MCP server."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from sightline.cli.inspect import listen
from sightline.cli.io import MAX_BYTES, read_bytes
from sightline.cli.options import examples, loaded_config, needing, users_option
from sightline.cli.out import notice, write_json
from sightline.errors import SightlineError

if TYPE_CHECKING:
    from sightline.adapters.mcp.server import AppsServer
    from sightline.agent.policy import Mode
    from sightline.config import Settings
    from sightline.slop.hub.hub import Hub
    from sightline.slop.transports.sockets import Users


TOKEN_BYTES: Final = 32
READY_S: Final = 2.0
WHOLE_TOKENS: Final = 1_000_000  # where the settings have no limit


@examples('echo \'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\' | sightline mcp')
@click.group(invoke_without_command=True)
@click.option("--http", "over_http", is_flag=True, help="Serve on a port of this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="With --http; default: any free one."
)
@click.option(
    "--token", envvar="SIGHTLINE_MCP_TOKEN",
    help="With --http: what clients must show; default: a new one, printed.",
)  # fmt: skip
@users_option
@click.option(
    "--mode", type=click.Choice(("auto", "ask", "plan")), default="auto", show_default=True,
    help="Ask before dangerous actions, before every one, or do none.",
)  # fmt: skip
@click.option(
    "--deployed-names", is_flag=True,
    help="Offer the tools also by the names of deployed SLOP plugins (list_apps, app_action, …).",
)  # fmt: skip
@click.pass_context
def mcp(
    context: click.Context, *, over_http: bool, port: int, token: str | None, mode: Mode,
    deployed_names: bool, users: Users,
) -> None:  # fmt: skip
    """Let an agent that takes MCP servers see and use the apps of this machine.

    Speaks the Model Context Protocol on standard input and output, or with --http at /mcp on
    127.0.0.1 to whoever shows the token: `claude mcp add sightline -- sightline mcp`, and the same
    for codex, is all that these need. Rules of the configuration decide what may be done
    unasked; what needs an answer is asked through the client.
    """
    if context.invoked_subcommand is not None:
        return
    with needing("mcp", "this needs the MCP SDK"):
        from sightline.adapters.mcp.server import AppsServer  # noqa: F401 - whether it is there

    if token is not None and not over_http:
        raise click.UsageError("--token is for --http")
    settings = loaded_config().settings
    asyncio.run(_serve(settings, mode, port if over_http else None, token, deployed_names, users))


@examples(
    'echo \'{"session_id": "s1", "hook_event_name": "UserPromptSubmit"}\' | sightline mcp hook'
)
@mcp.command()
def hook() -> int:
    """Tell an agent's conversation what apps show, and then only what changed.

    For the hooks UserPromptSubmit and SessionStart of Claude Code and Codex: reads what they say
    on standard input, and writes nothing where nothing changed. Silent where SIGHTLINE_GATEWAY is
    set: the gateway shows the state then. It never keeps a prompt from being sent.
    """
    if os.environ.get("SIGHTLINE_GATEWAY"):
        return 0
    try:
        asyncio.run(_hook())
    except SightlineError as error:
        notice(str(error))
        return 1  # of all exit codes, 2 would stop the prompt
    return 0


async def _hook() -> None:
    from platformdirs import user_state_path

    from sightline.adapters.hook import FORGETS, HookInput, SessionMemory, addition, hook_output
    from sightline.config import load
    from sightline.context.tokens.tokens import ESTIMATE, counter_for

    asked_by = HookInput.read(read_bytes("-", MAX_BYTES))
    memory = SessionMemory(user_state_path("sightline") / "hooks")
    if asked_by.source in FORGETS:
        memory.forget(asked_by.session_id)
    if asked_by.hook_event_name == "SessionStart":
        return
    settings = load(None, os.environ, {}).settings
    async with open_hub(settings) as hub:
        world = await hub.ready(READY_S)
    budget = settings.tail.max_tokens or WHOLE_TOKENS
    shown = memory.read(asked_by.session_id)
    now = datetime.now(UTC).replace(microsecond=0)
    text, current = addition(world, shown, now, budget, counter_for(ESTIMATE).count)
    if text and current is not None:
        memory.write(asked_by.session_id, current)
        write_json(hook_output(asked_by.hook_event_name, text))


@asynccontextmanager
async def open_hub(settings: Settings) -> AsyncIterator[Hub]:
    """Open a hub on the apps that the settings name and those that announce themselves."""
    from sightline.agent.host.apps import hub_of

    async with hub_of(settings) as hub:
        for address in settings.apps.connect:
            try:
                await hub.reach(address)
            except SightlineError as error:
                notice(str(error))
        yield hub


async def _serve(
    settings: Settings, mode: Mode, port: int | None, token: str | None, deployed_names: bool,
    users: Users,
) -> None:  # fmt: skip
    from sightline.adapters.mcp.server import AppsServer

    async with open_hub(settings) as hub:
        await hub.ready(READY_S)
        server = AppsServer(
            hub, mode=mode, rules=settings.policy, deployed_names=deployed_names,
            budget=settings.tail.max_tokens or WHOLE_TOKENS,
        )  # fmt: skip
        async with server:
            if port is None:
                await server.serve_stdio()
            else:
                await _serve_http(server, port, token, users)


async def _serve_http(server: AppsServer, port: int, token: str | None, users: Users) -> None:
    from sightline.adapters.mcp.server import PATH, guarded_app
    from sightline.slop.transports.door import loopback_hosts
    from sightline.slop.transports.http_connection import PortConnection, port_server

    token = token or secrets.token_urlsafe(TOKEN_BYTES)
    with listen(port) as listening:
        hosts = loopback_hosts(listening.getsockname()[1])
        address = f"http://{hosts[0]}{PATH}"
        notice(f"{address} for clients with the header Authorization: Bearer {token}; Ctrl-C stops")
        # "critical": a stranger's nonsense is no line on the user's terminal.
        app = guarded_app(server, token, hosts)
        running = port_server(app, users, PortConnection, ws="none", log_level="critical")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, running.handle_exit, signal.SIGTERM, None)
        await running.serve(sockets=[listening])
