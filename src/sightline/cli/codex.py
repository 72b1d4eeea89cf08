"""Leads Codex to another address by a profile file, never by an argument.

Other users of a machine can read arguments. So a file of `CODEX_HOME` that only its owner can read
has the address as long as Codex runs, and `-p` names that file. Codex stores what its user decides
(a trusted directory, a model) in the profile that it runs with. These settings are moved to the
file that would have received them. Where no profile can be used, `CODEX_HOME` is a directory of
links with one file replaced.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from platformdirs import user_state_path

from sightline.agent.bridge import is_alive
from sightline.cli.config import toml_value
from sightline.cli.inspect import private, write_whole
from sightline.cli.out import notice
from sightline.errors import InvalidInput

VENDOR: Final = "https://api.openai.com/v1"
SIGNED_IN: Final = "https://chatgpt.com/backend-api/codex"
CONFIG: Final = "config.toml"
# Each value of nested tables by its path.
Settings: TypeAlias = dict[tuple[str, ...], Any]
# Commands of Codex 0.169 that send no request to a model, and those that do and reject `-p`.
_LOCAL: Final = "login logout mcp plugin completion update sandbox doctor apply a features help"
_WITHOUT_PROFILE: Final = "agents app-server cloud exec-server mcp-server remote-control"
_TAKES_VALUE: Final = (
    "-c --config -p --profile -m --model -s --sandbox -C --cd -a --ask-for-approval -i --image "
    "--enable --disable --add-dir --remote --remote-auth-token-env --local-provider"
)
_OPTION: Final = re.compile(r"(?:-([cp])=?|--(config|profile)(?:=|$))(.*)", re.DOTALL)
_LEFT: Final = re.compile(r"(?:sightline|codex)-([0-9a-f]{8})(?:\.config\.toml)?")


def codex_way(program: Sequence[str]) -> dict[str, str]:
    """Return where Codex would have gone, as the variable that others heed would say it."""
    if not _is_codex(program):
        return {}
    config = _config(program)
    found = config.get(_base_url(config))
    if found is None and len(_base_url(config)) == 1:
        found = SIGNED_IN if _is_signed_in() else VENDOR
    return {"OPENAI_BASE_URL": found} if isinstance(found, str) else {}


def _base_url(config: Settings) -> tuple[str, ...]:
    """Return the setting that has the address of the chosen provider."""
    provider = str(config.get(("model_provider",), "openai"))
    usual = ("openai_base_url",)
    return usual if provider == "openai" else ("model_providers", provider, "base_url")


@contextmanager
def led_codex(program: Sequence[str], address: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the command and variables that lead Codex to an address. Delete its file at the end.

    Other programs, and commands of Codex that send no request, are yielded unchanged. Raises
    InvalidInput if the file cannot be written.
    """
    home, command = _home(), _command(program)
    if not _is_codex(program) or command in _LOCAL.split():
        yield [*program], {}
        return
    number, state = f"{os.getpid():08x}", user_state_path("sightline", appauthor=False)
    with suppress(OSError):
        if not os.environ.get("CODEX_HOME"):
            home.mkdir(mode=0o700, exist_ok=True)  # as Codex does
        for left in (*home.glob(f"sightline-*.{CONFIG}"), *state.glob("codex-*")):
            pid = _LEFT.fullmatch(left.name)
            if pid and (pid[1] == number or not is_alive(int(pid[1], 16))):
                is_folder = left.is_dir() and not left.is_symlink()
                shutil.rmtree(left) if is_folder else left.unlink()
    words, profile, settings = _taken(program, address)
    target = home / (f"{profile}.{CONFIG}" if profile else CONFIG)
    folder, name = home, f"sightline-{number}"
    if is_overlay := command in _WITHOUT_PROFILE.split() or not os.access(home, os.W_OK):
        folder, name = state / f"codex-{number}", profile
    file = folder / (f"{name}.{CONFIG}" if name else CONFIG)
    settings = (_settings(target) if profile or is_overlay else {}) | settings
    try:
        if is_overlay:
            folder.mkdir(mode=0o700, parents=True)
            for entry in home.resolve().iterdir():
                if entry.name != file.name:
                    (folder / entry.name).symlink_to(entry)
        with open(file, "x", encoding="utf-8", opener=private) as stream:
            stream.write(functools.reduce(_with_value, settings.items(), ""))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"Codex cannot be given its address: {error}") from error
    words[1:1] = ["-p", name] if name else []
    try:
        yield words, {"CODEX_HOME": str(folder)} if is_overlay else {}
    finally:
        _store(target, settings, _settings(file))
        file.unlink(missing_ok=True)
        if is_overlay:
            for entry in folder.iterdir():  # Codex created it among the links.
                if not entry.is_symlink() and not (home / entry.name).is_dir():
                    with suppress(OSError):
                        shutil.move(entry, home / entry.name)
            shutil.rmtree(folder, ignore_errors=True)


