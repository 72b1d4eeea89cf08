"""The proof: every claim of the project, tried until it would break.

    python -m proof [--seed N] [--scale X] [--seconds S] [--only NAME …]

A module of `MODULES` (in `__main__`) has `CLAIMS`. A claim is tried with faults, and
where a harness could be blind it first finds the fault in something that is really
broken (its *control*). What the tests use as well lives in `tests/`; it is found from
here, so that `python -m proof` needs no further setting.
"""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parent.parent / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
