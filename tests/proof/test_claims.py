"""Every claim holds on a small scale in every test run, and the suite can fail."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from proof.__main__ import attempt, claims, main, watched
from proof.claim import Claim, Trial
from proof.report import part

from context.ledger.hostile import HOSTILE
from proof import __main__ as program
from support.forgeries import corpus
from support.impostors import IDS, NAMES
from support.malformed import MANY
from support.shell import at_terminal

EVERY = claims()
SCALE = 0.003


# `fleet` on a small scale is in tests/context/ledger/test_postgres_crash.py.
@pytest.mark.parametrize("name", [name for name in EVERY if name != "fleet"])
def test_a_claim_holds_on_a_small_scale(name: str) -> None:
    outcome = attempt(EVERY[name], seed=20, scale=SCALE)
    assert outcome.failures == ()
    assert outcome.tried > 0


@pytest.mark.parametrize("seed", [33077, *range(1, 10)])
def test_control_of_lies_sees_a_broken_mirror_at_a_small_scale(seed: int) -> None:
    """Of ten worlds that seed 33077 made, one fooled the broken mirror."""
    assert attempt(EVERY["lies"], seed=seed, scale=SCALE).failures == ()


def test_every_claim_of_the_project_is_there() -> None:
    assert list(EVERY) == [
        "kill", "power", "disk", "bits", "sql", "secrets", "writers", "two", "clock", "hosts",
        "fleet", "mirrors", "lies", "brokers", "malformed", "bombs", "subscriptions", "floods",
        "readers", "forging", "repositories", "impostors", "consent", "environment", "ports",
    ]  # fmt: skip


def test_there_are_as_many_different_attacks_as_is_said() -> None:
    assert len({data for data, _ in MANY}) >= 500
    assert len({text for _, text in corpus()}) >= 200
    assert len({sql for sql, _ in HOSTILE}) >= 60
    assert len({text for _, text in IDS}) >= 200
    assert len({text for _, text in NAMES}) >= 60


def _breaks(trial: Trial) -> None:
    for number in range(trial.times(10)):
        trial.check(number % 2, f"{number} is even")


def _is_blind(trial: Trial) -> None:
    trial.check(True, "seen")
    trial.control(0, "nothing found in what is broken")


def _raises(_trial: Trial) -> None:
    raise OSError("no such luck")


def test_a_claim_that_takes_long_says_how_far_it_is_at_a_terminal_and_nowhere_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Seen(Trial):
        """A trial that knows when it was asked how far it is."""

        asked = threading.Event()

        def __getattribute__(self, name: str) -> object:
            if name == "tried":
                Seen.asked.set()
            return super().__getattribute__(name)

    def work() -> None:
        trial = Seen(1, 1.0, tmp_path, tried=1_234)
        Seen.asked.clear()
        with watched(trial, each_s=0):
            Seen.asked.wait(60)

    shown = at_terminal(work, {})
    assert "\r\x1b[K  1,234 tried, 0 s" in shown
    assert shown.endswith("\r\x1b[K")
    with watched(Trial(1, 1.0, tmp_path), each_s=0):
        pass
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    three = [Claim(act.__name__, act.__name__, act) for act in (_breaks, _is_blind, _raises)]
    monkeypatch.setattr(program, "claims", lambda: {claim.name: claim for claim in three})


@pytest.mark.usefixtures("broken")
def test_what_does_not_hold_is_told_and_the_program_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results.json"
    assert main(["--seed", "7", "--output", str(output)]) == 1
    shown = capsys.readouterr()
    assert "| _breaks | 10 | **5** | 7 |" in shown.out
    assert "seed 7: 4 is even" in shown.err
    assert "the harness is blind: nothing found in what is broken" in shown.err
    assert "OSError: no such luck" in shown.err
    figures = {item["claim"]: item for item in json.loads(output.read_text())["claims"]}
    assert figures["_breaks"]["failed"] == 5
    assert figures["_breaks"]["seed"] == 7


@pytest.mark.usefixtures("broken")
def test_seeds_are_tried_each_on_its_own_and_added_to_the_figures(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    main(["--only", "_breaks", "--output", str(output)])
    whole = json.loads(output.read_text())
    for seed in ("3", "4"):
        arguments = ["--only", "_breaks", "--scale", "0.2", "--seed", seed, "--seeds", "2"]
        assert main([*arguments, "--output", str(output)]) == 1
    figures = json.loads(output.read_text())
    assert figures["claims"] == whole["claims"]
    rows = [(row["seed"], row["scale"], row["tried"], row["failed"]) for row in figures["seeds"]]
    assert rows == [(3, 0.2, 2, 1), (4, 0.2, 2, 1), (5, 0.2, 2, 1)]
    assert "| `_breaks` | 0.2 | 3, 4, 5 | 6 | 3 |" in part(figures)
    main(["--only", "_breaks", "--output", str(output)])
    assert json.loads(output.read_text())["seeds"] == figures["seeds"]


@pytest.mark.usefixtures("broken")
def test_one_area_leaves_the_rows_of_other_claims_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "results.json"
    main(["--output", str(output)])
    before = {item["claim"]: item for item in json.loads(output.read_text())["claims"]}
    monkeypatch.setattr(program, "AREAS", {"two": ("_is_blind", "_breaks")})
    assert main(["--only", "two", "--seed", "5", "--output", str(output)]) == 1
    after = {item["claim"]: item for item in json.loads(output.read_text())["claims"]}
    assert list(after) == list(before)
    assert after["_raises"] == before["_raises"]
    assert [after[name]["seed"] for name in after] == [5, 5, 1]


@pytest.mark.usefixtures("broken")
def test_the_scale_and_the_choice_are_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "_breaks", "--scale", "0.1"]) == 1
    assert "| _breaks | 1 | **1** | 1 |" in capsys.readouterr().out


def test_figures_are_there_before_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "results.json"

    def looks(trial: Trial) -> None:
        known = [item["claim"] for item in json.loads(output.read_text())["claims"]]
        trial.check(known == ["_raises"], f"only {known} were written")

    two = {act.__name__: Claim(act.__name__, "", act) for act in (_raises, looks)}
    monkeypatch.setattr(program, "claims", lambda: two)
    assert main(["--output", str(output)]) == 1
    figures = {item["claim"]: item["failed"] for item in json.loads(output.read_text())["claims"]}
    assert figures == {"_raises": 1, "looks": 0}


def test_the_same_seed_tries_the_same(tmp_path: Path) -> None:
    one, other = Trial(3, 1, tmp_path), Trial(3, 1, tmp_path)
    assert [one.random.random() for _ in range(5)] == [other.random.random() for _ in range(5)]
