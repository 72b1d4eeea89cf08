"""The board of examples/kanban in a browser, beside the chat of an agent that moves a card on it.

    PYTHONPATH=tests:. python -m browser.board      draws docs/pictures/kanban-{light,dark}.png

What is drawn is what happens: the installed program at a terminal, with a model whose answers are
written down, and the page in a browser, which dials it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from examples.kanban import serve
from playwright.sync_api import Page, sync_playwright

from browser.conftest import FLAGS, ROOT, chromium
from support.loopback import reserved_port
from support.person import Person
from support.vendors.answers import Call, Says, says
from support.vendors.server import Vendor

PICTURES: Final = ROOT / "docs" / "pictures"
TITLE: Final = "Paint Crumb & Co. on the window"
SETTINGS: Final = """
[apps]
bridge = true
discover = false
workspace = false

[bridge]
port = {port}
# Of somebody who has our extension: else a note says how it is paired.
origins = ["chrome-extension://ppneljanenoojhdlegajcgbhkgbllneg"]

[[policy]]
app = "web-kanban"
decision = "approve"
"""
FRAME: Final = """<!doctype html>
<style>
  * { box-sizing: border-box; }
  body {
    display: grid; grid-template-columns: 23rem 1fr; gap: 1rem; height: 100vh; margin: 0;
    padding: 1rem; color-scheme: light dark; background: light-dark(#dcd6ca, #05070b);
  }
  pre, iframe { width: 100%; height: 100%; margin: 0; border: 0; border-radius: 12px; }
  pre {
    padding: 1rem; background: #14161b; color: #e6e8ee; white-space: pre-wrap;
    overflow-wrap: anywhere; font: 15px/1.5 ui-monospace, monospace;
  }
</style>
<pre></pre>
<iframe src="/"></iframe>"""


@contextmanager
def served() -> Iterator[str]:
    """Run the example's server in a thread; gives its address."""
    with serve.server(0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def dialling(port: int) -> str:
    """A script by which a page finds the bridge at another port than the usual one."""
    return f"""WebSocket = class extends WebSocket {{
        constructor(url, ...more) {{ super(url.replace(":9339/", ":{port}/"), ...more); }}
    }};"""


def calls(path: str, action: str, **params: object) -> Says:
    """An answer of the model that does something on the board."""
    call = {"app": "web-kanban", "path": path, "action": action, "params": params}
    return Says(calls=(Call("slop_invoke", call),))


ANSWERS: Final = (
    says("You know what the oven costs. Left: a name, and sourdough to taste."),
    calls("/todo", "add", title=TITLE),
    calls("/todo/c1", "move", to="done", position=0),
    says("Crumb & Co. it is. The window is on the list."),
)


def draw(page: Page, home: Path) -> None:
    """Have the chat beside the board, and keep both as a picture."""
    settings = home / "config.toml"
    page.route("**/beside", lambda route: route.fulfill(body=FRAME, content_type="text/html"))
    with reserved_port() as port, served() as address, Vendor(*ANSWERS) as vendor:
        settings.write_text(SETTINGS.format(port=port))
        page.add_init_script(dialling(port))
        person = Person(home, vendor, "chat", TERM="dumb", SIGHTLINE_CONFIG=str(settings))
        page.goto(f"{address}beside")
        board = page.frame_locator("iframe")
        board.get_by_text("An agent sees this board").wait_for()
        board.locator("#c3").press("ArrowRight")
        board.locator(".done #c3").wait_for()
        person.types("I asked about the oven. What is left?\n")
        person.sees("to taste.")
        person.types("We call it Crumb & Co. Tick that off, and the window wants paint.\n")
        person.sees("on the list.")
        printed = f"$ sightline chat\n{person.seen}".replace("\r", "")
        page.locator("pre").evaluate("(pre, text) => { pre.textContent = text }", printed)
        board.locator(".done #c1.changed").wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.screenshot(path=PICTURES / f"kanban-{scheme}.png")
        person.child.close(force=True)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        draw(browser.new_page(viewport={"width": 1400, "height": 880}), Path(home))
        browser.close()


if __name__ == "__main__":
    main()
