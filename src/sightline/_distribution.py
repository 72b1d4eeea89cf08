"""The name of the distribution, its version, and the commands that install an extra of it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from shlex import quote
from typing import Final

# A package index has another project named `sightline`. Import, command and product keep that name.
NAME: Final = "sightline-context"
__version__ = "0.1.0"


def install(extra: str) -> str:
    """Return the command that installs an extra from the source of this installation.

    The source is a checkout, the address that the installer recorded (PEP 610), or an index.
    """
    import json  # this module is loaded before the prompt of a chat
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote

    try:
        origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a checkout that was not installed, or under an older name
        checkout = Path(__file__).parents[2]
        origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    source, flag, address = f"{NAME}[{extra}]", "", origin.get("url", "")
    if (directory := origin.get("dir_info")) is not None:
        path = unquote(address.removeprefix("file://"))
        is_here = os.path.exists(path) and Path(path).samefile(".")
        source = f"{'.' if is_here else path}[{extra}]"
        flag = "-e " if directory.get("editable") else ""
    elif address:
        vcs = origin.get("vcs_info")
        source += f" @ {vcs['vcs']}+{address}@{vcs['commit_id']}" if vcs else f" @ {address}"
    return f"{installer()} {flag}{quote(source)}"


def installer() -> str:
    """Return how a command that installs into this environment begins."""
    python = quote(sys.executable or "python3")
    # An environment that uv made has no pip.
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
