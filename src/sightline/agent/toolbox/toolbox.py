"""The model's tools, put together: what it is offered, and what a call of one comes to.

    definitions     the same bytes in every request with the fixed style
    target(call)    what a call invokes in an app, for the policy to decide on; else None
    run(call)       the result, whatever the model did wrong

`run` invokes exactly what `target` says, path and params included, and nothing where
`target` says None, but the `read_content` of a node that is queried, if the policy lets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.agent.toolbox.advice import ToolArguments, nearest
from sightline.agent.toolbox.apps import LOOK_TOOLS, MayRead, invoke, normal_path, run_look
from sightline.agent.toolbox.bench import Bench
from sightline.agent.toolbox.ledger import LEDGER_TOOLS, run_ledger
from sightline.agent.toolbox.results import Ran
from sightline.context.messages.parts import UNREADABLE, ToolCall
from sightline.context.projection.select import fold
from sightline.context.projection.tools import (
    FIXED_TOOLS,
    INVOKE,
    Tool,
    ToolSet,
    ToolTarget,
    dynamic_tools,
    object_schema,
)
from sightline.errors import InvalidInput, LedgerDamaged, SightlineError

Style: TypeAlias = Literal["fixed", "dynamic"]

ALL_TOOLS: Final = (*FIXED_TOOLS, *LEDGER_TOOLS)
DELEGATE: Final = Tool(
    "delegate",
    "Hand a task to a helper with a conversation of its own; its report is the result. Several "
    "work at once.",
    object_schema(
        "task", task={"type": "string", "description": "All it must know; it sees the apps only"}
    ),
)
MAX_DYNAMIC: Final = 100
_DEFINITION_BYTES: Final = 8_000
_TOO_LONG: Final = " (Its parameters are too long to list here; an error names what is missing.)"
_BY_NAME: Final = {tool.name: tool for tool in (*ALL_TOOLS, DELEGATE)}
_LOOK: Final = frozenset(tool.name for tool in LOOK_TOOLS)
_ARGUMENTS: Final = {name: ToolArguments(name, tool.parameters) for name, tool in _BY_NAME.items()}
# Reading twice at once is reading twice; anything else waits for its turn.
# What a task does besides is asked about when it does it.
_READS: Final = frozenset(
    {DELEGATE.name, "slop_query", "query_db", "describe_db", "retrieve_memos"}
)


class Toolbox:
    """The tools that a model can call in one session."""

    def __init__(self, bench: Bench, style: Style = "fixed") -> None:
        self.bench = bench
        self.style = style

    def tools(self) -> ToolSet:
        """The tools as of now; a turn keeps the set that its request was made with."""
        fixed = FIXED_TOOLS if self.bench.records is None else ALL_TOOLS
        if self.bench.delegate is not None:
            fixed = (*fixed, DELEGATE)
        if self.style == "fixed":
            return ToolSet(fixed)
        world = fold(self.bench.hub.world, self.bench.attention.pins())
        dynamic = dynamic_tools(world)
        targets = {tool.name: dynamic.targets[tool.name] for tool in dynamic.tools[:MAX_DYNAMIC]}
        offered = (
            _bounded(tool, targets[tool.name].argument) for tool in dynamic.tools[:MAX_DYNAMIC]
        )
        return ToolSet((*fixed, *offered), targets)

    @property
    def definitions(self) -> tuple[dict[str, Any], ...]:
        """The tools as `Prompt.tools` takes them."""
        return definitions_of(self.tools())

    def target(self, call: ToolCall, tools: ToolSet) -> ToolTarget | None:
        """Say what a call would invoke in an app; None if it invokes nothing."""
        try:
            return _resolved(call, tools)
        except InvalidInput:
            return None

    def parallel(self, call: ToolCall) -> bool:
        """Tell whether a call may run beside others of its kind: it changes nothing."""
        action = call.arguments.get("action")
        if call.name == "manage_scratchpad":
            return action == "read"
        return call.name in _READS or (call.name == INVOKE.name and action == "read_content")

    async def run(
        self,
        call: ToolCall,
        tools: ToolSet | None = None,
        check: Callable[[ToolTarget], None] | None = None,
        may_read: MayRead = lambda *_: False,
    ) -> Ran:
        """Run a call. What the model, an app or a query got wrong is a result, not an error.

        `check` is given what is about to be invoked, at the last moment; what it raises, unless
        it is an error of ours, is raised. `may_read` says where a query may read content, too.
        """
        try:
            return await self._run(call, self.tools() if tools is None else tools, check, may_read)
        except LedgerDamaged:
            raise
        except SightlineError as error:
            return Ran.failed(str(error))

    async def _run(
        self,
        call: ToolCall,
        tools: ToolSet,
        check: Callable[[ToolTarget], None] | None,
        may_read: MayRead,
    ) -> Ran:
        target = _resolved(call, tools)
        if target is not None:
            last = None if check is None else partial(check, target)
            return await invoke(self.bench, target, last)
        if call.name == DELEGATE.name and self.bench.delegate is not None:
            return await self.bench.delegate(call)
        if call.name in _LOOK:
            return await run_look(self.bench, call.name, call.arguments, may_read)
        if self.bench.records is None:
            raise InvalidInput(f"there is no ledger for {call.name!r:.100}")
        return await asyncio.to_thread(run_ledger, self.bench.records, call.name, call.arguments)


def definitions_of(tools: ToolSet) -> tuple[dict[str, Any], ...]:
    """Write a tool set as `Prompt.tools` takes it."""
    return tuple(msgspec.to_builtins(tool) for tool in tools.tools)


def with_params(call: ToolCall, params: dict[str, Any], tools: ToolSet) -> ToolCall:
    """Make the call that invokes the same action with other parameters."""
    target = tools.targets.get(call.name)
    if target is None:
        return msgspec.structs.replace(call, arguments={**call.arguments, "params": params})
    kept = {target.argument: call.arguments[target.argument]} if target.paths else {}
    return msgspec.structs.replace(call, arguments={**params, **kept})


def _resolved(call: ToolCall, tools: ToolSet) -> ToolTarget | None:
    """What a call invokes, None for a tool of our own. Raises InvalidInput, with what to do."""
    if UNREADABLE in call.arguments:
        wrong = str(call.arguments[UNREADABLE])
        raise InvalidInput(
            f"the arguments of {call.name!r:.100} are not a JSON object: {wrong!r:.200}. "
            "Call it again with one"
        )
    known = [tool.name for tool in tools.tools]
    tool = _BY_NAME.get(call.name) if call.name in known else None
    if tool is not None:
        _ARGUMENTS[tool.name].check(call.arguments)
        if call.name != INVOKE.name:
            return None
    elif call.name not in tools.targets:
        raise InvalidInput(f"there is no tool {call.name!r:.100}. {nearest(call.name, known)}")
    target = tools.resolve(call.name, call.arguments)
    return target._replace(path=normal_path(target.path))


def _bounded(tool: Tool, argument: str) -> Tool:
    """A tool whose schema an app made too long takes any object; the app checks anyway."""
    if len(msgspec.json.encode(tool)) <= _DEFINITION_BYTES:
        return tool
    needed = {argument: {"type": "string"}} if argument else {}
    return Tool(tool.name, tool.description + _TOO_LONG, object_schema(*needed, **needed))
