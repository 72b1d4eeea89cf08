"""What the package is called on an index, its version, and how to get an extra of it."""

from __future__ import annotations

import sys
from typing import Final

# A public index has another project of this name. Extras are added to what is installed all the
# same: pip asks no index for a name that is satisfied.
NAME: Final = "sightline"
__version__ = "0.1.0"


def install(extra: str) -> str:
    """Write the command that brings an extra."""
    return f"{installer()} '{NAME}[{extra}]'"


def installer() -> str:
    """Write what a command that installs into this environment begins with: whose tool made it."""
    from pathlib import Path  # this module is loaded before the prompt of a chat

    home = Path(sys.prefix)
    if (home / "pipx_metadata.json").exists():
        return f"pipx runpip {home.name} install"
    if (home / "uv-receipt.toml").exists():
        return f"uv pip install --python {home}"
    return "pip install"
