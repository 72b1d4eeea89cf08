"""The tables of docs/proof.md equal the results file, and every claim ran at full scale."""

from __future__ import annotations

import json
from typing import Any

from proof.__main__ import AREAS, claims
from proof.report import BEGIN, END, FIGURES, PAGE, part

RUN: dict[str, Any] = json.loads(FIGURES.read_text("utf-8"))


def test_the_page_says_what_the_figures_say() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert f"{BEGIN}{shown}{END}" == part(RUN), "run: python -m proof.report"


def test_every_claim_was_tried_at_full_scale_and_holds() -> None:
    assert {item["run"]["scale"] for item in RUN["claims"]} == {1}
    assert {item["claim"]: item["says"] for item in RUN["claims"]} == {
        claim.name: claim.says for claim in claims().values()
    }
    assert [item["failures"] for item in RUN["claims"] if item["failed"]] == []


def test_areas_contain_each_claim_once_and_take_at_most_30_minutes() -> None:
    seconds = {item["claim"]: item["seconds"] for item in RUN["claims"]}
    assert sorted(name for area in AREAS.values() for name in area) == sorted(seconds)
    took = {name: sum(seconds[claim] for claim in area) for name, area in AREAS.items()}
    assert {name: total for name, total in took.items() if total > 1800} == {}


def test_page_lists_the_areas() -> None:
    rows = (f"| `{name}` | {', '.join(f'`{one}`' for one in AREAS[name])} |" for name in AREAS)
    assert "\n".join(rows) in PAGE.read_text("utf-8")


def test_what_the_claims_name_was_tried() -> None:
    tried = {item["claim"]: item["tried"] for item in RUN["claims"]}
    least = {
        "kill": 1000, "power": 1000, "disk": 1000, "bits": 1000, "sql": 60, "secrets": 50,
        "mirrors": 10_000, "malformed": 4 * 500, "readers": 1000, "forging": 200 + 1_000_000,
        "repositories": 60, "impostors": 200, "consent": 2000, "environment": 100,
        "fleet": 650_000,
    }  # fmt: skip
    assert {name: tried[name] for name, count in least.items() if tried[name] < count} == {}


def test_lies_were_told_with_ten_seeds_at_least() -> None:
    tried = {row["seed"]: row["failed"] for row in RUN["seeds"] if row["claim"] == "lies"}
    assert len(tried) >= 10
    assert set(tried.values()) == {0}


def test_a_control_that_the_harness_needs_was_run() -> None:
    noted = {item["claim"] for item in RUN["claims"] if "control" in item["notes"]}
    assert {
        "kill",
        "power",
        "disk",
        "secrets",
        "hosts",
        "mirrors",
        "lies",
        "forging",
        "readers",
        "repositories",
        "impostors",
        "consent",
        "floods",
        "environment",
    } <= noted
