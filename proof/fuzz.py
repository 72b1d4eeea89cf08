"""Feed a reader what nobody would send, for as long as you like.

    python -m proof.fuzz [--seconds 600] [--seed N] [--atheris] TARGET …

Inputs are made by Hypothesis' fuzz interface from the words and the corpus of a target
(`proof/corpus/TARGET/`), or by atheris, if it is installed, which sees what code they
reach and runs each target in a process of its own. An input that breaks something is
written to the corpus, where a test replays it from then on; nothing else is. Exits with 1
if there was one, with 2 if atheris is asked for and not there.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proof.targets import TARGETS, Target
from sightline._distribution import installer
from sightline.errors import MissingExtra, SightlineError

CORPUS = Path(__file__).parent / "corpus"
_BUFFER_BYTES = 2048
# One input that takes longer or needs more has broken its target.
INPUT_S = 20
MEMORY_MB = 2048


class Broken(Exception):
    """An input did to a reader what none may."""

    def __init__(self, data: bytes, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {str(cause)[:300]}")
        self.data = data


def corpus(name: str) -> list[Path]:
    """The inputs that are kept for a target."""
    return sorted((CORPUS / name).iterdir())


def replay(target: Target, data: bytes) -> None:
    """Give one input to a target; an error of the project is an answer. Raises Broken."""
    try:
        target.check(data)
    except SightlineError:
        return
    except Exception as error:
        raise Broken(data, error) from error


def inputs(target: Target, seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """Words and bytes in any order, and known inputs with pieces cut out and put in."""
    words = st.lists(st.one_of(st.sampled_from(target.words), st.binary(max_size=4)), max_size=40)
    free = words.map(b"".join)
    if not seeds:
        return free
    cut = st.tuples(st.sampled_from(seeds), st.floats(0, 1), st.floats(0, 1), free)
    return free | cut.map(_spliced)


def _spliced(parts: tuple[bytes, float, float, bytes]) -> bytes:
    seed, start, length, piece = parts
    at = int(start * len(seed))
    return seed[:at] + piece + seed[at + int(length * length * length * 20) :]


def fuzz(target: Target, seeds: list[bytes], *, seconds: float, seed: int) -> int:
    """Try inputs for some seconds; returns how many. Raises Broken at the first bad one."""

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(inputs(target, seeds))
    def one(data: bytes) -> None:
        replay(target, data)

    handle: Any = one  # Hypothesis hangs its fuzz interface on the function
    take: Callable[[bytes], Any] = handle.hypothesis.fuzz_one_input
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < until:
        take(chance.randbytes(chance.randrange(1, _BUFFER_BYTES)))
        tried += 1
    return tried


def _keep(name: str, broken: Broken) -> Path:
    path = CORPUS / name / f"broke-{hashlib.sha256(broken.data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(broken.data)
    return path


def guided(name: str, *, seconds: float, seed: int) -> int:
    """Let atheris fuzz a target; returns how many inputs it tried.

    Raises Broken with the first bad one, MissingExtra without atheris.
    """
    if importlib.util.find_spec("atheris") is None:
        raise MissingExtra(f"--atheris needs the package atheris: {installer()} atheris")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        place = Path(scratch)
        (place / "made").mkdir()
        words = "".join(f'"{_in_dictionary(word)}"\n' for word in TARGETS[name].words)
        (place / "words").write_text(words, "ascii")
        # What it makes up goes to the first directory; the corpus is only read.
        options = [
            f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", "-print_final_stats=1",
            f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-dict={place / 'words'}",
            f"-artifact_prefix={place}/found-", str(place / "made"), str(CORPUS / name),
        ]  # fmt: skip
        ran = subprocess.run(
            [sys.executable, "-m", "proof.guided", name, *options],
            capture_output=True, text=True, errors="replace", check=False, cwd=CORPUS.parent.parent,
        )  # fmt: skip
        return came_to(ran.returncode, ran.stdout + ran.stderr, place)


def came_to(code: int, said: str, place: Path) -> int:
    """Read what a run of atheris came to: how many inputs it tried. Raises Broken."""
    for path in sorted(place.glob("found-*")):
        kind = path.name.removeprefix("found-").partition("-")[0]
        cause = re.search(r"Uncaught Python exception: ===\s*(.*)", said)
        raise Broken(
            path.read_bytes(), RuntimeError(f"{kind}: {cause[1] if cause else said[-200:]}")
        )
    tried = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    if code or tried is None:
        raise RuntimeError(f"atheris ended with {code}: {said[-2000:]}")
    return int(tried[1])


def _in_dictionary(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main(arguments: list[str] | None = None) -> int:
    """Fuzz the targets one after the other, each for its share of nothing but time."""
    parser = argparse.ArgumentParser(prog="proof.fuzz", description="Fuzz what reads bytes.")
    parser.add_argument("targets", nargs="+", choices=[*TARGETS, "all"], metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (default: 1)")
    parser.add_argument(
        "--atheris", action="store_true", help="guided by coverage; needs the package atheris"
    )
    options = parser.parse_args(arguments)
    found = 0
    for name in TARGETS if "all" in options.targets else options.targets:
        seeds = [path.read_bytes() for path in corpus(name)]
        try:
            if options.atheris:
                tried = guided(name, seconds=options.seconds, seed=options.seed)
            else:
                tried = fuzz(TARGETS[name], seeds, seconds=options.seconds, seed=options.seed)
        except MissingExtra as missing:
            parser.error(str(missing))
        except Broken as broken:
            found += 1
            print(f"{name}: {broken} (kept as {_keep(name, broken)})")
        else:
            print(f"{name}: {tried:,} inputs, nothing found", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
