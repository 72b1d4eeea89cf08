"""From an invoke to its result, with every check in its order and the handler last.

    node exists → affordance exposed     not_found        (the connection has looked)
    → params fit                         invalid_params
    → caller allowed                     unauthorized     `authorize`, the app's and the action's
    → live state still permits it        conflict         its part is evaluated anew; `guard`
    → run

Coroutine handlers run in the event loop. Other handlers run in the app's worker
thread, one at a time unless the app has more `threads`, so that plain Python state
needs no locks and nothing blocks the loop; the app is refreshed there too, right
after. An action that was begun is finished, even if its caller has gone. One that
takes too long is answered with an error: a coroutine is cancelled, a thread cannot
be, so it goes on alone and the next action gets a new one.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

import sightline.telemetry as telemetry
from sightline.errors import ActionError, InvalidInput, InvalidPath
from sightline.slop.app.action import Action
from sightline.slop.app.parameters import Call, Parameters, as_json
from sightline.slop.app.registry import Registry
from sightline.slop.app.resolving import Resolvers
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.messages import ErrorInfo
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.background import Background

_log: Final = telemetry.logger(__name__)
_CODES: Final = frozenset({"not_found", "invalid_params", "unauthorized", "conflict", "internal"})
_GENERIC: Final = "the app failed to do this"


class Running(msgspec.Struct, frozen=True, eq=False):
    """An action while it runs: who asked, and how to say that it will take longer."""

    call: Call
    accepted: asyncio.Future[str]


running: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)


@dataclass(eq=False, repr=False, slots=True)
class Invoker:
    """Runs the actions of one app. `find_own` finds those that the engine itself offers."""

    registry: Registry
    resolvers: Resolvers
    find_own: Callable[[tuple[str, ...], str], Action | None]
    publish: Callable[[], None]
    timeout_s: float
    threads: int
    authorize: Callable[..., Any] | None = None
    _pool: ThreadPoolExecutor | None = None
    _work: Background = field(default_factory=Background)

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        """Do what is asked, or say why not; in both cases answer, after what changed."""
        named = {"sightline.path": request.path, "sightline.action": request.action}
        with telemetry.span(
            f"invoke {request.action}", named, kind="server", parent=request.trace
        ) as span:
            data: object = msgspec.UNSET
            error = None
            accepted = False
            try:
                data, accepted = await self._done(request, connection.audience)
            except ActionError as refusal:
                code = refusal.code if refusal.code in _CODES else "internal"
                error = ErrorInfo(code, refusal.message)
            except Exception:  # noqa: BLE001 - the app's own code; the log has what it said
                _log.exception("%s of %s failed", request.action, request.path)
                error = ErrorInfo("internal", _GENERIC)
            if error is not None:
                telemetry.fail(span, error.code)
            self.publish()
            trace = telemetry.context_here() if request.trace else ""
            connection.send_result(request.id, data, error=error, accepted=accepted, trace=trace)

    async def close(self) -> None:
        """Cancel what still runs."""
        await self._work.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _done(self, request: InvokeRequested, session: Hashable) -> tuple[object, bool]:
        # SLOP, affordances: on every invoke all of this is checked again, in this order.
        ids = parse_path(request.path)
        node, resolved = request.node, None
        if node is None:
            node, resolved = await self._resolved(ids, request.action, session)
        action = resolved or self._find(ids, request.action, session)
        holes = {} if action.pattern is None else action.pattern.values(ids)
        call = Call(request.path, request.action, request.params, node, session, holes)
        action.parameters.check(request.params)
        arguments = action.parameters.arguments(request.params, holes, call)
        for hook in (self.authorize, action.authorize):
            if hook is not None and await _verdict_of(hook, call) is False:
                raise ActionError("unauthorized", f"not allowed to {request.action} here")
        accepted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running.set(Running(call, accepted))
        work = self._work.start(
            self._run(action, call, arguments, in_tree=request.node is not None)
        )
        done, _ = await asyncio.wait(
            {work, accepted}, timeout=self.timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if accepted.done():
            work.add_done_callback(_log_failure)
            return {"taskId": accepted.result()}, True
        if not done:
            work.cancel()
            if not action.is_async and self._pool is not None:
                self._pool.shutdown(wait=False)
                self._pool = None
            raise ActionError("internal", f"took longer than {self.timeout_s:g} s")
        try:
            result = work.result()
        except asyncio.CancelledError:
            raise ActionError("internal", "was cancelled") from None
        if result is None:
            return msgspec.UNSET, False
        return as_json(result), False

    async def _resolved(
        self, ids: tuple[str, ...], name: str, session: Hashable
    ) -> tuple[Node, Action | None]:
        """Have a resolver make a node that is not in the tree; return it and its own action."""
        try:
            tree = self.registry.tree(session)
            node, actions = await self.resolvers.make(ids, tree, session)
        except InvalidPath as error:
            raise ActionError("not_found", str(error)) from None
        if all(affordance.action != name for affordance in node.affordances):
            raise ActionError("not_found", f"{format_path(ids)} does not offer {name!r} now")
        return node, actions.get(ids, {}).get(name)

    def _find(self, ids: tuple[str, ...], name: str, session: Hashable) -> Action:
        action = (
            self.registry.inline_action(ids, name, session)
            or self.registry.patterns.find(ids, name)
            or self.find_own(ids, name)
        )
        if action is None:
            raise ActionError("not_found", f"nothing does {name!r} here")
        return action

    async def _run(
        self, action: Action, call: Call, arguments: dict[str, Any], *, in_tree: bool
    ) -> Any:
        if action.is_async:
            if in_tree:
                self._check_state(call)
            if action.guard is not None:
                _check_guard(call, await _verdict_of(action.guard, call))
            try:
                return await action.handler(**arguments)
            finally:
                self._refresh(action)
        guard = action.guard
        if guard is not None and inspect.iscoroutinefunction(guard):
            _check_guard(call, await _verdict_of(guard, call))
            guard = None

        def work() -> Any:
            if in_tree:
                self._check_state(call)
            if guard is not None:
                _check_guard(call, guard(**_arguments(guard, call)))
            try:
                return action.handler(**arguments)
            finally:
                self._refresh(action)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "sightline-app")
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._pool, context.run, work)
        if inspect.isawaitable(result):  # a plain function that returned a coroutine
            try:
                return await result
            finally:
                self._refresh(action)
        return result

    def _check_state(self, call: Call) -> None:
        """Look again: what the caller saw may be past."""
        self.registry.refresh_for(call.session, parse_path(call.path))
        tree = self.registry.shown_to(call.session)
        if tree is None:
            raise ActionError("conflict", "the caller has gone")
        try:
            node = tree.at(call.path)
        except InvalidPath:
            raise ActionError("conflict", f"{call.path} is not there any more") from None
        if all(affordance.action != call.action for affordance in node.affordances):
            raise ActionError("conflict", f"{call.path} does not allow {call.action!r} any more")

    def _refresh(self, action: Action) -> None:
        if action.refreshes is None:
            self.registry.refresh()
            return
        for path in action.refreshes:
            try:
                self.registry.refresh(parse_path(path))
            except InvalidInput:
                _log.exception("action %r refreshes %r, which is not there", action.name, path)


def _check_guard(call: Call, verdict: object) -> None:
    """A guard permits with None or True; False or a reason is a conflict."""
    if verdict is None or verdict is True:
        return
    reason = verdict if isinstance(verdict, str) else f"{call.action!r} is not possible now"
    raise ActionError("conflict", reason)


def _arguments(hook: Callable[..., Any], call: Call) -> dict[str, Any]:
    """What of a call a hook asks for: its params and holes by name, `session`, the Call."""
    parameters = Parameters.of(hook, placeholders=tuple(call.placeholders), is_hook=True)
    return parameters.arguments(call.params, call.placeholders, call)


async def _verdict_of(hook: Callable[..., Any], call: Call) -> Any:
    verdict = hook(**_arguments(hook, call))
    return await verdict if inspect.isawaitable(verdict) else verdict


def _log_failure(work: asyncio.Task[Any]) -> None:
    """Note how accepted work ended, when it ended badly."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, ActionError):
        _log.error("a task failed", exc_info=error)
