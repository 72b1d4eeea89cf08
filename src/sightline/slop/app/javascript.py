"""Our modules for apps in JavaScript, as they are handed out: by `sightline js`, and by apps."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sightline.slop.discovery.wellknown import WELL_KNOWN

MODULES: Final = ("sightline", "node", "react", "text")
# Where an app that is served over HTTP has the provider for its own pages.
SCRIPT: Final = f"{WELL_KNOWN}/sightline.js"
_PACKAGE: Final = Path(__file__).parents[2]


def javascript(name: str, ending: str = "js") -> bytes:
    """One of the modules, or with `d.ts` its types, as the package has it; else the checkout's."""
    shipped = _PACKAGE / "js" / f"{name}.{ending}"
    return (shipped if shipped.exists() else _PACKAGE.parents[1] / "js" / shipped.name).read_bytes()
