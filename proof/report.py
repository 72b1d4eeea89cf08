"""Write the result tables of `docs/proof.md` from `proof/results.json`.

    python -m proof.report        rewrites the part between the two marks

A test compares the page with the file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["BEGIN", "END", "FIGURES", "PAGE", "part"]

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "proof" / "results.json"
PAGE = ROOT / "docs" / "proof.md"
BEGIN = "<!-- from proof/results.json: python -m proof.report -->"
END = "<!-- to here -->"


def part(figures: dict[str, Any]) -> str:
    """Return the result tables as Markdown, marks included."""
    claims = figures["claims"]
    minutes = sum(claim["seconds"] for claim in claims) / 60
    machines = {
        f"{run['python']} on {run['system']} with {run['cores']} cores, scale {run['scale']:g}"
        for run in (claim["run"] for claim in claims)
    }
    lines = [
        BEGIN,
        f"{len(claims)} claims, {sum(claim['tried'] for claim in claims):,} tries, "
        f"**{sum(claim['failed'] for claim in claims):,} failed**, {minutes:.0f} minutes. "
        f"{'; '.join(sorted(machines))}.",
        "",
        "| name | claim | tried | failed | seed | seconds | begun | commit |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    lines += [
        f"| `{claim['claim']}` | {claim['says']} | {claim['tried']:,} | {claim['failed']:,} "
        f"| {claim['seed']} | {claim['seconds']:,.0f} | {claim['run']['began'][:10]} "
        f"| `{claim['run']['commit']}` |"
        for claim in claims
    ]
    lines += _other_seeds(figures.get("seeds", []))
    lines += [
        "",
        "The findings of the controls, and other notes:",
        "",
    ]
    for claim in claims:
        noted = "; ".join(f"{name}: {what}" for name, what in claim["notes"].items())
        if noted:
            lines.append(f"- `{claim['claim']}`: {noted}.")
    return "\n".join([*lines, END])


def _other_seeds(rows: list[dict[str, Any]]) -> list[str]:
    """Write the seeds that were tried on their own as a table, by claim and scale."""
    if not rows:
        return []
    lines = [
        "",
        "Seeds that were tried on their own (`--seeds`):",
        "",
        "| name | scale | seeds | tried | failed | begun |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    runs: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault((row["claim"], row["scale"]), []).append(row)
    for (claim, scale), run in runs.items():
        seeds = ", ".join(str(row["seed"]) for row in sorted(run, key=lambda row: row["seed"]))
        tried, failed = (sum(row[name] for row in run) for name in ("tried", "failed"))
        begun = min(row["began"] for row in run)
        lines.append(f"| `{claim}` | {scale:g} | {seeds} | {tried:,} | {failed:,} | {begun} |")
    return lines


def main() -> int:
    """Rewrite the tables of the page."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + part(json.loads(FIGURES.read_text("utf-8"))) + after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
