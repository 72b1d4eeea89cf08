"""How well a gateway names why a cache was missed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks import (
    blind_faults,
    blind_faults_again,
    blind_faults_fifth,
    blind_faults_fourth,
    blind_faults_third,
)
from benchmarks.faults import Case, Fault, cases, clean
from sightline.context.dialects.drift import Loss
from sightline.context.dialects.events import Usage
from sightline.gateway.bodies import RequestBody, read_body
from sightline.gateway.losses import compare, verdict
from sightline.gateway.observer import lifetime_of, profile_of

WAS = Usage(100_000, 10, 90_000, 10_000)
LIFETIME_S = 300.0  # where a request does not say it
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
        lifetime_s=lifetime_of(now, profile_of(now)) or LIFETIME_S,
        extra_price=PRICE,
    )


def _read(layout: Any, body: dict[str, Any]) -> RequestBody:
    read = read_body(layout, json.dumps(body).encode())
    assert read is not None
    return read


def score(seed: int, each: int, controls: int) -> dict[str, Any]:
    """Score causes and places over the seeded faults, and count false alarms."""
    tried = list(cases(random.Random(seed), each))
    return _score(tried, list(clean(random.Random(seed), controls)))


def blind_score(
    seed: int, each: int, faults: tuple[Fault, ...], harmless: tuple[Fault, ...]
) -> dict[str, Any]:
    """Score faults whose author had not read the classifier, and harmless changes."""
    rng = random.Random(seed)
    return _score(list(cases(rng, each, faults)), list(cases(rng, each, harmless)))


def _score(tried: Sequence[Case], harmless: Sequence[Case]) -> dict[str, Any]:
    named = placed = 0
    wrong: Counter[str] = Counter()
    for case in tried:
        loss = judge(case)
        cause = "" if loss is None else loss.cause
        named += cause == case.cause
        placed += loss is not None and loss.path.startswith(case.path)
        if cause != case.cause:
            wrong[f"{case.kind}: {case.cause} called {cause or 'nothing'}"] += 1
        elif loss is not None and not loss.path.startswith(case.path):
            wrong[f"{case.kind}: {case.cause} found elsewhere"] += 1
    alarms = Counter(
        f"{case.kind}: called {loss.cause}" for case in harmless if (loss := judge(case))
    )
    return {
        "kinds": len({case.kind for case in tried}),
        "causes": len({case.cause for case in tried}),
        "cases": len(tried),
        "named": named / len(tried),
        "placed": placed / len(tried),
        "clean": len(harmless),
        "false alarms": alarms.total(),
        "wrong": dict(wrong),
        "alarms": dict(alarms),
    }


if __name__ == "__main__":
    again, third, fourth = blind_faults_again, blind_faults_third, blind_faults_fourth
    scores = {
        "known": score(1, 50, 1_000),
        "blind": blind_score(1, 30, blind_faults.BLIND, blind_faults.HARMLESS),
        "blind again": blind_score(1, 30, again.BLIND, again.HARMLESS),
        "blind third": blind_score(1, 30, third.BLIND, third.HARMLESS),
        "blind fourth": blind_score(1, 30, fourth.BLIND, fourth.HARMLESS),
        "blind fifth": blind_score(1, 30, blind_faults_fifth.BLIND, blind_faults_fifth.HARMLESS),
    }
    print(json.dumps(scores, indent=2))
