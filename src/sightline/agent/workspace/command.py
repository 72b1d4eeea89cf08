"""Run a command for a limited time, keep a limited part of what it says, leave nothing running.

The command has a process group of its own. It ends with the command: what it started in
the background is ended as well, and a command that does not end is made to. Its leader
is waited for last of all, so that no signal can reach a stranger. On Linux the leader is a
`reaper`, which also ends what left the group.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

import msgspec

from sightline.context.messages.redact import redact, redact_cut

Ended: TypeAlias = Literal["exited", "timed out", "stopped", "not started"]

HEAD: Final = 32 * 1024
TAIL: Final = 32 * 1024
_TICK_S: Final = 0.05
_GRACE_S: Final = 5.0  # a reaper gives a command a second, and then ends what is left
_CHUNK: Final = 64 * 1024
# ECMA-48 §5.4: control sequences, in their 7-bit and their 8-bit form. They go whole; then what
# could begin one, for what is left on both sides of a sequence that went may be another.
_ANSI: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[@-Z\\-_]"
    r"|[\x1b\x80-\x9f]"
)
_SHELL: Final = ("/bin/sh", "-c")


class Finished(msgspec.Struct, frozen=True):
    """What became of a command. `exit_code` is negative for a signal."""

    ended: Ended
    exit_code: int
    output: str
    seconds: float


def run_command(
    command: str,
    directory: Path,
    *,
    timeout_s: float,
    stop: threading.Event,
    env: Mapping[str, str],
    output: Output | None = None,
    inside: Sequence[str] = (),
    given: bytes | None = None,
    errors: Output | None = None,
) -> Finished:
    """Run a shell command to its end, until the time is up, or until `stop` is set. Blocks.

    It has the variables of `env` and no others. What is kept of its output has no known key;
    who gives an `output` can read in it while the command runs. `inside` is a program, with its
    arguments, that runs the shell: a sandbox. `given` is what it can read from stdin; with
    `errors`, what it writes to stderr is kept there and not with the rest.
    """
    output = output or Output()
    begun = time.monotonic()
    process = subprocess.Popen(
        [*leader(), *inside, *_SHELL, command],
        cwd=directory, env=env,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors is None else subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    streams = {
        stream.fileno(): kept
        for stream, kept in ((process.stdout, output), (process.stderr, errors))
        if stream is not None and kept is not None
    }
    if process.stdin is not None and given is not None:
        threading.Thread(target=_feed, args=(process.stdin, given), daemon=True).start()
    try:
        ended = _follow(process, streams, begun + timeout_s, stop)
    finally:
        _end(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()
    return Finished(ended, process.returncode, output.text(), round(time.monotonic() - begun, 2))


def _feed(stream: IO[bytes], given: bytes) -> None:
    """Write what a command can read, as far as it reads."""
    with contextlib.suppress(OSError), stream:
        stream.write(given)


def _follow(
    process: subprocess.Popen[bytes],
    streams: dict[int, Output],
    deadline: float,
    stop: threading.Event,
) -> Ended:
    """Read until the command is over, or must be."""
    pause_s = 0.001
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        while True:
            over = is_over(process)
            if streams and (over or selector.select(_TICK_S)):
                for stream in [one for one, output in streams.items() if not output.take(one)]:
                    selector.unregister(stream)
                    del streams[stream]
            elif not over and not streams:
                # Its output is closed and it goes on: only its end is left to wait for.
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, _TICK_S)
            if over:
                return "exited"
            if stop.is_set():
                return "stopped"
            if time.monotonic() >= deadline:
                return "timed out"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: politely if its leader still runs, then in any case."""
    if not is_over(process):
        kill_group(process, signal.SIGTERM)
        limit = time.monotonic() + _GRACE_S
        while not is_over(process) and time.monotonic() < limit:
            time.sleep(_TICK_S)
    kill_group(process)


