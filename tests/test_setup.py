"""What `make` does before anything of ours can run: look at the system, make the environment.

The scripts run for real, on a path where everything else is as a test says: a Python whose
loader cannot load a library, an apt that keeps a record of what it is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

from sightline._distribution import NAME

COMMAND = "sightline"
ROOT = Path(__file__).parent.parent
TOOLS = ("cut", "grep", "ls", "rm", "sed", "sh", "sort", "tail", "touch", "tr")
LIBRARIES = ("libgomp.so.1", "libatomic.so.1")
LACKING = {"ensurepip", *LIBRARIES, "git", "browser"}

linux = pytest.mark.skipif(sys.platform != "linux", reason="the libraries are Linux's")


class Machine:
    """A system with what a test says, and a record of what was done to it."""

    def __init__(self, directory: Path, lacks: set[str], *, uid: int = 1000) -> None:
        self.directory = directory
        self.record = directory / "record"
        self._bin = directory / "bin"
        self._lacks = directory / "lacks"
        self._bin.mkdir()
        self._lacks.mkdir()
        for tool in TOOLS:
            (self._bin / tool).symlink_to(str(shutil.which(tool)))
        self.has("id", f"echo {uid}")
        self.has("uname", "echo Linux")
        # Found before Python's own, and before the system's: neither can be loaded.
        if "ensurepip" in lacks:
            (self._lacks / "ensurepip.py").write_text("raise ImportError")
        for library in lacks & set(LIBRARIES):
            (self._lacks / library).touch()
        if "python" not in lacks:
            self.has(
                "python3",
                f"PYTHONPATH={self._lacks} LD_LIBRARY_PATH={self._lacks} exec {sys.executable} "
                '"$@"',
            )
        if "git" not in lacks:
            self.has("git", "exit 0")
        if "browser" not in lacks:
            self.has("chromium", "exit 0")
        self.has("bwrap", "exit 0")
        self.has("nats-server", "exit 0")

    def has(self, program: str, script: str) -> Path:
        """Put a program on the path."""
        path = self._bin / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def has_apt(self, *, chromium: bool = True, repairs: bool = True) -> None:
        """Have apt; what it installs is no longer lacking."""
        install = f"rm -rf {self._lacks}/*" if repairs else "echo no network >&2; exit 100"
        self.has("apt-get", f'echo "$*" >>{self.record}\ncase $* in *install*) {install} ;; esac')
        self.has("apt-cache", f"echo '  Candidate: {'154.0' if chromium else '(none)'}'")

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command], cwd=self.directory, capture_output=True, text=True,
            env={"PATH": str(self._bin), **environment}, timeout=120, check=False,
        )  # fmt: skip

    def look(self, purpose: str = "test", python: str = "python3") -> tuple[int, list[str]]:
        """Run the script; give its exit code and its lines."""
        done = self.run("sh", ROOT / "setup" / "system.sh", purpose, python)
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines()

    def asked(self) -> list[str]:
        """Give what apt was asked for."""
        return self.record.read_text().splitlines() if self.record.exists() else []


def told_by_the_readme() -> dict[str, str]:
    """The README's line for each system."""
    text = (ROOT / "README.md").read_text()
    return dict(re.findall(r"^\| (Debian|Ubuntu|Fedora|macOS) \| `(.*)` \|$", text, re.MULTILINE))


def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path) -> None:
    assert Machine(tmp_path, set()).look() == (0, [])


@pytest.mark.parametrize(
    ("thing", "package"),
    [
        ("python", "python3"),
        ("ensurepip", "python3-venv"),
        ("git", "git"),
        pytest.param("libgomp.so.1", "libgomp1", marks=linux),
        pytest.param("libatomic.so.1", "libatomic1", marks=linux),
    ],
)
def test_a_plain_user_is_told_the_one_line_for_each_thing(
    thing: str, package: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, {thing})
    machine.has_apt()
    lines = [f"the system lacks: {thing}", f"sudo apt-get install -y {package}"]
    assert machine.look() == (1, lines)
    assert machine.asked() == []


@linux
@pytest.mark.parametrize("system", ["Debian", "Ubuntu", "Fedora", "macOS"])
def test_each_system_is_told_the_line_that_stands_in_the_readme(
    system: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, LACKING)
    if system == "Fedora":
        machine.has("dnf", "exit 1")
    elif system == "macOS":
        machine.has("uname", "echo Darwin")
    else:
        machine.has_apt(chromium=system == "Debian")
    code, lines = machine.look()
    assert (code, lines[1:]) == (1, [told_by_the_readme()[system]])


