"""What an app shows: its registrations, rendered for every session that watches.

*Theory of operation.* A registration is a path and a function (or a fixed node).
Evaluating it gives a *part*; a *rendering* is all parts composed for one session. A
function that does not take the session is evaluated once, and its part stands in
all renderings; one that does is evaluated for each session, and equal parts of
different sessions are one object; sessions that are shown the same parts have one
tree. A part that says what it said before (its text
has the same digest) changes nothing.

*Threads.* The app's functions run outside the lock, in whichever thread asked, so
they may take locks of their own. Each evaluation draws a ticket when it starts, and
a part gives way only to one with a later ticket: whoever looked last is right.

*Failures.* A function that raises, or describes an illegal node, keeps its last good
part. The log has the traceback, and a `status` node under `/errors` says that this
path is out of date until it works again.

*Closed views.* What `hides` a path from a session keeps the function there from being called for
it: nobody would see what it says. Whoever opens a view refreshes; a part that was due
meanwhile is made then.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec

import sightline.telemetry as telemetry
from sightline.errors import InvalidInput, InvalidPath
from sightline.slop.app.action import Action
from sightline.slop.app.attention import Closed, mark_changes
from sightline.slop.app.composition import Composition
from sightline.slop.app.descriptor import Actions, Described, Ids, describe, fingerprint
from sightline.slop.app.exposure import Exposure
from sightline.slop.app.pattern import Branch, Pattern
from sightline.slop.protocol.ids import legal_id
from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.rewrite import share
from sightline.slop.protocol.tree import Node

Where = Callable[[Any], bool]

# The rank of what the engine itself shows: after everything that the app registered.
LAST: Final = 1 << 30
_log: Final = telemetry.logger(__name__)


class _Part(msgspec.Struct, frozen=True):
    """What one registration shows, as of one evaluation."""

    ticket: int
    digest: bytes
    node: Node | None
    actions: Actions
    is_closed: bool = False

    def shows_as(self, other: _Part) -> bool:
        """Tell whether nothing changes where this takes the place of another."""
        return self.node is other.node and self.is_closed == other.is_closed and other.ticket >= 0


_NOTHING: Final = _Part(-1, b"", None, {})


class Registration(msgspec.Struct, eq=False):
    """A path, and where its state comes from."""

    ids: Ids
    function: Callable[..., Any] | None
    takes_session: bool = False
    # The place among its siblings, in the order of registration.
    rank: int = 0
    # What it shows to everyone, unless it takes the session.
    part: _Part = _NOTHING
    failed: bool = False
    # Digest → node, so that sessions that are shown the same share it.
    seen: dict[bytes, Node] = msgspec.field(default_factory=dict)


@dataclass(eq=False, repr=False, slots=True)
class Rendering:
    """The tree of one session, which puts itself among those to take whenever it changes."""

    session: Hashable
    composition: Composition
    exposure: Exposure
    _untaken: dict[Rendering, None]
    # The likeness by which others find it, since its tree was last taken.
    known_by: tuple[object, ...] = ()
    parts: dict[Registration, _Part] = field(default_factory=dict)
    _shown: Node | None = None
    _marked: Node | None = None

    def put(self, ids: Ids, node: Node | None, rank: int = 0, *, is_closed: bool = False) -> None:
        """Show a node at a path, or nothing."""
        if self.composition.put(ids, node, rank, is_closed=is_closed):
            self._untaken[self] = None

    def expose_anew(self) -> None:
        """Look at every node again: the patterns have changed."""
        self.exposure.forget()
        self._untaken[self] = None

    def adopt(self, twin: Rendering) -> None:
        """Take over the tree of another session that is shown exactly the same."""
        if twin is not self:
            twin.tree(mark=False)
            self.composition.adopt(twin.composition)
            self.exposure.adopt(twin.exposure)

    def tree(self, *, mark: bool) -> Node:
        """The tree as it is now; with marks on what changed since the last different one."""
        tree = self.exposure.expose(self.composition.tree, self.composition.closed)
        if not mark:
            return tree
        if self._marked is None or self._shown is None:
            self._marked = tree
        elif tree is not self._shown:
            self._marked = mark_changes(self._shown, tree)
        self._shown = tree
        return self._marked


class Registry:
    """Everything an app registered, and everyone's rendering of it."""

    def __init__(
        self, root: Node, hides: Callable[[Ids, Hashable], bool], *, marks_changes: bool
    ) -> None:
        self.patterns: Branch[Action] = Branch()
        self._root = root
        self._marks_changes = marks_changes
        self._hides = hides
        self._lock = threading.RLock()
        self._tickets = count()
        self._ranks = count(1)
        self._registrations: dict[Ids, Registration] = {}
        self._renderings: dict[Hashable, Rendering] = {}
        # Those whose trees were not taken since they changed; all others by their likeness.
        self._untaken: dict[Rendering, None] = {}
        self._alike: dict[tuple[object, ...], dict[Rendering, None]] = {}
        # What the engine itself shows, and to whom: see `place`.
        self._extras: dict[Ids, tuple[Node, Where]] = {}

    def register(self, ids: Ids, function: Callable[..., Any], *, takes_session: bool) -> None:
        """Show what a function says at a path; it is evaluated when somebody looks."""
        self._add(Registration(ids, function, takes_session))

    def register_fixed(self, ids: Ids, given: object) -> None:
        """Show a descriptor or node at a path. Raises InvalidInput; then nothing is changed."""
        described = self._describe(given, ids)
        node = self._built(described, ids)
        part = _Part(next(self._tickets), described.digest, node, described.actions)
        self._add(Registration(ids, None, part=part))

    def unregister(self, ids: Ids) -> None:
        """Show nothing at a path any more. Raises InvalidPath if nothing was registered."""
        with self._lock:
            registration = self._registrations.pop(ids, None)
            if registration is None:
                raise InvalidPath(format_path(ids), "nothing is registered there")
            for rendering in self._renderings.values():
                rendering.parts.pop(registration, None)
                rendering.put(ids, self._root if not ids else None)
                rendering.put(_error_ids(ids), None)

    def add_action(self, pattern: Pattern, action: Action) -> None:
        """Offer an action on every node that fits a pattern."""
        with self._lock:
            self.patterns.grow(pattern).by_name[action.name] = action
            for rendering in self._renderings.values():
                rendering.expose_anew()

    def open(self, session: Hashable) -> Rendering:
        """Return the rendering for a session, made if there is none."""
        with self._lock:
            rendering = self._renderings.get(session)
            if rendering is not None:
                return rendering
            rendering = Rendering(
                session, Composition(self._root), Exposure(self.patterns), self._untaken
            )
            if len(self._renderings) == 1:
                # Alone it was not known by its likeness, which nobody else could have.
                self._untaken.update(dict.fromkeys(self._renderings.values()))
            self._renderings[session] = rendering
            self._untaken[rendering] = None
            registrations = list(self._registrations.values())
            for ids, (node, where) in self._extras.items():
                if where(session):
                    rendering.put(ids, node, LAST)
        for registration in registrations:
            is_unknown = registration.part is _NOTHING and not registration.failed
            if registration.takes_session or is_unknown:
                self._evaluate(registration, [rendering])
            else:
                with self._lock:
                    self._show(registration, rendering, registration.part)
                    self._show_failure(registration, [rendering], failed=registration.failed)
        return rendering

    def close(self, session: Hashable) -> None:
        """Forget a session's rendering."""
        with self._lock:
            rendering = self._renderings.pop(session, None)
            if rendering is not None:
                self._untaken.pop(rendering, None)
                self._forget_likeness(rendering)

    def tree(self, session: Hashable) -> Node:
        """The tree that a session sees."""
        rendering = self.open(session)
        with self._lock:
            return rendering.tree(mark=self._marks_changes)

    def changed_trees(self) -> list[tuple[Hashable, Node]]:
        """Every session whose tree may have changed since this was last asked, and its tree."""
        with self._lock:
            # One that was closed while its functions ran is nobody's any more.
            changed = [each for each in self._untaken if self._renderings.get(each.session) is each]
            # Whoever changed is no longer what it is known by, so this comes first for all.
            for rendering in changed:
                self._forget_likeness(rendering)
            for rendering in changed if len(self._renderings) > 1 else ():
                likeness = rendering.known_by = rendering.composition.likeness
                alike = self._alike.setdefault(likeness, {})
                rendering.adopt(next(iter(alike), rendering))
                alike[rendering] = None
            self._untaken.clear()
            return [(each.session, each.tree(mark=self._marks_changes)) for each in changed]

    def refresh(self, ids: Ids | None = None, where: Where | None = None, below: Ids = ()) -> None:
        """Evaluate one registration, or all below a path. Raises InvalidPath if there is none."""
        with self._lock:
            if ids is None:
                registrations = [
                    registration
                    for path, registration in self._registrations.items()
                    if path[: len(below)] == below
                ]
            elif ids in self._registrations:
                registrations = [self._registrations[ids]]
            else:
                raise InvalidPath(format_path(ids), "nothing is registered there")
            renderings = list(self._chosen(where))
        for registration in registrations:
            self._evaluate(registration, renderings)

    def refresh_for(self, session: Hashable, ids: Ids) -> None:
        """Evaluate what a node belongs to as far as it concerns one session, if both are there."""
        with self._lock:
            registration = next(self._around(ids), None)
            rendering = self._renderings.get(session)
        if registration is not None and rendering is not None:
            self._evaluate(registration, [rendering])

    def update(self, ids: Ids, how: Callable[[Node], Node], where: Where | None = None) -> None:
        """Change one node in place until its registration is next evaluated. Raises InvalidPath."""
        with self._lock:
            registration = next(self._around(ids), None)
            if registration is None:
                raise InvalidPath(format_path(ids), "nothing is registered there")
            self._update(registration, ids[len(registration.ids) :], how, where)

    def put_extra(self, ids: Ids, node: Node | None, where: Where) -> None:
        """Show a node of the engine's own to some sessions, after the app's; None takes it away."""
        with self._lock:
            if node is None:
                self._extras.pop(ids, None)
            else:
                self._extras[ids] = (node, where)
            for rendering in self._chosen(where):
                rendering.put(ids, node, LAST)

    def shown_to(self, session: Hashable) -> Node | None:
        """The tree that a session sees, if anybody looks."""
        with self._lock:
            rendering = self._renderings.get(session)
            return None if rendering is None else rendering.tree(mark=self._marks_changes)

    def inline_action(self, ids: Ids, name: str, session: Hashable) -> Action | None:
        """The action that a descriptor hung on a node, if one did."""
        with self._lock:
            rendering = self._renderings.get(session)
            if rendering is None:
                return None
            for registration in self._around(ids):
                part = rendering.parts.get(registration, registration.part)
                found = part.actions.get(ids, {}).get(name)
                if found is not None:
                    return found
        return None

    def _around(self, ids: Ids) -> Iterator[Registration]:
        """Give the registrations that a node belongs to, the nearest first."""
        for depth in range(len(ids), -1, -1):
            registration = self._registrations.get(ids[:depth])
            if registration is not None:
                yield registration

    def _forget_likeness(self, rendering: Rendering) -> None:
        alike = self._alike.get(rendering.known_by)
        if alike is not None:
            alike.pop(rendering, None)
            if not alike:
                del self._alike[rendering.known_by]

    def _add(self, registration: Registration) -> None:
        with self._lock:
            replaced = self._registrations.get(registration.ids)
            registration.rank = next(self._ranks) if replaced is None else replaced.rank
            self._registrations[registration.ids] = registration
            for rendering in self._renderings.values():
                if replaced is not None:
                    rendering.parts.pop(replaced, None)
                    rendering.put(_error_ids(registration.ids), None)
                if registration.function is None:
                    self._show(registration, rendering, registration.part)
            renderings = list(self._renderings.values())
        if renderings:
            self._evaluate(registration, renderings)

    def _chosen(self, where: Where | None) -> Iterator[Rendering]:
        for session, rendering in self._renderings.items():
            if where is None or where(session):
                yield rendering

    def _describe(self, given: object, ids: Ids) -> Described:
        node_id = ids[-1] if ids else self._root.id
        return describe(given, ids, node_id, "group" if ids else "root")

    def _built(self, described: Described, ids: Ids) -> Node:
        node = described.node()
        if not ids and not {"label", "title"} & node.properties.keys():
            return node.with_property("label", self._root.properties["label"])
        return node

    def _evaluate(self, registration: Registration, renderings: list[Rendering]) -> None:
        """Ask a registration's function, if it has one: for each of these sessions, or for all."""
        if registration.function is None:
            return
        if not registration.takes_session:
            with self._lock:
                if self._renderings and not self._seeing(registration, self._renderings.values()):
                    registration.part, registration.failed = _NOTHING, False
                    return
            evaluated = self._fresh_part(registration, registration.part, {})
            with self._lock:
                before, failed = registration.part, registration.failed
                registration.failed = evaluated is None
                if evaluated is not None and evaluated.ticket > before.ticket:
                    registration.part = self._settled(registration, before, evaluated)
                if failed == registration.failed and registration.part.shows_as(before):
                    return
                targets = list(self._renderings.values())
                for rendering in targets:
                    self._show(registration, rendering, registration.part)
                self._show_failure(registration, targets, failed=evaluated is None)
            return
        for rendering in self._seeing(registration, renderings):
            known = rendering.parts.get(registration, _NOTHING)
            evaluated = self._fresh_part(registration, known, {"session": rendering.session})
            with self._lock:
                known = rendering.parts.get(registration, _NOTHING)
                if evaluated is not None and evaluated.ticket > known.ticket:
                    part = self._settled(registration, known, evaluated)
                    self._show(registration, rendering, part)
                self._show_failure(registration, [rendering], failed=evaluated is None)
        self._forget_unseen(registration)

    def _seeing(
        self, registration: Registration, renderings: Iterable[Rendering]
    ) -> list[Rendering]:
        """Those in which no closed view is around a registration."""
        around = registration.ids[:-1]
        return [each for each in renderings if not self._hides(around, each.session)]

    def _fresh_part(
        self, registration: Registration, known: _Part, arguments: dict[str, Any]
    ) -> _Part | None:
        """Evaluate once; None if that failed, which is then in the log."""
        ticket = next(self._tickets)
        assert registration.function is not None  # noqa: S101 - callers have looked
        try:
            given = registration.function(**arguments)
            is_closed = isinstance(given, Closed)
            if isinstance(given, Closed):
                given = given.descriptor
            if inspect.isawaitable(given):
                if inspect.iscoroutine(given):
                    given.close()  # so that it does not complain that nobody awaits it
                raise InvalidInput("a node function must not be async: read the state, don't wait")  # noqa: TRY301 - one place says what failed
            if given is None:
                return _Part(ticket, b"", None, {})
            mark = fingerprint(given)
            if mark is not None and (node := _node_with(mark, known, registration)) is not None:
                return _Part(ticket, mark, node, {}, is_closed)
            described = self._describe(given, registration.ids)
            # An action is new each time, even where its words are the same.
            digest = described.digest if mark is None or described.actions else mark
            node = _node_with(digest, known, registration)
            if node is None:
                node = self._built(described, registration.ids)
            return _Part(ticket, digest, node, described.actions, is_closed)
        except Exception:  # noqa: BLE001 - the app's own code; it must not reach other parts
            path = format_path(registration.ids)
            _log.exception("%s could not be refreshed and keeps its last good state", path)
            return None

    def _settled(self, registration: Registration, known: _Part, fresh: _Part) -> _Part:
        """The fresh part, made of the objects that are known already."""
        node = fresh.node
        if node is not None and node is not known.node:
            if known.node is not None and registration.seen.get(fresh.digest) is not node:
                node = share(known.node, node)
            if registration.takes_session:
                registration.seen[fresh.digest] = node
        return _Part(fresh.ticket, fresh.digest, node, fresh.actions, fresh.is_closed)

    def _forget_unseen(self, registration: Registration) -> None:
        with self._lock:
            if len(registration.seen) > 2 * len(self._renderings):
                parts = [item.parts.get(registration) for item in self._renderings.values()]
                registration.seen = {
                    part.digest: part.node
                    for part in parts
                    if part is not None and part.node is not None
                }

    def _show(self, registration: Registration, rendering: Rendering, part: _Part) -> None:
        if self._registrations.get(registration.ids) is not registration:
            return  # it was replaced or taken away meanwhile
        if registration.takes_session:
            rendering.parts[registration] = part
        node = part.node
        if not registration.ids and node is None:
            node = self._root
        if not rendering.composition.shows(registration.ids, node, is_closed=part.is_closed):
            rendering.put(registration.ids, node, registration.rank, is_closed=part.is_closed)

    def _show_failure(
        self, registration: Registration, renderings: Iterable[Rendering], *, failed: bool
    ) -> None:
        ids = _error_ids(registration.ids)
        for rendering in renderings:
            if failed and rendering.composition.node_at(ids) is None:
                has_state = rendering.composition.node_at(registration.ids) is not None
                rendering.put(ids, _failure(registration.ids, has_state), LAST)
            elif not failed:
                rendering.put(ids, None)

    def _update(
        self,
        registration: Registration,
        below: Ids,
        how: Callable[[Node], Node],
        where: Where | None,
    ) -> None:
        if not registration.takes_session:
            if self._renderings and not self._seeing(registration, self._renderings.values()):
                return  # whoever opens the view gets it as it is then
            part = self._changed(registration, registration.part, below, how)
            registration.part = part
            for rendering in self._renderings.values():
                self._show(registration, rendering, part)
            return
        changed = [
            (item, self._changed(registration, item.parts.get(registration, _NOTHING), below, how))
            for item in self._seeing(registration, self._chosen(where))
        ]
        for rendering, part in changed:
            self._show(registration, rendering, part)

    def _changed(
        self, registration: Registration, part: _Part, below: Ids, how: Callable[[Node], Node]
    ) -> _Part:
        if part.is_closed:
            return part  # whoever opens the view gets it as it is then
        if part.node is None:
            raise InvalidPath(format_path(registration.ids), "nothing is shown there now")
        node = part.node.change_at(below, how)
        # No digest: whatever the function says next is compared with what is shown.
        return _Part(next(self._tickets), b"", node, part.actions)


def _node_with(digest: bytes, known: _Part, registration: Registration) -> Node | None:
    """The node that a registration is known to show when it says this."""
    return known.node if known.digest == digest else registration.seen.get(digest)


def _error_ids(ids: Ids) -> Ids:
    return ("errors", legal_id("/".join(ids) or "/"))


def _failure(ids: Ids, has_state: bool) -> Node:
    path = format_path(ids)
    consequence = "shows its last good state" if has_state else "is missing"
    return Node.of(
        _error_ids(ids)[-1],
        "status",
        properties={"path": path, "message": f"{path} could not be refreshed and {consequence}"},
        meta={"salience": 1, "urgency": "high"},
    )
