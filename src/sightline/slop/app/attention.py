"""Where to look: marks on what just changed, and views of which one is open.

A view that is not open is *closed*: nothing but its type and summary is shown, whatever is
registered for it or below it: no function there is called, and nothing can be asked for or acted
on. A view around the open one is open, too.

`mark_changes` sets `meta.changed` on every node whose own fields are new or
different since the tree before; the next different tree clears them, because each
is marked afresh from the unmarked one. Work is proportional to what changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from sightline.errors import InvalidDescriptor
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.tree import Node


class Closed(msgspec.Struct, frozen=True):
    """What a view says while it is closed; it hides whatever is registered below it."""

    descriptor: dict[str, Any]


def mark_changes(before: Node | None, after: Node) -> Node:
    """Return `after` with `meta.changed` on what is different from `before`."""
    if before is after:
        return after
    result = after
    if before is None or not before.same_fields(after):
        meta = members(after.meta_json)
        # SLOP, state tree, meta: modified in the last patch.
        meta["changed"] = text_of(True)
        result = after.with_text("meta", text_of(meta))
    if before is None or not after.child_list:
        return result  # of what is new as a whole, its top says so
    marked = [mark_changes(before.child(child.id), child) for child in after.child_list]
    if all(one is other for one, other in zip(marked, after.child_list, strict=True)):
        return result
    return result.with_child_list(tuple(marked))


class Views:
    """Views, of which each session has one open; the others are stubs with a summary."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self._open: dict[Hashable, str] = {}
        self._lock = threading.Lock()

    def add(self, path: str) -> None:
        """Add a view; the first one is open until another is."""
        with self._lock:
            if path not in self._order:
                self._order.append(path)

    def remove(self, path: str) -> bool:
        """Take a path for no view any more; False if it was none."""
        with self._lock:
            if path not in self._order:
                return False
            self._order.remove(path)
            self._open = {who: one for who, one in self._open.items() if one != path}
            return True

    def focus(self, path: str, session: Hashable = None) -> None:
        """Open a view for a session. Raises InvalidDescriptor if it is none."""
        path = path.strip("/")
        with self._lock:
            if path not in self._order:
                known = ", ".join(self._order) or "there are none"
                raise InvalidDescriptor(f"/{path}", None, f"is not a view; views: {known}")
            self._open[session] = path

    def focused(self, session: Hashable = None) -> str | None:
        """The view that a session has open."""
        with self._lock:
            return self._open.get(session) or next(iter(self._order), None)

    def is_open(self, path: str, session: Hashable = None) -> bool:
        """Tell whether a session has a view open, or one inside it."""
        focused = self.focused(session)
        return focused is not None and f"{focused}/".startswith(f"{path}/")

    def hides(self, ids: tuple[str, ...], session: Hashable = None) -> bool:
        """Tell whether a path is that of a closed view, or below one."""
        with self._lock:
            views = set(self._order)
        around = ("/".join(ids[: end + 1]) for end in range(len(ids))) if views else ()
        return any(path in views and not self.is_open(path, session) for path in around)

    def forget(self, session: Hashable) -> None:
        """Drop what is known of a session that ended."""
        with self._lock:
            self._open.pop(session, None)

    def show(
        self,
        path: str,
        session: Hashable,
        full: Callable[[], Any],
        summary: Callable[[], str] | str | None,
    ) -> Any:
        """Describe a view: in full and in focus, or closed."""
        text = summary() if callable(summary) else summary
        if not self.is_open(path, session):
            # SLOP, scaling: an inactive view is a stub with a summary.
            stub: dict[str, Any] = {"type": "view"}
            return Closed(stub if text is None else {**stub, "summary": text})
        given = full()
        # SLOP, scaling: the active view has meta.focus.
        has_focus = self.focused(session) == path
        if isinstance(given, Node):
            focus = {"focus": text_of(True)} if has_focus else {}
            return given.with_text("meta", text_of({**members(given.meta_json), **focus}))
        if not isinstance(given, Mapping):
            return given
        shown = {"type": "view", **given}
        if has_focus:
            shown["meta"] = {**(given.get("meta") or {}), "focus": True}
        if text is not None:
            shown.setdefault("summary", text)
        return shown
