"""The command line: `sightline …`.

Answers go to stdout, everything else to stderr. An error is one line, never a
traceback, and its exit code is documented in `EXIT_CODES`. Commands are
imported when they are called, so that a filter in a pipe starts fast.
"""

from __future__ import annotations

import gc

# What a start makes lives to the end: looking for garbage in it took a fifth of the time. Set
# before anything is imported, and higher than what there is when a chat shows its prompt.
gc.set_threshold(100_000)

try:
    from sightline.cli.main import EXIT_CODES, main
except KeyboardInterrupt:  # while it is loaded nobody else takes it
    raise SystemExit(130) from None

__all__ = ["EXIT_CODES", "main"]