@pytest.mark.parametrize("program", ["node", "npm"])
def test_where_the_machine_has_neither_node_nor_npm_those_of_a_wheel_run(
    program: str, tmp_path: Path
) -> None:
    code = f"from setup.page import _run; _run({program!r}, '--version')"
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@linux
def test_an_unknown_system_is_told_by_what_others_call_it(tmp_path: Path) -> None:
    code, lines = Machine(tmp_path, {"libgomp.so.1", "git"}).look()
    assert code == 1
    assert lines == [
        "the system lacks: libgomp.so.1 git",
        "Debian, Ubuntu: sudo apt-get install -y git libgomp1",
        "Fedora: sudo dnf install -y git libgomp",
    ]


def test_the_chat_needs_less_than_the_tests(tmp_path: Path) -> None:
    assert Machine(tmp_path, {"libatomic.so.1", "git", "browser"}).look("chat") == (0, [])


def test_without_a_browser_alone_a_plain_user_goes_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"browser"})
    machine.has_apt()
    assert machine.look() == (0, [])
    assert machine.asked() == []


@linux
def test_root_with_apt_gets_what_is_missing_and_a_line_that_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ensurepip", *LIBRARIES, "browser"}, uid=0)
    machine.has_apt()
    assert machine.look() == (
        0,
        [
            "installing what the system lacks: libatomic1 libgomp1 python3-venv",
            "installing a browser for the tests: chromium",
        ],
    )
    assert machine.asked() == [
        "-q update",
        "-q install -y --no-install-recommends libatomic1 libgomp1 python3-venv",
        "-q install -y --no-install-recommends chromium",
    ]


@linux
def test_root_whose_apt_fails_is_told_why_and_the_line(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"libgomp.so.1"}, uid=0)
    machine.has_apt(repairs=False)
    code, lines = machine.look("chat")
    assert code == 1
    assert lines[1:] == [
        "no network",
        "the system lacks: libgomp.so.1",
        "sudo apt-get install -y libgomp1",
    ]


def test_another_python_is_named_in_the_line(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ensurepip"})
    machine.has_apt()
    (tmp_path / "bin" / "python3").rename(tmp_path / "bin" / "python3.12")
    assert machine.look("chat", "python3.12")[1][1] == "sudo apt-get install -y python3.12-venv"


def test_an_old_python_is_refused_with_what_to_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path, set())
    (tmp_path / "lacks" / "sitecustomize.py").write_text("import sys; sys.version_info = (3, 10)")
    assert machine.look() == (
        1,
        ["sightline needs Python 3.11 or newer; point PYTHON=… at one"],
    )


