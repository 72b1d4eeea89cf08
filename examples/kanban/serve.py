"""A kanban board in the browser that you and an agent in the terminal move cards on.

    python examples/kanban/serve.py      # open the address that it prints
    sightline chat                       # in another terminal, with `apps.bridge = true`

The page is the app: it shows its cards and takes actions by sightline.js, which dials the agent.
This program only hands out the files.
"""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIBRARY = HERE.parent.parent / "js"
PORT = 8642


class Files(SimpleHTTPRequestHandler):
    """The files of this directory, and those of the library beside them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, directory=str(HERE))

    def translate_path(self, path: str) -> str:
        """Say which file is meant."""
        if path in {"/sightline.js", "/text.js"}:
            return str(LIBRARY / path[1:])
        return super().translate_path(path)


def server(port: int = PORT) -> ThreadingHTTPServer:
    """Return a server of the board, for this machine only."""
    return ThreadingHTTPServer(("127.0.0.1", port), Files)


if __name__ == "__main__":
    with server() as serving:
        print(f"http://127.0.0.1:{serving.server_port}/")
        serving.serve_forever()
