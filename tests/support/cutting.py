"""A network that fails when it is told to: a proxy before a PostgreSQL server's socket.

It passes everything on until the n-th thing that the client sends. That one is lost, or it arrives
and the answer to it is lost, and the connection with it.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Literal

_READY = (
    b"Z\0\0\0\5"  # PostgreSQL's ReadyForQuery, before one byte that says how the transaction is
)
_NAME = ".s.PGSQL.5432"


class CuttingProxy:
    """Listens in one directory, as the server does in another."""

    def __init__(self, directory: Path, server: Path) -> None:
        self.directory = directory
        self._server = server / _NAME
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / _NAME))
        self._listener.listen()
        self._left: int | None = None
        self._loses: Literal["request", "answer"] = "request"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, passed: int, loses: Literal["request", "answer"]) -> None:
        """Let so many things pass, then lose one."""
        self._left, self._loses = passed, loses

    @property
    def has_cut(self) -> bool:
        """Whether it came to that."""
        return self._left is None

    def heal(self) -> None:
        """Lose nothing more."""
        self._left = None

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._server))
            lost = threading.Event()
            back = threading.Thread(target=self._answer, args=(server, client, lost), daemon=True)
            back.start()
            while request := _received(client):
                if self._left == 0:
                    self._left = None
                    if self._loses == "request":
                        break
                    lost.set()
                elif self._left is not None:
                    self._left -= 1
                try:
                    server.sendall(request)
                except OSError:  # it has hung up
                    break
            for end in (client, server):
                _shut(end)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        answer = b""
        while piece := _received(server):
            answer = (answer + piece)[-6:]
            if not lost.is_set():
                try:
                    client.sendall(piece)
                except OSError:
                    return
            elif answer[:5] == _READY:  # the server has done it
                break
        _shut(client)


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(65_536)
    except OSError:
        return b""


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