def test_an_environment_that_is_ready_needs_nothing_to_be_made_with(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ensurepip"})
    made = tmp_path / ".venv" / "bin"
    made.mkdir(parents=True)
    (made / "python").symlink_to(tmp_path / "bin" / "python3")
    (tmp_path / ".venv" / ".ready").touch()
    assert machine.look() == (0, [])


def test_make_asks_before_it_makes_or_downloads_anything(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ensurepip"})
    machine.has_apt()
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copytree(ROOT / "setup", checkout / "setup")
    for path in (ROOT / "Makefile", ROOT / "pyproject.toml", *ROOT.glob("*.lock")):
        shutil.copy(path, checkout)
    before = sorted(checkout.rglob("*"))
    done = machine.run(str(shutil.which("make")), "-C", checkout, "chat")
    assert done.returncode == 2
    assert "sudo apt-get install -y python3-venv\n" in done.stderr
    assert "setting up" not in done.stderr
    assert sorted(checkout.rglob("*")) == before


@pytest.mark.parametrize(
    ("goal", "key", "installed"),
    [
        ("demo", "", ["chat"]),
        ("chat", "", ["chat"]),
        ("chat", "AWS_BEARER_TOKEN_BEDROCK", ["chat", "bedrock"]),
        ("lint", "", ["chat", "dev"]),
        ("bench", "", ["chat", "dev"]),
    ],
)
def test_make_installs_what_its_goal_needs_and_no_more(
    goal: str, key: str, installed: list[str], tmp_path: Path
) -> None:
    shown = planned(goal, f"VENV={tmp_path}", **{key or "NO_KEY": "k"})
    assert re.findall(r"setup/venv.sh (\w+)", shown) == installed


def planned(*words: str, **environment: str) -> str:
    """Return the commands that make would run."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("M")}
    ours.pop("AWS_BEARER_TOKEN_BEDROCK", None)
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", *words],
        cwd=ROOT, capture_output=True, text=True, check=True, env=ours | environment,
    )  # fmt: skip
    return done.stdout


def test_make_installs_agents_for_their_own_tests_only() -> None:
    assert "setup/agents.sh" in planned("agents")
    assert "pytest -n 2 -m agents" in planned("agents")
    # `make -n` would run the recipe of `test`, because a line of it contains $(MAKE).
    recipe = (ROOT / "Makefile").read_text().partition("\ntest:")[2].partition("\n\n")[0]
    assert "agents.sh" not in recipe
    assert 'pytest -m "not agents"' in recipe


def test_make_prove_passes_an_area_on() -> None:
    assert "-m proof --only security --output proof/results.json" in re.sub(
        r"[\s\\]+", " ", planned("prove", "ONLY=security")
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory to make an environment in, with locks that ask for nothing."""
    (tmp_path / "requirements-chat.lock").touch()
    (tmp_path / "requirements-weights.lock").touch()
    (tmp_path / "pyproject.toml").write_text(
        """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "sightline"
version = "0"
[tool.hatch.build.targets.wheel]
include = ["python"]
"""
    )
    return tmp_path


def make_environment(checkout: Path, seen: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Make one with the pip that is here: to unpack one takes longer than all the rest."""
    python = checkout / "python"
    packages = sysconfig.get_path("purelib", vars={"base": '"$3"', "platbase": '"$3"'})
    ours = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\n{sys.executable} "$@" --without-pip && echo {ours} >{packages}/here.pth\n'
    )
    python.chmod(0o755)
    command = ["sh", str(ROOT / "setup" / "venv.sh"), "chat", ".venv", str(python)]
    alone = {**os.environ, "PIP_NO_INDEX": "1", "PIP_RETRIES": "0"}
    return subprocess.Popen(command, cwd=checkout, env=alone, stderr=seen, start_new_session=True)


def test_what_a_failed_or_killed_set_up_leaves_is_removed(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "pyvenv.cfg").touch()  # killed before it could clean up
    (checkout / ".venv" / "half").touch()
    (checkout / "requirements-chat.lock").write_text(f"nothing-here==1 --hash=sha256:{'0' * 64}\n")
    making = make_environment(checkout)
    _, said = making.communicate(timeout=120)
    assert making.returncode != 0
    assert b"nothing-here" in said
    assert not (checkout / ".venv").exists()


def test_whoever_watches_is_told_each_step_of_a_set_up_and_how_far_it_is(checkout: Path) -> None:
    (checkout / "requirements-chat.lock").write_text(
        f"""pip=={metadata.version("pip")} --hash=sha256:{"0" * 64}
nothing-here==1 ; python_version < "3" --hash=sha256:{"0" * 64}
"""
    )
    screen, terminal = os.openpty()
    making = make_environment(checkout, terminal)
    os.close(terminal)
    assert making.wait(timeout=120) == 0
    with open(screen, "rb") as shown:  # noqa: PTH123 - a descriptor
        lines = shown.read1(10_000).decode().split("\r\n")
    assert [line.split("\r")[-1] for line in lines] == [
        "setting up .venv: packages and a model of 98 MB, about half a minute",
        "  an empty environment",
        "  packages, among them a model of 98 MB",
        "  packages: 2 of 2",
        "  sightline itself",
        "",
    ]
    assert (checkout / ".venv" / ".ready").exists()


def test_a_set_up_removes_the_distribution_under_its_older_name(checkout: Path) -> None:
    project = checkout / "pyproject.toml"
    current = project.read_text() + f'[project.scripts]\n{COMMAND} = "platform:main"\n'
    found = []
    for name in (COMMAND, NAME):
        project.write_text(current.replace(f'name = "{COMMAND}"', f'name = "{name}"'))
        _, said = make_environment(checkout).communicate(timeout=120)
        made = (checkout / ".venv" / "lib").glob("python*/site-packages/sightline*.dist-info")
        found.append([path.name for path in made])
        assert (checkout / ".venv" / "bin" / COMMAND).exists(), said
    assert found == [["sightline-0.dist-info"], ["sightline_context-0.dist-info"]]


@pytest.mark.parametrize("fails", [False, True])
def test_uv_unpacks_a_lock_and_where_it_fails_pip_does(fails: bool, checkout: Path) -> None:
    make_environment(checkout).communicate(timeout=120)
    uv = checkout / ".venv" / "uv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(
        f'#!/bin/sh\necho "$VIRTUAL_ENV: $*" >>{checkout}/asked\n! {str(fails).lower()}\n'
    )
    uv.chmod(0o755)
    lock = f"nothing-here==1 --hash=sha256:{'0' * 64}\n"
    (checkout / "requirements-bedrock.lock").write_text(lock)
    done = subprocess.run(
        ["sh", str(ROOT / "setup" / "venv.sh"), "bedrock", ".venv", sys.executable],
        cwd=checkout, capture_output=True, text=True, check=False,
        env={**os.environ, "PIP_NO_INDEX": "1"},
    )  # fmt: skip
    asked = (checkout / "asked").read_text().splitlines()
    assert asked[-1] == (
        ".venv: -q pip install --require-hashes --no-deps -r requirements-bedrock.lock"
    )
    assert ("nothing-here" in done.stderr) is fails  # by pip, which looks for it nowhere
    assert (done.returncode != 0) is fails
    assert (checkout / ".venv" / ".bedrock").exists() is not fails
    assert not uv.exists()


@pytest.mark.parametrize(
    ("signal_", "slow"), [(signal.SIGINT, "weights"), (signal.SIGTERM, "chat")]
)
def test_an_interrupted_set_up_leaves_nothing(
    signal_: signal.Signals, slow: str, checkout: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/slow-1-py3-none-any.whl"
        lock = f"slow @ {address} --hash=sha256:{'0' * 64}\n"
        (checkout / f"requirements-{slow}.lock").write_text(lock)
        making = make_environment(checkout)
        silent.settimeout(120)
        with silent.accept()[0]:  # it is downloading now, and would for ever
            os.killpg(making.pid, signal_)
            _, said = making.communicate(timeout=120)
    assert making.returncode == 128 + signal_
    assert said.startswith(b"setting up .venv: ")
    assert b"environment" not in said  # nobody watches
    assert not (checkout / ".venv").exists()


def test_an_interrupted_set_up_shows_no_traceback(checkout: Path) -> None:
    python = checkout / "python"
    interrupted = "import os, signal, time; os.killpg(0, signal.SIGINT); time.sleep(60)"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{interrupted}'\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "setup" / "venv.sh"), "chat", ".venv", str(python)],
        cwd=checkout, stderr=subprocess.PIPE, start_new_session=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr.splitlines()[1:] == []
    assert not (checkout / ".venv").exists()


def test_a_directory_that_is_no_environment_is_left_alone(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "letters").touch()
    making = make_environment(checkout)
    _, said = making.communicate(timeout=120)
    assert making.returncode == 1
    assert b"name another with VENV=" in said
    assert (checkout / ".venv" / "letters").exists()


def test_a_bare_root_is_only_made_where_it_can_be(tmp_path: Path) -> None:
    done = Machine(tmp_path, set()).run("sh", ROOT / "setup" / "bare.sh")
    assert done.returncode == 77
    assert done.stderr == "bare bookworm: cannot be done here: only root can make a root\n"


def test_a_bare_run_of_nothing_is_refused(tmp_path: Path) -> None:
    done = Machine(tmp_path, set()).run("sh", ROOT / "setup" / "bare.sh", ONLY="chats")
    assert done.returncode == 1
    assert done.stderr == "bare bookworm: FAILED: ONLY is chat or test, WHO is root or user\n"


@pytest.mark.parametrize(
    ("bare", "test", "outcome"), [(0, 0, 0), (77, 0, 0), (1, 0, 1), (0, 2, 2), (1, 2, 2)]
)
def test_ci_fails_with_the_bare_machine_or_the_tests_and_tells_of_both(
    bare: int, test: int, outcome: int, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, set())
    machine.has("make", f'echo "$*" >>{machine.record}; read -r _ <{tmp_path}/told; exit {test}')
    os.mkfifo(tmp_path / "told")
    for tool in ("bash", "cat", "dirname", "mktemp"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "setup").mkdir()
    (tmp_path / "setup" / "system.sh").touch()
    (tmp_path / "setup" / "bare.sh").write_text(
        f"echo $ONLY: why; echo >{tmp_path}/told; exit {bare}"
    )
    done = machine.run("bash", tmp_path / ".ci" / "run", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (outcome, "chat: why\n")
    assert machine.asked() == ["test"]
    assert not list(tmp_path.glob("tmp.*"))


@pytest.mark.parametrize(
    ("given", "handed"),
    [
        ((), "SUITE= ROOT= ONLY= WHO="),
        (("SUITE=sid", "ONLY=chat", "WHO=user"), "SUITE=sid ROOT= ONLY=chat WHO=user"),
    ],
)
def test_make_hands_on_what_it_is_given_and_none_of_its_own(
    given: tuple[str, ...], handed: str
) -> None:
    """`AS`, the assembler, and other names of make's would be taken for the user's."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("M")}
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "bare", *given],
        cwd=ROOT, capture_output=True, text=True, check=True, env=ours,
    )  # fmt: skip
    assert done.stdout == f"{handed} sh setup/bare.sh\n"
