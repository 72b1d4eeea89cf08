"""The files in which programs name their MCP servers: `.mcp.json`, and Claude Desktop's.

    {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {}},
                    "docs": {"type": "http", "url": "https://mcp.example/mcp", "headers": {}}}}

`${NAME}` and `${NAME:-otherwise}` stand for variables. Whoever starts a command that a directory's
file names has asked the user before: the file may have come with a stranger's repository.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from sightline.errors import InvalidInput, NotFound
from sightline.slop.hub.mcp import McpTarget, checked_url
from sightline.slop.transports.owned import open_regular

MCP_FILE: Final = ".mcp.json"
FILE_BYTES: Final = 256 * 1024
SERVERS: Final = 100
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ROOT: Final = 0
_DESKTOP: Final = "claude_desktop_config.json"


class _Server(msgspec.Struct, frozen=True, omit_defaults=True):
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False


class _File(msgspec.Struct, frozen=True, rename="camel"):
    mcp_servers: dict[str, _Server] = {}


class McpEntry(msgspec.Struct, frozen=True):
    """A server that a file names: `definition` as it stands there, `target` with variables."""

    name: str
    path: Path
    definition: str
    target: McpTarget


_files: Final = msgspec.json.Decoder(_File)


def read_mcp_file(
    path: Path, env: Mapping[str, str], *, of_user: bool = True
) -> tuple[McpEntry, ...]:
    """Read the servers that a file names; those that are switched off are left out.

    A file that is not `of_user` may be a stranger's: it is no link, and belongs to the user or
    root. Raises NotFound if there is no such file, InvalidInput for one that is not to be read.
    """
    try:
        with open_regular(path, follow=of_user) as (file, status):
            if not of_user and status.st_uid not in (os.geteuid(), _ROOT):
                raise InvalidInput(f"{path}: belongs to another user")
            text = file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    if len(text) > FILE_BYTES:
        raise InvalidInput(f"{path}: has more than {FILE_BYTES} bytes")
    try:
        found = _files.decode(text).mcp_servers
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{path}: {error}") from None
    if len(found) > SERVERS:
        raise InvalidInput(f"{path}: names more than {SERVERS} servers")
    return tuple(
        McpEntry(name, path, msgspec.json.encode(server).decode(), _target(name, server, env, path))
        for name, server in found.items()
        if not server.disabled
    )


def project_file(directory: Path) -> Path | None:
    """Find the file of a directory or of the nearest one around it, up to its repository."""
    for step in (directory, *directory.parents):
        if os.path.lexists(step / MCP_FILE):
            return step / MCP_FILE
        if os.path.lexists(step / ".git"):
            break
    return None


def desktop_file(env: Mapping[str, str]) -> Path:
    """Say where Claude Desktop keeps its servers, for the user of these variables."""
    home = Path(env.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Claude" / _DESKTOP
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "Claude" / _DESKTOP


def _target(name: str, server: _Server, env: Mapping[str, str], path: Path) -> McpTarget:
    def filled(text: str) -> str:
        return _VARIABLE.sub(lambda found: env.get(found[1]) or found[2] or "", text)

    if server.url:
        headers = {key: filled(value) for key, value in server.headers.items()}
        return McpTarget(name, url=checked_url(filled(server.url)), headers=headers)
    if not server.command:
        raise InvalidInput(f"{path}: {name!r:.80} has neither a command nor a URL")
    command = (filled(server.command), *map(filled, server.args))
    variables = {key: filled(value) for key, value in server.env.items()}
    return McpTarget(name, command, variables, directory=filled(server.cwd))
