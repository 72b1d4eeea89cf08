"""A server on loopback that speaks what an object store's client asks of S3, and keeps its objects.

PutObject, GetObject, HeadObject, ListObjectsV2 and DeleteObjects, in the forms of Amazon's API
reference; whoever asks is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "ledgers"


class Bucket(ThreadingHTTPServer):
    """One bucket; `objects` is all that is in it, by key."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which clients find it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}", "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "ledger", "AWS_SECRET_ACCESS_KEY": "none", "AWS_REGION": "local",
        }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").removeprefix("/")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: bytes = b"", *, is_object: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if is_object:
            self.send_header("ETag", _tag(body))
            self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        self.server.objects[self._key] = body = self._body()
        self.send_response(200)
        self.send_header("ETag", _tag(body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._list()
        elif (found := self.server.objects.get(self._key)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(200, found, is_object=True)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _list(self) -> None:
        prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{_tag(data)}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, data in sorted(self.server.objects.items())
            if key.startswith(prefix)
        )
        self._answer(200, f"<ListBucketResult>{found}</ListBucketResult>".encode())

    def do_POST(self) -> None:
        keys = re.findall(r"<Key>(.*?)</Key>", self._body().decode())
        for key in keys:
            self.server.objects.pop(unescape(key), None)
        gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())


def _tag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'


@contextmanager
def bucket() -> Iterator[Bucket]:
    """A bucket for a block."""
    with Bucket() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
