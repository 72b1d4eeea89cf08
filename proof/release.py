"""Build a release twice, look at it as an index and a stranger do, and say what is left to do.

    python -m proof.release TOOLS [ADDRESS]     what `make release` runs: minutes

It needs npm and an index. ADDRESS is where the project is public; without it, where this
checkout's `origin` is. The project's URLs are made of it, and so are the links of the README.

Wheel and source package of the last commit are built in two empty directories, with the modules
of the inspector's page brought anew, and must be the same bytes. The wheel has our files, those
modules and their licences, and nothing else; an index takes its metadata and renders its README;
the linters of hosted CI find nothing; with all extras in an empty environment every program
begins. What is good is in `dist` then. Exits with 1, and the reasons, where it is not.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from setup.page import FILES, SHIPPED, VENDOR
from setup.readme import relative_links

from proof.install import install
from sightline._distribution import NAME, __version__

__all__ = [
    "by_hand",
    "contents",
    "licences",
    "main",
    "project_urls",
    "tell_urls",
    "unlinked",
    "unwritten",
]

ROOT = Path(__file__).parent.parent
MAX_BYTES = 1_500_000
OWN = "Apache-2.0"
# Where pyproject.toml leaves room for the addresses of a release.
EMPTY = "[project.urls]\n"
# What may be bundled with a program under our licence without asking anybody.
FREE = {OWN, "0BSD", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
# What an index links beside a package, each below the address where the project is public.
URLS = {
    "Source": "",
    "Documentation": "/blob/v{version}/docs/README.md",
    "Issues": "/issues",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
}
BY_HAND = """\
Left to do by hand, for {version}:
  - make bare SUITE=bookworm, then trixie and sid: both commands of the README on three Pythons
  - make prove, make bench: read what they changed in the documents, and commit it
  - git tag -s v{version} -m 'Sightline {version}' && git push origin v{version}
  - the project does not own `{name}` on PyPI: register it first. Pages may name it after that
  - {tools}/twine upload {files}
  - make docs, and put dist/site where the documentation is served
  - then: the next version in src/sightline/_distribution.py, `## Unreleased` in CHANGELOG.md"""


def main(tools: Path, address: str = "") -> int:
    """Build, check, and say what is left to do by hand."""
    failed = False
    urls = project_urls(address or origin())
    print("building it twice", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        package, wheel = built = build(Path(directory) / "one", urls)
        again = build(Path(directory) / "two", urls)
        checks: dict[str, Callable[[], Iterator[str]]] = {
            "the same bytes twice": lambda: differences(built, again),
            "what is in the wheel": lambda: contents(wheel),
            "licences of what is bundled": lambda: licences(wheel),
            "change log": lambda: unwritten((ROOT / "CHANGELOG.md").read_text("utf-8")),
            "metadata and README": lambda: said(tools / "twine", "check", "--strict", *built),
            "project URLs": lambda: unlinked(wheel, urls),
            "hosted CI": lambda: linted(tools),
            "with all extras in an empty environment": lambda: started(wheel),
        }
        for what, check in checks.items():
            print(f"{what}: ", end="", flush=True)
            faults = list(check())
            print("ok" if not faults else "\n  ".join(["", *faults]))
            failed = failed or bool(faults)
        if not failed:
            (ROOT / "dist").mkdir(exist_ok=True)
            for path in built:
                shutil.copy(path, ROOT / "dist")
                print(f"dist/{path.name}: {path.stat().st_size:,} bytes")
            print(by_hand(tools, [f"dist/{path.name}" for path in (package, wheel)], urls))
    return 1 if failed else 0


def origin() -> str:
    """Give the address of the remote that this checkout was cloned from, if it has one."""
    command = ["git", "remote", "get-url", "origin"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def project_urls(address: str) -> dict[str, str]:
    """Make the project's URLs of the address that git or a browser has for it; none of a path."""
    found = re.fullmatch(
        r"(?:https://(?:[^@/]*@)?|ssh://git@|git@)([\w.-]+\.\w+)[:/]([\w./-]+?)(?:\.git)?/?",
        address,
    )
    if not found:
        return {}
    base = f"https://{found[1]}/{found[2]}"
    return {name: base + path.format(version=__version__) for name, path in URLS.items()}


def build(directory: Path, urls: dict[str, str]) -> list[Path]:
    """Build the last commit, from nothing but its files; give source package and wheel."""
    source, dist = directory / "source", directory / "dist"
    source.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "x"], cwd=source, input=archive, check=True)
    tell_urls(source / "pyproject.toml", urls)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(dist)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [*dist.glob("*.tar.gz"), *dist.glob("*.whl")]


def tell_urls(project: Path, urls: dict[str, str]) -> None:
    """Write the project's URLs where pyproject.toml leaves room for them."""
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    project.write_text(project.read_text("utf-8").replace(EMPTY, EMPTY + table), "utf-8")


