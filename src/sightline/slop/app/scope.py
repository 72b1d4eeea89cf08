"""Where an app says what it shows: functions and nodes for paths, actions for patterns.

A scope is a prefix for paths. The app is the scope of the whole tree;
`app.scope("mail")` registers below `/mail` and has the same methods.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from msgspec import UnsetType

from sightline.errors import ActionError, InvalidDescriptor
from sightline.slop.app.action import Action, When
from sightline.slop.app.descriptor import NodeDescriptor
from sightline.slop.app.parameters import Call, Handler, Parameters, underlying
from sightline.slop.app.pattern import Pattern, checked_ids
from sightline.slop.protocol.jsontext import read
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.tree import Node

if TYPE_CHECKING:
    from sightline.slop.app.app import App


F = TypeVar("F", bound=Callable[..., Any])
# How much of a content is read at once.
PIECE: Final = 128 * 1024


class Scope:
    """A part of an app's tree, by its path."""

    def __init__(self, app: App, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    def scope(self, prefix: str) -> Scope:
        """Return the scope of a path below this one."""
        checked_ids(prefix)
        return Scope(self._app, self._full(prefix))

    def node(self, path: str) -> Callable[[F], F]:
        """Let a function say what stands at a path: a descriptor, a Node, or None for nothing.

        It may take the `session`; then it is asked for each session. It is evaluated when
        somebody looks, after every action, and by `refresh`; it must be quick.
        """
        ids = checked_ids(self._full(path))

        def register(function: F) -> F:
            takes_session = _takes_session(function, format_path(ids))
            self._app.registry.register(ids, function, takes_session=takes_session)
            self._app.forget_view(ids)
            return function

        return register

    def view(
        self,
        path: str,
        *,
        summary: Callable[[], str] | str | None = None,
        max_depth: int | None = None,
        max_nodes: int | None = None,
    ) -> Callable[[F], F]:
        """Like `node`, for one of several views of which a session has one open.

        The open one is shown in full with `meta.focus`; the others are closed: stubs with their
        summary, of which nothing else is shown and in which nothing can be done, whatever is
        registered below them. The first view is open until `focus` opens another. `max_depth`,
        counted from the view, and `max_nodes` limit what of it is shown at once, as the app's do.
        """
        ids = checked_ids(self._full(path))
        views = self._app.views
        key = "/".join(ids)
        self._app.limit(ids, max_depth, max_nodes)
        views.add(key)

        def register(function: F) -> F:
            takes_session = _takes_session(function, format_path(ids))

            def show(session: Any) -> Any:
                arguments = {"session": session} if takes_session else {}
                return views.show(key, session, lambda: function(**arguments), summary)

            self._app.registry.register(ids, show, takes_session=True)
            self._app.notify()
            return function

        return register

    def register(self, path: str, given: Mapping[str, Any] | NodeDescriptor | Node) -> None:
        """Put a descriptor or a Node at a path, in the place of what was registered there.

        Raises InvalidInput naming path and key; then everything is as it was.
        """
        ids = checked_ids(self._full(path))
        self._app.registry.register_fixed(ids, given)
        self._app.forget_view(ids)

    def unregister(self, path: str) -> None:
        """Take away what was registered at a path. Raises InvalidPath if nothing was."""
        ids = checked_ids(self._full(path))
        self._app.registry.unregister(ids)
        self._app.forget_view(ids)

    def action(
        self,
        path: str,
        name: str,
        *,
        label: str | None = None,
        description: str | None = None,
        dangerous: bool = False,
        idempotent: bool = False,
        estimate: str | None = None,
        params: Mapping[str, Any] | None = None,
        returns: Any = None,
        when: When | None = None,
        guard: Handler | None = None,
        authorize: Handler | None = None,
        refreshes: tuple[str, ...] | list[str] | None = None,
    ) -> Callable[[F], F]:
        """Let a function do an action of the nodes that fit a path.

        A path may have holes: `list/{id}` is every child of `list`, and the function takes
        `id`. `when` looks at a node's properties and says whether it has the action now.
        Without a `description` the first line of the function's docstring is it.
        `guard` is asked just before the function runs: False or a reason is a conflict.
        `refreshes` names the registrations to evaluate after it ran; None is all.
        """
        full_path = self._full(path)
        pattern = Pattern.of(full_path)

        def register(function: F) -> F:
            action = Action.of(
                name, function, f"/{full_path.strip('/')}", pattern, label=label,
                description=_first_line(function) if description is None else description,
                dangerous=dangerous, idempotent=idempotent, estimate=estimate, params=params,
                returns=returns, when=when, guard=guard, authorize=authorize, refreshes=refreshes,
            )  # fmt: skip
            self._add(action, pattern)
            return function

        return register

    def content(self, path: str, *, when: When | None = None) -> Callable[[F], F]:
        """Let a function give the content of the nodes that fit a path, as text or bytes.

        They get a `read_content` action, which serves their `content_ref`; all of them, or
        those whose properties `when` says have content.
        """
        full_path = self._full(path)
        pattern = Pattern.of(full_path)

        def register(function: F) -> F:
            self._add(_content_action(full_path, pattern, function, when), pattern)
            return function

        return register

    def children(self, path: str) -> Callable[[F], F]:
        """Let a function make the children of the nodes that fit a path, when a query asks.

        It takes the path's holes, and `offset` and `count` if it can give a part of them.
        """
        full_path = self._full(path)

        def register(function: F) -> F:
            self._app.resolvers.add(full_path, function)
            self._app.makes_nodes()
            return function

        return register

    def refresh(
        self, path: str | None = None, *, where: Callable[[Any], bool] | None = None
    ) -> None:
        """Evaluate every node function of this scope, or the one at a path. From any thread.

        `where` chooses the sessions whose own parts are evaluated; parts that do not
        depend on the session are evaluated once, for all.
        """
        self._app.refresh_paths(None if path is None else self._full(path), self._prefix, where)

    def changed(self, path: str | None = None) -> None:
        """Say that the state behind a node, or behind all of this scope, is another one now.

        From any thread; `refresh` by its plain name.
        """
        self.refresh(path)

    def update(
        self,
        path: str,
        how: Callable[[Node], Node] | None = None,
        *,
        props: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        where: Callable[[Any], bool] | None = None,
    ) -> None:
        """Change one node at the cost of its path: some properties or meta, or as `how` says.

        What a node function says when it is next evaluated replaces it. From any thread.
        """

        def change(node: Node) -> Node:
            for key, value in (props or {}).items():
                node = node.with_property(key, value)
            if meta:
                text = node.meta_json
                known = {} if isinstance(text, UnsetType) else read(text) or {}
                node = node.with_field("meta", {**known, **meta})
            return node if how is None else how(node)

        self._app.registry.update(parse_path(self._full(path)), change, where)
        self._app.notify()

    def _full(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path.strip("/")) if part)

    def _add(self, action: Action, pattern: Pattern) -> None:
        self._app.registry.add_action(pattern, action)
        self._app.notify()


