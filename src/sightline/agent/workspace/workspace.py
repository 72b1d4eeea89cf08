"""The current directory as an app, through the same protocol as any other.

    /            read, search; edit, create, move, delete, edit_many, run (dangerous: asked first)
    /git         branch, and what has changed
    /files       directories and files, made when a query asks; content by `read_content`
    /runs        what runs, and the latest commands, with their output; `wait` and `stop`
    /skills      what is written down about how to do things, by name

What the tree shows is a picture that `look` takes: git and the names of files, never
their contents. `refresh` takes it anew; a host does so before each request, and where
`watchfiles` is installed `watch` does it whenever something changes.

Pictures are taken behind everything else, and are waited for a moment only: a directory
that holds whoever reads it holds no turn. What is late is said to be not known yet, and is
shown when it comes; after a picture that was late nobody waits until one is in time again.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

import sightline.agent.workspace.nodes as nodes
import sightline.telemetry as telemetry
from sightline.agent.workspace.changes import (
    FileChange,
    FileEdit,
    Plan,
    carry_out,
    content_of,
    planned,
)
from sightline.agent.workspace.checkpoints import Checkpoints, Restoration
from sightline.agent.workspace.command import Finished, passed, withheld_by_name
from sightline.agent.workspace.git import TIMEOUT_S, Git, GitStatus
from sightline.agent.workspace.guidance import MarkdownFile
from sightline.agent.workspace.inside import Inside, parts_of, shown
from sightline.agent.workspace.listing import SKIPPED, Listing, scan
from sightline.agent.workspace.runs import Run, Runs
from sightline.agent.workspace.sandbox import Sandbox, refusals, why_no_sandbox
from sightline.agent.workspace.text import content, read_lines, search
from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.app.parameters import Call
from sightline.slop.protocol.path import parse_path
from sightline.slop.transports.link import Link

APP_ID: Final = "workspace"
# How many directories deep there are nodes; below, `read` and `search` go on.
DEPTH: Final = 12
WAIT_S: Final = 20.0  # shorter than a consumer waits for any answer
MAX_WAIT_S: Final = 3_600.0
MAX_RUN_S: Final = 4 * 3_600.0
LOOK_S: Final = 1.5
_SO_FAR_BYTES: Final = 4_000
_TOLD_LINES: Final = 200  # of a diff, to the model that made it
_log: Final = telemetry.logger(__name__)

_NOT_CONFINED: Final = "Run a shell command in the workspace, with the user's rights; no sandbox"
_CONFINED: Final = (
    "Run a shell command in a sandbox: it writes in the workspace and /tmp only, without network"
)
SandboxMode: TypeAlias = Literal["auto", "off", "require"]
FILE_ACTIONS: Final = ("edit", "create", "move", "delete", "edit_many")
FilePath = Annotated[str, "A file's path from the workspace's root, e.g. src/app.py"]
CommandLine = Annotated[str, "A command line for sh"]
TimeLimit = Annotated[
    float, Meta(ge=0, description="When to end it, in seconds; 0 is as late as possible")
]


class DirectoryPicture(msgspec.Struct, frozen=True):
    """What was last seen of the directory; `is_late` if that is longer ago than it should be."""

    listing: Listing | None = None
    git: GitStatus | None = None
    is_late: bool = False


class Workspace:
    """A directory, its app, and what keeps the app's picture of it fresh."""

    def __init__(
        self,
        root: Path,
        *,
        wait_s: float = WAIT_S,
        max_run_s: float = MAX_RUN_S,
        look_s: float = LOOK_S,
        git_s: float = TIMEOUT_S,
        env: Mapping[str, str] | None = None,
        also_passed: Collection[str] = (),
        tell: Callable[[str], None] = lambda _: None,
        sandbox: SandboxMode = "off",
        writable: Iterable[Path] = (),
    ) -> None:
        """Open a directory. Raises InvalidInput if it is none, or `sandbox` cannot be had.

        A command that takes longer than `wait_s` is answered with what it said so far and goes
        on; when it ends while nobody waits for it, `tell` is called with a sentence. It is
        ended after `max_run_s`. A picture that takes longer than `look_s` is shown when it
        comes; git is given up after `git_s`. Commands have of `env` (our own if None) what
        tools need, and the variables `also_passed`. With a `sandbox` they write in the
        directory, in a temporary one and in `writable` only, and have no network.
        """
        try:
            self._root = root.resolve(strict=True)
            self._inside = Inside(self._root)
        except OSError as error:
            raise InvalidInput(f"{root}: {error.strerror}") from error
        self._git = Git(self._root, timeout_s=git_s)
        self._wait_s = wait_s
        self._max_run_s = max_run_s
        self._tell = tell
        self._sandbox: Sandbox | None = None
        if sandbox == "require" or (sandbox == "auto" and not why_no_sandbox()):
            self._sandbox = Sandbox(self._root, writable)
        self.sandboxed = self._sandbox is not None  # whether commands run in one
        self._look_s = look_s
        self._env = os.environ if env is None else env
        self._also_passed = frozenset(also_passed)
        self._picture = DirectoryPicture()
        self._looking = threading.Lock()
        self._looks = ThreadPoolExecutor(1, "sightline-look")
        self._next: Future[None] | None = None
        self._is_slow = False
        self._is_closed = False
        self._skills: tuple[MarkdownFile, ...] = ()
        self._expected = ""
        self.on_change: Callable[[Sequence[FileChange]], None] = lambda _: None
        self._runs = Runs(self._root, changed=self._show_runs, on_end=self._ended_alone)
        self._refreshing: set[asyncio.Task[None]] = set()
        self.app = self._build_app()

    @property
    def dial(self) -> Callable[[], Awaitable[Link]]:
        """What a hub dials: `hub.add(APP_ID, workspace.dial, own=True)`."""
        return local_dial(self.app)

    def look(self) -> None:
        """Take a new picture of the directory, and wait for it a moment."""
        with self._looking:
            if self._is_closed:
                return
            before = self._picture
            # One that is being taken may have missed what is to be seen; the next one has not.
            if self._next is None:
                self._next = self._looks.submit(self._take)
            taken = self._next
        if wait((taken,), 0 if self._is_slow else self._look_s).done:
            taken.result()
            return
        listing = before.listing or scan(self._root)
        with self._looking:
            if self._picture is before:
                self._is_slow = True
                self._picture = replace(before, listing=listing, is_late=True)

    def _take(self) -> None:
        begun = time.monotonic()
        with self._looking:
            self._next = None
        view = self._git.look()
        listing = Listing.of(view.files) if view.files else scan(self._root)
        with self._looking:
            was_late, self._picture = self._picture.is_late, DirectoryPicture(listing, view.status)
            self._is_slow = time.monotonic() - begun > self._look_s
        if was_late:
            self.app.refresh()

    async def refresh(self) -> None:
        """Take a new picture, and show what is different."""
        await asyncio.to_thread(self.look)
        self.app.refresh()

    async def watch(self) -> None:
        """Refresh whenever something changes, until cancelled; at once over without watchfiles."""
        try:
            watchfiles: Any = importlib.import_module("watchfiles")
        except ImportError:
            return
        stream = watchfiles.awatch(
            self._root, watch_filter=self._matters, step=200, ignore_permission_denied=True
        )
        try:
            async with contextlib.aclosing(stream) as changes:
                async for _ in changes:
                    await self.refresh()
        except OSError as error:  # the system has only so many watches
            _log.warning("%s is not watched: %s", self._root, error)

    async def close(self) -> None:
        """End commands that still run, and let go of the directory."""
        await self.app.close()
        await self._runs.close()
        await asyncio.gather(*self._refreshing)
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
        with self._looking:
            self._is_closed = True
        self._git.stop()
        await asyncio.to_thread(self._looks.shutdown)
        self._inside.close()

    @property
    def _listing(self) -> Listing:
        return self._picture.listing or Listing()

    def _matters(self, _: object, path: str) -> bool:
        *above, name = Path(path).relative_to(self._root).parts or ("",)
        return SKIPPED.isdisjoint(above) or (above == [".git"] and name in {"HEAD", "index"})

    def _build_app(self) -> App:
        app = App(
            APP_ID, self._root.name or "/", description="The current directory",
            invoke_timeout_s=MAX_WAIT_S + 60,
        )  # fmt: skip
        reads = partial(app.action, "/", idempotent=True, refreshes=())
        reads("read", description="Read lines of a text file")(self.read)
        found = "Find lines that have a text, in all files or some"
        reads("search", description=found)(self.search)
        changes = partial(app.action, "/", dangerous=True)
        replaced = "Replace a passage of a file, given exactly as it stands, by another"
        changes("edit", description=replaced)(self.edit)
        changes("create", description="Write a new file")(self.create)
        changes("move", description="Move or rename a file")(self.move)
        changes("delete", description="Delete a file")(self.delete)
        several = "Several edits, all or none; each a path, and old and new, or content, "
        changes("edit_many", description=f"{several}or to, or delete: true")(self.edit_many)
        confined = self._sandbox is not None
        changes("run", estimate="slow", description=_CONFINED if confined else _NOT_CONFINED)(
            self.run_confined if confined else self.run
        )
        app.action(
            "runs/{run}", "wait", when=_is_news, idempotent=True,
            description="Wait for its end, and get its output",
        )(self.wait)  # fmt: skip
        app.action(
            "runs/{run}", "stop", when=_is_running,
            description="Stop it, with all that it started",
        )(self.stop)  # fmt: skip
        app.node("git")(lambda: nodes.git_node(self._picture.git, is_late=self._picture.is_late))
        app.node("files")(lambda: nodes.files_node(self._listing))
        app.node("runs")(lambda: nodes.runs_node(self._runs))
        app.content("runs/{run}")(self.output_of)
        app.node("skills")(lambda: nodes.skills_node(self._skills))
        app.content("skills/{skill}")(self.skill)
        for depth in range(DEPTH + 1):
            directory = "/".join(["files", *(f"{{p{level}}}" for level in range(depth))])
            app.children(directory)(self.entries)
            app.content(f"{directory}/{{name}}", when=_has_content)(self.content_of)
        return app

    def show_skills(self, skills: tuple[MarkdownFile, ...]) -> None:
        """Show these skills from now on."""
        if skills != self._skills:
            self._skills = skills
            self.app.refresh()

    def skill(self, skill: str) -> str | None:
        """The text of a skill."""
        return next((one.text for one in self._skills if one.name == skill), None)

    def entries(self, call: Call, offset: int, count: int) -> dict[str, Any]:
        """What stands in a directory: a part of it, by name."""
        listing = self._listing
        parts = listing.named(parse_path(call.path)[1:])
        if parts is None:
            raise ActionError("not_found", f"{call.path}: there is no such directory")
        found = listing.entries(parts)
        items = [
            nodes.directory_node(name, listing.count((*parts, name)), listed=len(parts) < DEPTH)
            if is_directory
            else nodes.file_node(name, self._inside.status((*parts, name)))
            for name, is_directory in found[offset : offset + count]
        ]
        return {"items": items, "total": len(found), "offset": offset}

    def content_of(self, call: Call) -> str | bytes:
        """The whole content of a file."""
        parts = self._listing.named(parse_path(call.path)[1:])
        if not parts:
            raise ActionError("not_found", f"{call.path}: there is no such file")
        return content(self._inside, parts)

    def output_of(self, run: str) -> str | None:
        """The output of a command, as far as it has come."""
        found = self._runs.find(run)
        return None if found is None else found.output.text()

    def read(
        self,
        path: FilePath,
        start: Annotated[int, "The first line, from 1"] = 1,
        lines: Annotated[int, "How many lines"] = 400,
    ) -> dict[str, Any]:
        """Read some lines of a file."""
        excerpt = read_lines(self._inside, parts_of(path), start, lines)
        answer: dict[str, Any] = {"path": path, "lines": f"{excerpt.start}-{excerpt.end}"}
        if excerpt.total is not None:
            answer["of"] = excerpt.total
        if not excerpt.exact:
            answer["note"] = "not all of it is UTF-8; what is not is shown as \ufffd"
        return {**answer, "content": excerpt.text}

    def search(
        self,
        query: Annotated[str, "The text to find, taken literally"],
        glob: Annotated[str, "Which paths, e.g. src/*.py; empty is all"] = "",
        ignore_case: bool = False,
        limit: Annotated[int, "How many lines at most"] = 50,
    ) -> dict[str, Any]:
        """Find lines in files."""
        files = self._listing.files
        found = search(
            self._inside, files, query, glob=glob, ignore_case=ignore_case, limit=limit
        )  # fmt: skip
        answer: dict[str, Any] = {"found": len(found.lines), "files_searched": found.searched}
        if found.stopped:
            answer["incomplete"] = found.stopped
        return {**answer, "matches": "".join(f"{line}\n" for line in found.lines)}

    def edit(
        self,
        path: FilePath,
        old: Annotated[str, "A passage that is in the file exactly once"],
        new: Annotated[str, "What takes its place"],
        every: Annotated[bool, "Replace it wherever it stands"] = False,
    ) -> dict[str, Any]:
        """Change a file."""
        plan = self._change([FileEdit(path, old, new, every)])
        return {"path": path, "diff": _shortened(plan.diff)}

    def create(
        self,
        path: FilePath,
        content: str,
        overwrite: Annotated[bool, "Put it in the place of a file that is there"] = False,
    ) -> dict[str, Any]:
        """Write a new file, and the directories above it."""
        self._change([FileEdit(path, content=content, overwrite=overwrite)])
        return {"path": path, "bytes": len(content.encode())}

    def move(
        self, path: FilePath, to: Annotated[str, "Its new path, which is free"]
    ) -> dict[str, Any]:
        """Give a file another path."""
        self._change([FileEdit(path, to=to)])
        return {"path": to}

    def delete(self, path: FilePath) -> dict[str, Any]:
        """Delete a file."""
        self._change([FileEdit(path, delete=True)])
        return {"path": path}

    def edit_many(self, edits: list[FileEdit]) -> dict[str, Any]:
        """Change several files, all or none."""
        plan = self._change(edits)
        return {"paths": list(plan.paths), "diff": _shortened(plan.diff)}

    def changes_files(self, action: str) -> bool:
        """Tell whether an action changes files, so that it can be planned."""
        return action in FILE_ACTIONS

    def plan(self, action: str, params: Mapping[str, Any]) -> Plan | None:
        """Say what an action would do to files, and do nothing; None for one that changes none.

        Raises ActionError where it would fail.
        """
        if action not in FILE_ACTIONS:
            return None
        given = params.get("edits") if action == "edit_many" else [params]
        more = {"delete": True} if action == "delete" else {}
        try:
            edits = [msgspec.convert({**one, **more}, FileEdit) for one in given or ()]
        except (msgspec.ValidationError, TypeError) as error:
            raise ActionError("invalid_params", str(error)) from error
        return planned(self._inside, edits)

    def expect(self, plan: Plan | None) -> None:
        """Have the next change of files refused unless it is what was planned; None for any."""
        self._expected = "" if plan is None else plan.digest

    def _change(self, edits: Iterable[FileEdit]) -> Plan:
        expected, self._expected = self._expected, ""
        plan = planned(self._inside, edits)
        if expected and plan.digest != expected:
            raise ActionError("conflict", "the files are not as they were when this was agreed to")
        carry_out(self._inside, plan.changes)
        self.on_change(plan.changes)
        self.look()
        return plan

    @property
    def root(self) -> Path:
        """The directory."""
        return self._root

    def restoration(
        self, kept: Checkpoints, groups: Collection[int], *, forward: bool = False
    ) -> Restoration:
        """Find out what would take back what turns did here, or do it again with `forward`."""
        read = partial(content_of, self._inside)
        return kept.restoration(groups, self._root, read, forward=forward)

    def restore(self, changes: Sequence[FileChange]) -> None:
        """Bring files back, all or none. Raises ActionError if one is not what it was found."""
        carry_out(self._inside, changes)

    async def run(self, command: CommandLine, timeout_s: TimeLimit = 0.0) -> dict[str, Any]:
        """Run a command: wait for it a while, then let it go on."""
        return await self._run(command, timeout_s)

    async def run_confined(
        self,
        command: CommandLine,
        timeout_s: TimeLimit = 0.0,
        network: Annotated[bool, "Whether it needs the network"] = False,
    ) -> dict[str, Any]:
        """Run a command in the sandbox: wait for it a while, then let it go on."""
        return await self._run(command, timeout_s, network=network)

    async def _run(self, command: str, timeout_s: float, *, network: bool = True) -> dict[str, Any]:
        limit_s = min(timeout_s or self._max_run_s, self._max_run_s)
        env = passed(self._env, self._also_passed)
        run = self._runs.start(command, limit_s, env, self._sandbox, network=network)
        return await self._result_of(run, self._wait_s)

    async def wait(
        self,
        run: str,
        seconds: Annotated[float, Meta(gt=0, le=MAX_WAIT_S, description="At most so long")] = 60.0,
    ) -> dict[str, Any]:
        """Wait for a command that goes on."""
        return await self._result_of(self._found(run), seconds)

    async def stop(
        self, run: str, by: Annotated[str, Meta(max_length=100, description="Who or why")] = ""
    ) -> dict[str, Any]:
        """Stop a command, and say how far it came."""
        found = self._found(run)
        await self._runs.stop(found, by)
        return await self._result_of(found, 0)

    def _found(self, run_id: str) -> Run:
        run = self._runs.find(run_id)
        if run is None:
            raise ActionError("not_found", f"{run_id} is not listed any more")
        return run

    async def _result_of(self, run: Run, seconds: float) -> dict[str, Any]:
        """Wait so long; say how a command ended, or that it goes on, with its output."""
        await self._runs.wait(run, seconds)
        finished = run.finished
        if finished is None:
            notes = [f"it goes on; /runs/{run.id} has `wait` and `stop`"]
            if run.sandbox is not None and (
                inert := await asyncio.to_thread(run.sandbox.check, is_end=False)
            ):
                self._tell(f"{run.id}: {inert}")
                notes.append(inert)
            return {
                "run": run.id,
                "status": "running",
                "seconds": run.age_s,
                "note": "; ".join(notes),
                "output": f"{run.output.end(_SO_FAR_BYTES).rstrip()}\n",
            }
        if finished.ended == "not started":
            raise ActionError("internal", f"it could not be started: {finished.output.rstrip()}")
        run.is_known = True
        await self.refresh()
        answer: dict[str, Any] = {"exit_code": finished.exit_code, "seconds": finished.seconds}
        if finished.ended != "exited":
            answer["ended"] = _how(run, finished)
        if notes := self._notes(run, finished):
            answer["note"] = "; ".join(notes)
        return {**answer, "output": f"{finished.output.rstrip()}\n"}

    def _show_runs(self) -> None:
        self.app.refresh("runs")

    def _ended_alone(self, run: Run) -> None:
        """Report a command that ended without a caller, or made settings, and show its changes."""
        finished = run.finished
        if finished is not None:
            how = f"ended with exit code {finished.exit_code} after {finished.seconds:.0f} s"
            how = how if finished.ended == "exited" else _how(run, finished)
            inert = f"; {run.made_inert}" if run.made_inert else ""
            self._tell(f"{run.id} {how}: {shown(run.command)}{inert}")
        task = asyncio.create_task(self.refresh())
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)

    def _notes(self, run: Run, finished: Finished) -> list[str]:
        """Name what a command that failed may have missed, and the settings made inert after it."""
        notes: list[str] = []
        if finished.exit_code:
            texts = (run.command, finished.output)
            names = withheld_by_name(self._env, self._also_passed, texts)
            notes += [f"`{name}` was withheld: `workspace.env` adds it" for name in names]
            if run.sandbox is not None:
                notes += refusals(finished.output, network=run.network)
        return [*notes, run.made_inert] if run.made_inert else notes


def _shortened(diff: str) -> str:
    """Cut a diff to what a model is told of it, which knows what it wrote."""
    lines = diff.splitlines(keepends=True)
    more = len(lines) - _TOLD_LINES
    return "".join(lines[:_TOLD_LINES]) + (f"… and {more} more lines\n" if more > 0 else "")


def _has_content(props: dict[str, Any]) -> bool:
    return "size" in props


def _is_running(props: dict[str, Any]) -> bool:
    return props.get("status") == "running"


def _is_news(props: dict[str, Any]) -> bool:
    return _is_running(props) or "unread" in props


def _how(run: Run, finished: Finished) -> str:
    """Say how a command ended that did not end by itself."""
    by = f" {run.stopped_by}" if run.stopped_by and finished.ended == "stopped" else ""
    return f"{finished.ended}{by} after {finished.seconds:g} s"
