"""The races run, and report what they promise to report. How fast is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.data import as_json, flat_list, mail_tree
from benchmarks.harness import Row, table
from benchmarks.pictures import PICTURES
from benchmarks.results import RESULTS, Part, load, save

from sightline.slop.protocol import codec
from support.share import WHOLE
from support.shell import at_terminal

ROOT = Path(__file__).parent.parent.parent
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
    "the same in blocks after one change, against anew",
    "the same joined after one change, against anew",
    "max_nodes",
    "growth: one property changed, then max_nodes 200",
    "the last of these, against what is promised",
    "memory of a tree",
    "growth: one property changed, then diff",
    "growth: the same in one flat list",
]


def test_a_quick_run_prints_every_row_and_keeps_it_where_it_is_told(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    save(output, {"live": Part({}, (Row("x", "kept", 1, 1.0),))})
    # In a process of its own: it collects garbage before each race, and here there is much.
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "trees"]
    command += ["--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shown = done.stdout
    parts = json.loads(output.read_text())
    assert list(parts) == ["trees", "live"]
    assert parts["live"]["rows"][0]["work"] == "kept"
    part = parts["trees"]
    assert list(part["run"]) == [
        "date", "commit", "python", "system", "cores", "load", "msgspec", "seconds", "quick",
    ]  # fmt: skip
    assert part["run"]["quick"] is True
    assert list(dict.fromkeys(row["work"] for row in part["rows"])) == WORK
    for row in part["rows"]:
        assert list(row) == [
            "slug", "work", "size", "unit", "ours", "peer", "ratio", "bar", "met", "note", "more",
        ]  # fmt: skip
        assert row["unit"] in ("s", "bytes")
        assert row["ours"] > 0
        assert row["peer"] is None or row["peer"] > 0
        assert f"| {row['work']}" in shown
    assert [Row.of(row).to_value() for row in part["rows"]] == part["rows"]


def test_a_quick_run_never_touches_the_committed_results(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = RESULTS.read_bytes()
    monkeypatch.setattr("benchmarks.__main__.MODULES", ("composing",))
    assert main(["--quick"]) == 0
    assert "compose for" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--quick", "--output", str(RESULTS)])
    assert RESULTS.read_bytes() == before


def test_a_module_whose_peer_is_missing_is_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.__main__.MODULES", ("no_such_race",))
    output = tmp_path / "results.json"
    assert main(["--quick", "--output", str(output)]) == 0
    assert (
        capsys.readouterr().err
        == "no_such_race: left out, there is no benchmarks.no_such_race here\n"
    )
    assert not output.exists()


def test_a_run_says_at_a_terminal_which_module_it_is_at_and_for_how_long() -> None:
    shown = at_terminal(lambda: main(["--quick", "--only", "composing"]), {})
    assert shown.startswith("\r\x1b[Kcomposing, 1 of 1: 0 s")
    assert "compose for" in shown


def test_a_module_that_fails_is_reported_and_loses_no_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "results.json"
    save(output, {"startup": Part({}, (Row("x", "kept", 1, 1.0),))})
    before = output.read_bytes()
    monkeypatch.setattr("benchmarks.startup.CHAT", "raise SystemExit(3)")
    assert main(["--quick", "--only", "startup", "--output", str(output)]) == 1
    assert capsys.readouterr().err.endswith("it did not come up\nstartup: failed\n")
    assert output.read_bytes() == before


@pytest.mark.skipif(not WHOLE, reason="10 s; LAWS=whole runs it")
def test_several_modules_run_one_after_the_other_each_in_a_process_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results.json"
    only = ["--only", "composing", "--only", "live"]
    assert main(["--quick", *only, "--output", str(output)]) == 0
    parts = load(output)
    assert list(parts) == ["live", "composing"]
    assert capfd.readouterr().err.startswith("2 modules in ")
    for picture, sizes in zip(PICTURES["live"], ([5, 20], [100, 500]), strict=True):
        [axes] = picture.draw(parts["live"].rows).axes
        marked = [line for line in axes.lines if line.get_marker() == "o"]
        assert [np.asarray(line.get_xdata()).tolist() for line in marked] == [sizes, sizes]


def test_two_rows_cannot_have_the_same_name(tmp_path: Path) -> None:
    rows = (Row("x", "a walk", 1, 1.0), Row("x", "a run", 1, 1.0))
    with pytest.raises(ValueError, match="tail: two rows have the same slug"):
        save(tmp_path / "results.json", {"tail": Part({}, rows)})


def test_a_row_says_whether_its_bar_is_met() -> None:
    met = Row("x", "work", 10, ours=0.001, peer=0.1, bar=100)
    missed = Row("x", "work", 10, ours=0.001, peer=0.05, bar=100, note="why")
    alone = Row("x", "work", 1_000, ours=2e6, unit="bytes")
    assert (met.met, missed.met, alone.met) == (True, False, None)
    assert replace(met, peer=None).met is False, "nobody has seen it"
    assert table([met, missed, alone]).splitlines()[2:] == [
        f"| work | 10 | 1 ms | 100 ms | 100{TIMES} | ≥ 100{TIMES} | yes |",
        f"| work (why) | 10 | 1 ms | 50 ms | 50{TIMES} | ≥ 100{TIMES} | **no** |",
        "| work | 1,000 | 2 MB |  |  |  |  |",
    ]


@pytest.mark.parametrize("size", [1, 2, 13, 1_000, 21_000])
def test_the_raced_trees_are_legal_and_of_the_size_they_claim(size: int) -> None:
    assert sum(1 for _ in codec.decode(as_json(mail_tree(size))).walk()) == size
    assert len(codec.decode(as_json(flat_list(size))).children) == size
