"""Which ledger: one answer for every command that opens one.

--db > $SIGHTLINE_LEDGER > ledger.path of the settings > the user's own
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.config import Settings


DB_HELP: Final = (
    "The ledger file. Default: $SIGHTLINE_LEDGER, else ledger.path of your settings, "
    "else your own ('ledger path' tells)."
)


def ledger_path(db: Path | None) -> Path:
    """Give the path of the ledger to open; `db` is what `--db` said.

    Raises `InvalidInput` if the user's configuration is to say it, and cannot be read.
    """
    # Imported here: the chat shows this help, and nothing else of it, before its prompt.
    from sightline.config import load
    from sightline.context.ledger.paths import default_path, expanded

    if db is not None:
        return expanded(db)
    if os.environ.get("SIGHTLINE_LEDGER"):
        return default_path()
    # The file of a directory has no say in this, so it is not read.
    return configured_path(load(None, os.environ, {}, project=None).settings)


def attachments_url() -> str:
    """Give the URL of the object store for attachments, by the user's own configuration."""
    from sightline.config import load

    return load(None, os.environ, {}, project=None).settings.ledger.attachments


def configured_path(settings: Settings) -> Path:
    """Give the path of the ledger that settings name, which is the user's if they name none."""
    from sightline.context.ledger.paths import default_path, expanded

    given = settings.ledger.path
    return expanded(given) if given else default_path()
