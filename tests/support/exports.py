"""Exported pages, read as the page reads them."""

from __future__ import annotations

import json
import re
from typing import Any


def recorded(page: str) -> dict[str, Any]:
    """What an exported page gets at each address, put together as the page does it."""
    found = re.search(r'id="recorded">(.*?)</script>', page)
    assert found is not None
    kept = json.loads(found[1])
    texts = [
        "".join(
            piece
            for start, count in zip(runs[::2], runs[1::2], strict=True)
            for piece in kept["pieces"][start : start + count]
        )
        for runs in kept["texts"]
    ]
    return {address: json.loads(texts[at]) for address, at in kept["answers"].items()}
