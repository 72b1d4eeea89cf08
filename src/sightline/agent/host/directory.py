"""The current directory in a host: the workspace app, what its files tell, what edits did to it.

The workspace is an app of our own: its reads need no approval. Files that say how to work here
are read again before each turn. They are followed as long as each has the content that the user
agreed to. What a turn does to files is kept as it happens, so that it can be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sightline.config.consents as consents
from sightline.agent.host.apps import end_task
from sightline.agent.host.session import Current
from sightline.agent.host.stage import HostStage
from sightline.agent.policy import exact_notice
from sightline.agent.workspace.guidance import Guidance, find_guidance, instructions_text
from sightline.config import Settings
from sightline.config.load import user_file
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import checkpoints_path, expanded
from sightline.errors import InvalidInput, NotFound, SightlineError
from sightline.events import HostEvent, Noticed
from sightline.slop.hub.hub import Hub

_NAMED: Final = 6

if TYPE_CHECKING:
    from sightline.agent.host.running import TurnRun
    from sightline.agent.workspace.changes import FileChange
    from sightline.agent.workspace.checkpoints import Checkpoints, Restoration


class HostDirectory:
    """What a host does with its directory; nothing of it is shown until it is opened."""

    settings: Settings
    ledger: Ledger
    hub: Hub
    _env: Mapping[str, str]
    _stage: HostStage
    _tell: Callable[[HostEvent], None]
    _own_invoke_s: dict[str, float]  # how long actions of our own apps may take, by app
    _now: Current | None
    _run: TurnRun | None
    _here: Path | None = None
    _guidance: tuple[Guidance, Guidance] | None = None
    _consent = consents.StoredConsent()
    _problem: str = ""
    guidance_changes: Mapping[str, str] = {}  # by file: what the user has not agreed to yet
    postponed_guidance: Guidance | None = None  # the user has neither agreed to it nor declined it
    sandboxed = False  # whether commands in the directory run in a sandbox

    @property
    def _current(self) -> Current:
        assert self._now is not None  # noqa: S101 - `open` opens one before anybody has the host
        return self._now

    async def _open_directory(self, stack: AsyncExitStack) -> None:
        """Show the directory as an app; its reads need no approval, it is our own."""
        from sightline.agent.workspace.workspace import APP_ID, MAX_WAIT_S, Workspace

        chosen, self._here = self.settings.workspace, Path.cwd()
        workspace = await asyncio.to_thread(
            Workspace, self._here, env=self._env, also_passed=chosen.env, wait_s=chosen.wait_s,
            max_run_s=chosen.max_run_s, sandbox=chosen.sandbox,
            writable=[expanded(Path(path)) for path in chosen.writable],
            tell=lambda text: self._tell(Noticed(code="run_ended", message=text)),
        )  # fmt: skip
        self._own_invoke_s[APP_ID] = MAX_WAIT_S + self.settings.limits.invoke_s
        stack.push_async_callback(workspace.close)
        self.hub.add(APP_ID, workspace.dial, own=True)
        stack.push_async_callback(self.hub.remove, APP_ID)
        stack.push_async_callback(end_task, asyncio.create_task(workspace.watch()))
        self._stage.workspace = workspace
        self.sandboxed = workspace.sandboxed
        if notice := exact_notice(self.settings.policy, self.sandboxed):
            self._tell(Noticed(code="rules", message=notice))
        workspace.on_change = partial(self._keep_changes, asyncio.get_running_loop())
        await asyncio.to_thread(self.refresh_guidance)

    async def _look_around(self) -> None:
        """See the directory as it is now, before the first request of a turn is made."""
        if self._stage.workspace is None:
            return
        await asyncio.to_thread(self.refresh_guidance)
        await self._stage.workspace.refresh()
        with suppress(SightlineError):  # who let go of it sees nothing of it
            # An answer comes after the patches of what was seen: until then they may wait.
            await self.hub.query(self._stage.workspace.app.info.id, depth=0)

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
        """True if the directory's instructions are followed, None if the user must be asked.

        The user must be asked about instructions that are new or have changed.
        """
        if self.offered_guidance is not None and self.settings.workspace.instructions == "always":
            return True
        return None if self.guidance_changes else self._consent.agreed

    @property
    def unfollowed(self) -> str:
        """Name the instructions that need the user's consent first, empty if there are none."""
        offered, changed = self.offered_guidance, tuple(self.guidance_changes)
        if offered is None or self.follows is not None:
            return ""
        paths = changed or offered.paths
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        reason = "the content changed since you agreed" if changed else "you have not agreed yet"
        return f"{', '.join(paths[:_NAMED])}{more}: not followed, because {self._problem or reason}"

    def follow(self, agreed: bool, shown: Guidance | None = None) -> None:
        """Follow the directory's instructions from now on, or do not.

        The user agrees to the content that was `shown`, by default the current one. Raises
        `NotFound` if there is none, `InvalidInput` if the consent cannot be stored.
        """
        if (offered := shown or self.offered_guidance) is None:
            raise NotFound("this directory has no instructions, commands or skills")
        parts = _parts(offered, self._consent.parts) if agreed else {}
        consents.store_consent(f"instructions:{offered.root}", agreed=agreed, parts=parts)
        self._read_consent()
        self._tell_model()

    def _read_consent(self) -> None:
        offered, consent = self.offered_guidance, consents.StoredConsent()
        # The consent first, here and below: without one nothing is followed in any thread.
        self._consent, self._problem, self.guidance_changes = consent, "", {}
        if offered is None or self.settings.workspace.instructions == "always":
            return
        try:
            consent = consents.get_consent(f"instructions:{offered.root}")
        except InvalidInput as error:
            self._problem = str(error)
        if consent.agreed:
            self.guidance_changes = consents.differences(consent, _parts(offered, consent.parts))
        self._consent = consent

    def refresh_guidance(self) -> None:
        """Read the instructions again, and report what changed of them for the model."""
        if self._here is None or self.settings.workspace.instructions == "never":
            return
        users, followed = find_guidance(user_file(self._env).parent, of_user=True), self.follows
        before, self._consent = self._guidance, consents.StoredConsent()
        self._guidance = users, find_guidance(self._here)
        if before is None or before[1].problems != self._guidance[1].problems:
            for problem in self._guidance[1].problems:
                self._tell(Noticed(code="instructions", message=problem))
        self._read_consent()
        if followed and self.unfollowed:
            self._tell(Noticed(code="instructions", message=self.unfollowed))
        self._tell_model()

    def _tell_model(self) -> None:
        text, stage = instructions_text(*self.guidance), self._stage
        if stage.instructions and text != stage.instructions and self._current.session.wire:
            changed = "the instructions changed: the next request is evaluated anew behind them"
            self._tell(Noticed(code="instructions", message=changed))
        stage.instructions = text
        if self._stage.workspace is not None:
            skills = {one.name: one for found in self.guidance for one in found.skills}
            self._stage.workspace.show_skills(tuple(skills.values()))

    # What turns did to files.

    async def restoration(self, groups: Collection[int], *, forward: bool = False) -> Restoration:
        """Find out what would take back what turns did to files, or do it again with `forward`."""
        from sightline.agent.workspace.checkpoints import Restoration

        if self._stage.workspace is None:
            return Restoration()
        work = partial(self._stage.workspace.restoration, forward=forward)
        return await asyncio.to_thread(work, self._checkpoints(), groups)

    async def restore(self, restoration: Restoration) -> None:
        """Bring files back, all or none. Raises `ActionError` if one changed meanwhile."""
        if self._stage.workspace is not None:
            await asyncio.to_thread(self._stage.workspace.restore, restoration.changes)
            await self._stage.workspace.refresh()

    def _checkpoints(self) -> Checkpoints:
        from sightline.agent.workspace.checkpoints import Checkpoints

        return Checkpoints(checkpoints_path(), self._current.session.row.uuid)

    def _keep_changes(self, loop: asyncio.AbstractEventLoop, changes: Sequence[FileChange]) -> None:
        """Note, in the thread that did it, what the turn that is under way did to files."""
        if self._run is None or self._stage.workspace is None:
            return
        try:
            group = self._current.turn.group_id
            self._checkpoints().keep(group, self._stage.workspace.root, changes)
        except OSError as error:
            message = f"what was changed cannot be taken back by /undo: {error.strerror or error}"
            loop.call_soon_threadsafe(self._tell, Noticed(code="checkpoint", message=message))


def _parts(offered: Guidance, known: consents.Parts) -> consents.Parts:
    """Digest the files, with those that the user agreed to in another directory of the root."""
    others = {path: known[path] for path in known if (offered.root / path).exists()}
    return others | consents.parts_of({one.path: one.whole for one in offered.files})
