"""How well a gateway names why a cache was missed, and what it adds to a request's time."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from benchmarks.faults import Case, cases, clean
from sightline.context.dialects.usage import Usage
from sightline.gateway.bodies import RequestBody, read_body
from sightline.gateway.losses import Loss, compare, verdict

WAS = Usage(100_000, 10, 90_000, 10_000)
PRICE = 6.0  # dollars a million, above reading


def judge(case: Case, *, read: int | None = None) -> Loss | None:
    """Let the gateway judge a case, as if the vendor had reported what it could reuse."""
    before, now = _read(case.layout, case.before), _read(case.layout, case.now)
    compared = compare(before, now)
    if read is None:
        share = compared.shared / compared.whole
        read = 0 if case.reported == "nothing" else int(WAS.input_tokens * share)
    return verdict(
        compared,
        was=WAS,
        usage=Usage(WAS.input_tokens + 1_000, 10, read),
        now=now,
        idle_s=case.idle_s,
        lifetime_s=300.0,
        extra_price=PRICE,
    )


def _read(layout: Any, body: dict[str, Any]) -> RequestBody:
    read = read_body(layout, json.dumps(body).encode())
    assert read is not None
    return read


def score(seed: int, each: int, controls: int) -> dict[str, Any]:
    """Score causes and places over the seeded faults, and count false alarms."""
    tried = list(cases(random.Random(seed), each))
    named = placed = 0
    wrong: Counter[str] = Counter()
    for case in tried:
        loss = judge(case)
        cause = "" if loss is None else loss.cause
        named += cause == case.cause
        placed += loss is not None and loss.path.startswith(case.path)
        if cause != case.cause:
            wrong[f"{case.cause} called {cause or 'nothing'}"] += 1
    alarms = sum(judge(case) is not None for case in clean(random.Random(seed), controls))
    return {
        "kinds": len({case.cause for case in tried}),
        "cases": len(tried),
        "named": named / len(tried),
        "placed": placed / len(tried),
        "clean": controls,
        "false alarms": alarms,
        "wrong": dict(wrong),
    }


if __name__ == "__main__":
    print(json.dumps(score(1, 50, 1_000), indent=2))
