"""How a directory looks as a tree: from what was seen of it to descriptors. Pure.

Names come from whoever made the files: everything shown of them is one printable line.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterable
from typing import Any, Final

from sightline.agent.workspace.git import GitStatus
from sightline.agent.workspace.guidance import MarkdownFile
from sightline.agent.workspace.inside import shown
from sightline.agent.workspace.listing import Listing
from sightline.agent.workspace.runs import Run
from sightline.slop.protocol.ids import legal_id

CHANGES: Final = 40
ENTRIES: Final = 40
_COMMAND_CHARS: Final = 200
_LATEST_BYTES: Final = 600

Descriptor = dict[str, Any]


def git_node(git: GitStatus | None, *, is_late: bool = False) -> Descriptor | None:
    """Branch and changes; nothing where there is no repository."""
    if is_late and (git is None or git.problem):
        return {"type": "status", "summary": "not known yet"}
    if git is None:
        return None
    if git.problem:
        return {"type": "status", "summary": f"not known: {shown(git.problem)}"}
    items = []
    for change in git.changes[:CHANGES]:
        props = {"label": shown(change.path), "status": change.status, "staged": change.staged}
        if change.was:
            props["was"] = shown(change.was)
        items.append({"id": legal_id(change.path), "props": props})
    count = len(git.changes)
    state: Descriptor = {"branch": shown(git.branch)}
    if git.upstream:
        state |= {"upstream": shown(git.upstream), "ahead": git.ahead, "behind": git.behind}
    summary = f"{count} changed file{'' if count == 1 else 's'}" if count else "clean"
    return {
        "type": "status",
        "props": state,
        "summary": f"{summary} when last seen; now not known yet" if is_late else summary,
        # SLOP, state tree: windowed collections.
        "window": {"items": items, "total": count, "offset": 0},
    }


def files_node(listing: Listing) -> Descriptor:
    """The top of the tree of files: the names in it, and that there is more to ask for."""
    # SLOP, scaling: a lazy subtree says how many children it has.
    top = listing.entries(())
    names = [shown(f"{name}/" if is_dir else name) for name, is_dir in top[:ENTRIES]]
    many = f"{len(listing.files):,} file{'' if len(listing.files) == 1 else 's'}"
    return {
        "type": "collection",
        "props": {"entries": names},
        "summary": many if listing.complete else f"more than {many}",
        "meta": {"total_children": len(top)},
    }


def directory_node(name: str, total: int, *, listed: bool) -> Descriptor:
    """A directory, whose entries have to be asked for; one too deep to be `listed` says so."""
    summary = f"{total} entr{'y' if total == 1 else 'ies'}"
    node = {**_named(name), "type": "collection", "summary": summary}
    if listed:
        return {**node, "meta": {"total_children": total}}
    return {**node, "summary": f"{summary}, too deep to list: use search and read"}


def file_node(name: str, status: os.stat_result | None) -> Descriptor:
    """A file with a reference to its content; something else that has a name, without."""
    # SLOP, state tree: content_ref.
    node = _named(name)
    if status is None:
        return {**node, "type": "item", "summary": "gone, or not for us to read"}
    if not stat.S_ISREG(status.st_mode):
        is_link = stat.S_ISLNK(status.st_mode)
        return {**node, "type": "item", "summary": "a symbolic link" if is_link else "not a file"}
    size = status.st_size
    mime = mimetypes.guess_type(name, strict=False)[0] or "text/plain"
    return {
        **node,
        "type": "document",
        "props": {**node["props"], "size": size},
        "content_ref": {"mime": mime, "size": size, "summary": f"{mime}, {size:,} bytes"},
    }


def runs_node(runs: Iterable[Run]) -> Descriptor | None:
    """The commands of late, the latest first; nothing before the first."""
    items = [_run_node(run) for run in runs]
    return {"type": "collection", "items": items[::-1]} if items else None


def skills_node(skills: Iterable[MarkdownFile]) -> Descriptor | None:
    """What somebody wrote down how to do, by name; each is read when it is needed."""
    items = [
        {
            "id": one.name,
            "type": "document",
            "props": {"about": shown(one.about)} if one.about else {},
            "content_ref": {"mime": "text/markdown", "summary": f"{len(one.text):,} characters"},
        }
        for one in skills
    ]
    return {"type": "collection", "items": items} if items else None


def _run_node(run: Run) -> Descriptor:
    props: Descriptor = {"label": shown(run.command[:_COMMAND_CHARS])}
    finished = run.finished
    if finished is None:
        started_at = run.started_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        props |= {"status": "running", "started_at": started_at, "awaited": run.waiting > 0}
        if latest := run.output.end(_LATEST_BYTES).rstrip():
            props["latest"] = latest
        reference = {"mime": "text/plain", "summary": f"{run.output.size:,} bytes so far"}
    else:
        props |= {"status": finished.ended, "exit_code": finished.exit_code}
        if not run.is_known:
            props["unread"] = True
        lines = finished.output.count("\n")
        reference = {"mime": "text/plain", "summary": f"{lines} lines of output"}
    return {"id": run.id, "type": "status", "props": props, "content_ref": reference}


def _named(name: str) -> Descriptor:
    node_id = legal_id(name)
    return {"id": node_id, "props": {} if node_id == name else {"label": shown(name)}}
