"""What is built can be installed and used.

The wheel and the source package are built by the locked backend, without isolation. pip
installs the wheel into an empty environment, to which the locked core dependencies, and
nothing else, are lent by links. So this proves that our files are complete, and that the
program needs no more than pyproject.toml declares. It does not prove that an index has
those packages, nor that the extras resolve.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ("click", "msgspec", "jsonschema-rs", "websockets", "apsw", "platformdirs")


def run(*command: str | Path, stdin: bytes = b"", directory: Path = ROOT) -> bytes:
    """Run a program without anything that this environment would lend it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command], input=stdin, cwd=directory, env=kept,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def lend(package: Distribution, site: Path) -> None:
    """Put links to everything of a package into another environment."""
    tops = {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "/")}
    for top in tops - {"__pycache__"}:
        (site / top).symlink_to(Path(str(package.locate_file(top))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", directory)
    return directory


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place, with_pip=False, symlinks=True)
    [site] = (place / "lib").glob("python*/site-packages")
    for name in CORE:
        lend(distribution(name), site)
    [wheel] = built.glob("*.whl")
    python = place / "bin" / "python"
    # With dependencies and without an index: pip finds each of them there, or refuses.
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet", wheel)
    run(sys.executable, "-m", "pip", "--python", python, "check")
    return place / "bin"


def test_the_wheel_has_the_library_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sightline"}
    assert {"sightline/py.typed", "sightline/demo/state.json"} <= set(names)
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)


def test_the_source_package_can_be_tested_and_proved(built: Path) -> None:
    [package] = built.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "tests", "proof", "examples", "benchmarks", "docs", "Makefile"} <= tops
    assert {"requirements.lock", "README.md", "LICENSE", "pyproject.toml"} <= tops


def test_the_installed_program_shows_the_demo_and_formats_it(clean: Path, tmp_path: Path) -> None:
    shown = run(clean / "sightline", "demo", "--print", directory=tmp_path)
    assert shown.startswith(b"[root] desk: Desk")
    tree = run(clean / "sightline", "demo", "--json", directory=tmp_path)
    assert run(clean / "sightline", "tree", "format", stdin=tree, directory=tmp_path) == shown


def test_every_public_name_is_there_and_comes_from_what_was_installed(clean: Path) -> None:
    code = (
        "import sightline; [getattr(sightline, name) for name in sightline.__all__];"
        "print(sightline.__file__)"
    )
    where = run(clean / "python", "-c", code).decode()
    assert str(clean.parent) in where