def _taken(program: Sequence[str], address: str) -> tuple[list[str], str, Settings]:
    """Return a command without its profile, the profile's name, and the settings of our file.

    Codex prefers an argument to a profile. So arguments that our settings replace move to them.
    """
    # Codex may compress requests with zstd, which the gateway could not read.
    ours: Settings = {("features", "enable_request_compression"): False}
    ours[_base_url(_config(program))] = address
    words, profile, moved = [*program], "", Settings()
    for at, count, kind, text in reversed(_options(program)):
        if kind == "p":
            profile = text
        elif ours.keys() & (setting := _setting(text)).keys():
            moved = setting | moved
        else:
            continue
        del words[at : at + count]
    return words, profile, moved | ours


def _store(target: Path, written: Settings, now: Settings) -> None:
    """Add what Codex changed in our file to the file that it would have changed without us."""
    for path, value in now.items():
        if written.get(path) != value:
            try:
                text = target.read_text("utf-8") if target.exists() else ""
                write_whole(iter([_with_value(text, (path, value))]), target)
            except (OSError, ValueError) as error:
                name = ".".join(map(_name, path))
                notice(f"{target} lacks {name} = {toml_value(value)}, which Codex stored: {error}")


def _with_value(text: str, setting: tuple[tuple[str, ...], Any]) -> str:
    """Return a TOML text with one setting. Its other lines stay. Raises ValueError if it cannot."""
    (*table, key), value = setting
    text = text if text.endswith("\n") else f"{text}\n"
    head = f"[{'.'.join(map(_name, table))}]\n" if table else ""
    line = f"{_name(key)} = {toml_value(value)}\n"
    section = re.search(rf"^{re.escape(head)}(?:(?!\[).*\n)*", text, re.MULTILINE)
    old = section[0] if section else ""
    new, count = re.subn(rf"(?m)^{re.escape(_name(key))} *=.*\n", lambda _: line, old, count=1)
    if not count:
        new = f"{head}{line}{old.removeprefix(head)}"
    new = text.replace(old, new, 1) if section else f"{text}\n{new}"
    # Other forms of a table or a value are found by reading the result.
    if _leaves(tomllib.loads(new)) != _leaves(tomllib.loads(text)) | dict([setting]):
        raise ValueError("Its form cannot be changed.")
    return new


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def _options(program: Sequence[str]) -> list[tuple[int, int, str, str]]:
    """List the settings and the profile of a command: place, count of words, c or p, text."""
    words = [*takewhile(lambda word: word != "--", program), ""]
    found = ((at, _OPTION.fullmatch(word)) for at, word in enumerate(words))
    return [
        (at, 1 if one[3] else 2, one[1] or one[2][0], one[3] or words[at + 1])
        for at, one in found
        if one
    ]


def _command(program: Sequence[str]) -> str:
    """Return the subcommand, or the prompt, or nothing."""
    pairs = pairwise(program)
    return next(
        (w for before, w in pairs if w[:1] != "-" and before not in _TAKES_VALUE.split()), ""
    )


def _is_codex(program: Sequence[str]) -> bool:
    return bool(program) and Path(program[0]).name == "codex"


def _home() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def _is_signed_in() -> bool:
    """Return True if its user signed in to ChatGPT and gave no key."""
    login: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):
        login = {**json.loads((_home() / "auth.json").read_text("utf-8"))}
    mode = login.get("auth_mode") or ("apikey" if login.get("OPENAI_API_KEY") else "chatgpt")
    return bool(login.get("tokens")) and mode != "apikey" and not os.environ.get("CODEX_API_KEY")


def _config(program: Sequence[str]) -> Settings:
    """Read the settings of its file, of its profile and of its command line."""
    config = _settings(_home() / CONFIG)
    for _, _, kind, text in sorted(_options(program), key=lambda option: option[2] == "c"):
        config |= _settings(_home() / f"{text}.{CONFIG}") if kind == "p" else _setting(text)
    return config


def _setting(text: str) -> Settings:
    """Parse `KEY=VALUE`. A value that is not TOML is a string, as in Codex."""
    key, _, value = text.partition("=")
    for line in (text, f"{key} = {toml_value(value.strip())}"):
        with suppress(tomllib.TOMLDecodeError):
            return _leaves(tomllib.loads(line))
    return {}


def _settings(path: Path) -> Settings:
    with suppress(OSError, ValueError):
        return _leaves(tomllib.loads(path.read_text("utf-8")))
    return {}


def _leaves(config: Mapping[str, Any], table: tuple[str, ...] = ()) -> Settings:
    found: Settings = {}
    for key, value in config.items():
        path = (*table, key)
        found |= _leaves(value, path) if isinstance(value, Mapping) else {path: value}
    return found
