"""Repositories that start a program, or hold whoever reads them: by what, and how it gets there.

A `Trap` is planted in a new directory. `starts` is true of those that name a program, which
touches a file when it runs; the others are pipes, loops and sizes that a reader waits for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TRAPS", "Planted", "Trap", "nobodys_environment", "ordinary", "run_git"]

_IDENTITY = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "gc.auto=0")


@dataclass(frozen=True, slots=True)
class Planted:
    """A directory to be looked at, and the file that is there once the trap was sprung."""

    root: Path
    caught: Path


@dataclass(frozen=True, slots=True)
class Trap:
    """One way to start a program or to hold a reader."""

    name: str
    starts: bool
    plant: Callable[[Path], Planted]


def run_git(at: Path, *arguments: str) -> str:
    """Run git as its user does, with nobody's settings."""
    done = subprocess.run(
        ["git", *_IDENTITY, *arguments], cwd=at, env=nobodys_environment(at),
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def ordinary(root: Path) -> Path:
    """Make a repository with one commit and one change."""
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    (root / "README.md").write_text("# Ducks\n")
    (root / "src").mkdir()
    (root / "src" / "pond.py").write_text("def duck(): ...\n")
    run_git(root, "add", ".")
    run_git(root, "commit", "-q", "-m", "first")
    (root / "README.md").write_text("# Many ducks\n")
    return root


def nobodys_environment(home: Path) -> dict[str, str]:
    """Make an environment in which git finds nothing of the user's."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


# What a configuration says so that git starts `{trap}`.
_MISSING = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
_REMOTE = _MISSING + '[remote "origin"]\n\tpromisor = true\n\turl = {url}\n'
_EXT = '[protocol "ext"]\n\tallow = always\n'
BY_CONFIGURATION = {
    "uploadpack": _REMOTE.replace("{url}", "/nowhere") + "\tuploadpack = {trap}\n",
    "uploadpack of a file URL": _REMOTE.replace("{url}", "file:///nowhere")
    + "\tuploadpack = {trap}\n",
    "core.sshCommand": _REMOTE.replace("{url}", "ssh://127.0.0.1/x")
    + "[core]\n\tsshCommand = {trap}\n",
    "ext::": _REMOTE.replace("{url}", "ext::{trap}") + _EXT,
    "insteadOf": _REMOTE.replace("{url}", "https://example.org/x")
    + _EXT + '[url "ext::{trap} "]\n\tinsteadOf = https://example.org/\n',
    "remote.vcs": _REMOTE.replace("{url}", "{trap}") + "\tvcs = ext\n" + _EXT,
    "core.gitProxy": _REMOTE.replace("{url}", "git://127.0.0.1/x")
    + "[core]\n\tgitProxy = {trap}\n",
    "core.fsmonitor": "[core]\n\tfsmonitor = {trap}\n",
    "filter.clean": '[filter "evil"]\n\tclean = {trap}\n',
    "filter.process": '[filter "evil"]\n\tprocess = {trap}\n\trequired = true\n',
    "core.hooksPath": "[core]\n\thooksPath = {hooks}\n",
}  # fmt: skip
# Named for other commands than those that we ask; they must do nothing either.
BY_ANOTHER_SETTING = {
    "core.pager": "[core]\n\tpager = {trap}\n[pager]\n\tstatus = true\n",
    "core.askPass": _REMOTE.replace("{url}", "http://127.0.0.1:1/x")
    + "[core]\n\taskPass = {trap}\n",
    "credential.helper": _REMOTE.replace("{url}", "http://127.0.0.1:1/x")
    + "[credential]\n\thelper = !{trap}\n",
    "core.alternateRefsCommand": "[core]\n\talternateRefsCommand = {trap}\n",
    "core.editor": "[core]\n\teditor = {trap}\n",
    "diff.external": "[diff]\n\texternal = {trap}\n",
    "diff.textconv": '[diff "evil"]\n\ttextconv = {trap}\n\tcommand = {trap}\n',
    "merge.driver": '[merge "evil"]\n\tdriver = {trap}\n',
    "gpg.program": "[gpg]\n\tprogram = {trap}\n[log]\n\tshowSignature = true\n",
    "alias": "[alias]\n\tstatus = !{trap}\n\tls-files = !{trap}\n",
    "trace2": "[trace2]\n\teventTarget = {trap}\n",
    "submodule.update": '[submodule "src"]\n\tupdate = !{trap}\n\turl = ext::{trap}\n',
    "status.submoduleSummary": "[status]\n\tsubmoduleSummary = true\n",
}


def _in_config(root: Path, text: str) -> Path:
    _append(root / ".git" / "config", text)
    return root


def _below_the_top(root: Path, text: str) -> Path:
    return _in_config(root, text) / "src"


def _included(root: Path, text: str) -> Path:
    (root / "evil.cfg").write_text(text)
    return _in_config(root, "[include]\n\tpath = ../evil.cfg\n")


def _included_if(root: Path, text: str) -> Path:
    (root / "evil.cfg").write_text(text)
    return _in_config(root, '[includeIf "gitdir:**"]\n\tpath = ../evil.cfg\n')


def _in_the_worktrees_config(root: Path, text: str) -> Path:
    (root / ".git" / "config.worktree").write_text(text)
    extension = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"
    return _in_config(root, extension)


def _in_a_bare_folder(root: Path, text: str) -> Path:
    """Plant what a plain clone brings along: a tracked folder that looks like a repository."""
    folder = root / "vendor"
    shutil.copytree(root / ".git", folder)
    (folder / "README.md").write_text("# Many ducks\n")
    shutil.copy(root / ".gitattributes", folder)
    _append(folder / "config", "[core]\n\tbare = false\n\tworktree = .\n" + text)
    return folder


def _by_a_git_file(root: Path, text: str) -> Path:
    (_in_config(root, text) / ".git").rename(root / "stuff")
    (root / ".git").write_text("gitdir: stuff\n")
    return root


def _by_a_link(root: Path, text: str) -> Path:
    (_in_config(root, text) / ".git").rename(root / "stuff")
    (root / ".git").symlink_to("stuff")
    return root


def _in_a_linked_worktree(root: Path, text: str) -> Path:
    linked = root.parent / "linked"
    run_git(root, "worktree", "add", "-q", str(linked))
    shutil.copy(root / ".gitattributes", linked)
    (linked / "README.md").write_text("# Many ducks\n")
    _in_config(root, text)
    return linked


def _as_submodule(root: Path, text: str) -> Path:
    above = ordinary(root.parent / "above")
    shutil.copytree(root, above / "pond", symlinks=True)
    run_git(above, "add", "pond")
    run_git(above, "commit", "-q", "-m", "pond")
    _append(above / "pond" / ".git" / "config", text)
    return above


def _as_the_submodule_itself(root: Path, text: str) -> Path:
    inner = _as_submodule(root, text + "[core]\n\tworktree = ../../../pond\n") / "pond"
    home = inner.parent / ".git" / "modules" / "pond"
    home.parent.mkdir()
    (inner / ".git").rename(home)
    (inner / ".git").write_text("gitdir: ../.git/modules/pond\n")
    return inner


DELIVERIES: dict[str, Callable[[Path, str], Path]] = {
    "the configuration": _in_config,
    "the configuration, seen from below": _below_the_top,
    "an include": _included,
    "a conditional include": _included_if,
    "a worktree's configuration": _in_the_worktrees_config,
    "a folder that looks bare": _in_a_bare_folder,
    "a .git file": _by_a_git_file,
    "a .git link": _by_a_link,
    "a linked worktree": _in_a_linked_worktree,
    "a submodule": _as_submodule,
    "within the submodule": _as_the_submodule_itself,
}


def _starting(text: str, deliver: Callable[[Path, str], Path]) -> Callable[[Path], Planted]:
    def plant(place: Path) -> Planted:
        caught, trap, hooks = place / "caught", place / "trap.sh", place / "hooks"
        trap.write_text(f"#!/bin/sh\ntouch {caught}\n")
        trap.chmod(0o755)
        hooks.mkdir()
        shutil.copy(trap, hooks / "post-index-change")
        root = ordinary(place / "repository")
        tree = run_git(root, "rev-parse", "HEAD^{tree}")
        (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
        said = text.replace("{trap}", str(trap)).replace("{hooks}", str(hooks))
        looked_at = deliver(root, said)
        if "promisor" in text:
            for found in place.rglob(f"objects/{tree[:2]}/{tree[2:]}"):
                found.unlink()
        return Planted(looked_at, caught)

    return plant


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _piped(name: str, *, config: str = "") -> Callable[[Path], Planted]:
    """Plant a pipe in the place of a file, which may be one that the configuration names."""

    def plant(place: Path) -> Planted:
        root = ordinary(place / "repository")
        path = root / name
        if path.is_file():
            path.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        _append_if(root / ".git" / "config", config.replace("{path}", str(path)))
        return Planted(root, place / "caught")

    return plant


def _append_if(path: Path, text: str) -> None:
    if text:
        _append(path, text)


def _pipe_for_git(place: Path) -> Planted:
    root = place / "repository"
    root.mkdir()
    (root / "README.md").write_text("# Ducks\n")
    os.mkfifo(root / ".git")
    return Planted(root, place / "caught")


def _pipe_in_a_nested_repository(place: Path) -> Planted:
    root = ordinary(place / "repository")
    nested = ordinary(root / "nested")
    (nested / ".git" / "HEAD").unlink()
    os.mkfifo(nested / ".git" / "HEAD")
    return Planted(root, place / "caught")


def _pipe_for_an_object(place: Path) -> Planted:
    root = ordinary(place / "repository")
    for loose in (root / ".git" / "objects").glob("??/*"):
        loose.unlink()
        os.mkfifo(loose)
    return Planted(root, place / "caught")


def _huge(name: str) -> Callable[[Path], Planted]:
    """Make a file as long as a disk, without the disk."""

    def plant(place: Path) -> Planted:
        root = ordinary(place / "repository")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        with (root / name).open("ab") as file:
            file.truncate(64 * 1024**3)
        return Planted(root, place / "caught")

    return plant


def _linked_to(name: str, target: str) -> Callable[[Path], Planted]:
    def plant(place: Path) -> Planted:
        root = ordinary(place / "repository")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
        return Planted(root, place / "caught")

    return plant


def _includes_itself(place: Path) -> Planted:
    root = ordinary(place / "repository")
    _append(root / ".git" / "config", "[include]\n\tpath = config\n")
    return Planted(root, place / "caught")


HOLDING: dict[str, Callable[[Path], Planted]] = {
    **{
        f"a pipe as {name}": _piped(name)
        for name in (
            ".gitignore", "src/.gitignore", ".gitattributes", ".gitmodules", ".git/index",
            ".git/config", ".git/HEAD", ".git/packed-refs", ".git/refs/heads/main",
            ".git/info/exclude", ".git/info/attributes", ".git/objects/info/alternates",
            ".git/commondir", ".git/shallow",
        )
    },
    "a pipe as an included configuration": _piped(
        "more.cfg", config="[include]\n\tpath = {path}\n"
    ),
    "a pipe as a worktree's configuration": _piped(
        ".git/config.worktree",
        config="[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n",
    ),
    "a pipe as core.excludesFile": _piped("rules", config="[core]\n\texcludesFile = {path}\n"),
    "a pipe as core.attributesFile": _piped(
        "rules", config="[core]\n\tattributesFile = {path}\n"
    ),
    "a pipe as .git": _pipe_for_git,
    "a pipe in a nested repository": _pipe_in_a_nested_repository,
    "a pipe for every object": _pipe_for_an_object,
    "an index of 64 GiB": _huge(".git/index"),
    "refs of 64 GiB": _huge(".git/packed-refs"),
    "exclude rules of 64 GiB": _huge(".git/info/exclude"),
    "a .gitignore of 64 GiB": _huge(".gitignore"),
    "a configuration of 64 GiB": _huge(".git/config"),
    "HEAD of 64 GiB": _huge(".git/HEAD"),
    "an index from a device": _linked_to(".git/index", "/dev/zero"),
    "exclude rules from a device": _linked_to(".git/info/exclude", "/dev/zero"),
    "a configuration from a device": _linked_to(".git/config", "/dev/zero"),
    "HEAD from a device": _linked_to(".git/HEAD", "/dev/zero"),
    "a .git that leads to itself": _linked_to("src/.git", ".git"),
    "a configuration that includes itself": _includes_itself,
}  # fmt: skip

TRAPS = (
    *(
        Trap(f"{name} by {way}", True, _starting(text, deliver))
        for name, text in BY_CONFIGURATION.items()
        for way, deliver in DELIVERIES.items()
    ),
    *(Trap(name, True, _starting(text, _in_config)) for name, text in BY_ANOTHER_SETTING.items()),
    *(Trap(name, False, plant) for name, plant in HOLDING.items()),
)
