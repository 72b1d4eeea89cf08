"""The page as text: served with its files beside it, or written as one file with all inside.

Modules name each other by bare names (`preact`, `app/turns`), and the import map says
where those are: beside the page on this server, or, in an exported file, in `data:` URLs.
So the very same files run in both.

An export for the page is made beside the server. It takes seconds, and memory for a whole
session; in a process of its own neither is the server's, and both are given back.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import os
import re
import sys
from array import array
from collections.abc import AsyncGenerator, Iterable, Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final

import msgspec

from sightline.errors import MissingExtra, TimedOut, Unreachable
from sightline.slop.protocol.jsontext import escape_controls
from sightline.slop.transports.background import end_child

_STATIC: Final = files("sightline.inspector").joinpath("static")
VENDORED: Final = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
    "diff": "vendor/diff.mjs",
    "@preact/signals-core": "vendor/signals-core.mjs",
    "@preact/signals": "vendor/signals.mjs",
}
TYPES: Final = {
    ".mjs": "text/javascript; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
CHUNK_BYTES: Final = 256 * 1024
DEADLINE_S: Final = 600.0
_IMPORT: Final = re.compile(r'\bfrom\s*"([^"]+)"')
_HERE: Final = "\0"
_BATCH: Final = 500
_ENDS: Final = ("},", "\\n")  # of an object, of a line of text, as JSON writes them
_CUT: Final = "\0"  # which JSON never has
_EXPORT_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


@cache
def _modules() -> dict[str, str]:
    """Bare name → file, for everything that the page imports."""
    if not all(_STATIC.joinpath(file).is_file() for file in VENDORED.values()):
        raise MissingExtra(
            "the modules of the inspector's page are not in this checkout; "
            "what brings them: python setup/page.py"
        )
    ours = sorted(entry.name for entry in _STATIC.joinpath("app").iterdir())
    modules = {
        f"app/{name.removesuffix('.js')}": f"app/{name}" for name in ours if name.endswith(".js")
    }
    return {**VENDORED, **modules}


@cache
def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type; None for anything that is not one of them."""
    if name not in (*_modules().values(), "style.css", "icon.svg"):
        return None
    suffix = name[name.rindex(".") :]
    return _STATIC.joinpath(name).read_bytes(), TYPES[suffix]


@cache
def _served_map() -> str:
    return _json({"imports": {name: f"./static/{file}" for name, file in _modules().items()}})


def importmap_hash() -> str:
    """Name the inline import map to the content security policy."""
    digest = hashlib.sha256(_served_map().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def _needed(name: str) -> tuple[str, ...]:
    """List the modules without which one does not run, itself first, by what they import."""
    needed = {name: None}
    for one in (waiting := [name]):
        imports = _IMPORT.findall(_read(_modules()[one]).decode())
        waiting.extend(other for other in imports if other not in needed)
        needed.update(dict.fromkeys(imports))
    return tuple(needed)


def served_page(newest: int | None = None) -> str:
    """Write the page whose files this server has; `newest` is the session that it will open.

    What asks for the first rows runs first; the modules that draw them come at once, not
    one by one, and those of the views when the page asks for them.
    """
    files = (_modules()[name] for name in _needed("app/main"))
    early = (f'<link rel="modulepreload" href="static/{file}">' for file in files)
    hint = "" if newest is None else f'<meta name="newest-session" content="{newest}">'
    return _page(
        head=f'{hint}<script type="importmap">{_served_map()}</script>'
        '<script type="module" async fetchpriority="high" src="static/app/first.js"></script>'
        '<link rel="stylesheet" href="static/style.css">'
        f'{"".join(early)}<link rel="icon" href="static/icon.svg">',
        foot='<script type="module" src="static/app/main.js"></script>',
        title="Sightline inspector",
    )


def way_in(address: str, icon: str = "") -> str:
    """Write a page that goes on to an address at once, tells it nothing, and needs no script.

    A browser that is told of no icon asks a server for one at a place of its own.
    """
    target = html.escape(address)
    link = f'<link rel="icon" href="{html.escape(icon)}">' if icon else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={target}">'
        f"<title>Sightline inspector</title>{link}</head>"
        f'<body><a href="{target}">Go on</a></body></html>'
    )


