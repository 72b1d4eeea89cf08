"""Whatever broke a reader once is tried in every test run, and a reader that breaks is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from proof.targets import TARGETS, Target

from proof import fuzz

CORPUS = [(name, path) for name in TARGETS for path in fuzz.corpus(name)]


@pytest.mark.parametrize(
    ("name", "path"), CORPUS, ids=lambda value: value.name if isinstance(value, Path) else value
)
def test_the_corpus_breaks_nothing(name: str, path: Path) -> None:
    fuzz.replay(TARGETS[name], path.read_bytes())


def test_every_target_has_a_corpus_and_the_corpus_is_small() -> None:
    assert {path.name for path in fuzz.CORPUS.iterdir()} == set(TARGETS)
    assert sum(path.stat().st_size for _, path in CORPUS) < 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_finds_nothing(name: str) -> None:
    seeds = [path.read_bytes() for path in fuzz.corpus(name)]
    assert fuzz.fuzz(TARGETS[name], seeds, seconds=0.2, seed=5) > 0


def test_what_breaks_a_reader_is_found_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fragile(data: bytes) -> None:
        assert b"boom" not in data

    (tmp_path / "fragile").mkdir()
    (tmp_path / "fragile" / "seed").write_bytes(b"quiet")
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path)
    monkeypatch.setitem(TARGETS, "fragile", Target(fragile, (b"boom", b"x")))
    assert fuzz.main(["--seconds", "30", "fragile"]) == 1
    [kept] = [path for path in fuzz.corpus("fragile") if path.name.startswith("broke-")]
    assert b"boom" in kept.read_bytes()
    assert f"kept as {kept}" in capsys.readouterr().out


def test_atheris_is_asked_for_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="2"):
        fuzz.main(["--atheris", "state"])
    assert "pip install atheris" in capsys.readouterr().err


def test_what_atheris_found_is_read_from_its_file(tmp_path: Path) -> None:
    assert fuzz.came_to(0, "stat::number_of_executed_units: 181990\n", tmp_path) == 181_990
    with pytest.raises(RuntimeError, match="ended with 1: no such option"):
        fuzz.came_to(1, "no such option", tmp_path)
    (tmp_path / "found-crash-0123").write_bytes(b"boom")
    said = " === Uncaught Python exception: ===\nBroken: AssertionError: boom\nTraceback"
    with pytest.raises(fuzz.Broken, match="crash: Broken: AssertionError: boom") as caught:
        fuzz.came_to(77, said, tmp_path)
    assert caught.value.data == b"boom"


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_atheris_runs_every_target_that_it_is_given_and_keeps_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {name: fuzz.corpus(name) for name in TARGETS}
    assert fuzz.main(["--atheris", "--seconds", "1", "state", "descriptor"]) == 0
    assert capsys.readouterr().out.count("inputs, nothing found") == 2
    assert {name: fuzz.corpus(name) for name in TARGETS} == before
