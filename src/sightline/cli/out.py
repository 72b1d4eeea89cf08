"""The one door to stdout and stderr: what commands print, harmless to whoever reads it.

    no command writes to stdout or stderr but through this module

JSON never has a character that a terminal obeys, and at a terminal none that a reader cannot
see: it is escaped, and says the same. Text for people is cleaned (`clean`), wherever it goes.
Text that a program may read (a tree, a tail, a page) has what a terminal obeys made visible,
for the file that it is written to may be shown on one later; at a terminal it is cleaned. Only
`write_exactly` gives bytes as they are, and not to a terminal. The chat's screen has a door of
its own, `chat.paint`.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import termios
import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, Self, TextIO

import click

from sightline.cli.clean import clean, clean_json, clean_line, harmless
from sightline.errors import ApprovalNeeded

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
_GREEN: Final = "\x1b[32m"
_RESET: Final = "\x1b[0m"
_ERASE: Final = "\r\x1b[K"
_STANDARD: Final = (
    ("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w"),
)  # fmt: skip


def open_missing() -> None:
    """Lead nowhere those of stdin, stdout and stderr that we were started without.

    Otherwise the next file that is opened gets the number of one, and what others print there.
    """
    for name, flags, mode in _STANDARD:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def forget_output() -> None:
    """Have nobody told what is still to be written to stdout."""
    _lead_nowhere(sys.stdout)


def _lead_nowhere(stream: TextIO) -> None:
    """Have the interpreter not fail at what a stream still holds when it ends, with code 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_json(value: object) -> None:
    """Write a value as JSON: indented for a person at a terminal, compact for a program.

    Bytes are JSON already, here and below.
    """
    if sys.stdout.isatty():
        import msgspec  # not before the first prompt of a chat

        value = msgspec.json.format(_json(value), indent=2)
    write_json_lines([value])


def write_json_lines(values: Iterable[object]) -> None:
    """Write values as JSON, each with a line break after it."""
    from sightline.slop.protocol.jsontext import escape_controls

    for value in values:
        text = escape_controls(_json(value)).decode()
        _put_exactly(clean_json(text) if sys.stdout.isatty() else text)


def write_text(blocks: Iterable[str], end: str = "\n") -> None:
    """Write blocks of text, each with a line break after it."""
    for block in blocks:
        _put_exactly(clean(block) if sys.stdout.isatty() else harmless(block), end)


def write_exactly(data: bytes) -> None:
    """Write JSON whose very bytes were asked for; at a terminal it is spelled to be seen."""
    if sys.stdout.isatty():
        write_json_lines([data])
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_page(parts: Iterable[str]) -> None:
    """Write one text that comes in parts."""
    write_text(parts, end="")


def write_screen(lines: Iterable[tuple[bool, str]]) -> None:
    """Show lines on an empty terminal, those that are marked in colour or with a sign."""
    plain = bool(os.environ.get("NO_COLOR"))  # no-color.org: present and not empty
    on, off, rest = ("* ", "", "  ") if plain else (_GREEN, _RESET, "")
    shown = [f"{on}{clean(text)}{off}" if new else f"{rest}{clean(text)}" for new, text in lines]
    _put_exactly(_CLEAR + "\n".join(shown))


def say(*texts: str) -> None:
    """Write an answer that is for people, wherever stdout leads."""
    for text in texts:
        _put(sys.stdout, f"{clean(text)}\n")


def tell(*texts: str) -> None:
    """Write lines about the answer to stderr; where they cannot be written, it still counts."""
    for text in texts:
        _mention(f"{clean_line(text)}\n")


def notice(*texts: str) -> None:
    """Write lines to stderr in the program's own name."""
    tell(*(f"sightline: {text}" for text in texts))


def confirm(question: str) -> bool:
    """Ask for a yes on stderr; nothing is a no. Raises `ApprovalNeeded` if nobody is there."""
    try:
        return click.confirm(clean_line(question), default=False, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise ApprovalNeeded("nobody can be asked here; --yes agrees") from None


def forget_typed() -> None:
    """Drop what was typed at the terminal before a question stood there: it answers another."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def prompt(question: str) -> str:
    """Ask for a line on stderr; only what is typed from now on answers."""
    forget_typed()
    answer: str = click.prompt(
        clean_line(question), default="", show_default=False, prompt_suffix="", err=True
    )
    return answer


def counted(number: int, noun: str) -> str:
    """Write how many there are: `1 group`, `2 groups`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Writable(Protocol):
    """A stream of text, as far as commands need one."""

    def write(self, text: str, /) -> int: ...


class Outlet:
    """stdout or stderr, for what writes to streams: its text is made harmless, and out at once."""

    def __init__(self, *, err: bool = False) -> None:
        self._err = err

    def write(self, text: str) -> int:
        _put(sys.stderr if self._err else sys.stdout, clean(text))
        return len(text)


def clean_logs() -> None:
    """Make harmless what is logged and nobody else takes: it may come from anywhere.

    Commands that log have loaded `logging`; the others need not wait for it.
    """
    if "logging" not in sys.modules:
        return
    import logging

    class Cleaned(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return clean(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Cleaned())


class Progress:
    """How far long work is, on one line of a terminal's stderr; nothing elsewhere.

    It appears with the first report after two seconds, and is gone when the work ends.
    """

    def __init__(self, what: str, *, after_s: float = 2.0) -> None:
        self._what = what
        self._next = time.monotonic() + after_s if sys.stderr.isatty() else math.inf
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._shown:
            _mention(_ERASE)

    def __call__(self, done: int, whole: int = 0) -> None:
        """Take a report: so many are done, of so many where that is known."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.1
            self._shown = True
            figures = f"{done:,} of {whole:,}" if whole else f"{done:,}"
            _mention(f"{_ERASE}{self._what}: {figures}")

    def over(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Hand lines on, and report each."""
        for number, line in enumerate(lines, 1):
            self(number)
            yield line


def into_file() -> bool:
    """Tell whether stdout leads into a file, where nobody sees what is written."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # no descriptor: a test's stream
        return False


def _json(value: object) -> bytes:
    import msgspec

    return value if isinstance(value, bytes) else msgspec.json.encode(value)


def _put(stream: TextIO, text: str) -> None:
    """Write what a stream can spell of a text, at once."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _mention(text: str) -> None:
    try:
        _put(sys.stderr, text)
    except OSError:
        _lead_nowhere(sys.stderr)


def _put_exactly(text: str, end: str = "\n") -> None:
    """Write UTF-8 to stdout whatever the locale, with surrogates as what they are not."""
    sys.stdout.buffer.write(f"{text}{end}".encode(errors="replace"))
    sys.stdout.buffer.flush()
