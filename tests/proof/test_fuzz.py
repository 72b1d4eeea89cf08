"""Whatever broke a reader once is tried in every test run, and a reader that breaks is found."""

from __future__ import annotations

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