def _first_line(handler: Handler) -> str | None:
    """The first line of a handler's own docstring; one of a class or a builtin is not its own."""
    function = underlying(handler)
    written = isinstance(function, (FunctionType, MethodType)) and function.__doc__
    return inspect.cleandoc(written).partition("\n")[0] or None if written else None


def _takes_session(function: Callable[..., Any], path: str) -> bool:
    if inspect.iscoroutinefunction(function):
        raise InvalidDescriptor(path, None, "a node function must not be async: it reads state")
    parameters = inspect.signature(function).parameters
    required = [
        name
        for name, parameter in parameters.items()
        if name != "session"
        and parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if required:
        reason = f"a node function takes nothing but the session, not {required[0]!r}"
        raise InvalidDescriptor(path, None, reason)
    return "session" in parameters


def _content_action(
    path: str, pattern: Pattern, reader: Callable[..., Any], when: When | None
) -> Action:
    """Make the action that answers with a piece of what a reader returns, which is text or bytes.

    Its `offset` and `size` count characters of text or bytes. Raises InvalidDescriptor.
    """
    taken = Parameters.of(reader, placeholders=pattern.names)
    if taken.schema is not None:
        reason = "takes only the holes of its path, the session and a Call"
        raise InvalidDescriptor(path, "read_content", reason)
    is_async = inspect.iscoroutinefunction(underlying(reader))

    async def read_content(
        call: Call,
        offset: Annotated[int, "Where to start"] = 0,
        length: Annotated[int, "How much to read at most"] = PIECE,
    ) -> dict[str, Any]:
        arguments = taken.arguments({}, call.placeholders, call)
        content = (
            await reader(**arguments) if is_async else await asyncio.to_thread(reader, **arguments)
        )
        if content is None:
            raise ActionError("not_found", "there is no content here now")
        return _piece(content, offset, length)

    # SLOP, content references: `read_content` serves slop://content/.
    return Action.of(
        "read_content", read_content, path, pattern,
        description="Read this node's content", idempotent=True, refreshes=(), when=when,
    )  # fmt: skip


def _piece(content: str | bytes, offset: int, length: int) -> dict[str, Any]:
    if offset < 0 or length < 1:
        raise ActionError("invalid_params", "/offset, /length: must not be negative or nothing")
    piece = content[offset : offset + min(length, PIECE)]
    answer: dict[str, Any] = {"offset": offset, "size": len(content)}
    if isinstance(piece, str):
        return {"content": piece, "encoding": "utf-8", **answer}
    return {"content": base64.b64encode(piece).decode(), "encoding": "base64", **answer}
