"""Where a ledger's file is, if nobody says otherwise, and the wire file beside it."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

from sightline.errors import InvalidInput

__all__ = ["checkpoints_path", "default_path", "expanded", "journal_path", "user_path"]


def default_path() -> Path:
    """Give `SIGHTLINE_LEDGER` if it is set, else the user's own ledger for this platform."""
    chosen = os.environ.get("SIGHTLINE_LEDGER")
    return expanded(chosen) if chosen else user_path()


def expanded(path: str | os.PathLike[str]) -> Path:
    """Replace `~` by the home directory. Raises InvalidInput for a user that is not here."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(f"{os.fspath(path)}: that home directory is not known here") from None


def user_path() -> Path:
    """Give the user's own ledger for this platform, whichever one is in use."""
    return user_data_path("sightline", appauthor=False) / "ledger.db"


def checkpoints_path() -> Path:
    """Give the directory in which it is kept what sessions did to files."""
    return user_path().with_name("checkpoints")


def journal_path(ledger_path: Path) -> Path:
    """Say where the wire file of a ledger is: `X.db` → `X.wire.db`."""
    return ledger_path.with_name(f"{ledger_path.stem}.wire.db")
