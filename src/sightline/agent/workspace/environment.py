"""Which variables a command is given: those that programs need to work, and those you name.

Everything else is withheld, because a key can have any name. A variable is on the list if a
shell, a locale, a compiler or a language's tools look for it and its value is a path, a
version or a switch; an index or a proxy may have a password in its address and is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

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
_PLAIN: Final = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def passed(given: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """Choose what a command is given of an environment; `also` are names that the user added."""
    kept = {name: value for name, value in given.items() if _is_passed(name, also)}
    return {**kept, **_PLAIN}


def withheld_by_name(
    given: Iterable[str], also: Collection[str], texts: Iterable[str]
) -> list[str]:
    """Find the variables that a command was not given and that it, or its output, names."""
    named = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", " ".join(texts)))
    unset = (name for name in given if not _is_passed(name, also) and name not in _PLAIN)
    return sorted(named.intersection(unset))


def _is_passed(name: str, also: Collection[str]) -> bool:
    return name in _NAMES or name in also or _LOCALE.fullmatch(name) is not None
