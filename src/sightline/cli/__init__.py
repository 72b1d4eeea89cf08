"""The command line: `sightline …`.

Answers go to stdout, everything else to stderr. An error is one line, never a
traceback, and its exit code is documented in `EXIT_CODES`. Commands are
imported when they are called, so that a filter in a pipe starts fast.
"""

from __future__ import annotations

from sightline.cli.main import EXIT_CODES, main

__all__ = ["EXIT_CODES", "main"]