def refused_page(reason: str) -> str:
    """Write a page that says why somebody who opened an address is not let in."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<title>Sightline inspector</title></head>"
        f"<body><h1>Not let in</h1><p>{html.escape(reason)}</p></body></html>"
    )


class Export:
    """A page that opens from disk: modules, style and the answers of the server inside.

    A session says the same things over and over, a request most of what the one before it
    said. So an answer is cut where something ends in its JSON, every piece is kept once, and
    an answer is a list of runs of pieces: where one begins, how long it is, and so on.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}
        self._texts: dict[bytes, int] = {}
        self._answers: dict[str, int] = {}

    def add(self, address: str, answer: dict[str, Any]) -> None:
        """Keep the answer that the page gets at an address."""
        known = self._pieces
        runs = array("I")
        text = msgspec.json.encode(answer).decode()
        for end in _ENDS:
            text = text.replace(end, end + _CUT)
        for piece in text.split(_CUT):
            at = known.setdefault(piece, len(known))
            if runs and at == runs[-2] + runs[-1]:
                runs[-1] += 1
            else:
                runs.extend((at, 1))
        self._answers[address] = self._texts.setdefault(runs.tobytes(), len(self._texts))

    def parts(self, title: str) -> Iterator[str]:
        """Write the page, a part at a time: it may be large.

        The answers are JSON in which no `<` is left, so that nothing in them can end the
        script element or begin one.
        """
        imports = {name: _data_url(_read(file)) for name, file in _modules().items()}
        before, _, after = _page(
            head=f'<meta http-equiv="Content-Security-Policy" content="{_EXPORT_POLICY}">'
            f"<style>{_read('style.css').decode()}</style>"
            f'<script type="importmap">{_json({"imports": imports})}</script>',
            foot=f'<script type="application/json" id="recorded">{_HERE}</script>'
            '<script type="module">import "app/main";</script>',
            title=title,
        ).rpartition(_HERE)
        yield before
        yield from _listed('{"pieces":[', self._pieces)
        yield from _listed('],"texts":[', (array("I", text).tolist() for text in self._texts))
        yield f'],"answers":{_json(self._answers)}}}{after}'


async def exported_beside(
    ledger: str, session: int, deadline_s: float = DEADLINE_S
) -> AsyncGenerator[bytes, None]:
    """Have `sightline inspect --export` write a session, and hand it on as it comes.

    The process ends when nobody reads any more, and at its deadline. What it complains of
    goes to our own stderr; raises `Unreachable` if it cannot be started, fails or is late, for
    a page without an end must not look whole.
    """
    # -P: nothing is imported from the directory that the inspector was started in.
    program = (sys.executable, "-P", "-m", "sightline")
    wanted = ("inspect", "--export", str(session), "--output", "-")
    # Not as an argument: everybody on the machine could read a password in its URL.
    environment = {**os.environ, "SIGHTLINE_LEDGER": ledger}
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *program, *wanted, stdin=nothing, stdout=pipe, env=environment
        )
    except OSError as error:
        raise Unreachable(
            f"the export of session {session} cannot be started: {error.strerror or error}"
        ) from error
    page = process.stdout
    ends = asyncio.get_running_loop().time() + deadline_s
    try:
        while page is not None:
            async with asyncio.timeout_at(ends):
                chunk = await page.read(CHUNK_BYTES)
            if not chunk:
                break
            yield chunk
        if await process.wait() != 0:
            raise Unreachable(
                f"the export of session {session} failed; the inspector's terminal says why"
            )
    except TimeoutError:
        raise TimedOut(
            f"the export of session {session} took longer than {deadline_s:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
        await end_child(process)


def _listed(start: str, items: Iterable[object]) -> Iterator[str]:
    """Write the items of a JSON list, some at a time."""
    items = iter(items)
    while some := list(islice(items, _BATCH)):
        yield start + _json(some)[1:-1]
        start = ","
    if start != ",":
        yield start


def _page(*, head: str, foot: str, title: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title>{head}'
        '</head><body><div id="root"><p class="quiet">Loading…</p></div>'
        "<noscript>The inspector draws its pages with JavaScript.</noscript>"
        f"{foot}</body></html>"
    )


def _read(name: str) -> bytes:
    return _STATIC.joinpath(name).read_bytes()


def _data_url(content: bytes) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(content).decode()}"


def _json(value: object) -> str:
    """Write JSON that is safe inside a script element."""
    # WHATWG HTML, restrictions for contents of script elements.
    text = escape_controls(msgspec.json.encode(value)).decode()
    return text.replace("<", "\\u003c").replace("&", "\\u0026")
