"""Programs that a repository starts: when Sightline reads it, and after a sandboxed command.

Each trap of `support.traps` is read. Each script of `support.plants` is run as a command in the
sandbox, and then the user's git commands run outside of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from proof.claim import Claim, Trial
from sightline.agent.workspace import Workspace
from sightline.agent.workspace.sandbox import why_no_sandbox
from support.plants import PLANTS, Target, plant_in_sandbox, plant_plainly, use_git
from support.traps import TRAPS, Planted, Trap, nobodys_environment

# Git is given up after ten seconds; whoever waits for it all the same is held.
HELD_S = 8.0
LOOK_S = 0.3
PLAIN_S = 1.0


def looked_at(trial: Trial) -> None:
    """Look at every repository twice, as two turns do; then ask git plainly."""
    started = held = 0
    for trap in _chosen(trial):
        place = trial.directory("trap")
        planted = trap.plant(place)
        in_time = _look(planted.root)
        trial.check(in_time, f"{trap.name}: held")
        trial.check(not planted.caught.exists(), f"{trap.name}: started a program")
        ended = _plain_status(planted)
        started += planted.caught.exists()
        held += not trap.starts and not ended
        shutil.rmtree(place)
    by_commands, rows = _plant(trial)
    trial.control(
        started and held and by_commands == rows,
        f"a plain git status starts {started} programs, and is held {held} times; "
        f"{by_commands} of {rows} commands without a sandbox have git run a program",
    )
    trial.note("ways", f"{len(TRAPS)}, of them {sum(trap.starts for trap in TRAPS)} to start one")


def _plant(trial: Trial) -> tuple[int, int]:
    """Run scripts in the sandbox, and then git as the user.

    Returns the number of programs that git runs without the sandbox, and the number of scripts.
    """
    if problem := why_no_sandbox():
        trial.note("planted", f"not tried: {problem}")
        return 0, 0
    rows = [plant for plant in PLANTS if plant.works_unprotected]
    rows = trial.random.sample(rows, min(len(rows), trial.times(len(rows), least=10)))
    started = 0
    for plant in rows:
        place = trial.directory("plant")
        (control := place / "control").mkdir()
        (guarded := place / "guarded").mkdir()
        plant_plainly(plant, target := Target.create(control))
        started += use_git(target)
        ran = asyncio.run(plant_in_sandbox(plant, Target.create(guarded)))
        trial.check(not ran, f"{plant.name}: git ran the program")
        shutil.rmtree(place)
    blind = sum(plant.author == "blind" for plant in rows)
    trial.note("planted", f"{len(rows)} scripts, {blind} of them by an author who saw no repair")
    return started, len(rows)


def _chosen(trial: Trial) -> list[Trap]:
    starting = [trap for trap in TRAPS if trap.starts]
    holding = [trap for trap in TRAPS if not trap.starts]
    return [
        trap
        for kind, least in ((starting, 16), (holding, 10))
        for trap in trial.random.sample(kind, min(len(kind), trial.times(len(kind), least=least)))
    ]


def _look(root: Path) -> bool:
    """Look twice; False if somebody who waits for that has to wait long."""
    workspace = Workspace(root, look_s=LOOK_S)

    def look() -> None:
        workspace.look()
        workspace.look()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(HELD_S)
    in_time = not looking.is_alive()
    asyncio.run(workspace.close())
    return in_time


def _plain_status(planted: Planted) -> bool:
    """Run `git status` as a user does; False if it does not end."""
    asked = subprocess.Popen(
        ["git", "status"], cwd=planted.root, env=nobodys_environment(planted.root),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        asked.wait(PLAIN_S)
    except subprocess.TimeoutExpired:
        return False
    else:
        return True
    finally:
        # What it started is in its group, and may be there after its end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.wait()


CLAIMS = (
    Claim("repositories", "a repository starts no program and holds nobody who looks at it",
          looked_at),
)  # fmt: skip
