"""`python -m sightline` is `sightline`."""

from __future__ import annotations

from sightline.cli import main

if __name__ == "__main__":
    main()
