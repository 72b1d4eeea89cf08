"""The name of the distribution, and the commands that install an extra of it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sightline import _distribution
from sightline._distribution import NAME, install, installer

ROOT = Path(__file__).parent.parent
SOURCE = Path(_distribution.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
WHEEL = "sightline_context-0.1.0-py3-none-any.whl"
PIP = f"{shlex.quote(sys.executable)} -m pip install"

# Each line of a page or a source that installs packages: the words behind `install`, or `uvx`.
INSTALLS = re.compile(r"\b(?:(?:pipx?|uv (?:pip|tool)) install|pipx run|uv add|uvx)\b(.*)")
# What names us there: the distribution or the product, with or without an extra.
OURS = re.compile(r"(?<![\w/.-])sightline(?:[-_]context)?(?![\w/.-])(?:\[[\w,-]*\])?( @ )?")
NOT_OURS = re.compile(r"^.*sightline@sightline.*$", re.MULTILINE)  # an agent's plugin
READ = [
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.*"),
    *(ROOT / "plugins").rglob("*.*"), *(ROOT / "deploy").rglob("*.*"), *(ROOT / "js").rglob("*.*"),
    *(ROOT / "setup").glob("*"), *(ROOT / "proof").glob("*.py"), *(ROOT / "benchmarks").glob("*.*"),
    *(ROOT / ".github").rglob("*.yml"), *SOURCE.rglob("*.*"), ROOT / "Makefile",
]  # fmt: skip
READABLE = {".md", ".py", ".sh", ".js", ".ts", ".json", ".yml", ".yaml", ".service", ".ipynb", ""}
HISTORY = {"CHANGELOG.md", "_distribution.py"}


def faults(text: str) -> list[str]:
    """List the lines that install us by a name that an index may have, or an unknown extra."""
    found = []
    for line in text.splitlines():
        for words in INSTALLS.findall(line):
            is_named = any(not one[1] for one in OURS.finditer(words))
            asked = re.search(r"['\"][^'\"]*(?:\.|\.whl|sightline-context)\[([\w,-]+)\]", words)
            names = set(asked[1].split(",")) if asked else set()
            if is_named or not names <= EXTRAS | {"NAME"}:
                found.append(line.strip())
    return found


def lines_with_extras() -> list[tuple[Path, str]]:
    """Collect what source and pages tell people to type."""
    return [
        (path, line)
        for path in READ
        if path.is_file() and path.suffix in READABLE and path.name not in HISTORY
        and "node_modules" not in path.parts and "vendor" not in path.parts
        for line in path.read_text("utf-8").splitlines()
        if INSTALLS.search(line)
    ]  # fmt: skip


def test_no_line_installs_a_name_that_the_project_does_not_own() -> None:
    lines = lines_with_extras()
    shown = {path.relative_to(ROOT).parts[0] for path, _ in lines}
    assert {"docs", "setup", "examples", "deploy"} <= shown
    assert [(path, line) for path, line in lines if faults(line)] == []
    named = [line for _, line in lines if re.search(r"'\.\[\w", line)]
    assert len(named) >= 12


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'sightline[mcp]'", "pip install sightline", "uv tool install sightline[all]",
        "pip install sightline-context", "python -m pip install 'sightline-context[mcp]'",
        "pip install sightline_context", "pipx install sightline", "uvx sightline chat",
        "uv add sightline-context", "pip install '.[nope]'", "pipx run sightline",
    ],
)  # fmt: skip
def test_a_line_that_an_index_would_answer_is_found(line: str) -> None:
    assert faults(f"first, `{line}` and more") != []


@pytest.mark.parametrize(
    "line",
    [
        "pip install -e '.[mcp]'", "pip install 'dist/FILE.whl[all]'", "pip install jupyter",
        "uv tool install 'sightline-context[all] @ file:///PATH/dist/FILE.whl'",
        "`pip install -e .` for `sightline.cli`",
    ],
)  # fmt: skip
def test_a_line_that_a_checkout_or_a_wheel_answers_is_none(line: str) -> None:
    assert faults(line) == []


def test_one_module_writes_the_commands_of_the_package() -> None:
    writers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"\b(?:pip|pipx|uv tool) install\b", path.read_text("utf-8"))
    }
    # A rule of commands and the runner of MCP servers name the program, and install nothing.
    assert writers == {"_distribution.py"}


def test_metadata_is_read_by_the_name_of_the_distribution() -> None:
    assert PROJECT["name"] == NAME == "sightline-context"
    assert PROJECT["scripts"] == {"sightline": "sightline.cli:main"}
    quoted = re.compile(r"(?:distribution|version|metadata|requires)\(\s*['\"]sightline")
    found = [
        path
        for folder in ("src", "tests", "proof", "benchmarks", "setup", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if quoted.search(path.read_text("utf-8"))
    ]
    assert found == []


def in_environment(folder: Path, direct_url: str | None, directory: Path) -> str:
    """Return the command of a process that finds metadata with this address, or none with ''."""
    site = folder / "site"
    package = site / "sightline"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_distribution.py").write_bytes(Path(_distribution.__file__).read_bytes())
    if direct_url is not None:
        info = site / "sightline_context-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0.1.0\n")
        if direct_url:
            (info / "direct_url.json").write_text(direct_url)
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from sightline import _distribution"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}; print(_distribution.install('mcp'))"],
        capture_output=True, text=True, check=True, cwd=directory,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_wheel_is_named_by_the_address_that_pip_recorded(tmp_path: Path) -> None:
    url = f"file:///a%20b/{WHEEL}"
    text = f'{{"url": "{url}", "archive_info": {{}}}}'
    assert in_environment(tmp_path, text, tmp_path) == f"{PIP} '{NAME}[mcp] @ {url}'"


def test_an_archive_of_a_repository_is_named_by_its_commit(tmp_path: Path) -> None:
    text = '{"url": "https://h.example/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
    command = in_environment(tmp_path, text, tmp_path)
    assert command == f"{PIP} '{NAME}[mcp] @ git+https://h.example/r.git@abc'"


def test_an_index_is_named_by_the_name_alone(tmp_path: Path) -> None:
    assert in_environment(tmp_path, "", tmp_path) == f"{PIP} '{NAME}[mcp]'"


@pytest.mark.parametrize(("info", "option"), [('{"editable": true}', "-e "), ("{}", "")])
def test_a_checkout_is_named_by_its_path_or_a_dot(tmp_path: Path, info: str, option: str) -> None:
    checkout = tmp_path / "it's here"
    checkout.mkdir()
    text = f'{{"url": "{checkout.as_uri()}", "dir_info": {info}}}'
    there = in_environment(tmp_path / "a", text, tmp_path)
    assert there == f"{PIP} {option}{shlex.quote(f'{checkout}[mcp]')}"
    assert in_environment(tmp_path / "b", text, checkout) == f"{PIP} {option}'.[mcp]'"


def test_a_checkout_without_metadata_is_named_by_its_path(tmp_path: Path) -> None:
    command = in_environment(tmp_path / "checkout", None, tmp_path)
    assert command.startswith(f"{PIP} -e ")


def test_a_directory_that_is_gone_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert install("mcp").endswith(f"-e '{ROOT}[mcp]'")


def test_an_environment_without_pip_is_for_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distribution, "find_spec", lambda _: None)
    assert installer() == f"uv pip install --python {shlex.quote(sys.executable)}"


def test_the_interpreter_is_quoted(tmp_path: Path) -> None:
    python = tmp_path / "a b" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    code = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import sightline._distribution"
    done = subprocess.run(
        [str(python), "-c", f"{code} as it; print(it.installer())"],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHOME": sys.base_prefix},
    )  # fmt: skip
    assert shlex.quote(str(python)) in done.stdout
