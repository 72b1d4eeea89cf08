"""A script as a browser takes it over HTTP: by gzip where it says that it reads that."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sightline.slop.transports.door import Visitor

# RFC 9110 §12.5.3: a coding with the weight 0 is not acceptable.
_TAKES_GZIP: Final = re.compile(r"(?:^|,)\s*gzip\s*(?:$|,|;\s*q=(?!0(?:\.0*)?\s*(?:$|,)))", re.I)


def packed(visitor: Visitor, body: bytes) -> tuple[bytes, Mapping[str, str]]:
    """What to send to a visitor, and the headers that say what was done to it."""
    headers = {"Vary": "Accept-Encoding"}
    if not _TAKES_GZIP.search(",".join(visitor.values("accept-encoding"))):
        return body, headers
    return _gzipped(body), {**headers, "Content-Encoding": "gzip"}


@lru_cache(maxsize=4)
def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, 9, mtime=0)
