"""How many cases of a law are tried: a 90th, or all with `LAWS=whole`."""

from __future__ import annotations

import os

WHOLE = os.environ.get("LAWS") == "whole"


def share(cases: int) -> int:
    """So many of these cases as this run tries."""
    return cases if WHOLE else cases // 90
