"""The README as a package index shows it: with nothing of the repository beside it.

A relative link leads nowhere there. So the build of a package gives each the address of the file
at the project's host and this version's tag. The host is `Source` of `[project.urls]`, which
`make release` fills in: where it knows no address links stay as they are, and it says so.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["ReadmeHook", "at_host", "relative_links"]

# Of Markdown and of HTML: what leads neither to another site nor to this page.
_LINK = re.compile(r'(\]\(|\b(?:src|srcset|href)=")(?![a-z]+:|#)([^)"\s]+)')
_PICTURES = {".png", ".svg"}


class ReadmeHook(MetadataHookInterface):
    """Gives a package the README with links that lead somewhere."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the one field that pyproject.toml leaves to this."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        if source := metadata.get("urls", {}).get("Source"):
            text = at_host(text, source, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def at_host(text: str, source: str, version: str) -> str:
    """Write a README with the addresses that files have at the project's host."""

    def address(link: re.Match[str]) -> str:
        path, _, anchor = link[2].partition("#")
        kind = "raw" if PurePosixPath(path).suffix in _PICTURES else "blob"
        found = f"{source.rstrip('/')}/{kind}/v{version}/{path}"
        return f"{link[1]}{found}#{anchor}" if anchor else f"{link[1]}{found}"

    return _LINK.sub(address, text)


def relative_links(text: str) -> list[str]:
    """List what a README links beside itself."""
    return [link[2] for link in _LINK.finditer(text)]
