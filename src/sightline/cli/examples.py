"""The examples at the end of a command's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=click.Command)


def examples(*lines: str) -> Callable[[_Command], _Command]:
    """End a command's help with examples; a test runs them."""

    def add(command: _Command) -> _Command:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return command

    return add
