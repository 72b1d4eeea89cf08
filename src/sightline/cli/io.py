"""How filters read: a file or stdin, bounded, with errors that name the file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from sightline.errors import InvalidInput, TooLarge
from sightline.slop.protocol.jsontext import NESTING, loads, nests_deeper, text_from_bytes

MAX_BYTES: Final = 256 * 1024 * 1024
STDIN: Final = "-"

_T = TypeVar("_T")

source_argument: Final = click.argument("source", metavar="[FILE]", default=STDIN)
max_bytes_option: Final = click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=MAX_BYTES,
    show_default=True,
    help="Refuse larger inputs.",
)


def read_as(reader: Callable[[bytes], _T], source: str, max_bytes: int) -> _T:
    """Read a file, or stdin for `-`, and make something of it. Errors name the source."""
    with naming(source):
        return reader(read_bytes(source, max_bytes))


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Put the source's name before the message of any error in what was read from it."""
    try:
        yield
    except InvalidInput as error:
        name = "stdin" if source == STDIN else source
        raise InvalidInput(f"{name}: {error}") from error


def read_bytes(source: str, max_bytes: int) -> bytes:
    """Read a file, or stdin for `-`. Raises InvalidInput where there is nothing to read."""
    try:
        if source == STDIN:
            if sys.stdin.isatty():
                raise InvalidInput("nothing to read: give a file, or pipe one in")
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(error.strerror or str(error)) from error
    if len(data) > max_bytes:
        raise TooLarge(f"more than {max_bytes} bytes; --max-bytes raises the limit")
    return data


def read_window(text: str) -> tuple[int, int]:
    """Read the value of --window. Raises InvalidInput."""
    offset, _, count = text.partition(",")
    try:
        return int(offset), int(count)
    except ValueError:
        raise InvalidInput(f"--window must be OFFSET,COUNT, two whole numbers: {text}") from None


def read_object(text: str, name: str) -> dict[str, Any]:
    """Read an action's parameters, by the name they go by. Raises InvalidInput."""
    if nests_deeper(text, NESTING):
        raise InvalidInput(f"{name} is nested deeper than {NESTING} levels")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{name} is not a JSON object: {error}") from None


def read_json(data: bytes | str) -> Any:
    """Parse JSON strictly, except that NaN is left for whoever can say whose number it is.

    Everything wrong with it is one `InvalidInput`: not UTF-8, not JSON, nested beyond
    reason, or with text that no encoding can carry.
    """
    if nests_deeper(data, NESTING):
        raise InvalidInput(f"the JSON is nested too deeply, more than {NESTING} levels")
    value = loads(data if isinstance(data, str) else text_from_bytes(data))
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput("the JSON has a lone surrogate, which no text can hold") from error
    return value