class Output:
    """The beginning and the end of a stream, and how much was between. For any two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    @property
    def size(self) -> int:
        """How many bytes have come."""
        return len(self._head) + self._tail_size + self._dropped

    def take(self, stream: int) -> bool:
        """Take what is there now, but no more than a command can say for ever; False at the end."""
        for _ in range(64):
            try:
                data = os.read(stream, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            with self._lock:
                self._add(data)
        return True

    def text(self) -> str:
        """What was kept, as text without control sequences."""
        with self._lock:
            head, tail, dropped = self._head, b"".join(self._tail), self._dropped
        cut = max(0, len(tail) - TAIL)
        tail = tail[cut:]
        between = f"\n[… {dropped + cut:,} bytes left out …]\n" if dropped + cut else ""
        if not between:
            return redact(_plain(head + tail))
        return redact_cut(_plain(head), _plain(tail), between)

    def end(self, size: int) -> str:
        """The last lines of what has come, of so many bytes at most."""
        with self._lock:
            kept = (self._head if not self._dropped else b"") + b"".join(self._tail)
        if len(kept) <= size:
            return redact(_plain(kept))
        # What is cut may begin within a line, or within a key.
        return redact_cut("", _plain(kept[-size:].partition(b"\n")[2] or kept[-size:]), "")

    def _add(self, data: bytes) -> None:
        room = HEAD - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= TAIL:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone


def _plain(data: bytes) -> str:
    """Take the sequences for a terminal out of a text: nothing that begins one is left."""
    return _ANSI.sub("", data.decode(errors="replace"))


# The process group of a command. Where the system can look at a process without taking it away
# (`waitid`), the leader is left to be waited for, so the group's number stays ours. Elsewhere it
# is taken away when it is over, and a signal that finds nobody is no error.

_REAPER: Final = Path(__file__).with_name("reaper.py")


def leader() -> tuple[str, ...]:
    """Give the reaper that is handed a command; nothing where there is none."""
    if sys.platform != "linux" or not sys.executable:
        return ()
    # Isolated: neither the directory nor a variable can add to what it imports.
    return (sys.executable, "-I", "-S", str(_REAPER))


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether the leading process of a command has ended."""
    if process.returncode is None and hasattr(os, "waitid"):
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, options) is not None
    return process.poll() is not None


def kill_group(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGKILL) -> None:
    """Signal everybody in the group that the process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


# Which variables a command is given: those that programs need to work, and those that the user
# names. Everything else is withheld, because a key can have any name. A variable is on the list if
# a shell, a locale, a compiler or a language's tools look for it and its value is a path, a
# version or a switch; an index or a proxy may have a password in its address and is not.

_TABLE: Final = """
    PATH HOME USER LOGNAME SHELL HOSTNAME LANG LANGUAGE TZ TMPDIR TEMP TMP CI
    VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONWARNINGS PYTHONHASHSEED PYTHONUNBUFFERED
    PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 PYENV_ROOT PYENV_VERSION UV_CACHE_DIR
    CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL MAMBA_ROOT_PREFIX
    POETRY_HOME PIPX_HOME PIPX_BIN_DIR PIP_CACHE_DIR
    NODE_PATH NODE_ENV NODE_OPTIONS NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME PNPM_HOME BUN_INSTALL
    DENO_DIR DENO_INSTALL
    GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOOS GOARCH CGO_ENABLED
    CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS RUST_BACKTRACE
    JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME ANDROID_HOME
    ANDROID_SDK_ROOT SDKMAN_DIR KOTLIN_HOME SCALA_HOME
    GEM_HOME GEM_PATH RBENV_ROOT RBENV_VERSION BUNDLE_PATH PERL5LIB LUA_PATH LUA_CPATH
    DOTNET_ROOT GHCUP_INSTALL_BASE_PREFIX OPAMROOT OPAM_SWITCH_PREFIX JULIA_DEPOT_PATH
    ELIXIR_HOME ERL_LIBS R_HOME R_LIBS_USER SWIFT_PATH
    CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS AR LD MAKEFLAGS MAKELEVEL PKG_CONFIG_PATH
    CMAKE_PREFIX_PATH CMAKE_GENERATOR LD_LIBRARY_PATH DYLD_LIBRARY_PATH LIBRARY_PATH CPATH
    MANPATH INFOPATH DEVELOPER_DIR SDKROOT SOURCE_DATE_EPOCH CUDA_HOME CUDA_VISIBLE_DEVICES
    OMP_NUM_THREADS
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY
    ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR
    XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_RUNTIME_DIR XDG_DATA_DIRS
    XDG_CONFIG_DIRS
"""
_NAMES: Final = frozenset(_TABLE.split())
_LOCALE: Final = re.compile(r"LC_[A-Z]+")
# Commands talk to a program here: no colours, no pager, no prompt.
_QUIET: Final = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def passed(given: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """Choose what a command is given of an environment; `also` are names that the user added."""
    kept = {name: value for name, value in given.items() if _is_passed(name, also)}
    return {**kept, **_QUIET}


def withheld_by_name(
    given: Iterable[str], also: Collection[str], texts: Iterable[str]
) -> list[str]:
    """Find the variables that a command was not given and that it, or its output, names."""
    named = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", " ".join(texts)))
    unset = (name for name in given if not _is_passed(name, also) and name not in _QUIET)
    return sorted(named.intersection(unset))


def _is_passed(name: str, also: Collection[str]) -> bool:
    return name in _NAMES or name in also or _LOCALE.fullmatch(name) is not None
