"""The requests as files, one per endpoint, for a reader and for a diff.

    python tests/context/dialects/golden.py        write them anew; then read what git says

Cache minima are 0 there, so that the marks can be seen on prompts of a readable size.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from context.dialects.cases import CASES  # noqa: E402 - the path first
from sightline.context.dialects import Options, encode, endpoints, profile_for  # noqa: E402 - as above
from sightline.context.dialects.request import Request  # noqa: E402 - as above


def request(endpoint: str, case: str) -> Request:
    """Write one case for an endpoint's own model."""
    profile = profile_for(endpoint, overrides={"cache.min_tokens": 0})
    limit = min(profile.max_output_tokens, profile.window_tokens // 4)
    options = Options(conversation="conversation-7", max_output_tokens=limit)
    return encode(CASES[case](), profile, options)


def as_seen(made: Request) -> dict[str, Any]:
    """What a golden file holds of a request."""
    return {
        "path": made.path,
        "headers": made.headers,
        "notes": [note.code for note in made.notes],
        "boundary": made.wire.data[: made.wire.boundary].decode()[-40:],
        "body": made.body,
    }


def file_of(endpoint: str) -> Path:
    return HERE / "requests" / f"{endpoint}.json"


if __name__ == "__main__":
    for name in endpoints():
        cases = {case: as_seen(request(name, case)) for case in CASES}
        text = json.dumps(cases, indent=1, ensure_ascii=False)
        file_of(name).parent.mkdir(exist_ok=True)
        file_of(name).write_text(f"{text}\n", encoding="utf-8")
