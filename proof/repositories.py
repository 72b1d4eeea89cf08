"""What a repository can do to whoever looks at it: every trap of `support.traps`, looked at."""

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
    trial.control(
        started and held, f"a plain git status starts {started} programs, and is held {held} times"
    )
    trial.note("ways", f"{len(TRAPS)}, of them {sum(trap.starts for trap in TRAPS)} to start one")


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
