"""Run as a program by `proof.fuzz --atheris`: one target, guided by the code that inputs reach.

    python -m proof.guided TARGET OPTION… DIRECTORY…

The options and directories are libFuzzer's. It ends this process itself: with 0 when the
time is over, with something else when an input broke the target, which is then in a file.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def main() -> None:
    """Fuzz the target that is named first."""
    atheris: Any = importlib.import_module("atheris")
    name, *options = sys.argv[1:]
    # What is imported here is made to tell which code an input reaches.
    with atheris.instrument_imports(include=["sightline"]):
        targets = importlib.import_module("proof.targets").TARGETS
    replay = importlib.import_module("proof.fuzz").replay
    target = targets[name]
    atheris.Setup([sys.argv[0], *options], lambda data: replay(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
