"""The races run, and report what they promise to report. How fast is not a test's business."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.__main__ import main
from benchmarks.data import as_json, flat_list, mail_tree
from benchmarks.harness import Row, table
from benchmarks.plot import Series, growth_svg

from sightline.protocol import codec

TIMES = "\N{MULTIPLICATION SIGN}"
WORK = [
    "one property changed, then diff",
    "diff of two equal trees that share nothing",
    "apply in a flat list: replace a property",
    "apply in a flat list: remove a child",
    "apply in a flat list: add a child",
    "the first op in a flat list, which makes its index",
    "build from JSON",
    "build from JSON, every rule checked",
    "build from JSON, garbage collector off",
    "canonical text",
    "max_nodes",
    "memory of a tree",
    "growth: one property changed, then diff",
    "growth: the same in one flat list",
]


def test_a_quick_run_prints_every_row_and_writes_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results.json"
    assert main(["--quick", "--only", "trees", "--output", str(output)]) == 0
    shown = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert list(report) == ["python", "system", "msgspec", "quick", "rows"]
    assert report["quick"] is True
    assert list(dict.fromkeys(row["work"] for row in report["rows"])) == WORK
    for row in report["rows"]:
        assert list(row) == [
            "area", "work", "size", "unit", "ours", "peer", "ratio", "bar", "met", "note",
        ]  # fmt: skip
        assert row["area"] == "trees"
        assert row["unit"] in ("s", "bytes")
        assert row["ours"] > 0
        assert row["peer"] is None or row["peer"] > 0
        assert f"| {row['work']}" in shown


def read_svg(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - made by us


def test_a_quick_run_of_live_apps_draws_the_growth(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    options = ["--quick", "--only", "live", "--output", str(output), "--plots", str(tmp_path)]
    assert main(options) == 0
    for name, sizes in (("k", (5, 20)), ("n", (100, 500))):
        picture = read_svg((tmp_path / f"live-growth-in-{name}.svg").read_text())
        circles = picture.findall("{http://www.w3.org/2000/svg}circle")
        assert len(circles) == 2 * len(sizes)


def test_a_line_of_slope_one_lies_on_its_dashes() -> None:
    line = Series("linear & steady", ((10, 0.001), (100, 0.01), (1000, 0.1)))
    picture = read_svg(growth_svg("work", "size", [line]))
    paths = picture.findall("{http://www.w3.org/2000/svg}path")
    [dashed] = [path.get("d") for path in paths if path.get("stroke-dasharray")]
    [drawn] = picture.findall("{http://www.w3.org/2000/svg}polyline")
    first, _, last = (drawn.get("points") or "").split()
    assert dashed == f"M{first} L{last}"


def test_a_module_whose_peer_is_missing_is_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.__main__.MODULES", ("no_such_race",))
    assert main(["--quick", "--output", str(tmp_path / "results.json")]) == 0
    assert (
        capsys.readouterr().err
        == "no_such_race: left out, there is no benchmarks.no_such_race here\n"
    )


def test_a_row_says_whether_its_bar_is_met() -> None:
    met = Row("work", 10, ours=0.001, peer=0.1, bar=100)
    missed = Row("work", 10, ours=0.001, peer=0.05, bar=100, note="why")
    alone = Row("work", 1_000, ours=2e6, unit="bytes")
    assert (met.met, missed.met, alone.met) == (True, False, None)
    assert table([met, missed, alone]).splitlines()[2:] == [
        f"| work | 10 | 1 ms | 100 ms | 100{TIMES} | ≥ 100{TIMES} | yes |",
        f"| work (why) | 10 | 1 ms | 50 ms | 50{TIMES} | ≥ 100{TIMES} | **no** |",
        "| work | 1,000 | 2 MB |  |  |  |  |",
    ]


@pytest.mark.parametrize("size", [1, 2, 13, 1_000, 21_000])
def test_the_raced_trees_are_legal_and_of_the_size_they_claim(size: int) -> None:
    assert sum(1 for _ in codec.decode(as_json(mail_tree(size))).walk()) == size
    assert len(codec.decode(as_json(flat_list(size))).children) == size
