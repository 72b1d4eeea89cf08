"""The text of a PDF, read by a process of its own: bounded in pages, time and memory.

A PDF is a program for a page, and whoever made it may have meant it to run for ever. So this
file is also the small program that reads one: bytes on stdin, text on stdout.
"""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from typing import Final

MAX_PDF: Final = 32 * 1024 * 1024
MAX_PAGES: Final = 200
MAX_TEXT: Final = 256 * 1024
_TIME_S: Final = 30
_TICK_S: Final = 0.1
_READER: Final = (sys.executable, "-I", __file__)
_MEMORY: Final = 1 << 30
# What pypdf raises for a file that needs a password, or a package to be decrypted with.
_ENCRYPTED: Final = ("FileNotDecryptedError", "DependencyError")


def is_pdf(data: bytes) -> bool:
    """Tell whether a file begins as a PDF does (ISO 32000-1, 7.5.2)."""
    return data.startswith(b"%PDF-")


def pdf_text(data: bytes, stop: threading.Event | None = None) -> str:
    """Read the text of a PDF, page by page. Blocks, until it is read or stopped.

    Raises MissingExtra without the package that reads them, InvalidInput for one without text.
    """
    from sightline._distribution import install
    from sightline.agent.models.vendors import is_installed
    from sightline.errors import InvalidInput, MissingExtra

    if not is_installed("pdf"):
        raise MissingExtra(f"the text of a PDF needs a package: {install('pdf')}")
    code, out, errors = _read_elsewhere(data, stop or threading.Event())
    if code:
        why = errors.decode(errors="replace").strip().rpartition("\n")[2][:200]
        if why.startswith(_ENCRYPTED):
            raise InvalidInput("it is encrypted: its text can be read from a copy that is not")
        raise InvalidInput(f"it is not a PDF whose text can be read ({why or code})")
    text = out.decode(errors="replace")
    if not text.strip():
        raise InvalidInput("there is no text in it; it may be a scan")
    return text


def _read_elsewhere(data: bytes, stop: threading.Event) -> tuple[int, bytes, bytes]:
    from sightline.errors import InvalidInput

    pipe = subprocess.PIPE
    until = time.monotonic() + _TIME_S
    given: bytes | None = data
    with subprocess.Popen(_READER, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        while True:
            try:
                out, errors = process.communicate(given, timeout=_TICK_S)
            except subprocess.TimeoutExpired:
                given = None
                if stop.is_set() or time.monotonic() > until:
                    process.kill()
                    raise InvalidInput(f"its text could not be read within {_TIME_S} s") from None
            else:
                return process.returncode, out, errors


def _write_text() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIME_S, _TIME_S))
    from pypdf import PdfReader

    pages = PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages
    room, write = MAX_TEXT, sys.stdout.write
    for number, page in enumerate(pages, 1):
        text = page.extract_text().strip()[:room] if number <= MAX_PAGES else ""
        room -= len(text)
        if number > MAX_PAGES or room <= 0:
            write(f"{text}\n\n[{len(pages) - number + 1} more pages are left out]\n")
            return
        if text:
            write(f"[page {number}]\n{text}\n\n")


if __name__ == "__main__":
    try:
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        _write_text()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it cannot be read
        sys.exit(f"{type(error).__name__}: {error}")