def differences(first: list[Path], second: list[Path]) -> Iterator[str]:
    """Name what is not the same when it is built again."""
    for one, other in zip(first, second, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            yield f"{one.name} differs"


def contents(wheel: Path) -> Iterator[str]:
    """Say what a wheel has too much or too little of."""
    sources = ROOT / "src"
    files = (path for path in sources.rglob("*") if path.is_file() and path.suffix != ".pyc")
    ours = {path.relative_to(sources).as_posix() for path in files}
    modules = (path.name for path in (ROOT / "js").iterdir() if path.suffix in {".js", ".ts"})
    made = {VENDOR: (*FILES, "LOCK"), SHIPPED: (*modules, "LOCK")}
    wanted = ours | {
        f"{home}/{name}".removeprefix("src/") for home, names in made.items() for name in names
    }
    names = zipfile.ZipFile(wheel).namelist()
    found = {name for name in names if not name.startswith(f"{_stem(wheel)}.dist-info/")}
    yield from (f"{name} is missing" for name in sorted(wanted - found))
    yield from (f"{name} does not belong there" for name in sorted(found - wanted))
    if wheel.stat().st_size > MAX_BYTES:
        yield f"{wheel.stat().st_size:,} bytes, more than {MAX_BYTES:,}"


def _stem(wheel: Path) -> str:
    """Give name and version as the wheel's own file has them."""
    return "-".join(wheel.name.split("-")[:2])


def metadata(wheel: Path) -> Message:
    """Give what a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"{_stem(wheel)}.dist-info/METADATA"))


def licences(wheel: Path) -> Iterator[str]:
    """Say which bundled module has no licence there, or one that the metadata do not name."""
    lock = json.loads((ROOT / "package-lock.json").read_text("utf-8"))["packages"]
    bundled = {_package(source) for source in FILES.values()}
    with_text = {_package(source) for name, source in FILES.items() if name.startswith("LICENSE.")}
    for package in sorted(bundled):
        licence = lock[f"node_modules/{package}"].get("license", "none")
        if licence not in FREE:
            yield f"{package} is under {licence}"
        if package not in with_text:
            yield f"{package} has no licence in the wheel"
    names = {OWN, *(lock[f"node_modules/{package}"].get("license") for package in bundled)}
    told = metadata(wheel)["License-Expression"]
    if set(told.split(" AND ")) != names:
        yield f"the metadata say {told}, what is there is under {', '.join(sorted(names))}"


def _package(source: str) -> str:
    """Name the package of npm's that a file is of."""
    first, second, *_ = source.split("/")
    return f"{first}/{second}" if first.startswith("@") else first


def unwritten(text: str) -> Iterator[str]:
    """Say what a change log lacks of this version."""
    if not re.search(rf"^## {re.escape(__version__)} · \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        yield f"no heading `## {__version__} · YYYY-MM-DD` in CHANGELOG.md"
    if re.search(r"^## Unreleased\n+[^#\n]", text, re.MULTILINE):
        yield f"what is under `## Unreleased` is released with {__version__}: say so"


def said(*command: str | Path) -> Iterator[str]:
    """Run a program that checks something; give what it says if it is not content."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        yield from (done.stdout + done.stderr).splitlines()


def unlinked(wheel: Path, urls: dict[str, str]) -> Iterator[str]:
    """Say which of the project's URLs the metadata of a wheel have not."""
    told = metadata(wheel).get_all("Project-URL", [])
    yield from (f"no {name}" for name, url in urls.items() if f"{name}, {url}" not in told)


def linted(tools: Path) -> Iterator[str]:
    """Give what the schema of hosted CI, and a linter for its safety, find."""
    hosted = ROOT / ".github"
    schema = ["--builtin-schema", "vendor.github-workflows"]
    yield from said(tools / "check-jsonschema", *schema, *hosted.glob("workflows/*.yml"))
    yield from said(tools / "zizmor", "--offline", "--no-progress", "--pedantic", hosted)


def started(wheel: Path) -> Iterator[str]:
    """Install a wheel with every extra from an index; say which program does not begin."""
    try:
        install(sys.executable, wheel, "all")
    except subprocess.CalledProcessError as error:
        yield from error.output.decode().splitlines()


def by_hand(tools: Path, files: list[str], urls: dict[str, str]) -> str:
    """Write what a maintainer does after this."""
    names = {"name": NAME, "version": __version__, "tools": tools, "files": " ".join(files)}
    lines = BY_HAND.format(**names).splitlines()
    if not urls:
        links = len(relative_links((ROOT / "README.md").read_text("utf-8")))
        lines[1:1] = [
            "  - make release ADDRESS=https://… again: `origin` is not public, so there are no",
            f"    project URLs, and {links} links of the README lead nowhere on an index",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
