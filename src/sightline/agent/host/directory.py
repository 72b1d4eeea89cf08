"""The current directory in a host: the workspace app, what its files tell, what edits did to it.

The workspace is an app of our own: its reads need no approval. Files that say how to work here
are followed once the user agreed, and read anew before each turn. What a turn does to files is kept
as it happens, so that it can be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sightline.agent.host.apps import end_task
from sightline.agent.host.session import Current
from sightline.agent.host.stage import HostStage
from sightline.agent.workspace.guidance import Guidance, find_guidance, instructions_text
from sightline.config import Settings
from sightline.config.load import user_file
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import checkpoints_path, expanded
from sightline.errors import NotFound, SightlineError
from sightline.events import HostEvent, Noticed
from sightline.slop.hub.hub import Hub

if TYPE_CHECKING:
    from sightline.agent.workspace.changes import FileChange
    from sightline.agent.workspace.checkpoints import Checkpoints, Restoration
    from sightline.agent.workspace.workspace import Workspace


# Waiting for a command and stopping it are the model's as starting it was: nobody is asked again.
_READS: Final = ("read", "search", "read_content", "wait", "stop")
_COMMANDS: Final = ("run", "wait")


class HostDirectory:
    """The directory that a host works in; nothing of it is shown until it is opened.

    `current` gives the session that is open and its turn, `running` the same only while one runs.
    `invoke_s` is how long actions of our own apps may take, by app.
    """

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        stage: HostStage,
        env: Mapping[str, str],
        tell: Callable[[HostEvent], None],
        current: Callable[[], Current],
        running: Callable[[], Current | None],
    ) -> None:
        self.invoke_s: dict[str, float] = {}
        self._settings = settings
        self._ledger = ledger
        self._stage = stage
        self._env = env
        self._tell = tell
        self._current = current
        self._running = running
        self._workspace: Workspace | None = None
        self._guidance: tuple[Guidance, Guidance] | None = None

    def share(self, other: HostDirectory) -> None:
        """Work in what another host has opened."""
        self._workspace, self.invoke_s = other._workspace, other.invoke_s

    async def open(self, hub: Hub, stack: AsyncExitStack) -> None:
        """Show the directory as an app; its reads need no approval, it is our own."""
        from sightline.agent.workspace.workspace import APP_ID, MAX_WAIT_S, Workspace

        chosen = self._settings.workspace
        workspace = await asyncio.to_thread(
            Workspace, Path.cwd(), env=self._env, also_passed=chosen.env, wait_s=chosen.wait_s,
            max_run_s=chosen.max_run_s, sandbox=chosen.sandbox,
            writable=[expanded(Path(path)) for path in chosen.writable],
            tell=lambda text: self._tell(Noticed(code="run_ended", message=text)),
        )  # fmt: skip
        self.invoke_s[APP_ID] = MAX_WAIT_S + self._settings.limits.invoke_s
        stack.push_async_callback(workspace.close)
        hub.add(APP_ID, workspace.dial, own=True)
        stack.push_async_callback(hub.remove, APP_ID)
        stack.push_async_callback(end_task, asyncio.create_task(workspace.watch()))
        self._stage.trust(APP_ID, _READS, _COMMANDS)
        self._stage.plan_with(workspace)
        workspace.on_change = partial(self._keep_changes, asyncio.get_running_loop())
        self._workspace = workspace
        if self._settings.workspace.instructions != "never":
            await asyncio.to_thread(self._read_guidance)

    async def look_around(self, hub: Hub) -> None:
        """See the directory as it is now, before the first request of a turn is made."""
        if self._workspace is None:
            return
        if self._guidance is not None:
            await asyncio.to_thread(self._read_guidance)
        await self._workspace.refresh()
        with suppress(SightlineError):  # who let go of it sees nothing of it
            # An answer comes after the patches of what was seen: until then they may wait.
            await hub.query(self._workspace.app.info.id, depth=0)

    # What the directory and the user tell the model in files.

    @property
    def guidance(self) -> tuple[Guidance, ...]:
        """What is told: the user's own files, and the directory's if the user agreed."""
        users, directory = self._guidance or (None, None)
        return tuple(found for found in (users, directory if self.follows else None) if found)

    @property
    def offered_guidance(self) -> Guidance | None:
        """What the directory would tell; None if it has nothing to say, or is not listened to."""
        return (self._guidance[1] or None) if self._guidance else None

    @property
    def follows(self) -> bool | None:
        """Whether the directory's instructions are followed; None while nobody was asked."""
        offered = self.offered_guidance
        if offered is None:
            return None
        if self._settings.workspace.instructions == "always":
            return True
        return self._ledger.work.trusts(str(offered.root))

    def follow(self, agreed: bool) -> None:
        """Follow the directory's instructions from now on, or do not. Raises `NotFound`."""
        if (offered := self.offered_guidance) is None:
            raise NotFound("this directory has no instructions, commands or skills")
        self._ledger.work.trust(str(offered.root), agreed=agreed)
        self._tell_model()

    def _read_guidance(self) -> None:
        """Read the files anew, and tell what in them makes the prompt begin otherwise."""
        here = Path.cwd()
        users = find_guidance(user_file(self._env).parent, of_user=True)
        before, self._guidance = self._guidance, (users, find_guidance(here))
        if before is None or before[1].problems != self._guidance[1].problems:
            for problem in self._guidance[1].problems:
                self._tell(Noticed(code="instructions", message=problem))
        self._tell_model()

    def _tell_model(self) -> None:
        text, stage = instructions_text(*self.guidance), self._stage
        if stage.instructions and text != stage.instructions and self._current().session.wire:
            changed = "the instructions changed: the next request is evaluated anew behind them"
            self._tell(Noticed(code="instructions", message=changed))
        stage.instructions = text
        if self._workspace is not None:
            skills = {one.name: one for found in self.guidance for one in found.skills}
            self._workspace.show_skills(tuple(skills.values()))

    # What turns did to files.

    async def restoration(self, groups: Collection[int], *, forward: bool = False) -> Restoration:
        """Find out what would take back what turns did to files, or do it again with `forward`."""
        from sightline.agent.workspace.checkpoints import Restoration

        if self._workspace is None:
            return Restoration()
        work = partial(self._workspace.restoration, forward=forward)
        return await asyncio.to_thread(work, self._checkpoints(), groups)

    async def restore(self, restoration: Restoration) -> None:
        """Bring files back, all or none. Raises `ActionError` if one changed meanwhile."""
        if self._workspace is not None:
            await asyncio.to_thread(self._workspace.restore, restoration.changes)
            await self._workspace.refresh()

    def _checkpoints(self) -> Checkpoints:
        from sightline.agent.workspace.checkpoints import Checkpoints

        return Checkpoints(checkpoints_path(), self._current().session.row.uuid)

    def _keep_changes(self, loop: asyncio.AbstractEventLoop, changes: Sequence[FileChange]) -> None:
        """Note, in the thread that did it, what the turn that is under way did to files."""
        now = self._running()
        if now is None or self._workspace is None:
            return
        try:
            self._checkpoints().keep(now.turn.group_id, self._workspace.root, changes)
        except OSError as error:
            message = f"what was changed cannot be taken back by /undo: {error.strerror or error}"
            loop.call_soon_threadsafe(self._tell, Noticed(code="checkpoint", message=message))
