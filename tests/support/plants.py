"""Commands that plant a program for git to run later, and the git commands that would run it.

Each row of `plants.json` is a shell script. It runs in the root of a repository with two commits
and knows the path of an executable, `$PAYLOAD`, which creates a file outside the repository.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sightline.agent.workspace import Workspace
from sightline.testing import connect
from support.traps import nobodys_environment

__all__ = ["PLANTS", "Plant", "Target", "plant_in_sandbox", "plant_plainly", "use_git"]

_DATA = Path(__file__).parents[1] / "agent" / "workspace" / "plants.json"
# As variables: a sandbox has a /tmp of its own, without the home of a test.
_USER = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Ana"), ("EMAIL", "ana@example.org"))
}
_USES = (
    ("status",),
    ("diff",),
    ("log", "--stat"),
    ("commit", "-a", "--allow-empty", "-m", "later"),
    ("submodule", "status"),
)


class Plant(msgspec.Struct, frozen=True):
    """One way to plant a program."""

    name: str
    script: str
    author: str
    works_unprotected: bool


PLANTS = msgspec.json.decode(_DATA.read_bytes(), type=tuple[Plant, ...])


@dataclass(frozen=True, slots=True)
class Target:
    """A repository to plant in, and the file that exists once the payload ran."""

    root: Path
    caught: Path
    environment: dict[str, str]

    @classmethod
    def create(cls, place: Path) -> Target:
        """Make a repository with two commits in a new directory."""
        root, caught = place / "repository", place / "caught"
        (root / "sub").mkdir(parents=True)
        payload = root / "payload.sh"
        payload.write_text(f"#!/bin/sh\ntouch '{caught}'\n")
        payload.chmod(0o755)
        environment = {**nobodys_environment(place), **_USER, "PAYLOAD": str(payload)}
        target = cls(root, caught, environment)
        target.git("init", "-q", "-b", "main")
        for text in ("one\n", "two\n"):
            (root / "a.txt").write_text(text)
            (root / "sub" / "kept.txt").write_text(text)
            target.git("add", ".")
            target.git("commit", "-q", "-m", text.strip())
        return target

    def git(self, *arguments: str, at: Path | None = None) -> int:
        """Run git as its user does. Returns the exit code, or -1 if git does not end."""
        try:
            return subprocess.run(
                ["git", *arguments], cwd=at or self.root, env=self.environment, timeout=30,
                stdin=subprocess.DEVNULL, capture_output=True, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1


def plant_plainly(plant: Plant, target: Target) -> None:
    """Run a script without a sandbox: the control."""
    subprocess.run(
        ["/bin/sh", "-c", plant.script], cwd=target.root, env=target.environment, timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    target.caught.unlink(missing_ok=True)


async def plant_in_sandbox(plant: Plant, target: Target) -> bool:
    """Run a script as a command of a workspace. Returns True if the user's git runs the payload."""
    workspace = Workspace(
        target.root, sandbox="require", env=target.environment, also_passed=["PAYLOAD", *_USER]
    )
    async with connect(workspace.app) as client:
        await client.invoke("/", "run", command=plant.script)
        ran = use_git(target)
    await workspace.close()
    return ran


def use_git(target: Target) -> bool:
    """Run the user's git commands, in the root and below it. Returns True if the payload ran."""
    for use in _USES:
        target.git(*use)
    for directory, names, _ in os.walk(target.root):
        names[:] = [name for name in names if name != ".git"]
        if Path(directory) != target.root:
            target.git("status", at=Path(directory))
    return target.caught.exists()
