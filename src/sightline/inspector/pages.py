"""The page as text: served with its files beside it, or written as one file with all inside.

Modules name each other by bare names (`preact`, `app/turns`), and the import map says
where those are: at addresses of this server, or, in an exported file, in `data:` URLs.
So the very same files run in both.
"""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

__all__ = ["export_page", "importmap_hash", "served_page", "static_file"]

_STATIC: Final = files("sightline.inspector").joinpath("static")
VENDORED: Final = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
    "@preact/signals-core": "vendor/signals-core.mjs",
    "@preact/signals": "vendor/signals.mjs",
}
TYPES: Final = {
    ".mjs": "text/javascript; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def _modules() -> dict[str, str]:
    """Bare name → file, for everything that the page imports."""
    ours = sorted(entry.name for entry in _STATIC.joinpath("app").iterdir())
    own = {
        f"app/{name.removesuffix('.js')}": f"app/{name}" for name in ours if name.endswith(".js")
    }
    return {**VENDORED, **own}


@cache
def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type; None for anything that is not one of them."""
    if name not in (*_modules().values(), "style.css", "icon.svg"):
        return None
    suffix = name[name.rindex(".") :]
    return _STATIC.joinpath(name).read_bytes(), TYPES[suffix]


@cache
def _served_map() -> str:
    return _json({"imports": {name: f"/static/{file}" for name, file in _modules().items()}})


def importmap_hash() -> str:
    """Name the inline import map to the content security policy."""
    digest = hashlib.sha256(_served_map().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def served_page() -> str:
    """Write the page whose files this server has."""
    return _page(
        head='<link rel="stylesheet" href="/static/style.css">'
        '<link rel="icon" href="/static/icon.svg">'
        f'<script type="importmap">{_served_map()}</script>',
        foot='<script type="module" src="/static/app/main.js"></script>',
        title="Sightline inspector",
    )


def export_page(title: str, data: dict[str, Any]) -> str:
    """Write a page that opens from disk: modules, style and the recorded answers inside.

    `data` holds the answers of the server by their address. It is written as JSON in
    which no `<` is left, so that nothing in it can end the script element or begin one.
    """
    imports = {name: _data_url(_read(file)) for name, file in _modules().items()}
    style = _read("style.css").decode()
    policy = (
        "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return _page(
        head=f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{style}</style>"
        f'<script type="importmap">{_json({"imports": imports})}</script>',
        foot=f'<script type="application/json" id="recorded">{_json(data)}</script>'
        '<script type="module">import "app/main";</script>',
        title=title,
    )


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
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")
